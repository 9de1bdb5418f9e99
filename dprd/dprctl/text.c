// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/text.c - parts of an answer; numbers as people read them, and "?" when one is not known. */
#include "dprd/dprctl/dprctl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "?";
}

const json_t *member_named(const json_t *status, const char *name)
{
	const json_t *members = json_object_get(status, "members"), *member;
	size_t i;

	json_array_foreach(members, i, member)
	{
		if (strcmp(text_of(member, "name"), name) == 0)
			return member;
	}
	return NULL;
}

void text_clean(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

void json_clean(json_t *value)
{
	char *copy;
	const char *key;
	json_t *item;
	size_t i;

	json_array_foreach(value, i, item) json_clean(item);
	json_object_foreach(value, key, item) json_clean(item);
	copy = json_is_string(value) ? strdup(json_string_value(value)) : NULL;
	if (copy) {
		text_clean(copy);
		json_string_set(value, copy);
	}
	free(copy);
}

bool flag_of(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

bool number_of(const json_t *object, const char *key, double *ret)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_number(value))
		return false;
	*ret = json_number_value(value);
	return true;
}

const char *cell_number(char cell[CELL_BYTES], const json_t *object, const char *key, int digits)
{
	double value;

	if (!number_of(object, key, &value) || fabs(value) >= 1e18)
		snprintf(cell, CELL_BYTES, "?");
	else if (value == floor(value))
		snprintf(cell, CELL_BYTES, "%.0f", value);
	else
		snprintf(cell, CELL_BYTES, "%.*f", digits, value);
	return cell;
}

const char *cell_age(char cell[CELL_BYTES], const json_t *object, const char *key)
{
	double ms;

	if (!number_of(object, key, &ms))
		snprintf(cell, CELL_BYTES, "?");
	else if (ms < 100000)
		snprintf(cell, CELL_BYTES, "%.1fs", ms / 1000);
	else
		snprintf(cell, CELL_BYTES, "%.0fs", fmin(ms / 1000, 1e15));
	return cell;
}

const char *cell_grouped(char cell[CELL_BYTES], const json_t *object, const char *key)
{
	char digits[CELL_BYTES];
	size_t length, i, used = 0;
	double value;

	if (!number_of(object, key, &value) || value < 0 || value >= 1e18)
		return cell_number(cell, object, key, 0);
	length = (size_t)snprintf(digits, sizeof(digits), "%.0f", value);
	for (i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			cell[used++] = ' ';
		cell[used++] = digits[i];
	}
	cell[used] = '\0';
	return cell;
}

const char *cell_percent(char cell[CELL_BYTES], const json_t *object, const char *key)
{
	double ratio;

	if (!number_of(object, key, &ratio) || fabs(ratio) > 1e6)
		snprintf(cell, CELL_BYTES, "?");
	else
		snprintf(cell, CELL_BYTES, "%.0f%%", ratio * 100);
	return cell;
}

const char *cell_duration(char cell[CELL_BYTES], double seconds)
{
	unsigned long s = seconds > 0 && seconds < 1e12 ? (unsigned long)seconds : 0;

	if (s >= 86400)
		snprintf(cell, CELL_BYTES, "%lu d %lu h", s / 86400, s / 3600 % 24);
	else if (s >= 3600)
		snprintf(cell, CELL_BYTES, "%lu h %lu min", s / 3600, s / 60 % 60);
	else if (s >= 60)
		snprintf(cell, CELL_BYTES, "%lu min %lu s", s / 60, s % 60);
	else
		snprintf(cell, CELL_BYTES, "%lu s", s);
	return cell;
}
