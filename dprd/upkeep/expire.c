// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Ends flows: those that timed out, those of a dead peer, those of a node that the configuration no longer has.
 */
#include "dprd/upkeep/expire.h"

#include "dprd/base/clock.h"
#include "dprd/cluster/state.h"
#include "dprd/fastpath/fastpath.h"
#include "dprd/host/flowset.h"

enum {
	EXPIRE_TICK_STEPS = 65536, /* limit of slots looked at per tick */
	EXPIRE_STEPS = 16384, /* slots looked at without giving the lock back */
	EXPIRE_EMPTY_PART = 8, /* a table without flows is looked through this many times more slowly */
	GONE_MAX = 256, /* flows taken out of the kernel's set in one transaction */
};

/* Flows that have just left the table; the kernel's set still has them. */
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

/* Holds the lock until the kernel knows, so that no worker adds the same tuple in between. */
static void gone_add(void *context, const struct flow *flow)
{
	struct gone *gone = context;

	gone->keys[gone->count++] = flow->key;
	(*gone->counter)++;
	if (gone->count == GONE_MAX)
		gone_flush(gone);
}

/* Removes the flows to a host that is gone for good. This node's stack then answers their clients with a reset. */
static void remove_dead_peers(struct dprd *d, struct gone *gone, uint64_t now_ms)
{
	uint32_t i;

	gone->counter = &d->counters.flows_dead_peer;
	for (i = 0; d->table_valid && i < d->table.count; i++) {
		const struct node_load *load = &d->table.nodes[i];
		/* Silence since loadcast started is no evidence: it may have heard no node yet. */
		bool dead = load->age_ms != LOAD_AGE_NEVER_MS &&
			    load_age_ms(&d->table, load, now_ms) >= d->config.dead_peer_timeout_ms;
		/* When the load table itself is old, the fault is on this node. */
		bool deaf = !clock_is_recent(d->table.published_ms, now_ms, d->config.dead_peer_timeout_ms / 2);

		if (dead && !deaf && load->id != d->config.member[d->config.self].id)
			flow_remove_node(d->flows, load->id, gone_add, gone);
	}
	gone_flush(gone);
}

/* The number of slots to look at in this tick: a whole round each second, several seconds for a large table. */
static unsigned expiry_steps(struct dprd *d)
{
	unsigned steps = flow_slots(d->flows) / (1000 / TICK_MS) + 1;
	struct flow_counts counts;

	mutex_lock(&d->lock);
	counts = flow_counts(d->flows);
	mutex_unlock(&d->lock);
	if (steps > EXPIRE_TICK_STEPS)
		steps = EXPIRE_TICK_STEPS;
	/* An empty table holds leftovers at most. Reading all of it would drive other data out of the caches. */
	if (!counts.half_open && !counts.confirmed)
		steps = steps / EXPIRE_EMPTY_PART + 1;
	return steps;
}

void expire_tick(struct dprd *d, uint64_t now_ms, bool each_second)
{
	static struct gone gone; /* too large for a stack; main thread only */
	unsigned left = expiry_steps(d);

	gone = (struct gone) { .d = d, .counter = &d->counters.flows_expired };
	/* Workers get the lock between two parts. */
	while (left) {
		unsigned steps = left < EXPIRE_STEPS ? left : EXPIRE_STEPS;

		mutex_lock(&d->lock);
		flow_expire(d->flows, steps, clock_flow_ms(), gone_add, &gone);
		gone_flush(&gone);
		mutex_unlock(&d->lock);
		left -= steps;
	}
	mutex_lock(&d->lock);
	if (d->fastpath)
		d->fastpath->control->swept = flow_swept_buckets(d->flows);
	if (each_second)
		remove_dead_peers(d, &gone, now_ms);
	mutex_unlock(&d->lock);
}

static void expire_node(struct dprd *d, uint32_t node_id)
{
	static struct gone gone; /* too large for a stack; the lock is held */

	mutex_assert_held(&d->lock);
	gone = (struct gone) { .d = d, .counter = &d->counters.flows_dead_peer };
	flow_remove_node(d->flows, node_id, gone_add, &gone);
	gone_flush(&gone);
}

void expire_reconfigure(struct dprd *d, const struct config *former)
{
	unsigned i;

	mutex_assert_held(&d->lock);
	d->flow_limits.syn_timeout_ms = d->config.syn_timeout_ms;
	d->flow_limits.idle_timeout_ms = d->config.idle_timeout_ms;
	d->flow_limits.fin_timeout_ms = d->config.fin_timeout_ms;
	d->flow_limits.rst_timeout_ms = d->config.rst_timeout_ms;
	if (d->flows)
		flow_table_set_timeouts(d->flows, &d->flow_limits);
	if (!former)
		return;
	/* A removed member has no address to which packets could be forwarded. */
	for (i = 0; i < former->member_count; i++) {
		if (config_member_by_id(&d->config, former->member[i].id) < 0)
			expire_node(d, former->member[i].id);
	}
	for (i = 0; i < former->own_backend_count; i++) {
		uint32_t id = config_own_backend(former, i)->id;

		if (config_own_backend_by_id(&d->config, id) < 0)
			expire_node(d, id);
	}
}
