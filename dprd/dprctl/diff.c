// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/diff.c - the difference of two texts as one hunk of a unified diff: a change of dprd.conf is in one place. */
#include "dprd/dprctl/dprctl.h"

#include <stdlib.h>
#include <string.h>

enum { CONTEXT_LINES = 3 };

/* The beginnings of lines; the last one is the end of the text. */
struct lines {
	const char **at;
	size_t count;
};

static bool split(const char *text, struct lines *ret)
{
	size_t length = strlen(text), room = 2;

	for (size_t i = 0; i < length; i++)
		room += text[i] == '\n';
	ret->count = 0;
	ret->at = calloc(room, sizeof(*ret->at));
	if (!ret->at)
		return false;
	ret->at[0] = text;
	for (const char *line = text; *line;) {
		const char *end = strchr(line, '\n');

		line = end ? end + 1 : text + length;
		ret->at[++ret->count] = line;
	}
	return true;
}

static bool same_line(const struct lines *a, size_t i, const struct lines *b, size_t k)
{
	size_t length = (size_t)(a->at[i + 1] - a->at[i]);

	return length == (size_t)(b->at[k + 1] - b->at[k]) && memcmp(a->at[i], b->at[k], length) == 0;
}

static void print_lines(FILE *out, char mark, const struct lines *lines, size_t from, size_t to)
{
	for (; from < to; from++) {
		size_t length = (size_t)(lines->at[from + 1] - lines->at[from]);

		fprintf(out, "%c%.*s", mark, (int)length, lines->at[from]);
		if (lines->at[from][length - 1] != '\n')
			fputs("\n\\ No newline at end of file\n", out);
	}
}

static void print_hunk(FILE *out, const char *name, const struct lines *old, const struct lines *new)
{
	size_t same = 0, tail = 0, before, after;

	while (same < old->count && same < new->count &&same_line(old, same, new, same))
		same++;
	while (tail < old->count - same &&
	       tail < new->count - same &&same_line(old, old->count - 1 - tail, new, new->count - 1 - tail))
		tail++;
	if (same == old->count && same == new->count)
		return;
	before = same < CONTEXT_LINES ? same : CONTEXT_LINES;
	after = tail < CONTEXT_LINES ? tail : CONTEXT_LINES;
	fprintf(out, "--- %s\n+++ %s\n@@ -%zu,%zu +%zu,%zu @@\n", name, name, same - before + 1,
		old->count - same - tail + before + after, same - before + 1,
		new->count - same - tail + before + after);
	print_lines(out, ' ', old, same - before, same);
	print_lines(out, '-', old, same, old->count - tail);
	print_lines(out, '+', new, same, new->count - tail);
	print_lines(out, ' ', old, old->count - tail, old->count - tail + after);
}

void render_diff(FILE *out, const char *name, const char *old, const char *new)
{
	struct lines a = { 0 }, b = { 0 };

	if (split(old, &a) && split(new, &b))
		print_hunk(out, name, &a, &b);
	free(a.at);
	free(b.at);
}
