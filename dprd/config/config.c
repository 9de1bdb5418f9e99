// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * config.c - reads dprd.conf: lines, sections, and which key a line sets.
 *
 * inih splits the lines. It gives no line numbers, cuts lines at 200 bytes, takes an indented line
 * for the continuation of the one above and does not tell about empty sections; so the reader that
 * feeds it counts, measures, strips and notes the headers itself, and hands on only what is sound.
 */
#include "dprd/config/config.h"
#include "dprd/config/reading.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

enum { CONFIG_FILE_BYTES_MAX = 256 * 1024 };

__attribute__((format(printf, 4, 0))) static void add_error(struct parse *p, unsigned line, const char *subject,
							    const char *format, va_list args)
{
	char *text;
	int used;

	if (p->errors->count++ >= CONFIG_ERRORS_MAX)
		return;
	text = p->errors->text[p->errors->count - 1];
	used = snprintf(text, CONFIG_ERROR_BYTES, "%.100s:%u: %s%s", p->file, line ? line : 1, subject,
			*subject ? ": " : "");
	if (used >= 0 && used < CONFIG_ERROR_BYTES)
		vsnprintf(text + used, CONFIG_ERROR_BYTES - (size_t)used, format, args);
}

void config_error(struct parse *p, unsigned line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add_error(p, line, "", format, args);
	va_end(args);
}

void config_key_error(struct parse *p, const struct config_key *key, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add_error(p, p->line, key->name, format, args);
	va_end(args);
}

/* The struct that a key of the current section belongs to. */
static void *section_base(const struct parse *p, enum config_section section)
{
	struct config *c = p->config;

	if (section == SECTION_MEMBER)
		return &c->member[c->member_count - 1];
	if (section == SECTION_NETWORK)
		return &c->network[c->network_count - 1];
	if (section == SECTION_BACKEND)
		return &c->backend[c->backend_count - 1];
	return c;
}

static void set_key(struct parse *p, const struct config_key *key, const char *text)
{
	key->type->set(p, key, (char *)section_base(p, key->section) + key->offset, text);
}

static void set_defaults(struct parse *p, enum config_section section)
{
	for (unsigned i = 0; i < config_key_count; i++) {
		if (config_keys[i].section != section)
			continue;
		p->seen[i] = 0;
		if (config_keys[i].fallback)
			set_key(p, &config_keys[i], config_keys[i].fallback);
	}
}

static bool begin_member(struct parse *p, const char *label)
{
	struct config *c = p->config;

	for (unsigned i = 0; i < c->member_count; i++) {
		if (strcmp(c->member[i].name, label) == 0) {
			config_error(p, p->line, "[Member \"%s\"]: this name is taken (first in line %u)", label,
				     p->member[i].header);
			return false;
		}
	}
	if (c->member_count == MEMBERS_MAX) {
		config_error(p, p->line, "[Member \"%s\"]: too many members (at most %d)", label, MEMBERS_MAX);
		return false;
	}
	p->member[c->member_count].header = p->line;
	snprintf(c->member[c->member_count].name, NAME_BYTES, "%s", label);
	c->member[c->member_count++].id = member_id(label);
	return true;
}

static bool begin_network(struct parse *p, const char *label)
{
	struct config *c = p->config;

	for (unsigned i = 0; i < c->network_count; i++) {
		if (strcmp(c->network[i].name, label) == 0) {
			config_error(p, p->line, "[Network \"%s\"]: this name is taken (first in line %u)", label,
				     p->network_line[i]);
			return false;
		}
	}
	if (c->network_count == NETWORKS_MAX) {
		config_error(p, p->line, "[Network \"%s\"]: too many networks (at most %d)", label, NETWORKS_MAX);
		return false;
	}
	p->network_line[c->network_count] = p->line;
	snprintf(c->network[c->network_count++].name, NAME_BYTES, "%s", label);
	return true;
}

static bool begin_named(struct parse *p, enum config_section section, const char *label)
{
	bool begun = section == SECTION_MEMBER    ? begin_member(p, label)
		     : section == SECTION_NETWORK ? begin_network(p, label)
						  : config_begin_backend(p, label);

	if (begun)
		set_defaults(p, section);
	return begun;
}

/* The section of this title and label (NULL: none), or SECTION_BAD with the reason reported. */
static enum config_section begin_section(struct parse *p, const char *title, const char *label)
{
	char suggestion[SUGGESTION_BYTES];
	enum config_section s;

	for (s = SECTION_CLUSTER; s < SECTIONS; s++)
		if (strcmp(config_section_names[s], title) == 0)
			break;
	if (s == SECTIONS) {
		config_suggest_section(title, suggestion);
		config_error(p, p->line, "[%s]: unknown section%s", title, suggestion);
		p->bad_header = true;
		return SECTION_BAD;
	}
	if (!p->section_line[s])
		p->section_line[s] = p->line;
	if (!config_section_is_named(s)) {
		if (!label)
			return s;
		config_error(p, p->line, "[%s]: takes no name (just [%s])", title, title);
		return SECTION_BAD;
	}
	if (label && config_is_name(label)) {
		if (begin_named(p, s, label))
			return s;
	} else if (label) {
		config_error(p, p->line,
			     "[%s \"%s\"]: not a name (letters, digits, \"_\", \".\" and \"-\", at most %d)", title,
			     label, NAME_BYTES - 1);
	} else {
		config_error(p, p->line, "[%s]: has no name (such as [%s \"%s\"])", title, title,
			     s == SECTION_BACKEND ? "b1" : "n1");
	}
	if (s == SECTION_MEMBER)
		p->bad_header = true;
	return SECTION_BAD;
}

/* Splits '[Title]' or '[Title "label"]', a comment allowed behind it. False: not of that form. */
static bool split_header(char *line, char **ret_title, char **ret_label)
{
	char *at = line + 1;

	*ret_label = NULL;
	while (isblank((unsigned char)*at))
		at++;
	*ret_title = at;
	at += strcspn(at, "] \t\"");
	if (at == *ret_title)
		return false;
	if (isblank((unsigned char)*at)) {
		*at++ = '\0';
		while (isblank((unsigned char)*at))
			at++;
	}
	if (*at == '"') {
		*at++ = '\0';
		*ret_label = at;
		at += strcspn(at, "\"");
		if (!*at)
			return false;
		*at++ = '\0';
		while (isblank((unsigned char)*at))
			at++;
	}
	if (*at != ']')
		return false;
	*at++ = '\0';
	while (isblank((unsigned char)*at))
		at++;
	return !*at || *at == ';' || *at == '#';
}

static void read_header(struct parse *p, const char *line)
{
	char copy[256], *title, *label;

	snprintf(copy, sizeof(copy), "%s", line);
	if (split_header(copy, &title, &label)) {
		p->section = begin_section(p, title, label);
		return;
	}
	config_error(p, p->line, "%.64s: not a section (such as [Cluster] or [Member \"n1\"])", line);
	p->section = SECTION_BAD;
	p->bad_header = true;
}

/* True when inih will split the line where we would: a plain word, then "=". */
static bool is_assignment(const char *line)
{
	size_t word = 0;

	while (isalnum((unsigned char)line[word]))
		word++;
	if (!word)
		return false;
	while (isblank((unsigned char)line[word]))
		word++;
	return line[word] == '=';
}

static bool has_control(const char *line, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (iscntrl((unsigned char)line[i]) && line[i] != '\t')
			return true;
	return false;
}

/* inih's reader: the next line, stripped; an empty one in place of what is wrong or ours. */
static char *read_line(char *buffer, int size, void *stream)
{
	struct parse *p = stream;
	const char *start = p->text + p->offset, *end;
	size_t left = p->length - p->offset, length;

	if (!left)
		return NULL;
	end = memchr(start, '\n', left);
	length = end ? (size_t)(end - start) : left;
	p->offset += length + (end ? 1 : 0);
	p->line++;
	if (p->line == 1 && length >= 3 && memcmp(start, "\xef\xbb\xbf", 3) == 0) {
		start += 3;
		length -= 3;
	}
	while (length && isspace((unsigned char)start[length - 1]))
		length--;
	buffer[0] = '\0';
	if (length >= (size_t)size) {
		config_error(p, p->line, "%zu bytes are too many for a line (at most %d)", length, size - 1);
		return buffer;
	}
	while (length && isspace((unsigned char)*start)) {
		start++;
		length--;
	}
	if (has_control(start, length)) {
		config_error(p, p->line, "a control character (only text and tabs may stand here)");
		return buffer;
	}
	if (!length || *start == '#' || *start == ';')
		return buffer;
	memcpy(buffer, start, length);
	buffer[length] = '\0';
	if (*buffer == '[')
		read_header(p, buffer);
	else if (is_assignment(buffer))
		return buffer;
	else if (p->section != SECTION_BAD)
		config_error(p, p->line, "%.64s: not a setting (such as Key=value)", buffer);
	buffer[0] = '\0';
	return buffer;
}

static int handle_key(void *user, const char *section, const char *name, const char *text)
{
	char suggestion[SUGGESTION_BYTES];
	const struct config_key *key;
	struct parse *p = user;
	unsigned *seen;

	(void)section; /* cut at 50 bytes; read_header() knows better */
	if (p->section == SECTION_BAD)
		return 1;
	key = config_key_find(p->section, name);
	if (!key) {
		p->unknown_key[p->section] = true;
		config_suggest_key(p->section, name, suggestion);
		if (p->section == SECTION_NONE)
			config_error(p, p->line, "%.64s: stands before the first section%s", name, suggestion);
		else
			config_error(p, p->line, "%.64s: unknown key%s", name, suggestion);
		return 1;
	}
	seen = &p->seen[key - config_keys];
	if (*seen && !key->repeatable) {
		config_key_error(p, key, "given twice (first in line %u)", *seen);
		return 1;
	}
	if (strstr(text, " #"))
		config_key_error(p, key, "%.64s: a comment behind a value starts with \" ;\"", text);
	else
		set_key(p, key, text);
	if (!*seen)
		*seen = p->line;
	return 1;
}

/* Values that stand in for what the file leaves out, once all of it is known. */
static void complete(struct config *c)
{
	for (unsigned i = 0; i < c->network_count; i++)
		if (!c->network[i].port)
			c->network[i].port = c->announce_port;
	for (unsigned i = 0; i < c->member_count; i++) {
		struct member *m = &c->member[i];

		for (unsigned s = 0; s < m->service_count && !m->own_cluster_address; s++) {
			struct addr *first = addr_is_v4(&m->service[s]) ? &m->cluster_v4 : &m->cluster_v6;

			if (addr_is_zero(first))
				*first = m->service[s];
		}
	}
}

int config_parse(const char *name, const char *text, size_t length, const char *node_name, struct config *ret,
		 struct config_errors *errors)
{
	const char *slash = strrchr(name, '/');
	struct parse *p = calloc(1, sizeof(*p));
	int result;

	errors->count = 0;
	if (p)
		p->config = calloc(1, sizeof(*p->config));
	if (!p || !p->config) {
		free(p);
		return -ENOMEM;
	}
	p->file = slash ? slash + 1 : name;
	p->text = text;
	p->length = length;
	p->errors = errors;
	for (enum config_section s = SECTION_CLUSTER; s < SECTIONS; s++)
		if (!config_section_is_named(s))
			set_defaults(p, s);
	result = ini_parse_stream(read_line, p, handle_key, p);
	if (result && !errors->count)
		config_error(p, result > 0 ? (unsigned)result : 1, "cannot be read");
	complete(p->config);
	config_check(p);
	config_check_self(p, node_name);
	if (!errors->count)
		config_check_own_backends(p);
	result = errors->count ? -EINVAL : 0;
	if (!result)
		*ret = *p->config;
	free(p->config);
	free(p);
	return result;
}

/* Up to CONFIG_FILE_BYTES_MAX + 1 bytes of the file. Their number or -errno. */
static ssize_t read_whole(const char *path, char *text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t length = 0, got;

	if (fd < 0)
		return -errno;
	do {
		got = read(fd, text + length, (size_t)(CONFIG_FILE_BYTES_MAX + 1 - length));
		if (got > 0)
			length += got;
		else if (got < 0 && errno != EINTR)
			length = -errno;
	} while (length >= 0 && length <= CONFIG_FILE_BYTES_MAX && got != 0);
	close(fd);
	return length;
}

int config_read(const char *path, const char *node_name, struct config *ret, struct config_errors *errors)
{
	char *text = malloc(CONFIG_FILE_BYTES_MAX + 1);
	ssize_t length;
	int result;

	errors->count = 0;
	if (!text)
		return -ENOMEM;
	length = read_whole(path, text);
	if (length >= 0 && length <= CONFIG_FILE_BYTES_MAX) {
		result = config_parse(path, text, (size_t)length, node_name, ret, errors);
	} else {
		result = length < 0 ? (int)length : -EINVAL;
		errors->count = 1;
		snprintf(errors->text[0], CONFIG_ERROR_BYTES, "%.200s: %s", path,
			 length < 0 ? strerror((int)-length) : "larger than 256 KiB, which no cluster needs");
	}
	free(text);
	return result;
}
