// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * plane.c - chooses the plane that carries the packets of forwarded flows, and keeps the tables of the BPF programs
 * current. Both planes take over the flows of a former process, also from the other plane.
 */
#include <errno.h>
#include <limits.h>
#include <net/if.h>
#include <stdlib.h>

#include "dprd/base/clock.h"
#include "dprd/base/log.h"
#include "dprd/cluster/asks.h"
#include "dprd/cluster/backend.h"
#include "dprd/cluster/state.h"
#include "dprd/cluster/view.h"
#include "dprd/cluster/ways.h"
#include "dprd/fastpath/fastpath.h"
#include "dprd/host/bridge.h"
#include "dprd/plane/decide.h"
#include "dprd/plane/flowfile.h"
#include "dprd/plane/plane.h"
#include "dprd/plane/private.h"
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

	d->plane = calloc(1, sizeof(*d->plane));
	if (!d->plane) {
		log_err("cannot start: out of memory");
		return -ENOMEM;
	}
	if (d->config.plane == PLANE_NFQUEUE) {
		snprintf(d->plane->why, sizeof(d->plane->why), "as configured");
		return open_nfqueue(d);
	}
	if (!fastpath_open(&d->config, &d->flow_limits, &d->fastpath, &d->flows, why)) {
		d->plane->ahead = d->config.decide_in != DECIDE_QUEUE ? plane_decide_new() : NULL;
		flowfile_adopt(d);
		return 0;
	}
	if (d->config.plane == PLANE_BPF) {
		log_err("%s; without BPF: Plane=auto or Plane=nfqueue in [Datapath]", why);
		return -ENOTSUP;
	}
	snprintf(d->plane->why, sizeof(d->plane->why), "%.*s", (int)sizeof(d->plane->why) - 1, why);
	return open_nfqueue(d);
}

static void describe(struct dprd *d)
{
	char interfaces[PLANE_WHY_BYTES - 96];

	fastpath_interfaces(d->fastpath, interfaces, sizeof(interfaces));
	snprintf(d->plane->why, sizeof(d->plane->why), "%s; programs on %s",
		 d->config.plane == PLANE_BPF ? "as configured" : "the kernel can do it", interfaces);
}

/*
 * True when tunnel packets come in on interfaces that have the programs. They come in by the interface by which this
 * node sends tunnel packets. On another interface nothing would decapsulate them, although peers forward connections
 * here.
 */
static bool sees_tunnel(const struct dprd *d, char why[FASTPATH_WHY_BYTES])
{
	char name[IF_NAMESIZE] = "?";
	unsigned member, v6;

	for (member = 0; member < d->config.member_count; member++) {
		for (v6 = 0; v6 < 2; v6++) {
			const struct neighbour *next_hop = &d->ways.member[member][v6].next_hop;

			if (!next_hop->interface || fastpath_is_attached(d->fastpath, next_hop->interface))
				continue;
			if_indextoname(next_hop->interface, name);
			snprintf(why, FASTPATH_WHY_BYTES, "%s is reached by %s, which %s",
				 d->config.member[member].name, name,
				 next_hop->ethernet ? "carries no programs (see [Datapath] Interfaces=)"
						    : "is no Ethernet interface");
			return false;
		}
	}
	return true;
}

/* True when a bridge takes packets from the programs. With Plane=bpf that is the administrator's choice. */
static bool bridge_forbids(const struct dprd *d, char why[FASTPATH_WHY_BYTES])
{
	char name[IF_NAMESIZE];

	if (d->config.plane != PLANE_AUTO || !bridge_takes_packets(&d->config, name))
		return false;
	snprintf(why, FASTPATH_WHY_BYTES,
		 "the kernel's rules run at the ports of the bridge %s, in front of the programs (br_netfilter)", name);
	return true;
}

/*
 * True when all interfaces by which members are reached can carry the programs. An interface that is away for a moment
 * has no route, and may be one that cannot: so a member without a route counts like one behind such an interface.
 */
static bool interfaces_fit(const struct dprd *d)
{
	char why[FASTPATH_WHY_BYTES];
	unsigned member, v6;

	for (member = 0; member < d->config.member_count; member++) {
		for (v6 = 0; v6 < 2; v6++) {
			const struct way *way = &d->ways.member[member][v6];
			uint32_t interface = way->next_hop.interface;

			/* Only a way between two addresses has a destination: not that to this node itself. */
			if (!addr_is_zero(&way->destination) && (!interface || !fastpath_fits(&d->config, interface)))
				return false;
		}
	}
	return fastpath_fits(&d->config, 0) && !bridge_forbids(d, why);
}

bool plane_is_outdated(const struct dprd *d)
{
	return d->plane->waits && interfaces_fit(d);
}

const char *plane_unseen(const struct dprd *d)
{
	return d->plane && d->fastpath ? d->plane->unseen : "";
}

bool plane_is_second_choice(const struct dprd *d)
{
	return d->plane && !d->fastpath && d->config.plane == PLANE_AUTO;
}

int plane_attach(struct dprd *d)
{
	char why[FASTPATH_WHY_BYTES];
	int error;

	if (!d->fastpath)
		return 0;
	plane_update(d);
	error = fastpath_attach(d->fastpath, &d->config, why);
	if (!error && (!sees_tunnel(d, why) || bridge_forbids(d, why)))
		error = -ENOTSUP;
	if (!error) {
		describe(d);
		flowfile_remove(d);
		return 0;
	}
	if (d->config.plane == PLANE_BPF) {
		log_err("%s; without BPF: Plane=auto or Plane=nfqueue in [Datapath]", why);
		return error;
	}
	snprintf(d->plane->why, sizeof(d->plane->why), "%.*s", (int)sizeof(d->plane->why) - 1, why);
	/* When all interfaces fit already, another try would fail as well. */
	d->plane->waits = !interfaces_fit(d);
	*d->plane->unseen = '\0';
	fastpath_pin_flows(d->fastpath);
	fastpath_close(d->fastpath, true);
	d->fastpath = NULL;
	d->flows = NULL;
	free(d->plane->ahead);
	d->plane->ahead = NULL;
	shared_plane_changed(d);
	return open_nfqueue(d);
}

bool plane_carries(const struct dprd *d)
{
	return !d->fastpath || d->fastpath->link_count;
}

void plane_started(struct dprd *d)
{
	/*
	 * On the nfqueue plane, the rules do the work of the programs now; on the BPF plane, the queues exist now to
	 * which the programs hand packets.
	 */
	if (!d->fastpath)
		fastpath_purge(&d->config);
	else
		fastpath_heartbeat(d->fastpath, true);
	log_info("plane %s: %s", plane_name(d), d->plane->why);
}

const char *plane_why(const struct dprd *d)
{
	return d->plane ? d->plane->why : "";
}

const char *plane_name(const struct dprd *d)
{
	return d->fastpath ? "bpf" : "nfqueue";
}

void plane_close(struct dprd *d, bool keep)
{
	if (!d->plane)
		return;
	if (d->fastpath)
		fastpath_close(d->fastpath, keep);
	else
		flowfile_close(d, keep);
	d->fastpath = NULL;
	d->flows = NULL;
	free(d->plane->ahead);
	free(d->plane);
	d->plane = NULL;
}

/* --- the tables of the programs --- */

/* True when the member has a share of the shared addresses: then it judges frames to them. */
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

/* Adds the hardware address that a fellow announces. Lock held. */
static void fill_fellow(struct dprd *d, unsigned member, bool v6, struct fastpath_way *way)
{
	static const uint8_t none[6];
	const struct node_load *load = view_node_load(d, d->config.member[member].id);
	const struct fastpath_shared *shared = shared_programs(d);

	if (!load || !shared || !memcmp(load->hardware[v6], none, sizeof(none)))
		return;
	/* The programs have room for one hardware address of this node only. */
	if (shared->interface[0] && shared->interface[1] && shared->interface[0] != shared->interface[1])
		return;
	memcpy(way->fellow, load->hardware[v6], sizeof(load->hardware[v6]));
	way->flags |= WAY_FELLOW;
	/* With the kernel module a fellow does not take SYN cookies of other buckets: it needs all packets. */
	if (!shared->by_module && is_sharer(d, load->id))
		way->flags |= WAY_WATCHES;
}

bool plane_serves_unseen(const struct dprd *d)
{
	return d->config.form == FORM_DIRECT && d->config.member_count > 1;
}

/* Converts a way for the programs. They cannot use it without a next hop; dprd can, by the kernel's routing. */
static struct fastpath_way program_way(const struct way *from)
{
	const struct neighbour *next_hop = &from->next_hop;
	struct fastpath_way way = { .source = from->source, .destination = from->destination };

	if (from->form == WAY_FORM_SELF)
		way.flags = WAY_SELF;
	if (from->form == WAY_FORM_NAT) {
		way.flags = WAY_USABLE | WAY_NAT;
		way.mark = from->mark << BACKEND_MARK_SHIFT;
	}
	if (!next_hop->interface)
		return way;
	way.flags = (uint16_t)(WAY_USABLE | (next_hop->ethernet ? WAY_ETHERNET : 0) |
			       (from->form == WAY_FORM_DIRECT ? WAY_DIRECT : 0));
	way.interface = next_hop->interface;
	way.mtu = from->inner_mtu;
	memcpy(way.hardware, next_hop->hardware, sizeof(way.hardware));
	if (next_hop->known)
		way.hardware_tick = (uint32_t)(clock_flow_ns() >> FLOW_TICK_SHIFT);
	return way;
}

/*
 * Replaces a way that programs may read at this moment. Nearly always only the time is new: then one store writes it.
 * When a route, an MTU or a hardware address changes, a program may read a mixture of both ways and send one packet by
 * it. That is harmless: the packet is lost, as if it had left just before the change, or it goes to a host that drops
 * it, because a node takes tunnel packets only from members and only for itself. The client sends the packet again.
 */
static void tell_way(struct fastpath_way *told, const struct fastpath_way *way)
{
	struct fastpath_way same = *told;

	same.hardware_tick = way->hardware_tick;
	if (memcmp(&same, way, sizeof(same)) != 0)
		*told = *way;
	else
		__atomic_store_n(&told->hardware_tick, way->hardware_tick, __ATOMIC_RELAXED);
}

/* Writes the ways to a node to the places that its index in the flow table gives them. */
static void update_ways_to(struct dprd *d, uint32_t node_id, const struct way ways[2], int fellow)
{
	int node = flow_table_node(d->flows, node_id, true);
	unsigned v6;

	mutex_assert_held(&d->lock);
	for (v6 = 0; node > 0 && v6 < 2; v6++) {
		struct fastpath_way way = program_way(&ways[v6]);

		if (fellow >= 0)
			fill_fellow(d, (unsigned)fellow, v6, &way);
		tell_way(&d->fastpath->ways[2 * node + (int)v6], &way);
	}
}

static void update_ways(struct dprd *d)
{
	unsigned i;

	for (i = 0; i < d->config.member_count; i++)
		update_ways_to(d, d->config.member[i].id, d->ways.member[i], i == d->config.self ? -1 : (int)i);
	for (i = 0; i < d->config.own_backend_count; i++)
		update_ways_to(d, config_own_backend(&d->config, i)->id, d->ways.backend[i], -1);
}

static void update_tables(struct dprd *d, uint64_t living)
{
	struct fastpath_tables *tables = fastpath_tables_inactive(d->fastpath);
	const uint16_t mss[2] = { (uint16_t)ways_mss(&d->ways, false), (uint16_t)ways_mss(&d->ways, true) };

	if (fastpath_tables_fill(tables, &d->config, d->flows, shared_programs(d), living, mss)) {
		tables->inside = d->inside;
		tables->choices = backend_choices(d, false, tables->choice, FASTPATH_CHOICES) ? CHOICES : 0;
		if (tables->choices && backend_serves_here(d))
			tables->choices |= CHOICES_HERE;
		backend_choices(d, true, tables->choice + FASTPATH_CHOICES, FASTPATH_CHOICES);
		fastpath_tables_switch(d->fastpath);
		d->plane->living_told = living;
	} else {
		log_warning("the addresses of the cluster do not fit into the table of the BPF programs; they keep the "
			    "former ones");
	}
}

/* A route may lead out by another interface since the start. */
static void check_tunnel(struct dprd *d)
{
	char why[FASTPATH_WHY_BYTES] = "";

	if (!sees_tunnel(d, why) && !*d->plane->unseen)
		log_warning("the programs do not see tunnel packets of peers: %s", why);
	else if (!*why && *d->plane->unseen)
		log_info("the programs see tunnel packets of all peers again");
	snprintf(d->plane->unseen, sizeof(d->plane->unseen), "%s", why);
}

void plane_update(struct dprd *d)
{
	char why[FASTPATH_WHY_BYTES];
	bool failed;

	if (!d->fastpath)
		return;
	mutex_lock(&d->lock);
	update_ways(d);
	update_tables(d, view_living(d, clock_now_ms()));
	mutex_unlock(&d->lock);
	if (!d->fastpath->attached)
		return;
	failed = fastpath_attach(d->fastpath, &d->config, why);
	if (failed && !d->fastpath->failed)
		log_warning("%s", why);
	else if (!failed && d->fastpath->failed)
		log_info("the BPF programs are attached again");
	d->fastpath->failed = failed;
	check_tunnel(d);
}

void plane_reconfigure(struct dprd *d)
{
	plane_update(d);
	plane_decide_now(d);
}

/* With real servers, dprd has chosen the node itself: these connections have sockets here. */
static void count_served(struct dprd *d, unsigned connections)
{
	if (!d->config.own_backend_count)
		translated_began(d, connections);
}

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
	d->counters.syns_taken += taken.syns_taken;
	d->counters.flows_made += taken.flows_made;
	count_served(d, (unsigned)(taken.syns > taken.flows_made ? taken.syns - taken.flows_made : 0));
	shared_count(d, taken.shared);
	if (taken.reason[REASON_FROM_PEER])
		d->last_decapsulated_ms = clock_now_ms();
}

static void read_confirmed(const struct dprd *d, uint32_t ret[FASTPATH_WAYS])
{
	unsigned i;

	for (i = 0; i < FASTPATH_WAYS; i++)
		ret[i] = __atomic_load_n(&d->fastpath->confirmed[i], __ATOMIC_ACQUIRE);
}

/* confirmed: the programs' counts. The difference to the last call is new. */
static void take_confirmed(struct dprd *d, const uint32_t confirmed[FASTPATH_WAYS], uint64_t now_ms)
{
	unsigned i;

	for (i = 0; i < FASTPATH_WAYS; i++) {
		uint32_t fresh = confirmed[i] - d->fastpath->confirmed_seen[i];

		d->fastpath->confirmed_seen[i] = confirmed[i];
		if (fresh)
			outcomes_confirmed(d, flow_table_node_id(d->flows, i / 2), i % 2, fresh, now_ms);
	}
}

void plane_second_look(struct dprd *d, const struct decide_env *env)
{
	struct fastpath_control *control;
	unsigned room;

	mutex_assert_held(&d->lock);
	if (!d->fastpath)
		return;
	control = d->fastpath->control;
	room = d->config.second_look ? decide_room(env, d->config.factors.connections) : UINT_MAX;
	__atomic_store_n(&control->look_room, room, __ATOMIC_RELAXED);
	__atomic_store_n(&control->landed, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&control->second_look,
			 (d->config.second_look ? LOOK_OFFER : 0) | (room < UINT_MAX ? LOOK_LANDED : 0) |
				 (translated_used(d) ? LOOK_STAYED : 0),
			 __ATOMIC_RELEASE);
}

void plane_served(struct dprd *d, unsigned connections)
{
	if (!connections)
		return;
	count_served(d, connections);
	if (d->fastpath)
		__atomic_fetch_add(&d->fastpath->control->landed, connections, __ATOMIC_RELAXED);
}

void plane_count(struct dprd *d)
{
	mutex_assert_held(&d->lock);
	if (d->fastpath)
		take_counters(d);
}

void plane_tick(struct dprd *d, bool works)
{
	static uint32_t confirmed[FASTPATH_WAYS]; /* main thread only */
	uint64_t now_ms = clock_now_ms(), living;
	struct decide_env env;

	if (!d->fastpath)
		return;
	mutex_lock(&d->lock);
	take_counters(d);
	/* This comes before the new connections are counted: a confirmed one, counted late, would seem unanswered. */
	read_confirmed(d, confirmed);
	/* Connections that the programs let this node serve are part of its load. */
	if (translated_used(d))
		asks_own_load(d);
	asks_env(d, &env);
	plane_second_look(d, &env);
	/* A peer that comes to life forwards at once: the programs must know it before the next second. */
	living = view_living(d, now_ms);
	if (living != d->plane->living_told)
		update_tables(d, living);
	plane_decide_tick(d, now_ms);
	take_confirmed(d, confirmed, now_ms);
	mutex_unlock(&d->lock);
	fastpath_heartbeat(d->fastpath, works);
}
