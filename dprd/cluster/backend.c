// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * backend.c - chooses among the real servers behind this node, and counts their connections.
 */
#include "dprd/cluster/backend.h"

#include "dprd/base/clock.h"
#include "dprd/cluster/state.h"
#include "dprd/cluster/view.h"
#include "dprd/cluster/ways.h"

enum {
	COUNT_TICKS = 5, /* ticks in which the whole flow table is counted, if it is small enough */
	COUNT_STEPS = 65536, /* slots of it that one tick counts at most */
};

static const char *why_not(const struct dprd *d, const struct backend *backend)
{
	const struct node_load *load = view_node_load(d, backend->id);

	if (!backend->weight)
		return "weight 0";
	if (!load)
		return "not checked yet";
	return load->state == NODE_ACTIVE ? NULL : "unhealthy";
}

bool backend_serves_here(const struct dprd *d)
{
	const struct node_load *self = view_node_load(d, d->config.member[d->config.self].id);

	mutex_assert_held(&d->lock);
	return d->config.serve_here && !(self && self->flags & NODE_SERVER_DOWN);
}

bool backend_takes(const struct dprd *d, unsigned own, bool v6)
{
	mutex_assert_held(&d->lock);
	return !d->backends.why_not[own] && way_is_usable(&d->ways.backend[own][v6]);
}

static void fill_view(struct dprd *d)
{
	const struct member *self = &d->config.member[d->config.self];
	struct backends *b = &d->backends;
	unsigned own;

	b->view = (struct load_view) { .count = 1 + d->config.own_backend_count, .nodes = b->nodes };
	b->nodes[0] = (struct view_node) { .node_id = self->id, .weight = self->weight ? self->weight : 1 };
	for (own = 0; own < d->config.own_backend_count; own++) {
		const struct backend *backend = config_own_backend(&d->config, own);

		b->why_not[own] = why_not(d, backend);
		b->nodes[1 + own] = (struct view_node) { .node_id = backend->id,
							 .member = (uint16_t)(1 + own),
							 .weight = backend->weight };
	}
}

void backend_reconfigure(struct dprd *d, const struct config *from)
{
	struct backends *b = &d->backends;
	uint64_t chosen[OWN_BACKENDS_MAX], failed_ms[OWN_BACKENDS_MAX];
	unsigned connections[OWN_BACKENDS_MAX], own;

	mutex_assert_held(&d->lock);
	memcpy(chosen, b->chosen, sizeof(chosen));
	memcpy(failed_ms, b->failed_ms, sizeof(failed_ms));
	memcpy(connections, b->connections, sizeof(connections));
	*b = (struct backends) { .policy = policy_find(d->config.backend_policy), .served_here = b->served_here };
	for (own = 0; from && own < d->config.own_backend_count; own++) {
		int before = config_own_backend_by_id(from, config_own_backend(&d->config, own)->id);

		if (before < 0)
			continue;
		b->chosen[own] = chosen[before];
		b->failed_ms[own] = failed_ms[before];
		b->connections[own] = connections[before];
	}
	fill_view(d);
}

/* The servers that the rules may choose for a SYN that dprd did not see, a bit for each. */
static uint64_t rules_need(const struct dprd *d)
{
	uint64_t usable = backend_serves_here(d);
	unsigned own;

	for (own = 0; own < d->config.own_backend_count; own++) {
		if (config_own_backend(&d->config, own)->form != BACKEND_NAT)
			continue;
		usable |= (uint64_t)backend_takes(d, own, false) << (1 + 2 * own);
		usable |= (uint64_t)backend_takes(d, own, true) << (2 + 2 * own);
	}
	return usable;
}

/*
 * Counts a connection of a real server. A closing connection does not count, because it makes no more work for the
 * server. One without packets since the server failed does not count, because the server may have forgotten it.
 */
static bool count_flow(void *context, const struct flow *flow)
{
	struct dprd *d = context;
	int own = config_own_backend_by_id(&d->config, flow->node_id);

	if (own >= 0 && flow->state < FLOW_CLOSING && flow->last_seen_ms >= d->backends.failed_ms[own])
		d->backends.counted[own]++;
	return true;
}

void backend_refresh(struct dprd *d)
{
	struct backends *b = &d->backends;
	uint64_t usable;
	unsigned own, steps;

	mutex_assert_held(&d->lock);
	if (!d->config.own_backend_count)
		return;
	fill_view(d);
	usable = rules_need(d);
	d->rules_changed = d->rules_changed || usable != b->told;
	b->told = usable;
	for (own = 0; own < d->config.own_backend_count; own++) {
		const struct node_load *load = view_node_load(d, config_own_backend(&d->config, own)->id);

		if (load && load->state != NODE_ACTIVE)
			b->failed_ms[own] = clock_flow_ms();
	}
	steps = flow_slots(d->flows) / COUNT_TICKS + 1;
	flow_walk(d->flows, &b->cursor, steps < COUNT_STEPS ? steps : COUNT_STEPS, count_flow, d);
	if (b->cursor)
		return;
	memcpy(b->connections, b->counted, sizeof(b->connections));
	memset(b->counted, 0, sizeof(b->counted));
}

void backend_reserve(struct dprd *d, unsigned own, const struct flow_key *key, bool reserved)
{
	struct backends *b = &d->backends;
	struct flow flow;
	/* The running count does not look at slots again that it has passed. */
	bool passed = flow_find(d->flows, key, &flow) && flow.slot < b->cursor;

	mutex_assert_held(&d->lock);
	if (reserved) {
		b->connections[own]++;
		b->counted[own] += passed;
	} else {
		b->connections[own] -= b->connections[own] > 0;
		b->counted[own] -= passed && b->counted[own];
	}
}

/* The weight of a node of the view; 0: it gets no connections. */
static unsigned choice_weight(const struct dprd *d, unsigned index, bool v6)
{
	bool takes = index ? backend_takes(d, index - 1, v6) : backend_serves_here(d);

	return takes ? (unsigned)d->backends.nodes[index].weight : 0;
}

/* Sets which nodes may get a connection of this family, and how many connections each has. */
static void look(const struct dprd *d, bool v6, struct view_node *nodes)
{
	unsigned own;

	nodes[0].eligible = backend_serves_here(d);
	nodes[0].load = d->backends.served_here;
	for (own = 0; own < d->config.own_backend_count; own++) {
		nodes[1 + own].eligible = backend_takes(d, own, v6);
		nodes[1 + own].load = d->backends.connections[own];
	}
}

int backend_choose(struct dprd *d, bool v6, uint64_t random)
{
	struct backends *b = &d->backends;
	struct policy_input input = { .view = &b->view, .state = &b->policy_state[v6], .random = random };
	unsigned chosen;

	mutex_assert_held(&d->lock);
	if (!d->config.own_backend_count)
		return -1;
	look(d, v6, b->nodes);
	chosen = b->policy->choose(&input);
	b->served_here += chosen == 0;
	return (int)chosen - 1;
}

bool backend_may_serve(enum reason reason)
{
	switch (reason) {
	case REASON_LOCAL_POLICY:
	case REASON_BELOW_MAX_LOAD:
	case REASON_LOWEST_LOAD:
	case REASON_MIN_ADVANTAGE:
	case REASON_NO_PEER:
	case REASON_MINORITY:
	case REASON_CLUSTER_CLIENT:
	case REASON_INSIDE_CLIENT:
	case REASON_FORWARD_FAILED:
		return true;
	default:
		/* No flow may be made for the SYN, or this node may have served it already. */
		return false;
	}
}

/* Makes the choices of the first entries. Each takes those before it into account. */
static void choose_ahead(struct dprd *d, struct policy_state *state, struct backend_ahead *ahead, unsigned count)
{
	struct view_node nodes[1 + OWN_BACKENDS_MAX];
	struct load_view view = { .count = d->backends.view.count, .nodes = nodes };
	unsigned i;

	memcpy(nodes, ahead->nodes, sizeof(nodes));
	for (i = 0; i < count; i++) {
		struct policy_input input = { .view = &view, .state = state, .random = policy_mix(ahead->seed + i) };
		unsigned chosen;

		if (!ahead->node_id[i])
			continue;
		chosen = d->backends.policy->choose(&input);
		nodes[chosen].load++;
		ahead->node_id[i] = nodes[chosen].node_id;
	}
}

void backend_ahead_make(struct dprd *d, bool v6, uint64_t seed, const struct schedule_entry *entries, unsigned count,
			struct backend_ahead *ret)
{
	static struct policy_state state; /* main thread only */
	unsigned i;

	mutex_assert_held(&d->lock);
	memcpy(ret->nodes, d->backends.nodes, sizeof(ret->nodes));
	look(d, v6, ret->nodes);
	ret->seed = seed;
	for (i = 0; i < count; i++)
		ret->node_id[i] = backend_may_serve(entries[i].reason);
	state = d->backends.policy_state[v6];
	choose_ahead(d, &state, ret, count);
}

void backend_ahead_count(struct dprd *d, bool v6, const struct backend_ahead *ahead, unsigned used)
{
	static struct backend_ahead again; /* main thread only */
	struct backends *b = &d->backends;
	unsigned i, made[OWN_BACKENDS_MAX] = { 0 };

	mutex_assert_held(&d->lock);
	if (used && b->policy->keeps_state) {
		again = *ahead;
		choose_ahead(d, &b->policy_state[v6], &again, used);
	}
	for (i = 0; i < used; i++) {
		int own = config_own_backend_by_id(&d->config, ahead->node_id[i]);

		if (own >= 0)
			made[own]++;
		b->served_here += ahead->node_id[i] == b->nodes[0].node_id;
	}
	for (i = 0; i < d->config.own_backend_count; i++) {
		b->chosen[i] += made[i];
		b->connections[i] += made[i];
		/* It is unknown how many of these flows the running count has passed: half of them on average. */
		b->counted[i] += b->cursor ? made[i] / 2 : 0;
	}
}

bool backend_choices(struct dprd *d, bool v6, uint8_t *ret, unsigned count)
{
	unsigned nodes = 1 + d->config.own_backend_count, weights = 0, before = 0, done = 0, i;

	mutex_assert_held(&d->lock);
	memset(ret, 0, count);
	for (i = 0; i < nodes; i++)
		weights += choice_weight(d, i, v6);
	for (i = 0; i < nodes && weights; i++) {
		int node = flow_table_node(d->flows, d->backends.nodes[i].node_id, true);

		before += choice_weight(d, i, v6);
		for (; done < count * before / weights; done++)
			ret[done] = node > 0 ? (uint8_t)node : 0;
	}
	return nodes > 1;
}

void backend_status(const struct dprd *d, unsigned own, struct backend_status *ret)
{
	const struct backends *b = &d->backends;

	mutex_assert_held(&d->lock);
	*ret = (struct backend_status) { .why_not = b->why_not[own],
					 .connections = b->connections[own],
					 .chosen = b->chosen[own],
					 .mtu = { d->ways.backend[own][0].mtu, d->ways.backend[own][1].mtu } };
	if (!ret->why_not && !backend_takes(d, own, false) && !backend_takes(d, own, true))
		ret->why_not = "no way to it";
}

unsigned backend_connections(const struct dprd *d)
{
	unsigned own, sum = 0;

	mutex_assert_held(&d->lock);
	for (own = 0; own < d->config.own_backend_count; own++)
		sum += d->backends.connections[own];
	return sum;
}
