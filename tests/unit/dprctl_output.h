/* SPDX-License-Identifier: GPL-2.0-or-later */
/* dprctl_output.h - JSON answers as text, and the output of dprctl's render functions. Include it after cmocka.h. */
#ifndef TESTS_UNIT_DPRCTL_OUTPUT_H
#define TESTS_UNIT_DPRCTL_OUTPUT_H

#include <stdlib.h>
#include <string.h>

#include "dprd/dprctl/dprctl.h"

/* Reads JSON with ' in place of ". */
static inline json_t *json_of(const char *text)
{
	char *copy = strdup(text), *at;
	json_t *value;

	for (at = copy; (at = strchr(at, '\''));)
		*at = '"';
	value = json_loads(copy, 0, NULL);
	free(copy);
	assert_non_null(value);
	return value;
}

/* The output of a render function. */
struct output {
	FILE *file;
	char *text;
	size_t bytes;
};

static inline void open_output(struct output *o)
{
	o->file = open_memstream(&o->text, &o->bytes);
	assert_non_null(o->file);
}

static inline const char *text_so_far(struct output *o)
{
	fflush(o->file);
	return o->text ? o->text : "";
}

static inline void close_output(struct output *o)
{
	fclose(o->file);
	free(o->text);
}

static inline void assert_shows(struct output *o, const char *part)
{
	if (!strstr(text_so_far(o), part))
		fail_msg("\"%s\" is not in:\n%s", part, o->text);
}

static inline void assert_hides(struct output *o, const char *part)
{
	if (strstr(text_so_far(o), part))
		fail_msg("\"%s\" is in:\n%s", part, o->text);
}

/* The line that starts with this, without its end. */
static inline char *line_of(struct output *o, const char *start)
{
	static char line[400];
	const char *at = text_so_far(o);

	while (at && strncmp(at, start, strlen(start)) != 0)
		at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
	if (at)
		snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
	else
		fail_msg("no line \"%s\" in:\n%s", start, o->text);
	return line;
}

#endif
