// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * rules/sets.c - the sets of the table "inet dprd": addresses and ports of the configuration. flowset.c changes the
 * tuples of forwarded flows.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "dprd/rules/table.h"

void rules_list_item(struct rules_list *list, const struct addr *address, const char *suffix)
{
	char text[ADDR_TEXT_BYTES];

	if (addr_is_zero(address) || addr_is_v4(address) == list->v6)
		return;
	fprintf(list->out, "%s%s%s", list->count++ ? ", " : "", addr_format(address, text), suffix);
}

void rules_list_shared(const struct config *config, struct rules_list *list)
{
	unsigned i;

	for (i = 0; i < config->shared_count; i++)
		rules_list_item(list, &config->shared[i], "");
}

static void list_own(const struct config *config, struct rules_list *list)
{
	const struct member *self = &config->member[config->self];
	unsigned i;

	for (i = 0; i < self->service_count; i++)
		rules_list_item(list, &self->service[i], "");
	rules_list_shared(config, list);
}

static void list_services(const struct config *config, struct rules_list *list)
{
	const struct member *self = &config->member[config->self];
	char suffix[16];
	unsigned i, port;

	for (port = 0; port < config->port_count; port++) {
		snprintf(suffix, sizeof(suffix), " . %u", config->port[port]);
		for (i = 0; i < self->service_count; i++)
			rules_list_item(list, &self->service[i], suffix);
		for (i = 0; i < config->shared_count; i++)
			rules_list_item(list, &config->shared[i], suffix);
	}
}

static void list_peers(const struct config *config, struct rules_list *list)
{
	unsigned i;

	for (i = 0; i < config->member_count; i++) {
		if (i == config->self)
			continue;
		rules_list_item(list, &config->member[i].cluster_v4, "");
		rules_list_item(list, &config->member[i].cluster_v6, "");
	}
}

typedef void foreign_fn(const struct config *config, struct rules_list *list, const struct addr *service,
			const struct addr *alias);

/*
 * Calls item for every address of a peer that this node serves for; alias: all zero when the address itself is local.
 */
static void each_foreign(const struct config *config, struct rules_list *list, foreign_fn *item)
{
	unsigned member, i;

	for (member = 0; member < config->member_count; member++) {
		const struct member *m = &config->member[member];

		for (i = 0; member != config->self && i < m->service_count; i++) {
			struct addr alias = config_alias(config, member, i);

			item(config, list, &m->service[i], &alias);
		}
	}
}

static void item_local(const struct config *config, struct rules_list *list, const struct addr *service,
		       const struct addr *alias)
{
	(void)config;
	rules_list_item(list, addr_is_zero(alias) ? service : alias, "");
}

static void item_alias(const struct config *config, struct rules_list *list, const struct addr *service,
		       const struct addr *alias)
{
	char suffix[ADDR_TEXT_BYTES + 4], text[ADDR_TEXT_BYTES];

	(void)config;
	snprintf(suffix, sizeof(suffix), " : %s", addr_format(service, text));
	rules_list_item(list, alias, suffix);
}

static void item_ports(const struct config *config, struct rules_list *list, const struct addr *service,
		       const struct addr *alias)
{
	char suffix[16];
	unsigned port;

	for (port = 0; port < config->port_count; port++) {
		snprintf(suffix, sizeof(suffix), " . %u", config->port[port]);
		rules_list_item(list, addr_is_zero(alias) ? service : alias, suffix);
	}
}

static void list_foreign(const struct config *config, struct rules_list *list)
{
	each_foreign(config, list, item_local);
}

static void list_alias(const struct config *config, struct rules_list *list)
{
	each_foreign(config, list, item_alias);
}

void rules_list_served(const struct config *config, struct rules_list *list)
{
	list_services(config, list);
	each_foreign(config, list, item_ports);
}

void rules_write_set(FILE *out, const struct config *config, const char *kind, const char *name, bool v6,
		     const char *type, rules_fill_fn *fill)
{
	struct rules_list list = { .out = out, .v6 = v6 };
	char *text = NULL;
	size_t bytes;

	fprintf(out, "add %s inet dprd %s%c { type %s ; }\n", kind, name, v6 ? '6' : '4', type);
	fprintf(out, "flush %s inet dprd %s%c\n", kind, name, v6 ? '6' : '4');
	list.out = open_memstream(&text, &bytes);
	if (!list.out)
		return;
	fill(config, &list);
	fclose(list.out);
	if (list.count)
		fprintf(out, "add element inet dprd %s%c { %s }\n", name, v6 ? '6' : '4', text);
	free(text);
}

void rules_write_sets(FILE *out, const struct config *config, bool v6)
{
	const char *address = v6 ? "ipv6_addr" : "ipv4_addr";
	char pair[64], map[64], peers[64];

	snprintf(pair, sizeof(pair), "%s . inet_service", address);
	/* With a known size the kernel uses its fastest kind of set: each tunnel packet is looked up in it. */
	snprintf(peers, sizeof(peers), "%s ; size %d", address, MEMBERS_MAX);
	snprintf(map, sizeof(map), "%s : %s", address, address);
	fprintf(out, "add map inet dprd flows%c { type %s . %s : mark ; size %u ; }\n", v6 ? '6' : '4', pair, pair,
		config->max_flows + config->max_half_open + config->max_half_open / 4);
	rules_write_set(out, config, "set", "own", v6, address, list_own);
	rules_write_set(out, config, "set", "service", v6, pair, list_services);
	rules_write_set(out, config, "set", "peers", v6, peers, list_peers);
	rules_write_set(out, config, "set", "foreign", v6, address, list_foreign);
	rules_write_set(out, config, "set", "shared", v6, address, rules_list_shared);
	rules_write_set(out, config, "map", "alias", v6, map, list_alias);
	fprintf(out, "add counter inet dprd stranger%c\n", v6 ? '6' : '4');
}
