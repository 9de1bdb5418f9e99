// SPDX-License-Identifier: GPL-2.0-or-later
/* values.c - numbers with units, lists, laws. */
#include "dprd/sim/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double pareto_most_default = 1000;

enum { TEXT_BYTES = 64, DECIMAL = 10 };

/* Reads the number at the beginning; *ret_end points behind it. */
static bool number_part(const char *text, double *ret, const char **ret_end)
{
	char *end;

	/* strtod() would also take blanks, signs, "inf" and "nan". */
	if (!strchr("0123456789.", text[0]) || !text[0])
		return false;
	*ret = strtod(text, &end);
	*ret_end = end;
	return end != text && isfinite(*ret);
}

bool value_number(const char *text, double *ret)
{
	const char *end;

	return number_part(text, ret, &end) && *end == '\0';
}

bool value_count(const char *text, uint64_t low, uint64_t high, uint64_t *ret)
{
	char *end;

	if (text[0] < '0' || text[0] > '9' || strlen(text) > 19)
		return false;
	*ret = strtoull(text, &end, DECIMAL);
	return *end == '\0' && *ret >= low && *ret <= high;
}

bool value_time(const char *text, double *ret_s)
{
	static const struct {
		const char *name;
		double s;
	} units[] = { { "us", 1e-6 }, { "ms", 1e-3 }, { "s", 1 }, { "m", 60 }, { "h", 3600 } };
	const char *end;

	if (!number_part(text, ret_s, &end))
		return false;
	if (*end == '\0')
		return *ret_s <= 0;
	for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].name) == 0) {
			*ret_s *= units[i].s;
			return true;
		}
	}
	return false;
}

bool value_share(const char *text, double *ret)
{
	const char *end;

	if (!number_part(text, ret, &end))
		return false;
	if (strcmp(end, "%") == 0)
		*ret /= 100;
	else if (*end)
		return false;
	return *ret <= 1;
}

bool value_list(const char *text, unsigned max, double *ret, unsigned *ret_count)
{
	const char *end = text;

	for (*ret_count = 0; *ret_count < max; text = end + 1) {
		if (!number_part(text, &ret[*ret_count], &end) || (*end && *end != ':'))
			return false;
		++*ret_count;
		if (!*end)
			return true;
	}
	return false;
}

static const char *after(const char *text, const char *word)
{
	size_t length = strlen(word);

	return strncmp(text, word, length) == 0 ? text + length : NULL;
}

bool value_law(const char *text, struct sim_law *ret)
{
	const char *rest;
	double numbers[2] = { 0, pareto_most_default };
	unsigned count;

	*ret = (struct sim_law) { .kind = SIM_LAW_EXP };
	if (strcmp(text, "exp") == 0)
		return true;
	if (strcmp(text, "det") == 0) {
		ret->kind = SIM_LAW_DET;
		return true;
	}
	rest = after(text, "pareto:");
	if (rest) {
		if (!value_list(rest, 2, numbers, &count))
			return false;
		*ret = (struct sim_law) { .kind = SIM_LAW_PARETO, .shape = numbers[0], .most = numbers[1] };
		return ret->shape > 0 && ret->most > 1;
	}
	rest = after(text, "lognormal:");
	if (!rest || !value_number(rest, &ret->shape))
		return false;
	ret->kind = SIM_LAW_LOGNORMAL;
	return true;
}

bool value_per_node(const char *text, unsigned nodes, double *ret)
{
	unsigned count;

	if (!value_list(text, nodes, ret, &count))
		return false;
	for (unsigned i = count; i < nodes; i++)
		ret[i] = ret[i - count];
	return true;
}

bool value_skew(const char *text, unsigned nodes, double *ret_share)
{
	const char *rest = after(text, "zipf:");
	double sum = 0, exponent = 0;

	if (rest && !value_number(rest, &exponent))
		return false;
	if (!rest && strcmp(text, "uniform") != 0) {
		if (!value_per_node(text, nodes, ret_share))
			return false;
	} else {
		for (unsigned i = 0; i < nodes; i++)
			ret_share[i] = pow(i + 1, -exponent);
	}
	for (unsigned i = 0; i < nodes; i++)
		sum += ret_share[i];
	for (unsigned i = 0; i < nodes; i++)
		ret_share[i] /= sum;
	return sum > 0 && isfinite(sum);
}

bool value_failure(const char *text, struct sim_failure *ret)
{
	const char *at = strchr(text, '@');
	char node[TEXT_BYTES];
	uint64_t number;
	size_t length;

	if (*text == 'n')
		text++;
	length = at && at >= text ? (size_t)(at - text) : 0;
	if (length == 0 || length >= sizeof(node))
		return false;
	memcpy(node, text, length);
	node[length] = '\0';
	if (!value_count(node, 1, SIM_NODES_MAX, &number) || !value_time(at + 1, &ret->at_s))
		return false;
	ret->node = (unsigned)number - 1;
	return true;
}

bool value_burst(const char *text, struct sim_burst *ret)
{
	const char *at = strchr(text, '@');
	size_t length = at ? (size_t)(at - text) : strlen(text);
	char number[TEXT_BYTES];
	uint64_t connections;

	if (length == 0 || length >= sizeof(number))
		return false;
	memcpy(number, text, length);
	number[length] = '\0';
	if (!value_count(number, 1, SIM_BURST_MAX, &connections) || (at && !value_time(at + 1, &ret->at_s)))
		return false;
	ret->connections = (unsigned)connections;
	return true;
}
