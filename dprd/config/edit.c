// SPDX-License-Identifier: GPL-2.0-or-later
/* config/edit.c - finds the section of a member in the text of dprd.conf, and changes it. */
#define _GNU_SOURCE
#include "dprd/config/edit.h"
#include "dprd/config/reading.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

enum { EDIT_LINE_BYTES = 256 };

/* Offsets into the text. */
struct section {
	bool found;
	size_t begin; /* of its header */
	size_t settings; /* behind its last setting, or its header */
	size_t end; /* behind the comments that follow its last setting */
	size_t weight, weight_end; /* the value of Weight=; both 0: there is none */
};

enum line_kind { LINE_BLANK, LINE_COMMENT, LINE_HEADER, LINE_OTHER };

struct line {
	size_t begin, end; /* end: behind its line end */
	enum line_kind kind;
	char text[EDIT_LINE_BYTES]; /* without blanks around it */
};

static bool next_line(const char *text, size_t length, size_t *at, struct line *line)
{
	const char *end = *at < length ? memchr(text + *at, '\n', length - *at) : NULL;
	size_t first, last;

	if (*at >= length)
		return false;
	line->begin = first = *at;
	line->end = last = end ? (size_t)(end - text) + 1 : length;
	if (!first && length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		line->begin = first = 3;
	while (last > first && isspace((unsigned char)text[last - 1]))
		last--;
	while (first < last && isspace((unsigned char)text[first]))
		first++;
	snprintf(line->text, sizeof(line->text), "%.*s", (int)(last - first < 4096 ? last - first : 4096),
		 text + first);
	line->kind = first == last                              ? LINE_BLANK
		     : text[first] == '#' || text[first] == ';' ? LINE_COMMENT
		     : text[first] == '['                       ? LINE_HEADER
								: LINE_OTHER;
	*at = line->end;
	return true;
}

/* True for the header of a member; name NULL: of any member. */
static bool is_member(const struct line *line, const char *name)
{
	char copy[EDIT_LINE_BYTES], *title, *label;

	if (line->kind != LINE_HEADER)
		return false;
	memcpy(copy, line->text, sizeof(copy));
	return config_split_header(copy, &title, &label) && label && strcmp(title, "Member") == 0 &&
	       (!name || strcmp(label, name) == 0);
}

/* Notes the place of the value when the line is Weight=. */
static void note_weight(const char *text, const struct line *line, struct section *section)
{
	char copy[EDIT_LINE_BYTES], *name, *value;
	size_t at, end;

	memcpy(copy, line->text, sizeof(copy));
	if (!config_split_setting(copy, &name, &value) || strcmp(name, "Weight") != 0)
		return;
	at = (size_t)((const char *)memchr(text + line->begin, '=', line->end - line->begin) - text) + 1;
	while (at < line->end && (text[at] == ' ' || text[at] == '\t'))
		at++;
	end = at + strlen(value);
	section->weight = at;
	section->weight_end = end < line->end ? end : line->end;
}

/* The section of this name; NULL: the last section of a member. */
static struct section find(const char *text, size_t length, const char *name)
{
	struct section section = { 0 };
	bool inside = false, attached = false;
	struct line line;
	size_t at = 0, comments = 0; /* behind the comments that are attached so far */

	while (next_line(text, length, &at, &line)) {
		if (line.kind == LINE_HEADER) {
			inside = is_member(&line, name);
			/* Comments right above a header belong to it. */
			attached = inside;
			if (inside)
				section = (struct section) {
					.found = true, .begin = line.begin, .settings = line.end, .end = line.end
				};
			continue;
		}
		if (!inside)
			continue;
		if (line.kind == LINE_BLANK) {
			if (attached && comments > section.end)
				section.end = comments;
			attached = false;
		} else if (line.kind == LINE_COMMENT) {
			comments = attached ? line.end : comments;
		} else {
			section.settings = section.end = line.end;
			attached = true;
			note_weight(text, &line, &section);
		}
	}
	if (inside && attached && comments > section.end)
		section.end = comments;
	return section;
}

static bool is_blank_line(const char *text, size_t length, size_t at)
{
	struct line line;

	return next_line(text, length, &at, &line) && line.kind == LINE_BLANK;
}

/* True at the beginning of the text and behind an empty line. */
static bool is_behind_blank(const char *text, size_t at)
{
	size_t begin = at ? at - 1 : 0;

	while (begin && text[begin - 1] != '\n')
		begin--;
	return !at || is_blank_line(text, at, begin);
}

static bool is_value(const char *value)
{
	size_t length = strspn(value, "0123456789abcdefABCDEF.:");

	return length && !value[length];
}

static bool is_weight(const char *value)
{
	return is_value(value) && strlen(value) <= 8;
}

/* The text with new in the place of the bytes from begin to end. */
static int replace(const char *text, size_t length, size_t begin, size_t end, const char *new, char **ret)
{
	size_t bytes = strlen(new);
	char *made = malloc(length - (end - begin) + bytes + 1);

	if (!made)
		return -ENOMEM;
	memcpy(made, text, begin);
	memcpy(made + begin, new, bytes);
	memcpy(made + begin + bytes, text + end, length - end);
	made[length - (end - begin) + bytes] = '\0';
	*ret = made;
	return 0;
}

/* The line end of the text before this place; and true in *ret_open when the line there has none. */
static const char *line_end(const char *text, size_t at, bool *ret_open)
{
	const char *first = memchr(text, '\n', at);

	*ret_open = at && text[at - 1] != '\n';
	return first && first > text && first[-1] == '\r' ? "\r\n" : "\n";
}

static char *write_section(const struct edit_member *m, const char *end, bool open, bool more)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	fprintf(out, "%s%s[Member \"%s\"]%s", open ? end : "", end, m->name, end);
	for (unsigned i = 0; i < m->service_count; i++)
		fprintf(out, "Service=%s%s", m->service[i], end);
	for (unsigned i = 0; i < m->cluster_count; i++)
		fprintf(out, "Cluster=%s%s", m->cluster[i], end);
	if (m->weight)
		fprintf(out, "Weight=%s%s", m->weight, end);
	if (more)
		fputs(end, out);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

int config_edit_add(const char *text, size_t length, const struct edit_member *m, char **ret)
{
	struct section last;
	const char *end;
	char *section;
	bool open, good = config_is_name(m->name) && (!m->weight || is_weight(m->weight));
	size_t at;
	int error;

	for (unsigned i = 0; i < m->service_count; i++)
		good = good && is_value(m->service[i]);
	for (unsigned i = 0; i < m->cluster_count; i++)
		good = good && is_value(m->cluster[i]);
	if (!good || memchr(text, '\0', length))
		return -EINVAL;
	if (find(text, length, m->name).found)
		return -EEXIST;
	last = find(text, length, NULL);
	at = last.found ? last.end : length;
	end = line_end(text, at, &open);
	section = write_section(m, end, open, at < length && !is_blank_line(text, length, at));
	if (!section)
		return -ENOMEM;
	error = replace(text, length, at, at, section, ret);
	free(section);
	return error;
}

int config_edit_remove(const char *text, size_t length, const char *name, char **ret)
{
	struct section section = find(text, length, name);
	size_t begin = section.begin, end = section.end;

	if (memchr(text, '\0', length))
		return -EINVAL;
	if (!section.found)
		return -ENOENT;
	/* No two empty lines stay where one was on each side. */
	if (is_behind_blank(text, begin) && is_blank_line(text, length, end)) {
		struct line line;

		next_line(text, length, &end, &line);
	} else if (end == length) {
		while (begin && is_behind_blank(text, begin)) {
			begin--;
			while (begin && text[begin - 1] != '\n')
				begin--;
		}
	}
	return replace(text, length, begin, end, "", ret);
}

int config_edit_weight(const char *text, size_t length, const char *name, const char *weight, char **ret)
{
	struct section section = find(text, length, name);
	const char *end;
	char line[64];
	bool open;

	if (memchr(text, '\0', length) || !is_weight(weight))
		return -EINVAL;
	if (!section.found)
		return -ENOENT;
	if (section.weight)
		return replace(text, length, section.weight, section.weight_end, weight, ret);
	end = line_end(text, section.settings, &open);
	snprintf(line, sizeof(line), "%sWeight=%s%s", open ? end : "", weight, end);
	return replace(text, length, section.settings, section.settings, line, ret);
}
