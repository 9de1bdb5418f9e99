// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * plane.c - which plane carries the packets of forwarded flows, and what keeps the BPF one current.
 * Whichever it is, the flows of a former process come along, also from the other plane.
 */
#include <errno.h>
#include <limits.h>
#include <libmnl/libmnl.h>
#include <net/if.h>
#include <stdlib.h>

#include "dprd/base/clock.h"
#include "dprd/base/log.h"
#include "dprd/cluster/backend.h"
#include "dprd/cluster/view.h"
#include "dprd/core/packet/encap.h"
#include "dprd/dprd.h"
#include "dprd/fastpath/fastpath.h"
#include "dprd/host/neighbour.h"
#include "dprd/host/tunnel.h"
#include "dprd/plane/decide.h"
#include "dprd/plane/flowfile.h"
#include "dprd/plane/plane.h"
#include "dprd/queue/path.h"
#include "dprd/rules/rules.h"
#include "dprd/shared/shared.h"

static int open_nfqueue(struct dprd *d)
{
	int error = flowfile_open(d), adopted;

	if (error)
		return error;
	adopted = fastpath_adopt(&d->config, d->flows);
	if (adopted >= 0)
		log_info("%d forwarded flows taken over from the BPF plane", adopted);
	return 0;
}

int plane_open(struct dprd *d)
{
	char why[FASTPATH_WHY_BYTES];

	/* On the nfqueue plane, too: real servers may get packets by their hardware address. */
	d->neighbours = neighbour_open();
	if (d->config.plane == PLANE_NFQUEUE) {
		snprintf(d->plane_why, sizeof(d->plane_why), "as configured");
		return open_nfqueue(d);
	}
	if (!fastpath_open(&d->config, &d->flow_limits, &d->fastpath, &d->flows, why)) {
		d->decide_ahead = d->config.decide_in != DECIDE_QUEUE ? plane_decide_new() : NULL;
		flowfile_adopt(d);
		return 0;
	}
	if (d->config.plane == PLANE_BPF) {
		log_err("%s; Plane=auto or Plane=nfqueue in [Datapath] does without", why);
		return -ENOTSUP;
	}
	snprintf(d->plane_why, sizeof(d->plane_why), "%.*s", (int)sizeof(d->plane_why) - 1, why);
	return open_nfqueue(d);
}

static void describe(struct dprd *d)
{
	char interfaces[PLANE_WHY_BYTES - 96];

	fastpath_interfaces(d->fastpath, interfaces, sizeof(interfaces));
	snprintf(d->plane_why, sizeof(d->plane_why), "%s; programs on %s",
		 d->config.plane == PLANE_BPF ? "as configured" : "the kernel can do it", interfaces);
}

/*
 * Whether tunnel packets come in where programs are: they leave by the same interface. Elsewhere nobody would take them
 * out, and peers forward all the same.
 */
static bool sees_tunnel(const struct dprd *d, char why[FASTPATH_WHY_BYTES])
{
	char name[IF_NAMESIZE] = "?";
	unsigned member, v6;

	for (member = 0; member < d->config.member_count; member++) {
		for (v6 = 0; v6 < 2; v6++) {
			uint32_t interface = d->next_hop[member][v6].interface;

			if (!interface || fastpath_is_attached(d->fastpath, interface))
				continue;
			if_indextoname(interface, name);
			snprintf(why, FASTPATH_WHY_BYTES, "%s is reached by %s, which %s",
				 d->config.member[member].name, name,
				 d->next_hop[member][v6].ethernet ? "carries no programs (see [Datapath] Interfaces=)"
								  : "is no Ethernet interface");
			return false;
		}
	}
	return true;
}

int plane_attach(struct dprd *d)
{
	char why[FASTPATH_WHY_BYTES];
	int error;

	if (!d->fastpath)
		return 0;
	plane_update(d);
	error = fastpath_attach(d->fastpath, &d->config, why);
	if (!error && !sees_tunnel(d, why))
		error = -ENOTSUP;
	if (!error) {
		describe(d);
		flowfile_remove(d);
		return 0;
	}
	if (d->config.plane == PLANE_BPF) {
		log_err("%s; Plane=auto or Plane=nfqueue in [Datapath] does without", why);
		return error;
	}
	snprintf(d->plane_why, sizeof(d->plane_why), "%.*s", (int)sizeof(d->plane_why) - 1, why);
	fastpath_pin_flows(d->fastpath);
	fastpath_close(d->fastpath, true);
	d->fastpath = NULL;
	d->flows = NULL;
	free(d->decide_ahead);
	d->decide_ahead = NULL;
	shared_plane_changed(d);
	return open_nfqueue(d);
}

bool plane_carries(const struct dprd *d)
{
	return !d->fastpath || d->fastpath->link_count;
}

void plane_started(struct dprd *d)
{
	/* The rules have taken the programs' place; or everything is there that the programs may queue to. */
	if (!d->fastpath)
		fastpath_purge(&d->config);
	else
		fastpath_heartbeat(d->fastpath, true);
	log_info("plane %s: %s", plane_name(d), d->plane_why);
}

const char *plane_name(const struct dprd *d)
{
	return d->fastpath ? "bpf" : "nfqueue";
}

void plane_close(struct dprd *d, bool keep)
{
	if (d->neighbours)
		mnl_socket_close(d->neighbours);
	d->neighbours = NULL;
	if (!d->fastpath) {
		flowfile_close(d, keep);
		return;
	}
	fastpath_close(d->fastpath, keep);
	d->fastpath = NULL;
	d->flows = NULL;
	free(d->decide_ahead);
	d->decide_ahead = NULL;
}

/* --- what the programs are told --- */

/* Whether a member has a part of the shared addresses: then it judges frames to them. */
static bool is_sharer(struct dprd *d, uint32_t node_id)
{
	struct shared_lease lease;
	unsigned i;

	if (!shared_lease_read(d, &lease))
		return false;
	for (i = 0; i < lease.share.count && i < BUCKET_MEMBERS_MAX; i++) {
		if (lease.share.member[i].id == node_id && lease.share.member[i].weight)
			return true;
	}
	return false;
}

/* A node that shares addresses with this one says where frames reach it: its own hardware address. Lock held. */
static void fill_fellow(struct dprd *d, unsigned member, bool v6, struct fastpath_way *way)
{
	static const uint8_t none[6];
	const struct node_load *load = view_node_load(d, d->config.member[member].id);
	const struct fastpath_shared *shared = shared_programs(d);

	if (!load || !shared || !memcmp(load->hardware[v6], none, sizeof(none)))
		return;
	/* The programs know one hardware address of this node. */
	if (shared->interface[0] && shared->interface[1] && shared->interface[0] != shared->interface[1])
		return;
	memcpy(way->fellow, load->hardware[v6], sizeof(load->hardware[v6]));
	way->flags |= WAY_FELLOW;
	/* The module takes SYN cookies of its own buckets alone: there nothing is left out. */
	if (!shared->by_module && is_sharer(d, load->id))
		way->flags |= WAY_WATCHES;
}

/* By a router's hardware address it would come back to who owns the service address: to this node. */
static bool can_be_direct(const struct dprd *d, const struct neighbour *next_hop)
{
	return d->config.form == FORM_DIRECT && next_hop->interface && next_hop->ethernet && !next_hop->gateway;
}

bool plane_is_direct(const struct dprd *d, unsigned member, bool v6)
{
	return can_be_direct(d, &d->next_hop[member][v6]);
}

bool plane_serves_unseen(const struct dprd *d)
{
	return d->config.form == FORM_DIRECT && d->config.member_count > 1;
}

/* What is sent there gives the kernel no reason to doubt a hardware address: so that is asked for here. */
static struct neighbour find_next_hop(struct dprd *d, unsigned member, bool v6)
{
	const struct member *self = &d->config.member[d->config.self], *to = &d->config.member[member];
	const struct addr *source = v6 ? &self->cluster_v6 : &self->cluster_v4;
	const struct addr *destination = v6 ? &to->cluster_v6 : &to->cluster_v4;
	struct neighbour found;

	if (member == d->config.self || d->tunnel_mtu[member][v6] < TUNNEL_MTU_LEAST || !d->neighbours ||
	    neighbour_find(d->neighbours, source, destination, &found))
		return (struct neighbour) { 0 };
	if (found.stale)
		tunnel_discard(destination);
	return found;
}

/* The kernel's answers are waited for without the lock: SYNs go on. */
static void update_next_hops(struct dprd *d)
{
	unsigned member, v6;

	for (member = 0; member < d->config.member_count; member++) {
		for (v6 = 0; v6 < 2; v6++) {
			struct neighbour found = find_next_hop(d, member, v6);

			pthread_mutex_lock(&d->lock);
			/* The MSS of SYN-ACKs depends on it. */
			d->rules_changed =
				d->rules_changed || can_be_direct(d, &found) != plane_is_direct(d, member, v6);
			d->next_hop[member][v6] = found;
			pthread_mutex_unlock(&d->lock);
		}
	}
}

static void fill_way(struct dprd *d, unsigned member, bool v6, struct fastpath_way *way)
{
	const struct member *self = &d->config.member[d->config.self], *to = &d->config.member[member];
	const struct neighbour *next_hop = &d->next_hop[member][v6];
	bool direct = plane_is_direct(d, member, v6);
	unsigned mtu = d->tunnel_mtu[member][v6];

	memset(way, 0, sizeof(*way));
	if (member == d->config.self) {
		way->flags = WAY_SELF;
		return;
	}
	way->source = v6 ? self->cluster_v6 : self->cluster_v4;
	way->destination = v6 ? to->cluster_v6 : to->cluster_v4;
	if (!next_hop->interface)
		return;
	way->flags = (uint16_t)(WAY_USABLE | (next_hop->ethernet ? WAY_ETHERNET : 0) | (direct ? WAY_DIRECT : 0));
	way->interface = next_hop->interface;
	way->mtu = (uint16_t)((mtu > UINT16_MAX ? UINT16_MAX : mtu) - (direct ? 0 : encap_bytes(v6)));
	memcpy(way->hardware, next_hop->hardware, sizeof(way->hardware));
	if (next_hop->known)
		way->hardware_tick = (uint32_t)(clock_flow_ns() >> FLOW_TICK_SHIFT);
}

/* How packets get to a real server behind this node. */
static void fill_backend_way(struct dprd *d, unsigned own, bool v6, struct fastpath_way *way)
{
	const struct backend *backend = config_own_backend(&d->config, own);
	const struct addr *to = backend_address(backend, v6);
	const struct backend_way *from = &d->backends.way[own][v6];
	unsigned outer = backend->form == BACKEND_TUNNEL ? encap_bytes(v6) : 0, mtu = from->mtu;

	memset(way, 0, sizeof(*way));
	if (backend->form == BACKEND_NAT) {
		way->flags = WAY_USABLE | WAY_NAT;
		way->mark = (own + 1) << BACKEND_MARK_SHIFT;
		return;
	}
	if (!to || mtu < TUNNEL_MTU_LEAST)
		return;
	way->source = from->source;
	way->destination = *to;
	way->flags = (uint16_t)(WAY_USABLE | (from->neighbour.ethernet ? WAY_ETHERNET : 0) |
				(backend->form == BACKEND_DIRECT ? WAY_DIRECT : 0));
	way->interface = from->neighbour.interface;
	way->mtu = (uint16_t)((mtu > UINT16_MAX ? UINT16_MAX : mtu) - outer);
	memcpy(way->hardware, from->neighbour.hardware, sizeof(way->hardware));
	if (from->neighbour.known)
		way->hardware_tick = (uint32_t)(clock_flow_ns() >> FLOW_TICK_SHIFT);
}

static void update_backend_ways(struct dprd *d)
{
	unsigned own, v6;

	pthread_mutex_lock(&d->lock);
	for (own = 0; own < d->config.own_backend_count; own++) {
		int node = flow_table_node(d->flows, config_own_backend(&d->config, own)->id, true);

		for (v6 = 0; node > 0 && v6 < 2; v6++) {
			struct fastpath_way way;

			fill_backend_way(d, own, v6, &way);
			d->fastpath->ways[2 * node + (int)v6] = way;
		}
	}
	pthread_mutex_unlock(&d->lock);
}

static void update_ways(struct dprd *d)
{
	unsigned member, v6;

	for (member = 0; member < d->config.member_count; member++) {
		int node;

		pthread_mutex_lock(&d->lock);
		node = flow_table_node(d->flows, d->config.member[member].id, true);
		pthread_mutex_unlock(&d->lock);
		for (v6 = 0; node > 0 && v6 < 2; v6++) {
			struct fastpath_way way;

			fill_way(d, member, v6, &way);
			pthread_mutex_lock(&d->lock);
			if (member != d->config.self)
				fill_fellow(d, member, v6, &way);
			pthread_mutex_unlock(&d->lock);
			d->fastpath->ways[2 * node + (int)v6] = way;
		}
	}
}

/* Lock held. */
static void update_tables(struct dprd *d, uint64_t living)
{
	struct fastpath_tables *tables = fastpath_tables_inactive(d->fastpath);
	const uint16_t mss[2] = { (uint16_t)rules_mss(d, false), (uint16_t)rules_mss(d, true) };

	if (fastpath_tables_fill(tables, &d->config, d->flows, shared_programs(d), living, mss)) {
		tables->choices = backend_choices(d, false, tables->choice, FASTPATH_CHOICES) ? CHOICES : 0;
		if (tables->choices && backend_serves_here(d))
			tables->choices |= CHOICES_HERE;
		backend_choices(d, true, tables->choice + FASTPATH_CHOICES, FASTPATH_CHOICES);
		fastpath_tables_switch(d->fastpath);
		d->living_told = living;
	} else {
		log_warning(
			"the addresses of the cluster do not fit the BPF programs' table; they keep what they have");
	}
}

void plane_update(struct dprd *d)
{
	char why[FASTPATH_WHY_BYTES];
	bool failed;

	update_next_hops(d);
	if (!d->fastpath)
		return;
	update_ways(d);
	update_backend_ways(d);
	pthread_mutex_lock(&d->lock);
	update_tables(d, view_living(d, clock_now_ms()));
	pthread_mutex_unlock(&d->lock);
	if (!d->fastpath->attached)
		return;
	failed = fastpath_attach(d->fastpath, &d->config, why);
	if (failed && !d->fastpath->failed)
		log_warning("%s", why);
	else if (!failed && d->fastpath->failed)
		log_info("the programs are attached again");
	d->fastpath->failed = failed;
}

/* Lock held. */
static void take_counters(struct dprd *d)
{
	struct fastpath_counters taken;
	unsigned i;

	fastpath_counters_take(d->fastpath, &taken);
	for (i = 0; i < REASONS; i++) {
		d->counters.reason[i] += taken.reason[i];
		d->counters.seen += taken.reason[i];
	}
	d->counters.forward_bytes += taken.forward_bytes;
	d->counters.decapsulated_bytes += taken.decapsulated_bytes;
	d->counters.too_big_sent += taken.too_big_sent;
	d->counters.syns += taken.syns;
	d->counters.flows_made += taken.flows_made;
	shared_count(d, taken.shared);
	if (taken.reason[REASON_FROM_PEER])
		d->last_decapsulated_ms = clock_now_ms();
}

void plane_second_look(struct dprd *d, const struct decide_env *env)
{
	struct fastpath_control *control;
	unsigned room;

	if (!d->fastpath)
		return;
	control = d->fastpath->control;
	room = d->config.second_look ? decide_room(env, d->config.factors.connections) : UINT_MAX;
	__atomic_store_n(&control->look_room, room, __ATOMIC_RELAXED);
	__atomic_store_n(&control->landed, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&control->second_look,
			 (d->config.second_look ? LOOK_OFFER : 0) | (room < UINT_MAX ? LOOK_LANDED : 0),
			 __ATOMIC_RELEASE);
}

void plane_served(struct dprd *d, unsigned connections)
{
	if (d->fastpath && connections)
		__atomic_fetch_add(&d->fastpath->control->landed, connections, __ATOMIC_RELAXED);
}

void plane_count(struct dprd *d)
{
	if (d->fastpath)
		take_counters(d);
}

void plane_tick(struct dprd *d, bool works)
{
	uint64_t now_ms = clock_now_ms(), living;
	struct decide_env env;

	if (!d->fastpath)
		return;
	pthread_mutex_lock(&d->lock);
	take_counters(d);
	path_decide_env(d, &env);
	plane_second_look(d, &env);
	/* A peer that comes to life forwards at once, and must not be a stranger until the next second. */
	living = view_living(d, now_ms);
	if (living != d->living_told)
		update_tables(d, living);
	plane_decide_tick(d, now_ms);
	pthread_mutex_unlock(&d->lock);
	fastpath_heartbeat(d->fastpath, works);
}
