// SPDX-License-Identifier: GPL-2.0-or-later
/* config/value.c - the common kinds of values: names, paths, flags, numbers, times, enumerations. */
#include "dprd/config/reading.h"

#include <ctype.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdlib.h>
#include <strings.h>

enum { NUMBER_BYTES_MAX = 24, FRACTION_DIGITS = 6 };

void config_print(FILE *out, const struct config_key *key, const char *format, ...)
{
	va_list args;

	fprintf(out, "%s=", key->name);
	va_start(args, format);
	vfprintf(out, format, args);
	va_end(args);
	fputc('\n', out);
}

bool config_is_name(const char *text)
{
	size_t length = strlen(text);

	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("_.-", text[i]))
			return false;
	return length > 0 && length < NAME_BYTES;
}

bool config_number(const char *text, double *ret)
{
	size_t whole = strspn(text, "0123456789"), fraction = 0;

	if (!whole || whole > NUMBER_BYTES_MAX)
		return false;
	if (text[whole] == '.') {
		fraction = strspn(text + whole + 1, "0123456789");
		if (!fraction || fraction > FRACTION_DIGITS || text[whole + 1 + fraction])
			return false;
	} else if (text[whole]) {
		return false;
	}
	*ret = strtod(text, NULL);
	return true;
}

/* Six digits are exact for all numbers that config_number() takes within the ranges in use. */
void config_number_text(double value, char text[40])
{
	char *end;

	snprintf(text, 40, "%.6f", value);
	end = text + strlen(text);
	while (end[-1] == '0')
		*--end = '\0';
	if (end[-1] == '.')
		end[-1] = '\0';
}

bool config_next_word(const char **at, char word[CONFIG_WORD_BYTES])
{
	size_t length;

	*at += strspn(*at, " \t,");
	length = strcspn(*at, " \t,");
	snprintf(word, CONFIG_WORD_BYTES, "%.*s", (int)length, *at);
	*at += length;
	return length > 0;
}

bool config_has_word(struct parse *p, const struct config_key *key, const char *text, const char *example)
{
	char word[CONFIG_WORD_BYTES];

	if (config_next_word(&text, word))
		return true;
	config_key_error(p, key, "no value (such as %s)", example);
	return false;
}

/* Reads a number with one of these units behind it. False: the text has another form. */
static bool number_with_unit(const char *text, const char *const *units, const double *factors, double *ret)
{
	char digits[NUMBER_BYTES_MAX + 8];
	size_t length = strspn(text, "0123456789.");

	if (length >= sizeof(digits))
		return false;
	memcpy(digits, text, length);
	digits[length] = '\0';
	for (unsigned i = 0; units[i]; i++) {
		if (strcmp(units[i], text + length) == 0 && config_number(digits, ret)) {
			*ret *= factors[i];
			return true;
		}
	}
	return false;
}

static bool is_whole(double value)
{
	return value < 4294967296.0 && value == (double)(unsigned)value;
}

static void set_name(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	if (config_is_name(text))
		snprintf(field, NAME_BYTES, "%s", text);
	else
		config_key_error(p, key,
				 "\"%.64s\" is not a name (letters, digits, \"_\", \".\" and \"-\", at most %d)", text,
				 NAME_BYTES - 1);
}

static void print_text(FILE *out, const struct config_key *key, const void *field)
{
	config_print(out, key, "%s", (const char *)field);
}

const struct config_type config_type_name = { set_name, print_text };

static void set_path(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	size_t length = strlen(text);

	if (*text != '/')
		config_key_error(p, key, "\"%.64s\" is not an absolute path (such as /etc/dprd/dprd.conf)", text);
	else if (length >= PATH_BYTES)
		config_key_error(p, key, "a path of %zu bytes is too long (at most %d)", length, PATH_BYTES - 1);
	else
		snprintf(field, PATH_BYTES, "%s", text);
}

const struct config_type config_type_path = { set_path, print_text };

static void set_optional_path(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	if (*text)
		set_path(p, key, field, text);
}

const struct config_type config_type_optional_path = { set_optional_path, print_text };

/* The path goes into an HTTP request line, which a blank would end early. */
static void set_url_path(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	for (const char *c = text; *c; c++) {
		if (!isgraph((unsigned char)*c)) {
			config_key_error(p, key,
					 "\"%.64s\" has a blank or a letter that a URL may not have (write it as %%20)",
					 text);
			return;
		}
	}
	if (*text != '/')
		config_key_error(p, key, "\"%.64s\" does not start with \"/\" (such as /health)", text);
	else if (strlen(text) >= PATH_BYTES)
		config_key_error(p, key, "a path of %zu bytes is too long (at most %d)", strlen(text), PATH_BYTES - 1);
	else
		snprintf(field, PATH_BYTES, "%s", text);
}

const struct config_type config_type_url_path = { set_url_path, print_text };

/* Goes into an HTTP field, and into the server name of TLS. */
static void set_host(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	size_t length = strlen(text);

	for (const char *c = text; *c; c++) {
		if (!isalnum((unsigned char)*c) && *c != '.' && *c != '-') {
			config_key_error(p, key, "\"%.64s\" is not a host name (such as www.example.org)", text);
			return;
		}
	}
	if (length >= HOST_BYTES)
		config_key_error(p, key, "a name of %zu bytes is too long (at most %d)", length, HOST_BYTES - 1);
	else
		snprintf(field, HOST_BYTES, "%s", text);
}

const struct config_type config_type_host = { set_host, print_text };

bool config_is_interface(const char *text)
{
	size_t length = strlen(text);

	return length > 0 && length < IF_NAMESIZE && !strpbrk(text, "/: \t") && strcmp(text, ".") != 0 &&
	       strcmp(text, "..") != 0;
}

static void set_interface(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	if (*text && !config_is_interface(text))
		config_key_error(p, key, "\"%.64s\" is not an interface (such as eth0, at most 15 letters)", text);
	else
		snprintf(field, INTERFACE_BYTES, "%s", text);
}

const struct config_type config_type_interface = { set_interface, print_text };

static void set_flag(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	static const char *const words[] = { "no", "off", "false", "yes", "on", "true" };

	for (unsigned i = 0; i < 6; i++) {
		if (strcasecmp(words[i], text) == 0) {
			*(bool *)field = i >= 3;
			return;
		}
	}
	config_key_error(p, key, "\"%.64s\" is neither yes nor no", text);
}

static void print_flag(FILE *out, const struct config_key *key, const void *field)
{
	config_print(out, key, "%s", *(const bool *)field ? "yes" : "no");
}

const struct config_type config_type_flag = { set_flag, print_flag };

bool config_count(struct parse *p, const struct config_key *key, const char *text, unsigned *ret)
{
	static const char *const units[] = { "", "k", "M", NULL };
	static const double factors[] = { 1, 1e3, 1e6 };
	double value;

	if (!number_with_unit(text, units, factors, &value) || (value <= key->high && !is_whole(value)))
		config_key_error(p, key, "\"%.64s\" is not a whole number (%.0f to %.0f)", text, key->low, key->high);
	else if (value < key->low || value > key->high)
		config_key_error(p, key, "%.64s is out of range (%.0f to %.0f)", text, key->low, key->high);
	else {
		*ret = (unsigned)value;
		return true;
	}
	return false;
}

static void set_count(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	config_count(p, key, text, field);
}

static void print_count(FILE *out, const struct config_key *key, const void *field)
{
	config_print(out, key, "%u", *(const unsigned *)field);
}

const struct config_type config_type_count = { set_count, print_count };

static void set_port(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	unsigned port;

	if (config_count(p, key, text, &port))
		*(uint16_t *)field = (uint16_t)port;
}

static void print_port(FILE *out, const struct config_key *key, const void *field)
{
	config_print(out, key, "%u", *(const uint16_t *)field);
}

const struct config_type config_type_port = { set_port, print_port };

/* Writes the time in the largest unit in which it is a whole number. */
static const char *time_text(double ms, char text[40])
{
	static const char *const units[] = { "h", "m", "s" };
	static const double factors[] = { 3600e3, 60e3, 1e3 };

	for (unsigned i = 0; i < 3; i++) {
		if (ms >= factors[i] && is_whole(ms / factors[i])) {
			snprintf(text, 40, "%.0f%s", ms / factors[i], units[i]);
			return text;
		}
	}
	snprintf(text, 40, "%.0fms", ms);
	return text;
}

static void set_time(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	static const char *const units[] = { "ms", "s", "m", "h", NULL };
	static const double factors[] = { 1, 1e3, 60e3, 3600e3 };
	char low[40], high[40];
	double ms;

	time_text(key->low, low);
	time_text(key->high, high);
	if (config_number(text, &ms))
		config_key_error(p, key, "%.64s has no unit (ms, s, m or h; %s to %s)", text, low, high);
	else if (!number_with_unit(text, units, factors, &ms) || (ms <= key->high && !is_whole(ms)))
		config_key_error(p, key, "\"%.64s\" is not a time (such as 500ms, 10s, 2m or 1h; %s to %s)", text, low,
				 high);
	else if (ms < key->low || ms > key->high)
		config_key_error(p, key, "%.64s is out of range (%s to %s)", text, low, high);
	else
		*(unsigned *)field = (unsigned)ms;
}

static void print_time(FILE *out, const struct config_key *key, const void *field)
{
	char text[40];

	config_print(out, key, "%s", time_text(*(const unsigned *)field, text));
}

const struct config_type config_type_time = { set_time, print_time };

static void set_number(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	double value;

	if (!config_number(text, &value))
		config_key_error(p, key, "\"%.64s\" is not a number (such as 20 or 0.5; %.0f to %.0f)", text, key->low,
				 key->high);
	else if (value < key->low || value > key->high)
		config_key_error(p, key, "%.64s is out of range (%.0f to %.0f)", text, key->low, key->high);
	else
		*(double *)field = value;
}

static void print_number(FILE *out, const struct config_key *key, const void *field)
{
	char text[40];

	config_number_text(*(const double *)field, text);
	config_print(out, key, "%s", text);
}

const struct config_type config_type_number = { set_number, print_number };

int config_choice(struct parse *p, const struct config_key *key, const char *text)
{
	char list[128] = "";
	const char *nearest;

	for (int i = 0; key->choices[i]; i++) {
		size_t used = strlen(list);

		if (strcmp(key->choices[i], text) == 0)
			return i;
		snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", key->choices[i]);
	}
	nearest = config_nearest(key->choices, text);
	if (nearest)
		config_key_error(p, key, "\"%.64s\" is none of %s (did you mean %s?)", text, list, nearest);
	else
		config_key_error(p, key, "\"%.64s\" is none of %s", text, list);
	return -1;
}

/* All enumerations count from 0 in the order of their names. */
static void set_choice(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	int index = config_choice(p, key, text);

	if (index >= 0)
		*(unsigned *)field = (unsigned)index;
}

static void print_choice(FILE *out, const struct config_key *key, const void *field)
{
	config_print(out, key, "%s", key->choices[*(const unsigned *)field]);
}

_Static_assert(sizeof(enum load_metric) == sizeof(unsigned) && sizeof(enum health_check) == sizeof(unsigned) &&
		       sizeof(enum datapath_plane) == sizeof(unsigned) &&
		       sizeof(enum decide_where) == sizeof(unsigned) && sizeof(enum shared_form) == sizeof(unsigned) &&
		       sizeof(enum datapath_form) == sizeof(unsigned),
	       "an enumeration is stored as unsigned");

const struct config_type config_type_choice = { set_choice, print_choice };
