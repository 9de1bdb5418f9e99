// SPDX-License-Identifier: GPL-2.0-or-later
/* config/addr.c - addresses, multicast groups and ranges of dprd.conf. */
#include "dprd/config/reading.h"

static bool is_multicast(const struct addr *a)
{
	return addr_is_v4(a) ? (a->bytes[12] & 0xf0) == 0xe0 : a->bytes[0] == 0xff;
}

const char *config_address_fault(const struct addr *a)
{
	static const struct addr loopback_v6 = { .bytes = { [15] = 1 } };

	if (is_multicast(a))
		return "a multicast address";
	if (addr_is_v4(a)) {
		if (a->bytes[12] == 0)
			return "an unspecified address";
		if (a->bytes[12] == 127)
			return "a loopback address";
		return addr_v4(a) == INADDR_BROADCAST ? "the broadcast address" : NULL;
	}
	if (addr_is_zero(a))
		return "an unspecified address";
	if (addr_equal(a, &loopback_v6))
		return "a loopback address";
	return a->bytes[0] == 0xfe && (a->bytes[1] & 0xc0) == 0x80 ? "a link-local address" : NULL;
}

struct addr config_range_base(const struct addr *address, unsigned prefix)
{
	unsigned bits = prefix + (addr_is_v4(address) ? 96 : 0);
	struct addr base = *address;

	for (unsigned i = 0; i < 16; i++) {
		unsigned kept = bits > 8 * i ? bits - 8 * i : 0;

		if (kept < 8)
			base.bytes[i] &= (uint8_t)(0xff00 >> kept);
	}
	return base;
}

bool config_read_address(struct parse *p, const struct config_key *key, const char *text, struct addr *ret)
{
	const char *fault;

	if (!addr_parse(text, ret)) {
		config_key_error(p, key, "\"%.64s\" is not an address (such as 192.0.2.11 or 2001:db8::11)", text);
		return false;
	}
	fault = config_address_fault(ret);
	if (fault)
		config_key_error(p, key, "%.64s is %s (take one that other nodes reach, such as 192.0.2.11)", text,
				 fault);
	return !fault;
}

static void print_address(FILE *out, const struct config_key *key, const void *field)
{
	char text[ADDR_TEXT_BYTES];

	if (!addr_is_zero(field))
		config_print(out, key, "%s", addr_format(field, text));
}

static void set_address(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	struct addr address;

	if (config_read_address(p, key, text, &address))
		*(struct addr *)field = address;
}

const struct config_type config_type_address = { set_address, print_address };

static void set_service(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	struct member_lines *lines = &p->member[p->config->member_count - 1];
	char word[CONFIG_WORD_BYTES];
	struct member *m = field;
	struct addr address;

	lines->service_tried = true;
	if (!config_has_word(p, key, text, "192.0.2.11"))
		return;
	while (config_next_word(&text, word)) {
		if (!config_read_address(p, key, word, &address))
			continue;
		if (m->service_count == MEMBER_SERVICES_MAX) {
			config_key_error(p, key, "too many addresses (at most %d)", MEMBER_SERVICES_MAX);
			return;
		}
		lines->service[m->service_count] = p->line;
		m->service[m->service_count++] = address;
	}
}

static void print_services(FILE *out, const struct config_key *key, const void *field)
{
	const struct member *m = field;

	for (unsigned i = 0; i < m->service_count; i++)
		print_address(out, key, &m->service[i]);
}

const struct config_type config_type_service = { set_service, print_services };

static void set_cluster(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	struct member_lines *lines = &p->member[p->config->member_count - 1];
	char word[CONFIG_WORD_BYTES];
	struct member *m = field;
	struct addr address;

	m->own_cluster_address = true;
	if (!config_has_word(p, key, text, "10.0.0.11"))
		return;
	while (config_next_word(&text, word)) {
		unsigned *line;

		if (!config_read_address(p, key, word, &address))
			continue;
		line = &lines->cluster[!addr_is_v4(&address)];
		if (*line) {
			config_key_error(p, key, "a second %s address (one per family; first in line %u)",
					 addr_is_v4(&address) ? "IPv4" : "IPv6", *line);
			continue;
		}
		*line = p->line;
		*(addr_is_v4(&address) ? &m->cluster_v4 : &m->cluster_v6) = address;
	}
}

static void print_cluster(FILE *out, const struct config_key *key, const void *field)
{
	const struct member *m = field;

	if (!m->own_cluster_address)
		return;
	print_address(out, key, &m->cluster_v4);
	print_address(out, key, &m->cluster_v6);
}

const struct config_type config_type_cluster = { set_cluster, print_cluster };

static void set_group(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	struct config *c = field;
	char word[CONFIG_WORD_BYTES];
	struct addr group;

	if (!config_has_word(p, key, text, "239.193.0.80"))
		return;
	while (config_next_word(&text, word)) {
		unsigned *line;

		if (!addr_parse(word, &group) || !is_multicast(&group)) {
			config_key_error(p, key,
					 "\"%.64s\" is not a multicast address (such as 239.193.0.80 or ff15::dd80)",
					 word);
			continue;
		}
		line = &p->group_line[!addr_is_v4(&group)];
		if (*line) {
			config_key_error(p, key, "a second %s group (one per family; first in line %u)",
					 addr_is_v4(&group) ? "IPv4" : "IPv6", *line);
			continue;
		}
		*line = p->line;
		*(addr_is_v4(&group) ? &c->group_v4 : &c->group_v6) = group;
	}
}

static void print_groups(FILE *out, const struct config_key *key, const void *field)
{
	const struct config *c = field;

	print_address(out, key, &c->group_v4);
	print_address(out, key, &c->group_v6);
}

const struct config_type config_type_group = { set_group, print_groups };

/* "ADDRESS/PREFIX" of 4 to 65,536 addresses, more than all members together can have. */
static bool read_range(struct parse *p, const struct config_key *key, char *word, struct addr *ret, unsigned *prefix)
{
	char *slash = strchr(word, '/'), base_text[ADDR_TEXT_BYTES];
	unsigned low, high;
	struct addr base;
	double number;

	if (slash)
		*slash = '\0';
	if (!slash || !addr_parse(word, ret) || !config_number(slash + 1, &number)) {
		if (slash)
			*slash = '/';
		config_key_error(p, key, "\"%.64s\" is not a range (such as 198.18.211.0/24 or fd64:7072:6400::/112)",
				 word);
		return false;
	}
	low = addr_is_v4(ret) ? 16 : 112;
	high = addr_is_v4(ret) ? 30 : 126;
	if (number < low || number > high || number != (double)(unsigned)number) {
		config_key_error(p, key, "/%.20s is out of range (/%u to /%u)", slash + 1, low, high);
		return false;
	}
	*prefix = (unsigned)number;
	base = config_range_base(ret, *prefix);
	if (!addr_equal(&base, ret)) {
		config_key_error(p, key, "%.64s/%u does not start at its first address (%s/%u)", word, *prefix,
				 addr_format(&base, base_text), *prefix);
		return false;
	}
	if (config_address_fault(ret)) {
		config_key_error(p, key, "%.64s is %s (a private range, such as 198.18.211.0/24)", word,
				 config_address_fault(ret));
		return false;
	}
	return true;
}

static void set_range(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	struct config *c = field;
	char word[CONFIG_WORD_BYTES];
	struct addr base;
	unsigned prefix;

	if (!config_has_word(p, key, text, "198.18.211.0/24"))
		return;
	while (config_next_word(&text, word)) {
		unsigned *line;

		if (!read_range(p, key, word, &base, &prefix))
			continue;
		line = &p->range_line[!addr_is_v4(&base)];
		if (*line) {
			config_key_error(p, key, "a second %s range (one per family; first in line %u)",
					 addr_is_v4(&base) ? "IPv4" : "IPv6", *line);
			continue;
		}
		*line = p->line;
		*(addr_is_v4(&base) ? &c->alias_v4 : &c->alias_v6) = base;
		*(addr_is_v4(&base) ? &c->alias_v4_prefix : &c->alias_v6_prefix) = prefix;
	}
}

static void print_ranges(FILE *out, const struct config_key *key, const void *field)
{
	const struct config *c = field;
	char text[ADDR_TEXT_BYTES];

	config_print(out, key, "%s/%u", addr_format(&c->alias_v4, text), c->alias_v4_prefix);
	config_print(out, key, "%s/%u", addr_format(&c->alias_v6, text), c->alias_v6_prefix);
}

const struct config_type config_type_range = { set_range, print_ranges };
