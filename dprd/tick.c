// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What happens by the clock: a fresh view, expiry, the state of paths and rules, and what others are told: loadcast, and
 * the service manager by the watchdog's pings. Both are told nothing while a worker stands still.
 */
#include <errno.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/base/log.h"
#include "dprd/cluster/backend.h"
#include "dprd/cluster/view.h"
#include "dprd/dprd.h"
#include "dprd/host/flowset.h"
#include "dprd/host/socket_lookup.h"
#include "dprd/host/tunnel.h"
#include "dprd/plane/plane.h"
#include "dprd/queue/queue.h"
#include "dprd/rules/rules.h"
#include "dprd/shared/shared.h"
#include "dprd/tick.h"
#include "dprd/upkeep/presence.h"

enum {
	FLOW_EXPIRE_TICK_STEPS = 65536, /* slots looked at per tick, at most */
	FLOW_EXPIRE_STEPS = 16384, /* slots looked at without giving the lock back */
	FLOW_EXPIRE_EMPTY_PART = 8, /* a table without flows: that much more slowly */
	HEARTBEAT_LATE_MS = 1000, /* a worker silent for longer stops the watchdog's pings */
	GONE_MAX = 256, /* flows forgotten per transaction */
	RULES_CHECK_MS = 2000,
	RULES_DOUBT_MS = 1000, /* so much in between, when others go on changing these tables */
	RULES_RETRY_MS = 1000, /* a tool failed */
};

/* Flows that just left the table, on their way out of the kernel's set. */
struct gone {
	struct dprd *d;
	unsigned count;
	uint64_t *counter;
	struct flow_key keys[GONE_MAX];
};

static void gone_flush(struct gone *gone)
{
	if (gone->count && !gone->d->fastpath && flowset_change(gone->d->set, FLOWSET_REMOVE, gone->keys, gone->count))
		gone->d->counters.set_errors++;
	gone->count = 0;
}

/* The lock is held until the kernel knows, so that no worker adds the same tuple in between. */
static void gone_add(void *context, const struct flow *flow)
{
	struct gone *gone = context;

	gone->keys[gone->count++] = flow->key;
	(*gone->counter)++;
	if (gone->count == GONE_MAX)
		gone_flush(gone);
}

/* Flows to a host that is gone for good: the own stack then answers their clients with a reset. */
static void remove_dead_peers(struct dprd *d, struct gone *gone, uint64_t now_ms)
{
	uint32_t i;

	gone->counter = &d->counters.flows_dead_peer;
	for (i = 0; d->table_valid && i < d->table.count; i++) {
		const struct node_load *load = &d->table.nodes[i];
		/* Silence since loadcast started is not yet evidence: it may have heard nobody. */
		bool dead = load->age_ms != LOAD_AGE_NEVER_MS &&
			    load_age_ms(&d->table, load, now_ms) >= d->config.dead_peer_timeout_ms;
		/* When the table itself is old, it is this node that is deaf. */
		bool deaf = !clock_is_recent(d->table.published_ms, now_ms, d->config.dead_peer_timeout_ms / 2);

		if (dead && !deaf && load->id != d->config.member[d->config.self].id)
			flow_remove_node(d->flows, load->id, gone_add, gone);
	}
	gone_flush(gone);
}

/* Slots to look at in this tick: a whole round each second; a large table takes some more. */
static unsigned expiry_steps(struct dprd *d)
{
	unsigned steps = flow_slots(d->flows) / (1000 / TICK_MS) + 1;
	struct flow_counts counts;

	pthread_mutex_lock(&d->lock);
	counts = flow_counts(d->flows);
	pthread_mutex_unlock(&d->lock);
	if (steps > FLOW_EXPIRE_TICK_STEPS)
		steps = FLOW_EXPIRE_TICK_STEPS;
	/* Of an empty one only what is left over: reading all of it would drive what others use out of the caches. */
	if (!counts.half_open && !counts.confirmed)
		steps = steps / FLOW_EXPIRE_EMPTY_PART + 1;
	return steps;
}

/* The lock is given back now and then. */
static void expire(struct dprd *d, uint64_t now_ms, bool each_second)
{
	static struct gone gone; /* too large for a stack; main thread only */
	unsigned left = expiry_steps(d);

	gone = (struct gone) { .d = d, .counter = &d->counters.flows_expired };
	while (left) {
		unsigned steps = left < FLOW_EXPIRE_STEPS ? left : FLOW_EXPIRE_STEPS;

		pthread_mutex_lock(&d->lock);
		flow_expire(d->flows, steps, clock_flow_ms(), gone_add, &gone);
		gone_flush(&gone);
		pthread_mutex_unlock(&d->lock);
		left -= steps;
	}
	pthread_mutex_lock(&d->lock);
	if (d->fastpath)
		d->fastpath->control->swept = flow_swept_buckets(d->flows);
	if (each_second)
		remove_dead_peers(d, &gone, now_ms);
	pthread_mutex_unlock(&d->lock);
}

void tick_forget_node(struct dprd *d, uint32_t node_id)
{
	static struct gone gone; /* the lock is held */

	gone = (struct gone) { .d = d, .counter = &d->counters.flows_dead_peer };
	flow_remove_node(d->flows, node_id, gone_add, &gone);
	gone_flush(&gone);
}

void tick_refresh_view(struct dprd *d, uint64_t now_ms)
{
	static struct load_table fresh; /* main thread only */
	int status = load_table_snapshot_new(d->config.table_file, &d->table_seen, &fresh);

	pthread_mutex_lock(&d->lock);
	d->counters.table_errors += status < 0 && status != -ENOENT;
	view_refresh(d, status ? NULL : &fresh, status == -ENOENT, now_ms);
	pthread_mutex_unlock(&d->lock);
}

void tick_refresh_mtu(struct dprd *d)
{
	const struct member *self = &d->config.member[d->config.self];
	unsigned member, v6;

	for (member = 0; member < d->config.member_count; member++) {
		const struct member *m = &d->config.member[member];

		for (v6 = 0; member != d->config.self && v6 < 2; v6++) {
			const struct addr *from = v6 ? &self->cluster_v6 : &self->cluster_v4;
			const struct addr *to = v6 ? &m->cluster_v6 : &m->cluster_v4;
			unsigned mtu = addr_is_zero(from) || addr_is_zero(to) ? 0 : tunnel_path_mtu(from, to);

			if (mtu == d->tunnel_mtu[member][v6])
				continue;
			pthread_mutex_lock(&d->lock);
			d->tunnel_mtu[member][v6] = mtu;
			d->rules_changed = true; /* the MSS of SYN-ACKs depends on it */
			pthread_mutex_unlock(&d->lock);
			log_debug("tunnel MTU to %s, IPv%c: %u", m->name, v6 ? '6' : '4', mtu);
		}
	}
}

/* Flows on their way into the kernel's set; those that NAT sends on apart from the others. */
struct refill {
	struct dprd *d;
	int error;
	unsigned count[2];
	struct flow_key keys[2][GONE_MAX];
};

static bool is_nat(const struct config *config, uint32_t node_id)
{
	int own = config_own_backend_by_id(config, node_id);

	return own >= 0 && config_own_backend(config, (unsigned)own)->form == BACKEND_NAT;
}

static bool refill_flush(struct refill *refill, bool nat)
{
	if (refill->count[nat])
		refill->error = flowset_change(refill->d->set, nat ? FLOWSET_ADD_NAT : FLOWSET_ADD, refill->keys[nat],
					       refill->count[nat]);
	refill->count[nat] = 0;
	return !refill->error;
}

static bool refill_one(void *context, const struct flow *flow)
{
	struct refill *refill = context;
	bool nat = is_nat(&refill->d->config, flow->node_id);

	refill->keys[nat][refill->count[nat]++] = flow->key;
	return refill->count[nat] < GONE_MAX || refill_flush(refill, nat);
}

/* Half-open flows, to be asked about. */
struct served_here {
	struct dprd *d;
	struct socket_lookup *lookup;
	unsigned count, gone;
	struct flow flow[SOCKET_LOOKUP_MAX];
};

static void served_here_flush(struct served_here *served)
{
	struct flow_key keys[SOCKET_LOOKUP_MAX];
	bool found[SOCKET_LOOKUP_MAX];
	unsigned i, gone = 0;

	for (i = 0; i < served->count; i++)
		keys[i] = served->flow[i].key;
	/* When the kernel does not answer, nothing is known against them. */
	if (served->count)
		socket_lookup_find(served->lookup, keys, served->count, found);
	for (i = 0; i < served->count; i++) {
		if (!found[i])
			continue;
		flow_remove(served->d->flows, &served->flow[i]);
		keys[gone++] = served->flow[i].key;
	}
	if (gone && flowset_change(served->d->set, FLOWSET_REMOVE, keys, gone))
		served->d->counters.set_errors++;
	served->gone += gone;
	served->count = 0;
}

static bool served_here_one(void *context, const struct flow *flow)
{
	struct served_here *served = context;

	if (flow->state == FLOW_HALF_OPEN)
		served->flow[served->count++] = *flow;
	if (served->count == SOCKET_LOOKUP_MAX)
		served_here_flush(served);
	return true;
}

/*
 * A dprd may have died with a flow in its table that the kernel's set did not know yet, before the SYN left. The
 * client's next SYN was then served here: the flow would take that connection away. Lock held.
 */
static void forget_served_here(struct dprd *d)
{
	struct served_here served = { .d = d, .lookup = socket_lookup_new() };

	if (!served.lookup)
		return;
	flow_each(d->flows, served_here_one, &served);
	served_here_flush(&served);
	socket_lookup_free(served.lookup);
	if (served.gone)
		log_info("%u flows forgotten: their clients are served here", served.gone);
}

int tick_refill_set(struct dprd *d)
{
	static struct refill refill; /* main thread only */

	/* BPF plane: the programs look in the table itself. */
	if (d->fastpath)
		return 0;
	refill = (struct refill) { .d = d };
	pthread_mutex_lock(&d->lock);
	flow_each(d->flows, refill_one, &refill);
	if (!refill.error && refill_flush(&refill, false))
		refill_flush(&refill, true);
	/* Behind it: from now on no copy of a SYN of theirs is served here. */
	if (!refill.error)
		forget_served_here(d);
	pthread_mutex_unlock(&d->lock);
	return refill.error;
}

static void set_up_rules(struct dprd *d)
{
	bool failed = rules_install(d) || tick_refill_set(d);

	if (failed) {
		pthread_mutex_lock(&d->lock);
		d->rules_changed = true;
		pthread_mutex_unlock(&d->lock);
	}
	if (failed && !d->rules_failed)
		log_warning("the firewall rules are incomplete, and are tried again each second; new connections are "
			    "served locally");
	else if (!failed && d->rules_failed)
		log_info("the firewall rules are complete");
	d->rules_failed = failed;
	/* The tools may have taken their time. */
	d->rules_tried_ms = clock_now_ms();
}

/*
 * Whether rules are missing, as far as it is time to look. That is also when this node itself has set them up: who flushes
 * tables may have gone on meanwhile.
 */
static bool rules_missed(struct dprd *d, uint64_t now_ms)
{
	bool doubted, changed;

	d->rules_doubted = rules_watch_hit(d->rules_watch) || d->rules_doubted;
	doubted = d->rules_doubted && now_ms - d->rules_doubt_checked_ms >= RULES_DOUBT_MS;
	if (!doubted && now_ms - d->rules_checked_ms < RULES_CHECK_MS)
		return false;
	d->rules_checked_ms = now_ms;
	if (doubted) {
		d->rules_doubt_checked_ms = now_ms;
		d->rules_doubted = false;
	}
	pthread_mutex_lock(&d->lock);
	changed = d->rules_changed;
	pthread_mutex_unlock(&d->lock);
	/* Those that are about to be set up cannot be missed. */
	return !changed && !rules_present(d);
}

void tick_restore_rules(struct dprd *d, uint64_t now_ms)
{
	bool gone = rules_missed(d, now_ms), wanted;

	pthread_mutex_lock(&d->lock);
	/* What could not be set up is no news when it is missed. */
	gone = (gone || d->rules_gone) && !d->rules_failed;
	wanted = (d->rules_changed || gone) && (!d->rules_failed || now_ms >= d->rules_tried_ms + RULES_RETRY_MS);
	if (wanted)
		d->rules_changed = false;
	d->rules_gone = false;
	d->counters.rules_restored += gone;
	pthread_mutex_unlock(&d->lock);
	if (!wanted)
		return;
	if (gone)
		log_warning("firewall rules of dprd were gone; setting them up again");
	set_up_rules(d);
}

/* Not with real servers: the rules for these would not know of a SYN that passed by that it is one. */
static void watch_for_flood(struct dprd *d, uint64_t now_ms)
{
	bool guarded = !d->config.own_backend_count && d->config.max_new_flows_per_s != NEW_FLOWS_UNGUARDED, changed;
	struct flood_signs signs = { .max_half_open = d->flow_limits.max_half_open,
				     .max_per_second = d->config.max_new_flows_per_s };

	if (d->fastpath || d->flood_refused || (!guarded && !d->flood.on))
		return;
	/* The guard was taken away in a flood: that ends without another sign of it. */
	if (!guarded)
		signs.max_half_open = signs.max_per_second = UINT32_MAX;
	pthread_mutex_lock(&d->lock);
	signs.half_open = flow_counts(d->flows).half_open;
	signs.syns = d->counters.syns;
	changed = flood_update(&d->flood, &signs, now_ms);
	pthread_mutex_unlock(&d->lock);
	if (!changed)
		return;
	if (d->flood.on)
		log_warning("a flood of SYNs: this node serves them undecided, but for one of %d", FLOOD_DECIDED_OF);
	else
		log_info("the flood of SYNs is over");
	if (!rules_set_flood(d))
		return;
	log_warning("the firewall is as before: is its limit (CONFIG_NFT_LIMIT) in this kernel?");
	d->flood_refused = d->flood.on;
	/* What could not be ended is tried again when it seems to be over once more. */
	d->flood = (struct flood) { .on = !d->flood.on, .since_ms = now_ms };
}

static void update_rate(struct dprd *d, uint64_t elapsed_ms)
{
	uint64_t syns = d->counters.syns - d->syns_at_rate;
	uint32_t rate = (uint32_t)(syns * 1000000 / elapsed_ms);

	d->syns_at_rate = d->counters.syns;
	/* Half the news, half the past: steady within a few seconds. */
	d->arrivals_per_1000_s = d->arrivals_per_1000_s / 2 + rate / 2;
}

static void notify_status(struct dprd *d, uint64_t now_ms)
{
	unsigned i, ready = 0;
	struct flow_counts counts;
	const char *why_not;

	pthread_mutex_lock(&d->lock);
	for (i = 0; i < d->config.member_count; i++)
		ready += i != d->config.self && view_member_eligible(d, i, now_ms, &why_not);
	counts = flow_counts(d->flows);
	pthread_mutex_unlock(&d->lock);
	sd_notifyf(0, "STATUS=%u of %u peers take connections, %u forwarded flows", ready, d->config.member_count - 1,
		   counts.confirmed + counts.half_open);
}

static int on_tick(sd_event_source *source, uint64_t at_us, void *context)
{
	struct dprd *d = context;
	uint64_t now_ms = clock_now_ms(), elapsed_ms = now_ms - d->second_ms;
	bool each_second = elapsed_ms >= 1000,
	     alive = clock_is_recent(queue_heartbeat_ms(d), now_ms, HEARTBEAT_LATE_MS);

	(void)at_us;
	tick_refresh_view(d, now_ms);
	plane_tick(d, alive);
	shared_tick(d, now_ms);
	queue_tick(d, each_second);
	expire(d, now_ms, each_second);
	watch_for_flood(d, now_ms);
	pthread_mutex_lock(&d->lock);
	backend_refresh(d);
	if (each_second)
		update_rate(d, elapsed_ms);
	pthread_mutex_unlock(&d->lock);
	if (each_second) {
		d->second_ms = now_ms;
		tick_refresh_mtu(d);
		backend_refresh_ways(d);
		plane_update(d);
		notify_status(d, now_ms);
	}
	/* A status file says that this node can decapsulate: not while a worker stands still. */
	if (alive && plane_carries(d))
		presence_tick(d, now_ms);
	tick_restore_rules(d, now_ms);
	if (alive && d->watchdog_ms && now_ms - d->watchdog_pinged_ms >= d->watchdog_ms / 3) {
		d->watchdog_pinged_ms = now_ms;
		sd_notify(0, "WATCHDOG=1");
	}
	sd_event_source_set_time_relative(source, (uint64_t)TICK_MS * 1000);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

int tick_start(struct dprd *d)
{
	uint64_t watchdog_us = 0;

	if (sd_watchdog_enabled(0, &watchdog_us) > 0)
		d->watchdog_ms = watchdog_us / 1000;
	d->second_ms = d->rules_checked_ms = clock_now_ms();
	return sd_event_add_time_relative(d->event, NULL, CLOCK_BOOTTIME, (uint64_t)TICK_MS * 1000, 1000, on_tick, d);
}
