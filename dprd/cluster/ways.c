// SPDX-License-Identifier: GPL-2.0-or-later
/* ways.c - how packets get to the other members and to the real servers behind this node. */
#include "dprd/cluster/ways.h"

#include <string.h>
#include <unistd.h>

#include "dprd/base/log.h"
#include "dprd/core/packet/encap.h"
#include "dprd/host/tunnel.h"

/* --- from facts to ways; pure --- */

static unsigned tcp_ip_bytes(bool v6)
{
	return (unsigned)TCP_HEADER_BYTES + (v6 ? (unsigned)IPV6_HEADER_BYTES : (unsigned)IPV4_HEADER_BYTES);
}

/* The sizes, when the addresses are set. form: what the way is like if the path is wide enough. */
static void fill(struct way *way, enum way_form form, bool v6, const struct way_facts *facts)
{
	/* No IP packet is longer, however wide the path is (loopback has 65536). */
	way->mtu = (uint16_t)(facts->mtu < UINT16_MAX ? facts->mtu : UINT16_MAX);
	if (way->mtu < WAY_MTU_LEAST)
		return;
	way->form = form;
	way->next_hop = facts->next_hop;
	way->tunnel_mtu = (uint16_t)(way->mtu - encap_bytes(v6));
	way->inner_mtu = form == WAY_FORM_TUNNEL ? way->tunnel_mtu : way->mtu;
	way->mss = (uint16_t)(way->inner_mtu - tcp_ip_bytes(v6));
}

/* With a router's hardware address a packet would come back to the owner of its service address: to this node. */
static bool is_on_link(const struct neighbour *next_hop)
{
	return next_hop->interface && next_hop->ethernet && !next_hop->gateway;
}

struct way way_to_member(const struct config *config, unsigned member, bool v6, const struct way_facts *facts)
{
	const struct member *self = &config->member[config->self], *to = &config->member[member];
	const struct addr *source = v6 ? &self->cluster_v6 : &self->cluster_v4;
	const struct addr *destination = v6 ? &to->cluster_v6 : &to->cluster_v4;
	bool direct = config->form == FORM_DIRECT && is_on_link(&facts->next_hop);
	struct way way = { .form = WAY_FORM_NONE };

	if (member == config->self) {
		way.form = WAY_FORM_SELF;
		return way;
	}
	if (addr_is_zero(source) || addr_is_zero(destination))
		return way;
	way.source = *source;
	way.destination = *destination;
	fill(&way, direct ? WAY_FORM_DIRECT : WAY_FORM_TUNNEL, v6, facts);
	return way;
}

struct way way_to_backend(const struct config *config, unsigned own, bool v6, const struct way_facts *facts)
{
	const struct backend *backend = config_own_backend(config, own);
	const struct addr *address = backend_address(backend, v6);
	bool direct = backend->form == BACKEND_DIRECT;
	struct way way = { .form = WAY_FORM_NONE };

	if (address)
		way.destination = *address;
	/* Its connections go on also when the configuration has no address: the kernel remembers the translation. */
	if (backend->form == BACKEND_NAT) {
		way.form = WAY_FORM_NAT;
		way.mark = own + 1;
		return way;
	}
	if (!address || !facts->next_hop.interface ||
	    (direct && (!is_on_link(&facts->next_hop) || !facts->next_hop.known)))
		return way;
	way.source = facts->source;
	fill(&way, direct ? WAY_FORM_DIRECT : WAY_FORM_TUNNEL, v6, facts);
	return way;
}

/* --- what the kernel says --- */

static struct way_facts ask_about_member(const struct ways *ways, const struct config *config, unsigned member, bool v6)
{
	const struct member *self = &config->member[config->self], *to = &config->member[member];
	const struct addr *source = v6 ? &self->cluster_v6 : &self->cluster_v4;
	const struct addr *destination = v6 ? &to->cluster_v6 : &to->cluster_v4;
	struct way_facts facts = { .mtu = 0 };

	if (member == config->self || addr_is_zero(source) || addr_is_zero(destination))
		return facts;
	facts.mtu = tunnel_path_mtu(source, destination);
	if (facts.mtu < WAY_MTU_LEAST || !ways->neighbours ||
	    neighbour_find(ways->neighbours, source, destination, &facts.next_hop)) {
		facts.next_hop = (struct neighbour) { 0 };
		return facts;
	}
	/* Packets that wait would arrive when another node has got a copy. */
	if (facts.next_hop.unanswered)
		neighbour_drop_waiting(ways->neighbours, &facts.next_hop);
	/* Packets sent to a hardware address give the kernel no reason to ask for the address again: this does. */
	if (facts.next_hop.stale || facts.next_hop.unanswered)
		tunnel_discard(destination);
	return facts;
}

static struct way_facts ask_about_backend(const struct ways *ways, const struct backend *backend, bool v6)
{
	const struct addr *to = backend_address(backend, v6);
	struct way_facts facts = { .mtu = 0 };
	bool direct = backend->form == BACKEND_DIRECT;

	if (!to || backend->form == BACKEND_NAT || !tunnel_preferred_source(to, &facts.source) || !ways->neighbours ||
	    neighbour_find(ways->neighbours, &facts.source, to, &facts.next_hop) ||
	    (direct && !is_on_link(&facts.next_hop)))
		return (struct way_facts) { .mtu = 0 };
	if (facts.next_hop.stale || (direct && !facts.next_hop.known))
		tunnel_discard(to);
	facts.mtu = tunnel_path_mtu(&facts.source, to);
	return facts;
}

static void limit_path(struct way_limit *limit, struct way_facts *facts)
{
	if (!limit->mtu)
		return;
	if (limit->kernel_mtu != (uint16_t)facts->mtu)
		*limit = (struct way_limit) { .mtu = 0 };
	else if (facts->mtu > limit->mtu)
		facts->mtu = limit->mtu;
}

bool ways_narrow(struct ways *ways, unsigned member, bool v6)
{
	/* Ethernet; PPP, VLAN and WireGuard on it; the least of IPv6; what any host takes of IPv4. */
	static const uint16_t sizes[] = { 4352, 1500, 1420, 1280, 576 };
	struct way_limit *limit = &ways->limit[member][v6];
	unsigned now = ways->member[member][v6].mtu, i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (sizes[i] >= now || (v6 && sizes[i] < 1280))
			continue;
		if (!limit->mtu)
			limit->kernel_mtu = (uint16_t)now;
		limit->mtu = sizes[i];
		return true;
	}
	return false;
}

void ways_refresh(struct ways *ways, const struct config *config, struct mutex *lock, bool *changed)
{
	unsigned i, v6;

	if (ways->mtu_learner >= 0)
		tunnel_forget_errors(ways->mtu_learner);
	for (i = 0; i < 2 * config->member_count; i++) {
		struct way_facts facts = ask_about_member(ways, config, i / 2, i % 2);
		struct way fresh, *way = &ways->member[i / 2][i % 2];

		limit_path(&ways->limit[i / 2][i % 2], &facts);
		fresh = way_to_member(config, i / 2, i % 2, &facts);
		/* Read without the lock: no other thread writes it. */
		if (fresh.mtu != way->mtu)
			log_debug("the path MTU to %s over IPv%c is %u bytes now", config->member[i / 2].name,
				  i % 2 ? '6' : '4', fresh.mtu);
		mutex_lock(lock);
		*changed = *changed || fresh.mss != way->mss;
		*way = fresh;
		mutex_unlock(lock);
	}
	for (i = 0; i < config->own_backend_count; i++) {
		for (v6 = 0; v6 < 2; v6++) {
			struct way_facts facts = ask_about_backend(ways, config_own_backend(config, i), v6);
			struct way fresh = way_to_backend(config, i, v6, &facts);

			mutex_lock(lock);
			ways->backend[i][v6] = fresh;
			mutex_unlock(lock);
		}
	}
}

/* --- the whole --- */

/* Asks for the next hop again, because the address may have changed. */
static struct way_facts facts_of_member(const struct way *way)
{
	return (struct way_facts) { .mtu = way->mtu };
}

static struct way_facts facts_of_backend(const struct way *way)
{
	return (struct way_facts) { .mtu = way->mtu, .source = way->source, .next_hop = way->next_hop };
}

void ways_reconfigure(struct ways *ways, const struct config *config, const struct config *former)
{
	static struct ways old; /* too large for a stack; main thread only */
	static const struct way none;
	unsigned i, v6;

	old = *ways;
	memset(ways->limit, 0, sizeof(ways->limit));
	memset(ways->member, 0, sizeof(ways->member));
	memset(ways->backend, 0, sizeof(ways->backend));
	for (i = 0; i < config->member_count; i++) {
		int before = former ? config_member_by_id(former, config->member[i].id) : -1;

		for (v6 = 0; v6 < 2; v6++) {
			struct way_facts facts = facts_of_member(before < 0 ? &none : &old.member[before][v6]);

			ways->member[i][v6] = way_to_member(config, i, v6, &facts);
		}
	}
	for (i = 0; i < config->own_backend_count; i++) {
		int before = former ? config_own_backend_by_id(former, config_own_backend(config, i)->id) : -1;

		for (v6 = 0; v6 < 2; v6++) {
			struct way_facts facts = facts_of_backend(before < 0 ? &none : &old.backend[before][v6]);

			ways->backend[i][v6] = way_to_backend(config, i, v6, &facts);
		}
	}
}

void ways_open(struct ways *ways, const struct config *config)
{
	ways->neighbours = neighbour_open();
	ways->mtu_learner = tunnel_learn_mtu();
	ways_reconfigure(ways, config, NULL);
}

void ways_close(struct ways *ways)
{
	if (ways->neighbours)
		mnl_socket_close(ways->neighbours);
	ways->neighbours = NULL;
	if (ways->mtu_learner >= 0)
		close(ways->mtu_learner);
	ways->mtu_learner = -1;
}

unsigned ways_mss(const struct ways *ways, bool v6)
{
	unsigned member, least = 0;

	for (member = 0; member < MEMBERS_MAX; member++) {
		unsigned mss = ways->member[member][v6].mss;

		if (mss && (!least || mss < least))
			least = mss;
	}
	return least ? least : WAY_MTU_DEFAULT - encap_bytes(v6) - tcp_ip_bytes(v6);
}
