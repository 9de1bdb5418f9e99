// SPDX-License-Identifier: GPL-2.0-or-later
/* config/backend.c - the values of [Backend "name"]: a passive real server. */
#include "dprd/config/reading.h"

_Static_assert(sizeof(enum backend_form) == sizeof(unsigned), "config_type_choice stores an enumeration as unsigned");

bool config_begin_backend(struct parse *p, const char *label)
{
	struct config *c = p->config;

	for (unsigned i = 0; i < c->backend_count; i++) {
		if (strcmp(c->backend[i].name, label) == 0) {
			config_error(p, p->line, "[Backend \"%s\"]: this name is taken (first in line %u)", label,
				     p->backend[i].header);
			return false;
		}
	}
	if (c->backend_count == BACKENDS_MAX) {
		config_error(p, p->line, "[Backend \"%s\"]: too many real servers (at most %d)", label, BACKENDS_MAX);
		return false;
	}
	p->backend[c->backend_count].header = p->line;
	snprintf(c->backend[c->backend_count].name, NAME_BYTES, "%s", label);
	c->backend[c->backend_count++].id = backend_id(label);
	return true;
}

static struct backend_lines *current_lines(struct parse *p)
{
	return &p->backend[p->config->backend_count - 1];
}

static void set_node(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	current_lines(p)->node = p->line;
	config_type_name.set(p, key, field, text);
}

static void print_node(FILE *out, const struct config_key *key, const void *field)
{
	if (*(const char *)field)
		config_type_name.print(out, key, field);
}

const struct config_type config_type_backend_node = { set_node, print_node };

static void set_backend_address(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	struct backend_lines *lines = current_lines(p);
	char word[CONFIG_WORD_BYTES];
	struct backend *b = field;
	struct addr address;

	lines->address_tried = true;
	if (!config_has_word(p, key, text, "10.1.0.21"))
		return;
	while (config_next_word(&text, word)) {
		unsigned *line;

		if (!config_read_address(p, key, word, &address))
			continue;
		line = &lines->address[!addr_is_v4(&address)];
		if (*line) {
			config_key_error(p, key,
					 "a second %s address (one per family, first in line %u; another server is "
					 "another [Backend])",
					 addr_is_v4(&address) ? "IPv4" : "IPv6", *line);
			continue;
		}
		*line = p->line;
		*(addr_is_v4(&address) ? &b->v4 : &b->v6) = address;
	}
}

static void print_backend_address(FILE *out, const struct config_key *key, const void *field)
{
	const struct backend *b = field;

	config_type_address.print(out, key, &b->v4);
	config_type_address.print(out, key, &b->v6);
}

const struct config_type config_type_backend_address = { set_backend_address, print_backend_address };

static void set_backend_port(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	current_lines(p)->port = p->line;
	config_type_port.set(p, key, field, text);
}

static void print_backend_port(FILE *out, const struct config_key *key, const void *field)
{
	config_type_port.print(out, key, field);
}

const struct config_type config_type_backend_port = { set_backend_port, print_backend_port };
