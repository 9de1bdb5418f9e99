// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * plane/decide.c - Decide=kernel, and auto while SYNs come fast: at every tick the programs get the verdicts on the
 * next connections, and dprd learns how many of the last ones were used, and for which connections.
 */
#include <stdlib.h>

#include "dprd/base/clock.h"
#include "dprd/cluster/asks.h"
#include "dprd/cluster/backend.h"
#include "dprd/cluster/state.h"
#include "dprd/core/decide/schedule.h"
#include "dprd/fastpath/fastpath.h"
#include "dprd/plane/decide.h"
#include "dprd/plane/private.h"

enum { COUNTED_MOST = 65536, SCHEDULE_LEAST = 64, SCHEDULE_FLOOD = 512 };

/* The schedule that the programs use now, of one family. */
struct ahead {
	struct view_node nodes[MEMBERS_MAX]; /* as they were when it was made */
	struct load_view view;
	uint64_t seed;
	unsigned count;
	struct schedule_entry entries[FASTPATH_SCHEDULE_MAX];
	struct backend_ahead backends;
};

struct plane_decide {
	struct ahead ahead[2]; /* IPv4, IPv6 */
	double max_load;
	struct schedule_pace pace;
	bool runs; /* the programs decide */
};

struct plane_decide *plane_decide_new(void)
{
	return calloc(1, sizeof(struct plane_decide));
}

bool plane_decide_runs(const struct dprd *d)
{
	mutex_assert_held(&d->lock);
	return plane_ahead(d) && plane_ahead(d)->runs;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* When the programs decided since the last tick, by the decisions that they remember. */
static struct schedule_ages decision_ages(const struct dprd *d)
{
	const struct fastpath_control *control = d->fastpath->control;
	uint32_t next = __atomic_load_n(&control->decisions, __ATOMIC_ACQUIRE), i = control->decisions_seen;
	uint32_t now = (uint32_t)(clock_flow_ns() >> FLOW_TICK_SHIFT);
	struct schedule_ages ages = { .all = 0 };

	for (next = next - i > FASTPATH_UNREAD ? i + FASTPATH_UNREAD : next; i != next; i++)
		schedule_ages_add(&ages,
				  (int32_t)(now - d->fastpath->recent->decision[i & (FASTPATH_RECENT - 1)].tick));
	return ages;
}

/*
 * Connections sent to a node count, whatever its present place in the view: those that were sent before the last news of
 * the node was heard are in its load already. None counts too early: each at the end of its tick of the flow clock.
 */
static void count_sent(struct dprd *d, const struct ahead *a, bool v6, unsigned used, const struct schedule_ages *ages)
{
	uint64_t now_ms = clock_now_ms(), tick_ns = clock_flow_ns() & ((1ULL << FLOW_TICK_SHIFT) - 1);
	unsigned i, node, age, part, sent[MEMBERS_MAX] = { 0 };

	for (i = 0; i < used; i++)
		sent[a->entries[fastpath_schedule_at(i, a->count)].view_index]++;
	for (i = 1; i < a->view.count; i++) {
		for (node = 1; node < d->view.count && d->view_nodes[node].node_id != a->nodes[i].node_id; node++)
			;
		for (age = SCHEDULE_AGES; sent[i] && node < d->view.count && age-- > 0;) {
			uint64_t ago_ns = age ? tick_ns + ((age - 1ULL) << FLOW_TICK_SHIFT) : 0;

			part = schedule_ages_part(ages, sent[i], age);
			if (part)
				view_count_sent(d, node, v6, part, now_ms - ago_ns / 1000000);
		}
	}
}

/*
 * Moves the state of a round-robin policy on by the verdicts that were used: decides them once more, with the facts of
 * that time.
 */
static void catch_up(struct dprd *d, const struct ahead *a, const struct decide_env *env, bool v6, unsigned used)
{
	static struct schedule_entry again[FASTPATH_SCHEDULE_MAX]; /* too large for a stack; main thread only */
	static struct view_node nodes[MEMBERS_MAX];
	struct load_view view = { .count = a->view.count, .nodes = nodes };
	struct decide_env then = *env;

	if (!used || !d->policy->keeps_state)
		return;
	memcpy(nodes, a->nodes, sizeof(nodes));
	then.view = &view;
	then.policy_state = &d->policy_state[v6];
	schedule_make(&then, d->config.factors.connections, a->seed, again, used);
}

/* True when most connections since the last tick found no room. */
static bool is_flood(const struct fastpath_control *control)
{
	uint32_t made = __atomic_load_n(&control->made, __ATOMIC_RELAXED), room = control->room;

	return made >= room && made - room >= FASTPATH_OVER_ROOM;
}

static void account(struct dprd *d, struct ahead *a, const struct decide_env *env, bool v6,
		    const struct schedule_ages *ages)
{
	unsigned used = *fastpath_cursor(d->fastpath, v6, true);

	/* Most connections of a flood find no room and are not sent. */
	count_sent(d, a, v6, least(used, !a->count || is_flood(d->fastpath->control) ? a->count : COUNTED_MOST), ages);
	used = least(used, a->count);
	catch_up(d, a, env, v6, used);
	if (d->config.own_backend_count)
		backend_ahead_count(d, v6, &a->backends, used);
}

void plane_decide_remember(struct dprd *d, const struct decide_env *env)
{
	const struct plane_decide *p = plane_ahead(d);
	double max_load = p ? p->max_load : decide_max_load(env);
	struct fastpath_control *control;
	uint64_t now_ms = clock_now_ms();
	uint32_t next, i, end;

	mutex_assert_held(&d->lock);
	if (!d->fastpath)
		return;
	control = d->fastpath->control;
	next = __atomic_load_n(&control->decisions, __ATOMIC_ACQUIRE);
	i = control->decisions_seen;
	end = next - i > FASTPATH_UNREAD ? i + FASTPATH_UNREAD : next;
	for (; i != end; i++) {
		const struct fastpath_decision *made = &d->fastpath->recent->decision[i & (FASTPATH_RECENT - 1)];
		struct packet packet = { .kind = PACKET_TCP, .key = made->key, .tcp_sequence = made->sequence };
		struct verdict verdict = { .reason = (enum reason)made->reason };
		struct decide_env then = *env;

		if (made->reason >= REASONS)
			continue;
		verdict.kind = reason_kind(verdict.reason);
		verdict.node_id = flow_table_node_id(d->flows, made->node);
		/* Without a schedule the programs decide only that this node serves: the loads are those of now. */
		if (p && p->ahead[!addr_is_v4(&made->key.service)].count)
			then.view = &p->ahead[!addr_is_v4(&made->key.service)].view;
		if (then.view->count)
			why_remember(d->why, now_ms, &packet, &verdict, &then, max_load);
	}
	__atomic_store_n(&control->decisions_seen, next, __ATOMIC_RELEASE);
}

/*
 * Twice the number that the last tick used, so that the programs seldom reach the end of a schedule. In a flood they
 * may reach it: the verdicts are in proportion anyway, and making more would delay real SYNs.
 */
static unsigned wanted(uint32_t used, bool flood)
{
	unsigned count = SCHEDULE_LEAST;

	if (flood && used > SCHEDULE_FLOOD)
		return SCHEDULE_FLOOD;
	while (count < FASTPATH_SCHEDULE_MAX && count < 2 * used)
		count *= 2;
	return count;
}

/* The entry that the programs read: alternative << 16 | node << 8 | reason. */
static uint32_t entry_of(struct dprd *d, const struct ahead *a, unsigned i)
{
	enum reason reason = (enum reason)a->entries[i].reason;
	uint32_t self_id = d->config.member[d->config.self].id, node_id = self_id;
	int node;

	if (a->entries[i].view_index) {
		node_id = a->nodes[a->entries[i].view_index].node_id;
	} else if (d->config.own_backend_count && a->backends.node_id[i]) {
		node_id = a->backends.node_id[i];
		if (node_id != self_id)
			reason = REASON_BACKEND;
		else if (!d->config.serve_here)
			reason = REASON_NO_BACKEND;
	}
	node = node_id == self_id ? 0 : flow_table_node(d->flows, node_id, true);
	if (node < 0)
		return REASON_FORWARD_FAILED;
	return (uint32_t)a->entries[i].alternative << 16 | (uint32_t)node << 8 | reason;
}

/* A member whose connections get no answer gets one connection as a trial; this node serves the others. */
static void keep_one_trial(const struct dprd *d, struct ahead *a, bool v6)
{
	bool tried[MEMBERS_MAX] = { false };
	unsigned i;

	for (i = 0; i < a->count; i++) {
		unsigned index = a->entries[i].view_index, member = a->nodes[index].member;

		if (!index || !d->outcomes.member[member][v6].rest_ms)
			continue;
		if (tried[member])
			a->entries[i] = (struct schedule_entry) { .reason = REASON_NO_PEER };
		tried[member] = true;
	}
}

/* A family's present view, and the copies that the making of its schedule changes. */
static void begin(struct dprd *d, struct ahead *a, bool v6, struct decide_env *env)
{
	static struct view_node nodes[2][MEMBERS_MAX]; /* main thread only */
	static struct policy_state state[2];
	static struct load_view view[2];

	view_select(d, v6, 0, SERVICE_PRESENT);
	memcpy(a->nodes, d->view_nodes, sizeof(a->nodes));
	memcpy(nodes[v6], d->view_nodes, sizeof(nodes[v6]));
	state[v6] = d->policy_state[v6];
	view[v6] = (struct load_view) { .count = d->view.count, .nodes = nodes[v6] };
	a->view = (struct load_view) { .count = d->view.count, .nodes = a->nodes };
	policy_count_sent(env->policy, &a->view);
	a->seed = policy_mix(d->random_state++);
	env->view = &view[v6];
	env->policy_state = &state[v6];
}

/* The programs get the verdicts of a family. */
static void finish(struct dprd *d, struct ahead *a, bool v6)
{
	struct fastpath_schedule *s = fastpath_schedule(d->fastpath, v6, false);
	unsigned i;

	keep_one_trial(d, a, v6);
	if (d->config.own_backend_count)
		backend_ahead_make(d, v6, policy_mix(d->random_state++), a->entries, a->count, &a->backends);
	for (i = 0; i < a->count; i++)
		s->entry[i] = entry_of(d, a, i);
	*fastpath_cursor(d->fastpath, v6, false) = 0;
	s->count = a->count;
}

enum { SELDOM_PART = 16 }; /* a family that did not come lately counts for this part */

/* used: connections of each family that the last schedules decided. */
static void make(struct dprd *d, struct plane_decide *p, const struct decide_env *env, const uint32_t used[2])
{
	uint32_t both = least(used[0], COUNTED_MOST) + least(used[1], COUNTED_MOST);
	struct decide_env each[2] = { *env, *env };
	struct schedule_family family[2];
	unsigned v6;

	for (v6 = 0; v6 < 2; v6++) {
		struct ahead *a = &p->ahead[v6];

		begin(d, a, v6, &each[v6]);
		a->count = wanted(used[v6], is_flood(d->fastpath->control));
		family[v6] =
			(struct schedule_family) { .env = &each[v6],
						   .seed = a->seed,
						   .expected = least(used[v6], COUNTED_MOST) + both / SELDOM_PART + 1,
						   .count = a->count,
						   .entries = a->entries };
	}
	schedule_make_both(family, d->config.factors.connections);
	for (v6 = 0; v6 < 2; v6++)
		finish(d, &p->ahead[v6], v6);
}

/* New SYNs are queued to dprd. */
static void make_none(struct dprd *d, struct ahead *a, bool v6)
{
	a->count = 0;
	fastpath_schedule(d->fastpath, v6, false)->count = 0;
	*fastpath_cursor(d->fastpath, v6, false) = 0;
}

static uint32_t left(uint32_t most, uint32_t used)
{
	return used < most ? most - used : 0;
}

/* Removes old half-open flows until there is room for twice the connections that came in the last tick. */
static void make_room(struct dprd *d, unsigned came)
{
	uint32_t room = left(d->config.max_half_open, flow_counts(d->flows).half_open);

	for (; room < 2 * came && flow_evict_old(d->flows, clock_flow_ms()); room++)
		d->counters.flows_evicted++;
}

/* Sets how many flows may be made until the next tick, and the reason for the limit. */
static void set_room(struct dprd *d, uint64_t now_ms)
{
	struct fastpath_control *control = d->fastpath->control;
	struct flow_counts counts;
	uint32_t came, made, behind, rate, table, room = control->room;

	/* No flow is made while they are counted: it might count for neither tick. */
	__atomic_store_n(&control->room, 0, __ATOMIC_SEQ_CST);
	came = __atomic_exchange_n(&control->made, 0, __ATOMIC_SEQ_CST);
	made = least(came, room);
	behind = __atomic_exchange_n(&control->made_behind, 0, __ATOMIC_SEQ_CST);
	flow_count_made(d->flows, made, least(behind, made));
	d->new_flows += made;
	make_room(d, came);
	rate = asks_new_flows_left(d, now_ms);
	counts = flow_counts(d->flows);
	table = least(left(d->config.max_half_open, counts.half_open),
		      left(d->config.max_flows, counts.half_open + counts.confirmed));
	control->room_reason = rate < table ? REASON_RATE_GUARD : REASON_TABLE_FULL;
	__atomic_store_n(&control->room, least(rate, table), __ATOMIC_RELEASE);
}

/* Takes the account of the last schedules, and makes new ones if the programs are to decide. */
static void renew(struct dprd *d, struct plane_decide *p, bool runs, uint64_t now_ms)
{
	struct schedule_ages ages;
	struct decide_env env;
	uint32_t used[2];
	unsigned v6;

	p->runs = runs;
	asks_env(d, &env);
	ages = decision_ages(d);
	for (v6 = 0; v6 < 2; v6++) {
		used[v6] = *fastpath_cursor(d->fastpath, v6, true);
		account(d, &p->ahead[v6], &env, v6, &ages);
	}
	plane_decide_remember(d, &env);
	if (p->runs)
		make(d, p, &env, used);
	for (v6 = 0; v6 < 2 && !p->runs; v6++)
		make_none(d, &p->ahead[v6], v6);
	p->max_load = d->config.max_load_auto ? policy_max_load_auto(&d->view) : d->config.max_load;
	set_room(d, now_ms);
	fastpath_schedules_switch(d->fastpath);
}

void plane_decide_tick(struct dprd *d, uint64_t now_ms)
{
	struct plane_decide *p = plane_ahead(d);
	struct decide_env env;
	bool fast;

	mutex_assert_held(&d->lock);
	if (!p) {
		asks_env(d, &env);
		plane_decide_remember(d, &env);
		return;
	}
	fast = schedule_pace_fast(&p->pace, now_ms, d->counters.syns) || d->config.decide_in == DECIDE_KERNEL;
	/* A decision made ahead is for any port. */
	renew(d, p, fast && !view_ports_differ(d), now_ms);
}

void plane_decide_pause(struct dprd *d)
{
	mutex_assert_held(&d->lock);
	if (plane_ahead(d))
		renew(d, plane_ahead(d), false, clock_now_ms());
}

void plane_decide_now(struct dprd *d)
{
	if (!plane_ahead(d))
		return;
	mutex_lock(&d->lock);
	asks_own_load(d);
	plane_decide_tick(d, clock_now_ms());
	mutex_unlock(&d->lock);
}
