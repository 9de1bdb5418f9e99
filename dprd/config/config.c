// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * config.c - reads dprd.conf: lines, sections, and which key a line sets.
 *
 * Each line is a comment, a header, "Key=value" or an error. A line never continues the one above.
 */
#include "dprd/config/config.h"
#include "dprd/config/reading.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_FILE_BYTES_MAX = 256 * 1024, LINE_BYTES = 200 };

/* The struct to which a key of the current section belongs. */
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
		p->first_use = true;
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

bool config_split_header(char *line, char **ret_title, char **ret_label)
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
	if (config_split_header(copy, &title, &label)) {
		p->section = begin_section(p, title, label);
		return;
	}
	config_error(p, p->line, "%.64s: not a section (such as [Cluster] or [Member \"n1\"])", line);
	p->section = SECTION_BAD;
	p->bad_header = true;
}

bool config_split_setting(char *line, char **ret_name, char **ret_text)
{
	size_t word = 0, blanks = 0;
	char *text;

	while (isalnum((unsigned char)line[word]))
		word++;
	while (isblank((unsigned char)line[word + blanks]))
		blanks++;
	if (!word || line[word + blanks] != '=')
		return false;
	line[word] = '\0';
	*ret_name = line;
	text = line + word + blanks + 1;
	/* A comment begins with a ";" that has a blank before it. */
	for (char *at = text; *at; at++) {
		if (*at == ';' && at > text && isblank((unsigned char)at[-1])) {
			*at = '\0';
			break;
		}
	}
	text += strspn(text, " \t");
	for (char *end = text + strlen(text); end > text && isblank((unsigned char)end[-1]); end--)
		end[-1] = '\0';
	*ret_text = text;
	return true;
}

static bool has_control(const char *line, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (iscntrl((unsigned char)line[i]) && line[i] != '\t')
			return true;
	return false;
}

/* Reads the next line without blanks around it; a wrong line is reported and read as empty. False: there is none. */
static bool next_line(struct parse *p, char line[LINE_BYTES])
{
	const char *start = p->text + p->offset, *end;
	size_t left = p->length - p->offset, length;

	if (!left)
		return false;
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
	line[0] = '\0';
	if (length >= LINE_BYTES) {
		config_error(p, p->line, "%zu bytes are too many for a line (at most %d)", length, LINE_BYTES - 1);
		return true;
	}
	while (length && isspace((unsigned char)*start)) {
		start++;
		length--;
	}
	if (has_control(start, length)) {
		config_error(p, p->line, "a control character (only text and tabs may stand here)");
		return true;
	}
	memcpy(line, start, length);
	line[length] = '\0';
	return true;
}

static void unknown_key(struct parse *p, const char *name)
{
	char suggestion[SUGGESTION_BYTES];

	p->unknown_key[p->section] = true;
	config_suggest_key(p->section, name, suggestion);
	if (p->section == SECTION_NONE)
		config_error(p, p->line, "%.64s: stands before the first section%s", name, suggestion);
	else
		config_error(p, p->line, "%.64s: unknown key%s", name, suggestion);
}

static void read_setting(struct parse *p, const char *name, const char *text)
{
	const struct config_key *key = config_key_find(p->section, name);
	unsigned *seen;

	if (!key) {
		unknown_key(p, name);
		return;
	}
	seen = &p->seen[key - config_keys];
	p->first_use = !*seen;
	if (*seen && !key->repeatable) {
		config_key_error(p, key, "given twice (first in line %u)", *seen);
		return;
	}
	if (strstr(text, " #"))
		config_key_error(p, key, "%.64s: a comment behind a value starts with \" ;\"", text);
	else
		set_key(p, key, text);
	if (!*seen)
		*seen = p->line;
}

static void read_line(struct parse *p, char *line)
{
	char *name, *text;

	if (!*line || *line == '#' || *line == ';')
		return;
	if (*line == '[')
		read_header(p, line);
	else if (p->section == SECTION_BAD)
		return;
	else if (config_split_setting(line, &name, &text))
		read_setting(p, name, text);
	else
		config_error(p, p->line, "%.64s: not a setting (such as Key=value)", line);
}

/* Fills in values that follow from other sections, once the whole file is read. */
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

/* FNV-1a with 32 bits; never 0. */
static uint32_t text_hash(const char *text, size_t length)
{
	uint32_t hash = 0x811c9dc5u;

	while (length--)
		hash = (hash ^ (uint8_t)*text++) * 0x01000193u;
	return hash ? hash : 1;
}

/* Reads and checks the text. *config gets all values that are right, with errors elsewhere, too. 0, -EINVAL, -ENOMEM. */
static int parse_text(const char *name, const char *text, size_t length, const char *node_name, struct config *config,
		      struct config_errors *errors)
{
	const char *slash = strrchr(name, '/');
	struct parse *p = calloc(1, sizeof(*p));
	char line[LINE_BYTES];

	errors->count = 0;
	if (!p)
		return -ENOMEM;
	p->config = config;
	p->file = slash ? slash + 1 : name;
	p->text = text;
	p->length = length;
	p->errors = errors;
	for (enum config_section s = SECTION_CLUSTER; s < SECTIONS; s++)
		if (!config_section_is_named(s))
			set_defaults(p, s);
	while (next_line(p, line))
		read_line(p, line);
	complete(config);
	config_check(p);
	config_check_self(p, node_name);
	if (!errors->count)
		config_check_own_backends(p);
	/* The checks made sure that there is room. */
	if (!errors->count)
		config_place_aliases(config);
	free(p);
	return errors->count ? -EINVAL : 0;
}

int config_parse(const char *name, const char *text, size_t length, const char *node_name, struct config *ret,
		 struct config_errors *errors)
{
	struct config *config = calloc(1, sizeof(*config));
	int result = config ? parse_text(name, text, length, node_name, config, errors) : -ENOMEM;

	if (!config)
		errors->count = 0;
	if (!result)
		*ret = *config;
	free(config);
	return result;
}

/*
 * Opens a regular file. A FIFO would keep the reader waiting, and /dev/zero never ends; so anything else is -EBADF.
 * Opening with O_NONBLOCK does not wait for the writer of a FIFO.
 */
static int open_regular(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), error = 0;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		error = -errno;
	else if (S_ISDIR(st.st_mode))
		error = -EISDIR;
	else if (!S_ISREG(st.st_mode))
		error = -EBADF;
	if (!error)
		return fd;
	close(fd);
	return error;
}

/* Reads up to CONFIG_FILE_BYTES_MAX + 1 bytes of the file. Returns their number or -errno. */
static ssize_t read_whole(const char *path, char *text)
{
	int fd = open_regular(path);
	ssize_t length = 0, got;

	if (fd < 0)
		return fd;
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

static const char *read_fault(ssize_t length)
{
	if (length == -EBADF)
		return "not a regular file, as a configuration must be";
	return length < 0 ? strerror((int)-length) : "larger than 256 KiB, which no cluster needs";
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
		if (!result)
			ret->file_hash = text_hash(text, (size_t)length);
	} else {
		result = length < 0 ? (int)length : -EINVAL;
		errors->count = 1;
		snprintf(errors->text[0], CONFIG_ERROR_BYTES, "%.200s: %s", path, read_fault(length));
	}
	free(text);
	return result;
}

bool config_first_member(const char *path, char name[NAME_BYTES])
{
	char *text = malloc(CONFIG_FILE_BYTES_MAX + 1), *line, *rest = text;
	ssize_t length = text ? read_whole(path, text) : 0;
	bool found = false;

	if (length > 0 && length <= CONFIG_FILE_BYTES_MAX) {
		text[length] = '\0';
		while (!found && (line = strsep(&rest, "\n")))
			found = sscanf(line, " [ Member \"%63[^\"]\"", name) == 1;
	}
	free(text);
	return found;
}

void config_read_places(const char *path, char run_dir[PATH_BYTES], char table_file[PATH_BYTES])
{
	struct config *config = calloc(1, sizeof(*config));
	struct config_errors *errors = calloc(1, sizeof(*errors));
	char *text = malloc(CONFIG_FILE_BYTES_MAX + 1);
	ssize_t length = text ? read_whole(path, text) : 0;

	if (length < 0 || length > CONFIG_FILE_BYTES_MAX)
		length = 0;
	if (config && errors && text) {
		parse_text(path, text, (size_t)length, NULL, config, errors);
		memcpy(run_dir, config->run_dir, PATH_BYTES);
		memcpy(table_file, config->table_file, PATH_BYTES);
	}
	free(text);
	free(errors);
	free(config);
}
