// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * rules/sets.c - the sets of the table "inet dprd": addresses and ports of the configuration. flowset.c changes the
 * tuples of forwarded flows.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "dprd/core/packet/probe.h"
#include "dprd/host/probed.h"
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

	for (i = 0; i < member_services(self); i++)
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

		for (i = 0; member != config->self && i < member_services(m); i++) {
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

/*
 * Probes come out of the tunnel as connections do, pass the same filters and the same look-up of the route, and end here,
 * in front of the host's own rules for what it lets in. The sets remember for which local address the last one came.
 */
void rules_write_probed(FILE *out, const struct config *config)
{
	unsigned i;

	if (config_has_port(config, PROBE_PORT))
		return;
	fprintf(out, "add chain inet dprd probed\n"
		     "add chain inet dprd input { type filter hook input priority -310 ; }\n"
		     "flush chain inet dprd input\nflush chain inet dprd probed\n");
	for (i = 0; i < 4; i++) {
		bool v6 = i % 2, full = i / 2;
		const char *name = full ? "probed_full" : "probed", *ip = v6 ? "ip6" : "ip";
		const char *address = v6 ? "ipv6_addr" : "ipv4_addr";
		char f = v6 ? '6' : '4';

		/* Strangers may send the like to other addresses of this host, and must not fill the sets. */
		if (!full)
			rules_write_set(out, config, "set", "probe_to", v6, address, list_foreign);
		fprintf(out,
			"add set inet dprd %s%c { type %s ; size %d ; flags dynamic,timeout ; timeout %dms ; }\n"
			"add rule inet dprd probed %s daddr @probe_to%c tcp sport %d update @%s%c { %s daddr }\n",
			name, f, address, PROBED_MAX, PROBED_KEPT_MS, ip, f, full ? PROBE_FULL_PORT : PROBE_PORT, name,
			f, ip);
	}
	fprintf(out,
		"add rule inet dprd probed drop\n"
		"add rule inet dprd input tcp dport %d tcp sport %d-%d " RULES_SYN " goto probed\n",
		PROBE_PORT, PROBE_PORT, PROBE_FULL_PORT);
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
