// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every verdict of decide(): the difference from a plain case, and the expected reason. The last test checks that every
 * reason came up.
 *
 *   node 100 (self)  load 10     node 101  load 4    node 102  load 6
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/core/decide/decide.h"

enum { SELF = 100, NODES = 3, SEED = 20260102, ISN = 7000 };

static bool reached[REASONS];
static struct view_node nodes[64];
static struct load_view view;
static struct policy_state policy_state;
static struct flow_table *flows;
static struct decide_env env;
static bool alive[NODES], eligible_for_copy[NODES];
static uint64_t random_state;

static uint64_t next_random(void)
{
	return policy_mix(random_state++);
}

static bool node_alive(void *context, uint32_t node_id)
{
	(void)context;
	assert_in_range(node_id, SELF + 1, SELF + NODES - 1);
	return alive[node_id - SELF];
}

static bool node_eligible(void *context, uint32_t node_id)
{
	(void)context;
	assert_in_range(node_id, SELF + 1, SELF + NODES - 1);
	return eligible_for_copy[node_id - SELF];
}

static struct flow_table *flows_new(void)
{
	const struct flow_limits limits = {
		.max_confirmed = 64,
		.max_half_open = 64,
		.syn_timeout_ms = 60000,
		.idle_timeout_ms = 900000,
		.fin_timeout_ms = 120000,
		.rst_timeout_ms = 10000,
		.hash_key = { 1, 2 },
	};
	void *memory = aligned_alloc(sizeof(struct flow_bucket), flow_table_bytes(&limits));

	assert_non_null(memory);
	return flow_table_init(memory, &limits);
}

static int start(void **context)
{
	static const uint64_t hash_key[2] = { 3, 4 };
	static const double loads[NODES] = { 10, 4, 6 };

	(void)context;
	random_state = policy_mix(SEED);
	memset(&policy_state, 0, sizeof(policy_state));
	for (unsigned i = 0; i < NODES; i++) {
		nodes[i] = (struct view_node) {
			.member = (uint16_t)i,
			.node_id = SELF + i,
			.eligible = true,
			.weight = 1,
			.load = loads[i],
		};
		alive[i] = eligible_for_copy[i] = true;
	}
	view = (struct load_view) { .count = NODES, .nodes = nodes };
	flows = flows_new();
	env = (struct decide_env) {
		.flows = flows,
		.view = &view,
		.policy = &policy_least,
		.policy_state = &policy_state,
		.hash_key = hash_key,
		.max_load = 5,
		.random = next_random(),
		.node_alive = node_alive,
		.node_eligible = node_eligible,
	};
	return 0;
}

static int stop(void **context)
{
	(void)context;
	free(flows);
	return 0;
}

static struct addr address(const char *text)
{
	struct addr a = { 0 };

	assert_true(addr_parse(text, &a));
	return a;
}

static struct packet packet_tcp(uint8_t flags)
{
	struct packet p = {
		.kind = PACKET_TCP,
		.source = address("192.0.2.9"),
		.destination = address("10.0.0.1"),
		.tcp_flags = flags,
		.tcp_sequence = ISN,
	};

	p.key = (struct flow_key) {
		.client = p.source,
		.service = p.destination,
		.client_port = htons(40000),
		.service_port = htons(80),
	};
	return p;
}

static struct verdict assert_reason(const struct packet *packet, enum reason reason)
{
	struct verdict v = decide(&env, packet);

	assert_string_equal(reason_name(v.reason), reason_name(reason));
	assert_int_equal(v.kind, reason_kind(reason));
	assert_int_equal(v.node_id != 0, v.kind == VERDICT_FORWARD);
	reached[reason] = true;
	return v;
}

static void assert_forward(const struct packet *packet, enum reason reason, uint32_t node_id)
{
	assert_int_equal(assert_reason(packet, reason).node_id, node_id);
}

static void test_new_syn(void **context)
{
	const struct packet syn = packet_tcp(TCP_SYN);
	struct verdict v;

	(void)context;
	v = assert_reason(&syn, REASON_CHOSEN);
	assert_int_equal(v.node_id, 101);
	assert_int_equal(v.view_index, 1);
	nodes[1].sent = 3; /* 7 against 6 */
	assert_forward(&syn, REASON_CHOSEN, 102);
	nodes[1].weight = 2; /* 3.5 against 6 */
	assert_forward(&syn, REASON_CHOSEN, 101);
	/* A SYN with ECN set-up is a SYN like any other. */
	assert_forward(&(struct packet) { .kind = PACKET_TCP, .tcp_flags = TCP_SYN | 0xc0 }, REASON_CHOSEN, 101);
}

static void test_threshold(void **context)
{
	const struct packet syn = packet_tcp(TCP_SYN);

	(void)context;
	env.max_load = 10;
	assert_forward(&syn, REASON_CHOSEN, 101);
	env.max_load = 10.5;
	assert_reason(&syn, REASON_BELOW_MAX_LOAD);
	env.max_load_auto = true; /* (10 + 4 + 6) / 3 */
	assert_forward(&syn, REASON_CHOSEN, 101);
	nodes[2].load = 17;
	assert_reason(&syn, REASON_BELOW_MAX_LOAD);
	nodes[2].eligible = false;
	assert_forward(&syn, REASON_CHOSEN, 101);
	env.max_load_auto = false;
	env.max_load = 5;
	nodes[0].weight = 3; /* 10 / 3 */
	assert_reason(&syn, REASON_BELOW_MAX_LOAD);
	env.max_load = 3;
	assert_reason(&syn, REASON_LOWEST_LOAD);
	nodes[1].load = 10.0 / 3;
	assert_reason(&syn, REASON_LOWEST_LOAD);
	nodes[1].load = 3.2;
	assert_forward(&syn, REASON_CHOSEN, 101);
	nodes[1].sent = 1;
	assert_reason(&syn, REASON_LOWEST_LOAD);
	/* The dispatchers' policies have no threshold. */
	env.policy = &policy_lc;
	assert_forward(&syn, REASON_CHOSEN, 101);
}

static void test_min_advantage(void **context)
{
	const struct packet syn = packet_tcp(TCP_SYN);

	(void)context;
	env.min_advantage = 6;
	assert_forward(&syn, REASON_CHOSEN, 101);
	env.min_advantage = 6.5;
	assert_reason(&syn, REASON_MIN_ADVANTAGE);
	env.policy = &policy_wlc;
	assert_forward(&syn, REASON_CHOSEN, 101);
}

static void test_policy_says_self(void **context)
{
	const struct packet syn = packet_tcp(TCP_SYN);
	unsigned served = 0;

	(void)context;
	env.policy = &policy_local;
	assert_reason(&syn, REASON_LOCAL_POLICY);
	env.policy = &policy_random;
	for (unsigned i = 0; i < 300; i++) {
		struct packet other = syn;
		struct verdict v;

		other.key.client_port = htons((uint16_t)(1024 + i));
		v = decide(&env, &other);
		served += v.kind == VERDICT_SERVE;
		for (unsigned copy = 0; copy < 3; copy++) {
			env.random = next_random();
			assert_int_equal(decide(&env, &other).node_id, v.node_id);
		}
	}
	assert_in_range(served, 70, 130);
}

static unsigned choose_nonsense(const struct policy_input *input)
{
	return input->random % 2 ? 2 : 12345;
}

/* A policy that breaks its contract can make this node serve, never forward to a node that must not get it. */
static void test_broken_policy(void **context)
{
	const struct policy nonsense = { .name = "nonsense", .summary = "", .choose = choose_nonsense };
	const struct packet syn = packet_tcp(TCP_SYN);

	(void)context;
	env.policy = &nonsense;
	nodes[2].eligible = false;
	for (env.random = 0; env.random < 2; env.random++)
		assert_reason(&syn, REASON_LOCAL_POLICY);
}

static void test_guards(void **context)
{
	const struct packet syn = packet_tcp(TCP_SYN);

	(void)context;
	nodes[1].eligible = nodes[2].eligible = false;
	assert_reason(&syn, REASON_NO_PEER);
	env.draining = env.unhealthy = true;
	nodes[0].eligible = false;
	assert_reason(&syn, REASON_NO_PEER);
	env.minority = true;
	assert_reason(&syn, REASON_MINORITY);
	nodes[1].eligible = true;
	assert_reason(&syn, REASON_MINORITY);
	env.table_full = true;
	assert_reason(&syn, REASON_TABLE_FULL);
	env.rate_limited = true;
	assert_reason(&syn, REASON_RATE_GUARD);
	env.from_inside = true;
	assert_reason(&syn, REASON_INSIDE_CLIENT);
	env.from_cluster = true;
	assert_reason(&syn, REASON_CLUSTER_CLIENT);
	env.maybe_stale = true;
	assert_reason(&syn, REASON_STALE_SYN);
	env.maybe_stale = env.rate_limited = env.minority = env.from_cluster = env.table_full = false;
	env.from_inside = false;
	assert_forward(&syn, REASON_DRAINING, 101);
	view.count = 1;
	assert_reason(&syn, REASON_NO_PEER);
}

/* A node that should not serve forwards whatever its load and its policy say. */
static void test_draining_and_unhealthy(void **context)
{
	const struct packet syn = packet_tcp(TCP_SYN);

	(void)context;
	nodes[0].eligible = false;
	nodes[0].load = 0;
	env.max_load = 1000;
	env.min_advantage = 1000;
	env.draining = true;
	for (const struct policy *const *p = policies; *p; p++) {
		env.policy = *p;
		for (unsigned i = 0; i < 50; i++) {
			struct verdict v;

			env.random = next_random();
			v = assert_reason(&syn, REASON_DRAINING);
			assert_in_range(v.node_id, 101, 102);
			assert_int_equal(nodes[v.view_index].node_id, v.node_id);
		}
	}
	env.unhealthy = true;
	assert_reason(&syn, REASON_DRAINING);
	env.draining = false;
	env.policy = &policy_local;
	assert_forward(&syn, REASON_UNHEALTHY, 101);
	nodes[1].eligible = false;
	assert_forward(&syn, REASON_UNHEALTHY, 102);
}

/* The effect of a SYN that meets a flow to node 102; a new decision would choose 101. */
static const struct syn_case {
	enum flow_state state;
	bool same_isn, alive, eligible;
	bool young; /* the first SYN came less than COPY_PATIENCE_MS ago */
	enum reason reason;
} syn_cases[] = {
	{ FLOW_HALF_OPEN, true, true, true, false, REASON_SAME_SYN },
	{ FLOW_HALF_OPEN, true, true, false, false, REASON_CHOSEN },
	{ FLOW_HALF_OPEN, true, true, false, true, REASON_SAME_SYN },
	{ FLOW_HALF_OPEN, true, false, false, true, REASON_CHOSEN },
	{ FLOW_HALF_OPEN, false, true, false, true, REASON_CHOSEN },
	{ FLOW_HALF_OPEN, true, false, false, false, REASON_CHOSEN },
	{ FLOW_HALF_OPEN, false, true, true, false, REASON_CHOSEN },
	{ FLOW_HALF_OPEN, false, false, false, false, REASON_CHOSEN },
	{ FLOW_CONFIRMED, true, true, true, false, REASON_SAME_SYN },
	{ FLOW_CONFIRMED, true, true, false, false, REASON_SAME_SYN },
	{ FLOW_CONFIRMED, true, false, false, false, REASON_CHOSEN },
	{ FLOW_CONFIRMED, false, true, true, false, REASON_SAME_FLOW },
	{ FLOW_CONFIRMED, false, true, false, false, REASON_SAME_FLOW },
	{ FLOW_CONFIRMED, false, false, false, false, REASON_CHOSEN },
	{ FLOW_CLOSING, true, true, true, false, REASON_SAME_SYN },
	{ FLOW_CLOSING, true, true, false, false, REASON_SAME_SYN },
	{ FLOW_CLOSING, true, false, false, false, REASON_CHOSEN },
	{ FLOW_CLOSING, false, true, true, false, REASON_CHOSEN },
	{ FLOW_RESET, true, true, true, false, REASON_SAME_SYN },
	{ FLOW_RESET, true, false, false, false, REASON_CHOSEN },
	{ FLOW_RESET, false, true, true, false, REASON_CHOSEN },
};

static void add_flow(const struct packet *syn, enum flow_state state, uint32_t node_id)
{
	static const uint8_t way_there[] = {
		[FLOW_CONFIRMED] = TCP_ACK, [FLOW_CLOSING] = TCP_FIN, [FLOW_RESET] = TCP_RST
	};
	struct flow evicted, flow;

	assert_true(flow_add(flows, &syn->key, node_id, ISN, 1000, &evicted));
	assert_true(flow_find(flows, &syn->key, &flow));
	if (state != FLOW_HALF_OPEN)
		flow_touch(flows, &flow, TCP_ACK, 1001);
	if (state > FLOW_CONFIRMED)
		flow_touch(flows, &flow, way_there[state] | TCP_ACK, 1002);
	assert_int_equal(flow.state, state);
}

static void ignore_gone(void *context, const struct flow *flow)
{
	(void)context;
	(void)flow;
}

static void test_syn_of_flow(void **context)
{
	struct packet syn = packet_tcp(TCP_SYN);

	(void)context;
	for (unsigned i = 0; i < sizeof(syn_cases) / sizeof(syn_cases[0]); i++) {
		const struct syn_case *c = &syn_cases[i];

		print_message("         case %u\n", i);
		flow_remove_node(flows, 102, ignore_gone, NULL);
		add_flow(&syn, c->state, 102);
		alive[2] = c->alive;
		eligible_for_copy[2] = c->eligible;
		/* The table's clock ticks every 17 ms. */
		env.now_ms = 1000 + COPY_PATIENCE_MS - (c->young ? 40 : 0);
		syn.tcp_sequence = c->same_isn ? ISN : ISN + 1;
		env.maybe_stale = env.rate_limited = false;
		assert_forward(&syn, c->reason, c->reason == REASON_CHOSEN ? 101 : 102);
		/* The queue's age and the rate guard must affect only new decisions. */
		env.maybe_stale = true;
		assert_reason(&syn, c->reason == REASON_CHOSEN ? REASON_STALE_SYN : c->reason);
		env.maybe_stale = false;
		env.rate_limited = true;
		assert_reason(&syn, c->reason == REASON_CHOSEN ? REASON_RATE_GUARD : c->reason);
	}
}

/* The copy of a SYN that got no answer for long goes to another node, even if the first one is to be tried again. */
static void test_copy_is_no_trial(void **context)
{
	struct packet syn = packet_tcp(TCP_SYN);

	(void)context;
	add_flow(&syn, FLOW_HALF_OPEN, 101);
	alive[1] = true;
	eligible_for_copy[1] = false;
	env.now_ms = 1000 + COPY_PATIENCE_MS;
	assert_true(nodes[1].eligible);
	assert_forward(&syn, REASON_CHOSEN, 102);
	assert_true(nodes[1].eligible);
	syn.tcp_sequence = ISN + 1;
	assert_forward(&syn, REASON_CHOSEN, 101);
}

static void test_packets_of_flow(void **context)
{
	static const uint8_t flags[] = { TCP_ACK, TCP_ACK | TCP_PSH, TCP_FIN | TCP_ACK,
					 TCP_RST, TCP_SYN | TCP_ACK, TCP_SYN | TCP_RST,
					 0 };
	const struct packet syn = packet_tcp(TCP_SYN);
	struct packet icmp = syn;

	(void)context;
	icmp.kind = PACKET_ICMP_ERROR;
	icmp.tcp_flags = 0;
	for (unsigned i = 0; i < sizeof(flags); i++) {
		struct packet p = packet_tcp(flags[i]);

		assert_reason(&p, REASON_NO_FLOW);
	}
	assert_reason(&icmp, REASON_NO_FLOW);
	add_flow(&syn, FLOW_HALF_OPEN, 102);
	/* No condition for new connections stops a packet of an old one. */
	env.maybe_stale = env.rate_limited = env.minority = env.draining = true;
	alive[2] = eligible_for_copy[2] = nodes[2].eligible = false;
	for (unsigned i = 0; i < sizeof(flags); i++) {
		struct packet p = packet_tcp(flags[i]);

		assert_forward(&p, REASON_FLOW, 102);
		p.key.client_port++;
		assert_reason(&p, REASON_NO_FLOW);
	}
	assert_forward(&icmp, REASON_ICMP_RELAY, 102);
	icmp.key.service_port++;
	assert_reason(&icmp, REASON_NO_FLOW);
}

/* A table adopted under another name may lead to this node itself: that would be a tunnel to self. */
static void test_flow_to_self(void **context)
{
	const struct packet syn = packet_tcp(TCP_SYN), ack = packet_tcp(TCP_ACK);

	(void)context;
	add_flow(&syn, FLOW_CONFIRMED, SELF);
	assert_reason(&ack, REASON_NO_FLOW);
	assert_forward(&syn, REASON_CHOSEN, 101);
}

static void test_other_packets(void **context)
{
	static const struct {
		enum packet_kind kind;
		enum reason reason;
	} cases[] = {
		{ PACKET_FRAGMENT, REASON_FRAGMENT },    { PACKET_OPTIONS, REASON_OPTIONS },
		{ PACKET_OTHER, REASON_OTHER },          { PACKET_TRUNCATED, REASON_BAD_PACKET },
		{ PACKET_MALFORMED, REASON_BAD_PACKET }, { PACKET_TUNNEL, REASON_OTHER },
	};

	(void)context;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct packet p = packet_tcp(TCP_SYN);

		p.kind = cases[i].kind;
		assert_reason(&p, cases[i].reason);
	}
}

/* A SYN with options stays here, unless its flow leads elsewhere; packets within the flow follow it. */
static void test_options(void **context)
{
	struct packet syn = packet_tcp(TCP_SYN), ack = packet_tcp(TCP_ACK);

	(void)context;
	assert_forward(&syn, REASON_CHOSEN, 101);
	syn.header_bytes = IPV4_HEADER_BYTES;
	assert_forward(&syn, REASON_CHOSEN, 101);
	syn.header_bytes = ack.header_bytes = IPV4_HEADER_BYTES + 4;
	assert_reason(&syn, REASON_OPTIONS);
	assert_reason(&ack, REASON_NO_FLOW);
	add_flow(&syn, FLOW_CONFIRMED, 102);
	assert_forward(&syn, REASON_SAME_SYN, 102);
	assert_forward(&ack, REASON_FLOW, 102);
}

/* Runs last: a reason that no test above reached is either not tested or not reachable. */
static void test_every_reason(void **context)
{
	/* Reasons of decide_decapsulation() and of the caller. */
	const bool not_ours[REASONS] = {
		[REASON_FROM_PEER] = true,      [REASON_NOT_PEER] = true,          [REASON_NOT_TO_US] = true,
		[REASON_INNER_FOREIGN] = true,  [REASON_INNER_NOT_SENDERS] = true, [REASON_INNER_SOURCE] = true,
		[REASON_INNER_NESTED] = true,   [REASON_INNER_BAD] = true,         [REASON_STALE_TUNNEL_SYN] = true,
		[REASON_LOCAL_SOCKET] = true,   [REASON_FORWARD_FAILED] = true,    [REASON_NO_TUNNEL] = true,
		[REASON_QUEUE_UNPARSED] = true, [REASON_SENT_BACK] = true,         [REASON_CHOSEN_AGAIN] = true,
		[REASON_RETURNED_LATE] = true,  [REASON_BACKEND] = true,           [REASON_NO_BACKEND] = true,
		[REASON_SEEN_THERE] = true,     [REASON_LATE_SYN] = true,          [REASON_PROBE] = true,
	};

	(void)context;
	for (unsigned i = 0; i < REASONS; i++)
		if (reached[i] == not_ours[i])
			fail_msg("%s: %s", reason_name((enum reason)i),
				 reached[i] ? "not decide()'s" : "never reached");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_new_syn),
		TEST(test_threshold),
		TEST(test_min_advantage),
		TEST(test_policy_says_self),
		TEST(test_broken_policy),
		TEST(test_guards),
		TEST(test_draining_and_unhealthy),
		TEST(test_syn_of_flow),
		TEST(test_copy_is_no_trial),
		TEST(test_packets_of_flow),
		TEST(test_flow_to_self),
		TEST(test_other_packets),
		TEST(test_options),
		cmocka_unit_test(test_every_reason),
	};

	return cmocka_run_group_tests_name("decide", tests, NULL, NULL);
}
