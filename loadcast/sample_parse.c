// SPDX-License-Identifier: GPL-2.0-or-later
/* Parses the files of /proc that sample.h needs. Pure. */
#include <string.h>

#include "loadcast/sample.h"

static const char *next_line(const char *at)
{
	at = strchr(at, '\n');
	return at ? at + 1 : NULL;
}

/* Returns the text behind the label of the line that starts with it, or NULL. */
static const char *find_line(const char *text, const char *label)
{
	size_t length = strlen(label);

	while (text && strncmp(text, label, length) != 0)
		text = next_line(text);
	return text ? text + length : NULL;
}

/* A decimal number behind blanks; *at moves behind it. */
static bool take_number(const char **at, uint64_t *ret)
{
	const char *p = *at;
	uint64_t value = 0;

	while (*p == ' ')
		p++;
	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++) {
		if (value > (UINT64_MAX - 9) / 10)
			return false;
		value = value * 10 + (uint64_t)(*p - '0');
	}
	*at = p;
	*ret = value;
	return true;
}

static bool take_u32(const char *at, uint32_t *ret)
{
	uint64_t value;

	if (!take_number(&at, &value) || value > UINT32_MAX)
		return false;
	*ret = (uint32_t)value;
	return true;
}

bool sample_parse_sockstat(const char *text, const char *protocol, uint32_t *ret_inuse)
{
	static const char field[] = ": inuse ";
	size_t length = strlen(protocol);

	for (; text; text = next_line(text)) {
		if (strncmp(text, protocol, length) == 0 && strncmp(text + length, field, sizeof(field) - 1) == 0)
			return take_u32(text + length + sizeof(field) - 1, ret_inuse);
	}
	return false;
}

bool sample_parse_sockets_used(const char *text, uint32_t *ret_used)
{
	const char *at = find_line(text, "sockets: used ");

	return at && take_u32(at, ret_used);
}

bool sample_parse_cpu(const char *text, uint64_t *ret_busy, uint64_t *ret_total)
{
	/* user nice system idle iowait irq softirq steal; the guests' time is in user already. */
	enum { FIELDS = 8, IDLE = 3, IOWAIT = 4 };
	const char *at = find_line(text, "cpu ");
	uint64_t total = 0, idle = 0;
	unsigned i;

	if (!at)
		return false;
	for (i = 0; i < FIELDS; i++) {
		uint64_t value;

		if (!take_number(&at, &value) || value > UINT64_MAX / FIELDS)
			return false;
		total += value;
		if (i == IDLE || i == IOWAIT)
			idle += value;
	}
	*ret_busy = total - idle;
	*ret_total = total;
	return true;
}
