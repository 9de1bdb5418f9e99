// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * path.c - takes a batch of packets through all steps: parse, decide, look for sockets, tell the kernel, send, commit.
 */
#include <errno.h>

#include "dprd/base/clock.h"
#include "dprd/cluster/state.h"
#include "dprd/host/flowset.h"
#include "dprd/host/socket_lookup.h"
#include "dprd/plane/plane.h"
#include "dprd/queue/path.h"
#include "dprd/queue/path_batch.h"
#include "dprd/queue/private.h"

enum { LATE_MS = 100 }; /* no client sends a copy of its SYN earlier */

_Static_assert((int)QUEUE_BATCH_MAX <= (int)SOCKET_LOOKUP_MAX, "all packets of a batch may be asked about at once");

static void decide_one(struct path *p, struct queued *q)
{
	struct dprd *d = p->d;
	struct flow flow;

	if (packet_is_syn(&q->packet)) {
		path_decide_syn(p, q);
	} else {
		q->verdict = decide(&p->env, &q->packet);
		if (q->verdict.kind == VERDICT_FORWARD && !path_find_way(p, q))
			q->verdict = (struct verdict) { .kind = VERDICT_DROP, .reason = REASON_NO_TUNNEL };
		/* The kernel's set has a flow that the flow table lacks: it is left over from a former process. */
		if (q->verdict.reason == REASON_NO_FLOW)
			q->set_remove = q->packet.kind == PACKET_TCP;
	}
	if (q->verdict.kind == VERDICT_FORWARD && !q->fresh_flow && q->packet.kind == PACKET_TCP &&
	    flow_find(d->flows, &q->packet.key, &flow)) {
		if (flow_is_confirmed_by((enum flow_slot_state)(flow.state - 1), q->packet.tcp_flags))
			outcomes_confirmed(d, flow.node_id, q->packet.v6, 1, p->now_ms);
		flow_touch(d->flows, &flow, q->packet.tcp_flags, p->flow_ms);
	}
}

static void decide_all(struct path *p)
{
	unsigned i;

	path_env(p);
	/* All prefetches come first, so that the memory works on them at the same time. */
	for (i = 0; i < p->batch->count; i++) {
		if (p->batch->packets[i].packet.kind == PACKET_TCP)
			flow_prefetch(p->d->flows, &p->batch->packets[i].packet.key, p->batch->last_made_flows);
	}
	for (i = 0; i < p->batch->count; i++) {
		struct queued *q = &p->batch->packets[i];

		if (!q->captured)
			q->verdict = (struct verdict) { .kind = VERDICT_PASS, .reason = REASON_QUEUE_UNPARSED };
		/*
		 * The other queues get only TCP and tunnel packets: a packet that looks different is a broken tunnel
		 * packet.
		 */
		else if (q->packet.kind == PACKET_TUNNEL || (!p->batch->from_decide && q->packet.kind != PACKET_TCP))
			path_decapsulate(p, q);
		else
			decide_one(p, q);
	}
	/* Once for the batch: programs on other processors read this cache line, too. */
	plane_served(p->d, p->served);
	p->served = 0;
}

/* --- work outside the lock --- */

/*
 * True when this node has the connection of the SYN already. A copy of a SYN that was served here shows it without a
 * socket, too. If there is not even a listener, the server is in another network namespace.
 */
static bool is_here(const struct path *p, const struct queued *q, enum socket_found found)
{
	return found == SOCKET_OWNS ||
	       (q->served_before && (found == SOCKET_NONE || queue_hides_answers(p->d->queue, p->now_ms)));
}

/* Takes back new flows whose connection is on this node already: such a flow would break the connection. */
static void keep_local_sockets(struct path *p)
{
	struct flow_key keys[QUEUE_BATCH_MAX];
	struct queued *asked[QUEUE_BATCH_MAX];
	enum socket_found found[QUEUE_BATCH_MAX];
	bool served_before = false;
	unsigned i, count = 0;

	/*
	 * On the BPF plane the programs looked for a socket when the SYN came. But if dprd was frozen since then, a
	 * copy may have been served here before the flow was in the table.
	 */
	if (p->d->fastpath && clock_now_ms() - p->batch->received_ms <= LATE_MS)
		return;
	for (i = 0; i < p->batch->count; i++) {
		struct queued *q = &p->batch->packets[i];

		if (q->fresh_flow) {
			served_before = served_before || q->served_before;
			keys[count] = q->packet.key;
			asked[count++] = q;
		}
	}
	if (!count)
		return;
	/* When the kernel does not answer, the SYN is forwarded. */
	socket_lookup_find(p->lookup, keys, count, found);
	if (served_before)
		queue_read_answers(p->d);
	mutex_lock(&p->d->lock);
	for (i = 0; i < count; i++) {
		if (is_here(p, asked[i], found[i]))
			path_serve_instead(p, asked[i], REASON_LOCAL_SOCKET);
	}
	mutex_unlock(&p->d->lock);
}

/*
 * Removes tuples from the kernel's set that are no longer in the flow table. The lock is held, so that no other thread
 * adds one of them meanwhile.
 */
static void forget_in_kernel(struct path *p)
{
	struct flow_key keys[2 * QUEUE_BATCH_MAX];
	unsigned i, count = 0;

	for (i = 0; i < p->batch->count; i++) {
		const struct queued *q = &p->batch->packets[i];

		if (q->set_remove)
			keys[count++] = q->packet.key;
		if (q->evict)
			keys[count++] = q->evicted;
	}
	if (!count || !p->set)
		return;
	mutex_lock(&p->d->lock);
	for (i = 0; i < count;) {
		if (flow_find(p->d->flows, &keys[i], NULL))
			keys[i] = keys[--count];
		else
			i++;
	}
	if (count && flowset_change(p->set, FLOWSET_REMOVE, keys, count))
		p->d->counters.set_errors++;
	mutex_unlock(&p->d->lock);
}

/*
 * Write-ahead (I8): adds new flows to the kernel's set before their SYNs leave. If that fails, the SYNs are served
 * here.
 */
static void tell_kernel(struct path *p)
{
	struct flow_key keys[QUEUE_BATCH_MAX];
	unsigned i, count;
	int error, nat;

	/* On the BPF plane the programs read the flow table itself. */
	if (!p->set)
		return;
	for (nat = 0, error = 0; nat < 2 && !error; nat++) {
		for (i = 0, count = 0; i < p->batch->count; i++) {
			const struct queued *q = &p->batch->packets[i];

			if (q->set_add && (q->way.form == WAY_FORM_NAT) == (bool)nat)
				keys[count++] = q->packet.key;
		}
		error = count ? flowset_change(p->set, nat ? FLOWSET_ADD_NAT : FLOWSET_ADD, keys, count) : 0;
	}
	if (!error)
		return;
	mutex_lock(&p->d->lock);
	p->d->counters.set_errors++;
	p->d->rules_gone = p->d->rules_gone || error == -ENOENT;
	for (i = 0; i < p->batch->count; i++) {
		if (p->batch->packets[i].set_add)
			path_serve_instead(p, &p->batch->packets[i], REASON_FORWARD_FAILED);
	}
	mutex_unlock(&p->d->lock);
}

void path_batch(struct dprd *d, struct batch *batch, struct flowset *set, struct socket_lookup *lookup,
		struct tunnel *tunnel)
{
	uint64_t now_us = clock_now_us();
	struct path p = { .d = d,
			  .batch = batch,
			  .set = set,
			  .lookup = lookup,
			  .tunnel = tunnel,
			  .now_us = now_us,
			  .now_ms = now_us / 1000,
			  .flow_ms = clock_flow_ms(),
			  .family = -1 };
	bool forwards = false;
	unsigned i;

	p.asks = (struct asks) { .d = d, .now_ms = p.now_ms };
	for (i = 0; i < batch->count; i++) {
		struct queued *q = &batch->packets[i];

		if (q->captured)
			packet_parse(q->bytes, q->captured, &q->packet);
	}
	mutex_lock(&d->lock);
	/* If dprd was delayed until now, the packets count as if they had waited in the queue. */
	batch->maybe_stale = batch->maybe_stale || path_is_late(&p);
	decide_all(&p);
	mutex_unlock(&d->lock);
	batch->last_made_flows = false;
	for (i = 0; i < batch->count; i++) {
		forwards |= batch->packets[i].verdict.kind == VERDICT_FORWARD;
		batch->last_made_flows |= batch->packets[i].fresh_flow;
	}
	if (forwards) {
		keep_local_sockets(&p);
		tell_kernel(&p);
		/* The kernel may have been busy with other programs' rules for so long that a copy was served here. */
		if (p.set && clock_now_ms() - batch->received_ms > LATE_MS)
			keep_local_sockets(&p);
		path_drop_late_flows(&p);
		path_send(&p);
	}
	forget_in_kernel(&p);
	path_drop_late_tunnelled(&p);
	path_commit(&p);
}
