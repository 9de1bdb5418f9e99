// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * path_syn.c - the verdict on a SYN, and what it needs: a way, a real server, a flow.
 *
 * A new flow is reserved when the SYN is decided: it is in the table from then on. So copies of the SYN, which another
 * worker may decide at the same time, follow it, and later decisions count it. It is made for good by path_commit(),
 * once the SYN has left. When the plan fails before that (this node has a socket, the kernel does not take the flow
 * into its set, the SYN cannot be sent), the flow is withdrawn, and the SYN is served here.
 */
#include <string.h>

#include "dprd/cluster/asks.h"
#include "dprd/cluster/backend.h"
#include "dprd/cluster/outcomes.h"
#include "dprd/cluster/state.h"
#include "dprd/cluster/view.h"
#include "dprd/core/decide/tunnelled.h"
#include "dprd/plane/plane.h"
#include "dprd/queue/private.h"
#include "dprd/queue/path_batch.h"
#include "dprd/queue/standby.h"

enum { TOO_BIG_PER_S = 100 }; /* ICMP messages to clients */

static uint64_t next_random(struct dprd *d)
{
	/*
	 * Each number is policy_mix() of a counter, not of the last number, because policies take more bits from
	 * policy_mix(random).
	 */
	return policy_mix(d->random_state++);
}

/* --- what decide() is told --- */

void path_env(struct path *p)
{
	asks_env(p->d, &p->env);
	p->ports_differ = view_ports_differ(p->d);
	p->env.maybe_stale = p->batch->maybe_stale;
	p->env.now_ms = p->flow_ms;
	p->env.node_alive = asks_node_alive;
	p->env.node_eligible = asks_node_takes_copies;
	p->env.context = &p->asks;
}

void path_read_own_load(struct path *p)
{
	mutex_assert_held(&p->d->lock);
	if (p->d->queue->own_load_ms == p->now_ms)
		return;
	asks_own_load(p->d);
	/* The programs do not know which ports fail: while one fails, dprd looks at all SYNs of peers. */
	p->env.unhealthy = view_own_server_fails(p->d, 0);
	plane_second_look(p->d, &p->env);
	p->served = 0;
	p->d->queue->own_load_ms = p->now_ms;
}

void path_env_syn(struct path *p, const struct packet *packet)
{
	struct dprd *d = p->d;
	be16 asked = packet->key.service_port;
	be16 port = p->ports_differ || !config_has_port(&d->config, ntohs(asked)) ? asked : 0;
	enum service_age age = config_service_age(&d->config, &packet->key.service);

	mutex_assert_held(&p->d->lock);
	if (p->family != packet->v6 || p->port != port || p->service_age != age) {
		view_select(d, packet->v6, port, age);
		p->family = packet->v6;
		p->port = port;
		p->service_age = age;
	}
	p->env.unhealthy = view_own_server_fails(d, port);
	p->asks.v6 = packet->v6;
	p->env.policy_state = &d->policy_state[packet->v6];
	p->env.rate_limited = !asks_new_flows_left(d, p->now_ms);
	p->env.table_full = !flow_has_room(d->flows, p->flow_ms);
	p->env.from_cluster = tunnelled_is_cluster_address(&d->config, &packet->source);
	p->env.from_inside = inside_has(&d->inside, &packet->source);
	p->env.random = next_random(d);
}

/* --- the way --- */

static bool too_big_allowed(struct dprd *d, uint64_t now_ms)
{
	if (now_ms - d->queue->too_big_window_ms >= 1000) {
		d->queue->too_big_window_ms = now_ms;
		d->queue->too_big_count = 0;
	}
	return d->queue->too_big_count++ < TOO_BIG_PER_S;
}

bool path_find_way(struct path *p, struct queued *q)
{
	const struct config *config = &p->d->config;
	int member = config_member_by_id(config, q->verdict.node_id);
	int own = config_own_backend_by_id(config, q->verdict.node_id);

	if (member < 0 && own < 0)
		return false;
	q->way = own < 0 ? p->d->ways.member[member][q->packet.v6] : p->d->ways.backend[own][q->packet.v6];
	/* A packet for a member that does not answer would wait in the kernel, and arrive when another has got a copy. */
	if (own < 0 ? !way_takes_new(&q->way) : !way_is_usable(&q->way))
		return false;
	if (q->way.form == WAY_FORM_NAT) {
		if (packet_is_syn(&q->packet))
			q->backend_mark = q->way.mark;
		return true;
	}
	/* A member takes both forms: a tunnel does until the hardware address is known. */
	if (q->way.form == WAY_FORM_DIRECT && !q->way.next_hop.known) {
		q->way.form = WAY_FORM_TUNNEL;
		q->way.inner_mtu = q->way.tunnel_mtu;
	}
	q->tell_too_big = q->packet.total_bytes > q->way.inner_mtu && too_big_allowed(p->d, p->now_ms);
	return true;
}

/* --- the flow --- */

static void forget_flow(struct path *p, struct queued *q)
{
	struct flow flow;
	bool found = flow_find(p->d->flows, &q->packet.key, &flow);

	if (found)
		flow_remove(p->d->flows, &flow);
	q->set_remove = q->set_remove || found;
	q->set_add = q->fresh_flow = false;
}

/* Counts, or no longer counts, the connection among those of its node until it is committed. */
static void reserve(struct path *p, const struct queued *q, bool reserved)
{
	struct dprd *d = p->d;
	int own = config_own_backend_by_id(&d->config, q->flow_node);
	struct view_node *node = view_node(d, q->flow_node);

	d->flows_reserved += reserved ? 1 : -1u;
	if (own >= 0) {
		backend_reserve(d, (unsigned)own, &q->packet.key, reserved);
		/* For peers this node and its real servers are one. */
		d->view_nodes[0].load += (reserved ? 1 : -1) * d->config.factors.connections;
	} else if (node && (reserved || node->reserved)) {
		node->reserved += reserved ? 1 : -1u;
	}
	/* A trial is one connection: the others of the batch go elsewhere. */
	if (own < 0 && node && reserved && outcomes_rests(d, node->member, q->packet.v6))
		node->eligible = false;
}

/* A SYN that starts a forwarded flow: into the table, and soon into the kernel's set. */
static void reserve_flow(struct path *p, struct queued *q)
{
	struct dprd *d = p->d;
	bool replaces = flow_find(d->flows, &q->packet.key, NULL), made;
	struct flow evicted;

	made = flow_add(d->flows, &q->packet.key, q->verdict.node_id, q->packet.tcp_sequence, p->flow_ms, &evicted);
	if (evicted.state != FLOW_FREE) {
		q->evict = true;
		q->evicted = evicted.key;
	}
	if (!made) {
		q->set_remove = replaces;
		path_serve_instead(p, q, REASON_TABLE_FULL);
		return;
	}
	q->fresh_flow = q->set_add = true;
	q->flow_node = q->verdict.node_id;
	reserve(p, q, true);
}

void path_commit_flow(struct path *p, const struct queued *q)
{
	struct dprd *d = p->d;
	int own = config_own_backend_by_id(&d->config, q->flow_node);
	struct view_node *node = view_node(d, q->flow_node);

	mutex_assert_held(&p->d->lock);
	d->flows_reserved--;
	d->new_flows++;
	d->counters.flows_made++;
	if (own >= 0) {
		d->backends.chosen[own]++;
	} else if (node) {
		node->reserved -= node->reserved > 0;
		/* It is sent now, after any news that came since the batch began. */
		view_count_sent(d, (unsigned)(node - d->view_nodes), q->packet.v6, 1,
				p->now_ms > node->counted_ms ? p->now_ms : node->counted_ms);
	}
}

/* --- the verdict --- */

static uint64_t served_hash(const struct path *p, const struct packet *syn)
{
	const uint64_t key[2] = { p->d->hash_key[0] ^ syn->tcp_sequence, p->d->hash_key[1] };

	return flow_hash(key, &syn->key);
}

static uint32_t tick_of(uint64_t ms)
{
	return (uint32_t)(ms * 1000000 >> FLOW_TICK_SHIFT);
}

/* True when this node has served this SYN, or a copy of it, within the last ms (at most ANSWERED_MS). */
static bool was_served(const struct path *p, const struct packet *syn, uint32_t ms)
{
	uint64_t hash = served_hash(p, syn);

	return answered_has(p->d->queue->served[answered_place(hash)], hash, tick_of(p->flow_ms), tick_of(ms));
}

/* This node serves the SYN: it counts as a connection, and its copies stay here. */
static void count_served(struct path *p, const struct packet *syn)
{
	uint64_t hash = served_hash(p, syn);

	p->d->queue->served[answered_place(hash)] = answered_word(hash, tick_of(p->flow_ms));
	p->d->view_nodes[0].load += p->d->config.factors.connections;
	p->served++;
}

static bool is_copy(const struct queued *copy, const struct queued *q)
{
	return copy != q && copy->verdict.kind == VERDICT_FORWARD && copy->verdict.reason == REASON_SAME_SYN &&
	       !memcmp(&copy->packet.key, &q->packet.key, sizeof(q->packet.key));
}

bool path_has_copies(const struct path *p, const struct queued *q)
{
	unsigned i;

	for (i = 0; i < p->batch->count; i++) {
		if (is_copy(&p->batch->packets[i], q))
			return true;
	}
	return false;
}

void path_copies_follow(struct path *p, const struct queued *q)
{
	unsigned i;

	mutex_assert_held(&p->d->lock);
	for (i = 0; i < p->batch->count; i++) {
		struct queued *copy = &p->batch->packets[i];

		if (!is_copy(copy, q))
			continue;
		copy->verdict = q->verdict;
		copy->backend_mark = q->backend_mark;
	}
}

void path_serve_instead(struct path *p, struct queued *q, enum reason reason)
{
	mutex_assert_held(&p->d->lock);
	if (q->fresh_flow)
		reserve(p, q, false);
	q->verdict = (struct verdict) { .kind = VERDICT_SERVE, .reason = reason };
	/* The socket is here; otherwise the rules choose among this node and its real servers. */
	q->backend_mark = reason == REASON_LOCAL_SOCKET ? BACKEND_MARK_SELF : 0;
	forget_flow(p, q);
	count_served(p, &q->packet);
	path_copies_follow(p, q);
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
		path_find_way(p, q);
	} else if (backend_serves_here(d)) {
		q->backend_mark = BACKEND_MARK_SELF;
	} else if (!d->config.serve_here) {
		q->verdict =
			(struct verdict) { .kind = VERDICT_DROP, .reason = REASON_NO_BACKEND, .old_flow = old_flow };
	}
}

void path_note_why(struct path *p, struct queued *q)
{
	mutex_assert_held(&p->d->lock);
	if (!q->noted)
		why_note(&p->batch->notes[q - p->batch->packets], p->now_ms, &q->packet, &q->verdict, &p->env,
			 decide_max_load(&p->env));
	q->noted = true;
}

static bool is_new_forward(const struct verdict *verdict)
{
	return verdict->kind == VERDICT_FORWARD && verdict->reason != REASON_SAME_SYN &&
	       verdict->reason != REASON_SAME_FLOW;
}

/* The node of a copy may have got the first SYN: while that is so, no other node serves. */
static struct verdict without_way(enum reason reason)
{
	if (reason == REASON_SAME_SYN)
		return (struct verdict) { .kind = VERDICT_DROP, .reason = REASON_NO_TUNNEL };
	return (struct verdict) { .kind = VERDICT_SERVE, .reason = REASON_FORWARD_FAILED, .old_flow = true };
}

void path_plan_syn(struct path *p, struct queued *q)
{
	mutex_assert_held(&p->d->lock);
	if (q->verdict.kind == VERDICT_FORWARD && !path_find_way(p, q))
		q->verdict = without_way(q->verdict.reason);
	if (p->d->config.own_backend_count && q->verdict.kind == VERDICT_SERVE && backend_may_serve(q->verdict.reason))
		choose_backend(p, q);
	path_note_why(p, q);
	if (q->verdict.kind == VERDICT_FORWARD) {
		if (is_new_forward(&q->verdict))
			reserve_flow(p, q);
		return;
	}
	if (q->verdict.old_flow)
		forget_flow(p, q);
	if (q->verdict.kind != VERDICT_DROP)
		count_served(p, &q->packet);
}

/* True when another node or a real server would get the SYN. */
static bool would_leave(const struct path *p, const struct verdict *verdict)
{
	return is_new_forward(verdict) ||
	       (p->d->config.own_backend_count && verdict->kind == VERDICT_SERVE && backend_may_serve(verdict->reason));
}

/* This node serves the SYN, since it has served a copy. */
static void stay(struct queued *q, enum reason reason)
{
	q->verdict = (struct verdict) { .kind = VERDICT_SERVE, .reason = reason, .old_flow = q->verdict.old_flow };
	if (reason == REASON_LOCAL_SOCKET)
		q->backend_mark = BACKEND_MARK_SELF;
}

void path_decide_syn(struct path *p, struct queued *q)
{
	path_read_own_load(p);
	path_env_syn(p, &q->packet);
	q->verdict = decide(&p->env, &q->packet);
	q->served_before = false;
	if (is_new_forward(&q->verdict) && p->d->queue->standby && standby_has_served(p->d->queue->standby, &q->packet))
		stay(q, REASON_STALE_SYN);
	else if (would_leave(p, &q->verdict) && was_served(p, &q->packet, SERVED_SOON_MS))
		stay(q, REASON_LOCAL_SOCKET);
	else
		q->served_before = would_leave(p, &q->verdict) && was_served(p, &q->packet, ANSWERED_MS);
	p->syns++;
	path_plan_syn(p, q);
}
