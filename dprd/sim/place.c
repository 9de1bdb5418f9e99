// SPDX-License-Identifier: GPL-2.0-or-later
/* place.c - places a connection: calls decide() as dprd/queue/path.c does, and acts on its verdict. */
#include <stdlib.h>

#include "dprd/sim/run.h"

enum {
	FLOWS_HALF_OPEN_SHARE = 16, /* dprd.conf's MaxFlows / MaxHalfOpen */
	SYN_TIMEOUT_MS = 60000, /* as in dprd.conf */
	FIN_TIMEOUT_MS = 120000,
	RST_TIMEOUT_MS = 10000,
	IDLE_TIMEOUT_MS = 8000000,
	CLIENT_BITS = 40, /* of a client's address and port: 10.0.0.0/8, all ports */
};

/* The flow table's clock must not begin at 0. */
static uint64_t flow_ms(const struct run *run)
{
	return 1000 + knowledge_ms(run->now_s);
}

static struct flow_limits limits_of(const struct run *run)
{
	unsigned flows = run->setup->flows ? run->setup->flows : 1, half_open = flows / FLOWS_HALF_OPEN_SHARE;

	return (struct flow_limits) {
		.max_confirmed = flows,
		.max_half_open = half_open ? half_open : 1,
		.syn_timeout_ms = SYN_TIMEOUT_MS,
		.idle_timeout_ms = IDLE_TIMEOUT_MS,
		.fin_timeout_ms = FIN_TIMEOUT_MS,
		.rst_timeout_ms = RST_TIMEOUT_MS,
		.hash_key = { run->hash_key[0], run->hash_key[1] },
	};
}

static void *flow_memory_of(const struct run *run, const struct flow_limits *limits, unsigned node)
{
	return (uint8_t *)run->flow_memory + (run->setup->flows ? node * flow_table_bytes(limits) : 0);
}

void place_forget_all(struct run *run, unsigned node)
{
	struct flow_limits limits = limits_of(run);

	run->nodes[node].flows = flow_table_init(flow_memory_of(run, &limits, node), &limits);
}

bool place_init(struct run *run)
{
	unsigned nodes = run->setup->nodes, tables = run->setup->flows ? nodes : 1;
	struct flow_limits limits;
	size_t bytes;

	run->hash_key[0] = policy_mix(run->setup->seed);
	run->hash_key[1] = policy_mix(~run->setup->seed);
	limits = limits_of(run);
	bytes = flow_table_bytes(&limits);
	run->states = calloc(nodes, sizeof(*run->states));
	run->view_nodes = calloc(nodes, sizeof(*run->view_nodes));
	run->flow_memory = aligned_alloc(sizeof(struct flow_bucket), tables * bytes);
	if (!run->states || !run->view_nodes || !run->flow_memory)
		return false;
	for (unsigned i = 0; i < nodes; i++) {
		run->nodes[i].state = &run->states[i];
		run->nodes[i].hash_key[0] = policy_mix(run->hash_key[0] + i);
		run->nodes[i].hash_key[1] = policy_mix(run->hash_key[1] + i);
		place_forget_all(run, i);
	}
	return true;
}

void place_free(struct run *run)
{
	free(run->states);
	free(run->view_nodes);
	free(run->flow_memory);
}

/* Each connection has another client; every policy gets the same clients. */
static struct packet syn_of(const struct connection *c)
{
	uint64_t client = (c->number * 0x9e3779b97f4a7c15) & ((1ULL << CLIENT_BITS) - 1);
	struct packet syn = { .kind = PACKET_TCP, .tcp_flags = TCP_SYN, .tcp_sequence = (uint32_t)c->number };

	syn.source = syn.key.client = addr_from_v4(to_be32(0x0a000000 | (uint32_t)(client >> 16)));
	syn.key.client_port = to_be16((uint16_t)client);
	syn.key.service = addr_from_v4(to_be32(0xc0000200 + c->entry));
	syn.key.service_port = to_be16(80);
	return syn;
}

static bool counts(const struct run *run, const struct connection *c)
{
	return !c->held && stats_counts(&run->stats, c->arrived_s);
}

static bool always(void *context, uint32_t node_id)
{
	(void)context;
	(void)node_id;
	return true;
}

unsigned place_load(const struct run *run, unsigned node)
{
	const struct server *server = &run->servers.server[node];
	unsigned open = server->open + server->held, floor = (unsigned)run->nodes[node].suspicion.floor;

	return open > floor ? open : floor;
}

/* Fills the facts that decide() may use on this node now. */
static void fill_env(struct run *run, unsigned self, struct load_view *view, struct decide_env *ret)
{
	const struct sim_setup *setup = run->setup;
	struct node *node = &run->nodes[self];

	*view = (struct load_view) { .count = setup->nodes, .nodes = run->view_nodes };
	*ret = (struct decide_env) {
		.flows = node->flows,
		.view = view,
		.policy = setup->policy,
		.policy_state = node->state,
		.hash_key = node->hash_key,
		.max_load_auto = setup->max_load_auto,
		.max_load = setup->max_load,
		.min_advantage = setup->min_advantage,
		.minority = knowledge_view(&run->knowledge, self, run->now_s, run->view_nodes),
		.table_full = setup->flows && !flow_has_room(node->flows, flow_ms(run)),
		.random = policy_mix(node->random_state++),
		.now_ms = flow_ms(run),
		.node_alive = always,
		.node_eligible = always,
	};
	run->view_nodes[0] = (struct view_node) {
		.member = (uint16_t)self,
		.node_id = run->knowledge.node_id[self],
		.eligible = true,
		.load = place_load(run, self),
		.weight = setup->weight[self] > 0 ? setup->weight[self] : 1,
		.arrivals_per_s = node->arrivals_per_1000_s / 1000.0,
	};
	run->stats.result.decisions++;
}

/* Makes a flow in the entry node's table. False: there was no room. */
static bool make_flow(struct run *run, const struct connection *c, unsigned to)
{
	struct packet syn = syn_of(c);
	struct flow flow;

	if (!run->setup->flows)
		return true;
	if (!flow_add(run->nodes[c->entry].flows, &syn.key, run->knowledge.node_id[to], syn.tcp_sequence, flow_ms(run),
		      &flow))
		return false;
	/* The client's next packet comes at once. */
	if (flow_find(run->nodes[c->entry].flows, &syn.key, &flow))
		flow_touch(run->nodes[c->entry].flows, &flow, TCP_ACK, flow_ms(run));
	return true;
}

unsigned place_new(struct run *run, uint32_t connection)
{
	struct connection *c = &run->pool.connection[connection];
	struct packet syn = syn_of(c);
	struct decide_env env;
	struct load_view view;
	struct verdict verdict;
	unsigned to = c->entry;

	fill_env(run, c->entry, &view, &env);
	verdict = decide(&env, &syn);
	if (verdict.kind == VERDICT_FORWARD && verdict.view_index) {
		to = view.nodes[verdict.view_index].member;
		if (!make_flow(run, c, to)) {
			to = c->entry;
			verdict.reason = REASON_TABLE_FULL;
		}
	}
	if (counts(run, c))
		run->stats.result.reasons[verdict.reason]++;
	if (to != c->entry) {
		c->forwarded = true;
		c->alternative = verdict.alternative;
		knowledge_count_sent(&run->knowledge, c->entry, to, run->now_s);
	}
	return to;
}

bool place_returns(struct run *run, uint32_t connection)
{
	struct connection *c = &run->pool.connection[connection];
	struct packet syn = syn_of(c);
	struct decide_env env;
	struct load_view view;

	c->looked = true;
	fill_env(run, c->server, &view, &env);
	c->returning =
		decide_landed(&env, &syn, run->knowledge.node_id[c->entry], c->alternative).reason == REASON_SENT_BACK;
	c->sent_back_by = c->server;
	run->stats.result.sent_back += c->returning && counts(run, c);
	run->stats.result.burst_sent_back += c->returning && c->held;
	return c->returning;
}

unsigned place_again(struct run *run, uint32_t connection)
{
	struct connection *c = &run->pool.connection[connection];
	struct sim_result *r = &run->stats.result;
	struct packet syn = syn_of(c);
	struct decide_env env;
	struct load_view view;
	struct verdict verdict;
	unsigned to = c->entry;

	c->returning = false;
	fill_env(run, c->entry, &view, &env);
	verdict = decide_again(&env, &syn, run->knowledge.node_id[c->sent_back_by]);
	if (verdict.kind == VERDICT_FORWARD && make_flow(run, c, view.nodes[verdict.view_index].member))
		to = view.nodes[verdict.view_index].member;
	c->forwarded = to != c->entry;
	if (c->forwarded)
		knowledge_count_sent(&run->knowledge, c->entry, to, run->now_s);
	r->forwarded -= !c->forwarded && counts(run, c);
	r->chosen_again += c->forwarded && counts(run, c);
	return to;
}

void place_ended(struct run *run, uint32_t connection)
{
	const struct connection *c = &run->pool.connection[connection];
	struct packet syn = syn_of(c);
	struct flow flow;

	if (run->setup->flows && flow_find(run->nodes[c->entry].flows, &syn.key, &flow))
		flow_touch(run->nodes[c->entry].flows, &flow, TCP_FIN | TCP_ACK, flow_ms(run));
}

static void nothing(void *context, const struct flow *flow)
{
	(void)context;
	(void)flow;
}

void place_expire(struct run *run)
{
	for (unsigned i = 0; run->setup->flows && i < run->setup->nodes; i++)
		flow_expire(run->nodes[i].flows, flow_slots(run->nodes[i].flows), flow_ms(run), nothing, NULL);
}
