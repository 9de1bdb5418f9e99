// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The way of a packet. decide() says what; everything that is done about it is done here.
 */
#include <errno.h>

#include "dprd/base/clock.h"
#include "dprd/cluster/backend.h"
#include "dprd/cluster/view.h"
#include "dprd/core/decide/tunnelled.h"
#include "dprd/dprd.h"
#include "dprd/host/flowset.h"
#include "dprd/host/socket_lookup.h"
#include "dprd/plane/plane.h"
#include "dprd/queue/path.h"
#include "dprd/queue/path_batch.h"
#include "dprd/queue/standby.h"

enum {
	LATE_MS = 100, /* so soon no client sends its SYN again */
	TOO_BIG_PER_S = 100, /* ICMP messages to clients */
};

_Static_assert((int)QUEUE_BATCH_MAX <= (int)SOCKET_LOOKUP_MAX, "all packets of a batch may be asked about at once");

static uint64_t next_random(struct dprd *d)
{
	/* Not a chain: policies take further bits from policy_mix(random). */
	return policy_mix(d->random_state++);
}

/* --- what decide() asks --- */

static bool node_alive(void *context, uint32_t node_id)
{
	const struct path *p = context;
	const struct node_load *load = view_node_load(p->d, node_id);

	/* Its connections stay with it; but a client that begins anew should not wait for it. */
	if (config_own_backend_by_id(&p->d->config, node_id) >= 0)
		return !load || load->state == NODE_ACTIVE;
	/* Without a table nothing is known against it. */
	if (config_member_by_id(&p->d->config, node_id) < 0)
		return false;
	/* A loadcast that has just started has heard nobody. */
	return !load || load->age_ms == LOAD_AGE_NEVER_MS ||
	       load_age_ms(&p->d->table, load, p->now_ms) < p->d->config.dead_peer_timeout_ms;
}

static bool node_takes_copies(void *context, uint32_t node_id)
{
	const struct path *p = context;
	const struct config *config = &p->d->config;
	const struct node_load *load = view_node_load(p->d, node_id);
	int own = config_own_backend_by_id(config, node_id);

	if (own >= 0)
		return !p->d->backends.why_not[own];
	return load && (load->flags & NODE_DPRD_UP) && config_member_by_id(config, node_id) >= 0 &&
	       load_age_ms(&p->d->table, load, p->now_ms) <= config->dead_periods * config->period_ms;
}

/* --- verdicts --- */

bool path_rate_limited(struct dprd *d, uint64_t now_ms)
{
	mutex_assert_held(&d->lock);
	if (now_ms - d->rate_window_ms >= 1000) {
		d->rate_window_ms = now_ms;
		d->new_flows = 0;
	}
	return d->new_flows >= d->config.max_new_flows_per_s;
}

void path_decide_env(struct dprd *d, struct decide_env *ret)
{
	const struct node_load *self = view_node_load(d, d->config.member[d->config.self].id);

	mutex_assert_held(&d->lock);
	*ret = (struct decide_env) {
		.flows = d->flows,
		.view = &d->view,
		.policy = d->policy,
		.policy_state = d->policy_state,
		.hash_key = d->hash_key,
		.max_load_auto = d->config.max_load_auto,
		.max_load = d->config.max_load,
		.min_advantage = d->config.min_advantage,
		.draining = d->draining,
		.unhealthy = self && self->state == NODE_UNHEALTHY,
		.minority = d->minority,
	};
}

/* What is the same for all packets of a batch. */
static void env_fill(struct path *p)
{
	path_decide_env(p->d, &p->env);
	p->env.maybe_stale = p->batch->maybe_stale;
	p->env.now_ms = p->flow_ms;
	p->env.node_alive = node_alive;
	p->env.node_eligible = node_takes_copies;
	p->env.context = p;
}

/* What only a SYN's decision needs, and what changes from one to the next. */
void path_env_syn(struct path *p, const struct packet *packet)
{
	struct dprd *d = p->d;

	mutex_assert_held(&p->d->lock);
	/* Once each ms: two files of /proc. In between what is served here is counted as it comes. */
	if (d->own_load_ms != p->now_ms) {
		view_own_load(d);
		plane_second_look(d, &p->env);
		p->served = 0;
		d->own_load_ms = p->now_ms;
	}
	if (p->family != packet->v6) {
		view_select_family(d, packet->v6);
		p->family = packet->v6;
	}
	p->env.policy_state = &d->policy_state[packet->v6];
	p->env.rate_limited = path_rate_limited(d, p->now_ms);
	p->env.table_full = !flow_has_room(d->flows, p->flow_ms);
	p->env.from_cluster = tunnelled_is_cluster_address(&d->config, &packet->source);
	p->env.random = next_random(d);
}

static bool too_big_allowed(struct dprd *d, uint64_t now_ms)
{
	if (now_ms - d->too_big_window_ms >= 1000) {
		d->too_big_window_ms = now_ms;
		d->too_big_count = 0;
	}
	return d->too_big_count++ < TOO_BIG_PER_S;
}

/* The way to the target of a FORWARD verdict; false: there is none. */
bool path_resolve_target(struct path *p, struct queued *q)
{
	const struct config *config = &p->d->config;
	int member = config_member_by_id(config, q->verdict.node_id);
	int own = config_own_backend_by_id(config, q->verdict.node_id);

	if (member < 0 && own < 0)
		return false;
	q->way = own < 0 ? p->d->ways.member[member][q->packet.v6] : p->d->ways.backend[own][q->packet.v6];
	if (!way_is_usable(&q->way))
		return false;
	if (q->way.form == WAY_FORM_NAT) {
		if (packet_is_syn(&q->packet))
			q->backend_mark = q->way.mark;
		return true;
	}
	/* Until the hardware address is known a tunnel does: a member takes both. */
	if (q->way.form == WAY_FORM_DIRECT && !q->way.next_hop.known) {
		q->way.form = WAY_FORM_TUNNEL;
		q->way.inner_mtu = q->way.tunnel_mtu;
	}
	q->tell_too_big = q->packet.total_bytes > q->way.inner_mtu && too_big_allowed(p->d, p->now_ms);
	return true;
}

static void forget_flow(struct path *p, struct queued *q)
{
	struct flow flow;
	bool found = flow_find(p->d->flows, &q->packet.key, &flow);

	if (found)
		flow_remove(p->d->flows, &flow);
	q->set_remove = q->set_remove || found;
	q->set_add = q->fresh_flow = false;
}

/* Serving here is always correct for a SYN (I11). Lock held. */
void path_serve_instead(struct path *p, struct queued *q, enum reason reason)
{
	mutex_assert_held(&p->d->lock);
	q->verdict = (struct verdict) { .kind = VERDICT_SERVE, .reason = reason };
	/* The socket is here; else the rules choose among this node and its backends. */
	q->backend_mark = reason == REASON_LOCAL_SOCKET ? BACKEND_MARK_SELF : 0;
	forget_flow(p, q);
}

/* The second stage: this node has real servers behind it. */
static void choose_backend(struct path *p, struct queued *q)
{
	struct dprd *d = p->d;
	bool old_flow = q->verdict.old_flow;
	int own = backend_choose(d, q->packet.v6, next_random(d));

	if (own >= 0) {
		q->verdict = (struct verdict) { .kind = VERDICT_FORWARD,
						.reason = REASON_BACKEND,
						.node_id = config_own_backend(&d->config, (unsigned)own)->id,
						.old_flow = old_flow };
		path_resolve_target(p, q);
	} else if (backend_serves_here(d)) {
		q->backend_mark = BACKEND_MARK_SELF;
	} else if (!d->config.serve_here) {
		q->verdict =
			(struct verdict) { .kind = VERDICT_DROP, .reason = REASON_NO_BACKEND, .old_flow = old_flow };
	}
}

/* A SYN that starts a forwarded flow: into the table, and soon into the kernel's set. */
static void make_flow(struct path *p, struct queued *q)
{
	struct dprd *d = p->d;
	bool replaces = flow_find(d->flows, &q->packet.key, NULL), made;
	struct flow evicted;
	int own;

	made = flow_add(d->flows, &q->packet.key, q->verdict.node_id, q->packet.tcp_sequence, p->flow_ms, &evicted);
	if (evicted.state != FLOW_FREE) {
		d->counters.flows_evicted++;
		q->evict = true;
		q->evicted = evicted.key;
	}
	if (!made) {
		q->set_remove = replaces;
		path_serve_instead(p, q, REASON_TABLE_FULL);
		return;
	}
	q->fresh_flow = q->set_add = true;
	d->counters.flows_made++;
	d->new_flows++;
	own = config_own_backend_by_id(&d->config, q->verdict.node_id);
	if (own >= 0)
		backend_count_made(d, (unsigned)own, &q->packet.key);
	else
		d->view_nodes[q->verdict.view_index].sent++;
}

void path_remember_why(struct path *p, const struct queued *q)
{
	mutex_assert_held(&p->d->lock);
	why_remember(p->d->why, p->now_ms, &q->packet, &q->verdict, &p->env, decide_max_load(&p->env));
}

static bool is_new_forward(const struct verdict *verdict)
{
	return verdict->kind == VERDICT_FORWARD && verdict->reason != REASON_SAME_SYN &&
	       verdict->reason != REASON_SAME_FLOW;
}

void path_settle_syn(struct path *p, struct queued *q)
{
	struct dprd *d = p->d;

	mutex_assert_held(&p->d->lock);
	if (q->verdict.kind == VERDICT_FORWARD && !path_resolve_target(p, q))
		q->verdict =
			(struct verdict) { .kind = VERDICT_SERVE, .reason = REASON_FORWARD_FAILED, .old_flow = true };
	if (d->config.own_backend_count && q->verdict.kind == VERDICT_SERVE && backend_may_serve(q->verdict.reason))
		choose_backend(p, q);
	path_remember_why(p, q);
	if (q->verdict.kind != VERDICT_FORWARD) {
		if (q->verdict.old_flow)
			forget_flow(p, q);
		if (q->verdict.kind == VERDICT_DROP)
			return;
		d->view_nodes[0].load += d->config.factors.connections;
		p->served++;
	} else if (is_new_forward(&q->verdict)) {
		make_flow(p, q);
	}
}

/* Decides about a SYN. The standby process may hold a copy that this node serves. */
static struct verdict decide_syn(struct path *p, const struct packet *syn)
{
	struct verdict verdict = decide(&p->env, syn);

	if (is_new_forward(&verdict) && p->d->standby && standby_has_served(p->d->standby, syn))
		return (struct verdict) { .kind = VERDICT_SERVE,
					  .reason = REASON_STALE_SYN,
					  .old_flow = verdict.old_flow };
	return verdict;
}

static void decide_one(struct path *p, struct queued *q)
{
	struct dprd *d = p->d;
	struct flow flow;

	if (packet_is_syn(&q->packet)) {
		path_env_syn(p, &q->packet);
		q->verdict = decide_syn(p, &q->packet);
		d->counters.syns++;
		path_settle_syn(p, q);
	} else {
		q->verdict = decide(&p->env, &q->packet);
		if (q->verdict.kind == VERDICT_FORWARD && !path_resolve_target(p, q))
			q->verdict = (struct verdict) { .kind = VERDICT_DROP, .reason = REASON_NO_TUNNEL };
		/* The kernel's set knows a flow that the table does not: left over from a former process. */
		if (q->verdict.reason == REASON_NO_FLOW)
			q->set_remove = q->packet.kind == PACKET_TCP;
	}
	if (q->verdict.kind == VERDICT_FORWARD && !q->fresh_flow && q->packet.kind == PACKET_TCP &&
	    flow_find(d->flows, &q->packet.key, &flow))
		flow_touch(d->flows, &flow, q->packet.tcp_flags, p->flow_ms);
}

static void decide_all(struct path *p)
{
	unsigned i;

	env_fill(p);
	/* All at once: the memory answers them side by side. */
	for (i = 0; i < p->batch->count; i++) {
		if (p->batch->packets[i].packet.kind == PACKET_TCP)
			flow_prefetch(p->d->flows, &p->batch->packets[i].packet.key, p->batch->last_made_flows);
	}
	for (i = 0; i < p->batch->count; i++) {
		struct queued *q = &p->batch->packets[i];

		if (!q->captured)
			q->verdict = (struct verdict) { .kind = VERDICT_PASS, .reason = REASON_QUEUE_UNPARSED };
		/* Nothing but TCP and tunnel packets is let in there, however they are dressed up. */
		else if (q->packet.kind == PACKET_TUNNEL || (!p->batch->from_decide && q->packet.kind != PACKET_TCP))
			path_decapsulate(p, q);
		else
			decide_one(p, q);
	}
	/* All at once: the programs on other processors read that cache line, too. */
	plane_served(p->d, p->served);
}

/* --- what must happen outside the lock --- */

/* Flows that would take a connection away from a socket that this node already has (D2). */
static void keep_local_sockets(struct path *p)
{
	struct flow_key keys[QUEUE_BATCH_MAX];
	struct queued *asked[QUEUE_BATCH_MAX];
	bool found[QUEUE_BATCH_MAX];
	unsigned i, count = 0;

	/*
	 * BPF plane: the programs have looked, when the SYN came. But with dprd frozen since then, a copy of it
	 * may have been served here, before its flow was in the table.
	 */
	if (p->d->fastpath && clock_now_ms() - p->batch->received_ms <= LATE_MS)
		return;
	for (i = 0; i < p->batch->count; i++) {
		struct queued *q = &p->batch->packets[i];

		if (q->fresh_flow) {
			keys[count] = q->packet.key;
			asked[count++] = q;
		}
	}
	if (!count)
		return;
	/* When the kernel does not answer, nothing is known against forwarding. */
	socket_lookup_find(p->lookup, keys, count, found);
	mutex_lock(&p->d->lock);
	for (i = 0; i < count; i++) {
		if (found[i])
			path_serve_instead(p, asked[i], REASON_LOCAL_SOCKET);
	}
	mutex_unlock(&p->d->lock);
}

/* Removes from the kernel's set what is not in the table. With the lock, so that no other thread adds
 * one of them in between. */
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

/* Write-ahead (I8): the kernel knows the flow before its SYN leaves, or the flow is not made. */
static void tell_kernel(struct path *p)
{
	struct flow_key keys[QUEUE_BATCH_MAX];
	unsigned i, count;
	int error, nat;

	/* BPF plane: the programs look in the same table. */
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

static void count_all(struct path *p)
{
	struct counters *counters = &p->d->counters;
	unsigned i;

	mutex_lock(&p->d->lock);
	counters->batches++;
	counters->seen += p->batch->count;
	counters->stale_batches += p->batch->maybe_stale;
	counters->forward_bytes += p->forward_bytes;
	counters->segmented += p->segmented;
	counters->too_big_sent += p->too_big_sent;
	counters->tunnel_errors += p->tunnel_errors;
	for (i = 0; i < p->batch->count; i++)
		counters->reason[p->batch->packets[i].verdict.reason]++;
	mutex_unlock(&p->d->lock);
}

void path_batch(struct dprd *d, struct batch *batch, struct flowset *set, struct socket_lookup *lookup,
		struct tunnel *tunnel)
{
	struct path p = { .d = d,
			  .batch = batch,
			  .set = set,
			  .lookup = lookup,
			  .tunnel = tunnel,
			  .now_ms = clock_now_ms(),
			  .flow_ms = clock_flow_ms(),
			  .family = -1 };
	bool forwards = false;
	unsigned i;

	for (i = 0; i < batch->count; i++) {
		struct queued *q = &batch->packets[i];

		if (q->captured)
			packet_parse(q->bytes, q->captured, &q->packet);
	}
	mutex_lock(&d->lock);
	/* Held up until now, dprd decides as if all that time the packets had waited in the queue. */
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
		/*
		 * Somebody else's rules may have kept the kernel busy for so long that a copy was served here
		 * meanwhile.
		 */
		if (p.set && clock_now_ms() - batch->received_ms > LATE_MS)
			keep_local_sockets(&p);
		path_drop_late_flows(&p);
		path_send(&p);
	}
	forget_in_kernel(&p);
	path_drop_late_tunnelled(&p);
	count_all(&p);
}
