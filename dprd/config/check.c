// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * config/check.c - finds what is wrong with the file as a whole.
 *
 * A check reports nothing when the cause may be a line that was reported already.
 */
#include "dprd/config/reading.h"

#include <unistd.h>

/* The line for something that is missing: its section, or the end of the file. */
static unsigned section_line(const struct parse *p, enum config_section section)
{
	return p->section_line[section] ? p->section_line[section] : p->line;
}

static void check_timeout_order(struct parse *p, const char *shorter, unsigned short_ms, const char *longer,
				unsigned long_ms)
{
	unsigned line = config_key_line(p, SECTION_FLOWS, shorter), other = config_key_line(p, SECTION_FLOWS, longer);

	if (short_ms > long_ms)
		config_error(p, line > other ? line : other, "%s: longer than %s (%u ms; at most %u ms)", shorter,
			     longer, short_ms, long_ms);
}

/* Flows to a silent peer end after DeadPeerTimeout, which must not pass before the peer counts as dead. */
static void check_dead_peers(struct parse *p)
{
	const struct config *c = p->config;
	unsigned own = config_key_line(p, SECTION_FLOWS, "DeadPeerTimeout"), line = own;
	unsigned period = config_key_line(p, SECTION_ANNOUNCE, "Period");
	unsigned periods = config_key_line(p, SECTION_ANNOUNCE, "DeadPeriods");
	unsigned least_ms = (c->dead_periods + 1) * c->period_ms;

	line = period > line ? period : line;
	line = periods > line ? periods : line;
	if (c->dead_peer_timeout_ms < least_ms)
		config_error(p, line,
			     "DeadPeerTimeout: %u ms%s would end flows to peers that live: Period is %u ms, and peers "
			     "count as dead after %u of them (in [Flows], set DeadPeerTimeout=%ums or more)",
			     c->dead_peer_timeout_ms, own ? "" : " (the default)", c->period_ms, c->dead_periods,
			     least_ms);
}

static void check_values(struct parse *p)
{
	const struct config *c = p->config;
	unsigned line = config_key_line(p, SECTION_BALANCE, "LoadWeights");

	check_timeout_order(p, "SynTimeout", c->syn_timeout_ms, "IdleTimeout", c->idle_timeout_ms);
	check_timeout_order(p, "RstTimeout", c->rst_timeout_ms, "FinTimeout", c->fin_timeout_ms);
	check_timeout_order(p, "FinTimeout", c->fin_timeout_ms, "IdleTimeout", c->idle_timeout_ms);
	check_dead_peers(p);
	if (c->metric == LOAD_WEIGHTED && !line)
		config_error(p, config_key_line(p, SECTION_BALANCE, "Load"),
			     "Load: weighted needs LoadWeights= (such as LoadWeights=connections:1 cpu:0.5)");
	if (c->metric != LOAD_WEIGHTED && line)
		config_error(p, line, "LoadWeights: has no effect without Load=weighted");
	if (c->decide_in == DECIDE_KERNEL && c->plane == PLANE_NFQUEUE)
		config_error(p, config_key_line(p, SECTION_DATAPATH, "Decide"),
			     "Decide: kernel has no effect with Plane=nfqueue (leave one of them out)");
	if (!c->multicast && !c->unicast && !c->network_count)
		config_error(p, section_line(p, SECTION_ANNOUNCE),
			     "Multicast and Unicast are both off, so no node would hear of another (one of them must "
			     "be on)");
}

/* A single metric is a sum with one factor that is not 0. */
static void choose_factors(struct config *c)
{
	if (c->metric == LOAD_WEIGHTED)
		return;
	c->factors = (struct load_factors) {
		.connections = c->metric == LOAD_CONNECTIONS,
		.cpu = c->metric == LOAD_CPU,
		.redirected = c->metric == LOAD_REDIRECTED,
		.sockets = c->metric == LOAD_SOCKETS,
	};
}

static void check_networks(struct parse *p)
{
	const struct config *c = p->config;

	for (unsigned i = 0; i < c->network_count; i++)
		if (addr_is_zero(&c->network[i].address) && !p->errors->count)
			config_error(p, p->network_line[i],
				     "[Network \"%s\"]: no Address= (where its announcements go)", c->network[i].name);
}

/* One use of an address, for finding a second one. */
struct use {
	struct addr address;
	unsigned member, line;
	const char *key;
};

enum { USES_MAX = MEMBERS_MAX * (MEMBER_SERVICES_MAX + MEMBER_CLUSTER_MAX) };

static void add_use(struct parse *p, struct use *uses, unsigned *count, struct use use)
{
	const char *name = p->config->member[use.member].name;
	char text[ADDR_TEXT_BYTES];

	for (unsigned i = 0; i < *count; i++) {
		if (!addr_equal(&uses[i].address, &use.address))
			continue;
		addr_format(&use.address, text);
		if (uses[i].member != use.member)
			config_error(p, use.line, "%s: %s belongs to [Member \"%s\"] already (line %u)", use.key, text,
				     p->config->member[uses[i].member].name, uses[i].line);
		else if (strcmp(uses[i].key, use.key) == 0)
			config_error(p, use.line, "%s: %s is given twice (first in line %u)", use.key, text,
				     uses[i].line);
		else
			config_error(p, use.line,
				     "%s: %s is a service address of %s (leave Cluster out when a node has one "
				     "address)",
				     use.key, text, name);
		return;
	}
	uses[(*count)++] = use;
}

static void check_addresses(struct parse *p)
{
	const struct config *c = p->config;
	struct use uses[USES_MAX];
	unsigned count = 0;

	for (unsigned i = 0; i < c->member_count; i++) {
		const struct member_lines *lines = &p->member[i];
		const struct member *m = &c->member[i];

		for (unsigned s = 0; s < m->service_count; s++)
			add_use(p, uses, &count, (struct use) { m->service[s], i, lines->service[s], "Service" });
		if (lines->cluster[0])
			add_use(p, uses, &count, (struct use) { m->cluster_v4, i, lines->cluster[0], "Cluster" });
		if (lines->cluster[1])
			add_use(p, uses, &count, (struct use) { m->cluster_v6, i, lines->cluster[1], "Cluster" });
	}
}

/* Either every member has a cluster address of its own or none. */
static void check_layout(struct parse *p)
{
	const struct config *c = p->config;

	for (unsigned i = 1; i < c->member_count; i++) {
		bool own = c->member[i].own_cluster_address;

		if (own == c->member[0].own_cluster_address)
			continue;
		config_error(
			p, p->member[i].header,
			own ? "[Member \"%s\"]: has Cluster=, but \"%s\" has none (give it to all members or to none)"
			    : "[Member \"%s\"]: has no Cluster=, but \"%s\" has one (give it to all members or to "
			      "none)",
			c->member[i].name, c->member[0].name);
	}
}

static void check_members(struct parse *p)
{
	const struct config *c = p->config;

	if (!c->member_count && !p->bad_header)
		config_error(p, p->line, "no [Member \"name\"] section (one for each node, this one included)");
	for (unsigned i = 0; i < c->member_count; i++) {
		if (!p->member[i].service_tried && !p->unknown_key[SECTION_MEMBER])
			config_error(p, p->member[i].header,
				     "[Member \"%s\"]: no Service= (the address that clients connect to)",
				     c->member[i].name);
		for (unsigned j = 0; j < i; j++)
			if (c->member[i].id == c->member[j].id)
				config_error(p, p->member[i].header,
					     "[Member \"%s\"]: its identity is the same as that of \"%s\" (rename one)",
					     c->member[i].name, c->member[j].name);
	}
	check_layout(p);
	check_addresses(p);
}

static bool in_range(const struct addr *address, const struct addr *base, unsigned prefix)
{
	struct addr start;

	if (addr_is_v4(address) != addr_is_v4(base))
		return false;
	start = config_range_base(address, prefix);
	return addr_equal(&start, base);
}

static void check_range_backends(struct parse *p, const struct addr *base, unsigned prefix)
{
	char range[ADDR_TEXT_BYTES], text[ADDR_TEXT_BYTES];
	const struct config *c = p->config;
	bool v6 = !addr_is_v4(base);

	for (unsigned i = 0; i < c->backend_count; i++) {
		const struct addr *address = backend_address(&c->backend[i], v6);

		if (address && in_range(address, base, prefix))
			config_error(p, p->backend[i].address[v6],
				     "Address: %s lies in the range of aliases, %s/%u (choose another Range= in "
				     "[Alias])",
				     addr_format(address, text), addr_format(base, range), prefix);
	}
}

static void check_range(struct parse *p, const struct addr *base, unsigned prefix, unsigned line)
{
	unsigned room = (1u << (addr_is_v4(base) ? 32 - prefix : 128 - prefix)) - 2, count = 0;
	char range[ADDR_TEXT_BYTES], text[ADDR_TEXT_BYTES];
	const struct config *c = p->config;

	addr_format(base, range);
	for (unsigned i = 0; i < c->shared_count; i++)
		if (in_range(&c->shared[i], base, prefix))
			config_error(p, p->shared_line[i],
				     "Address: %s lies in the range of aliases, %s/%u (choose another Range= in "
				     "[Alias])",
				     addr_format(&c->shared[i], text), range, prefix);
	check_range_backends(p, base, prefix);
	for (unsigned i = 0; i < c->member_count; i++) {
		for (unsigned s = 0; s < c->member[i].service_count; s++) {
			const struct addr *service = &c->member[i].service[s];

			count += addr_is_v4(service) == addr_is_v4(base);
			if (in_range(service, base, prefix))
				config_error(p, p->member[i].service[s],
					     "Service: %s lies in the range of aliases, %s/%u (choose another Range= "
					     "in [Alias])",
					     addr_format(service, text), range, prefix);
		}
	}
	if (count > room)
		config_error(p, line ? line : section_line(p, SECTION_ALIAS),
			     "Range: %s/%u has room for %u aliases, but the members have %u service addresses "
			     "(choose a wider Range= in [Alias])",
			     range, prefix, room, count);
}

/* Without a tunnel nothing tells the serving node that a packet was forwarded to it. */
static void check_form(struct parse *p)
{
	const struct config *c = p->config;
	unsigned line = config_key_line(p, SECTION_DATAPATH, "Form");

	if (c->form != FORM_DIRECT)
		return;
	if (c->member_count && !c->member[0].own_cluster_address)
		config_error(p, line,
			     "Form: direct needs a Cluster= address of every member (without them nodes know each "
			     "other's service addresses only by aliases, which no network carries)");
	if (c->shared_count)
		config_error(p, line,
			     "Form: direct has no use with shared addresses (leave it out: nodes that share an address "
			     "send packets to hardware addresses anyway)");
	if (c->backend_count)
		config_error(p, line,
			     "Form: direct is not for members with real servers (leave it out, or the [Backend] "
			     "sections)");
}

void config_check(struct parse *p)
{
	const struct config *c = p->config;

	choose_factors(p->config);
	if (!p->errors->count)
		check_values(p);
	if (!config_key_line(p, SECTION_CLUSTER, "Name") && !p->bad_header && !p->unknown_key[SECTION_CLUSTER])
		config_error(p, section_line(p, SECTION_CLUSTER),
			     "[Cluster]: no Name= (such as Name=web, the same on all nodes)");
	check_networks(p);
	check_members(p);
	config_check_health(p);
	config_check_shared(p);
	config_check_backends(p);
	check_form(p);
	if (c->member_count && !c->member[0].own_cluster_address) {
		check_range(p, &c->alias_v4, c->alias_v4_prefix, p->range_line[0]);
		check_range(p, &c->alias_v6, c->alias_v6_prefix, p->range_line[1]);
	}
}

static bool find_self(struct config *c, const char *name)
{
	for (unsigned i = 0; i < c->member_count; i++) {
		if (strcmp(c->member[i].name, name) == 0) {
			c->self = i;
			memcpy(c->node_name, c->member[i].name, sizeof(c->node_name));
			return true;
		}
	}
	return false;
}

void config_check_self(struct parse *p, const char *node_name)
{
	char host[256] = "", brief[256], list[120];
	struct config *c = p->config;
	unsigned line = config_key_line(p, SECTION_NODE, "Name");

	config_list_members(c, list, sizeof(list));
	if (!c->member_count || p->bad_header)
		return;
	if (node_name) {
		if (!find_self(c, node_name))
			config_error(p, p->line, "--node=%.64s is not a member (members: %s)", node_name, list);
		return;
	}
	if (line) {
		if (c->node_name[0] && !find_self(c, c->node_name))
			config_error(p, line, "Name: \"%s\" is not a member (members: %s)", c->node_name, list);
		return;
	}
	if (gethostname(host, sizeof(host) - 1) < 0)
		host[0] = '\0';
	snprintf(brief, sizeof(brief), "%.*s", (int)strcspn(host, "."), host);
	if (!find_self(c, brief) && !find_self(c, host))
		config_error(p, section_line(p, SECTION_NODE),
			     "host name \"%.64s\" is not a member (members: %s; say which is this node with Name= in "
			     "[Node])",
			     host, list);
}
