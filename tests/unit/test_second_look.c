// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The second look: SYNs of a peer that go back, and the fate of SYNs that come back.
 *
 *   node 100 (self)  load 10     node 101  load 4    node 102  load 6    node 103  load 20
 */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/core/decide/decide.h"

enum { SELF = 100, NODES = 4, ISN = 7000, MADE_MS = 100000 };

static struct view_node nodes[NODES];
static struct load_view view;
static struct policy_state policy_state;
static struct flow_table *flows;
static struct decide_env env;
static struct packet syn;

static int start(void **context)
{
	static const uint64_t hash_key[2] = { 3, 4 };
	static const double loads[NODES] = { 10, 4, 6, 20 };
	const struct flow_limits limits = { .max_confirmed = 64,
					    .max_half_open = 64,
					    .syn_timeout_ms = 60000,
					    .idle_timeout_ms = 900000,
					    .fin_timeout_ms = 120000,
					    .rst_timeout_ms = 10000 };
	void *memory = aligned_alloc(sizeof(struct flow_bucket), flow_table_bytes(&limits));

	(void)context;
	assert_non_null(memory);
	flows = flow_table_init(memory, &limits);
	for (unsigned i = 0; i < NODES; i++)
		nodes[i] = (struct view_node) { .node_id = SELF + i, .eligible = true, .weight = 1, .load = loads[i] };
	view = (struct load_view) { .count = NODES, .nodes = nodes };
	memset(&policy_state, 0, sizeof(policy_state));
	env = (struct decide_env) {
		.flows = flows,
		.view = &view,
		.policy = &policy_least,
		.policy_state = &policy_state,
		.hash_key = hash_key,
		.max_load = 5,
		.now_ms = MADE_MS,
	};
	syn = (struct packet) { .kind = PACKET_TCP, .tcp_flags = TCP_SYN, .tcp_sequence = ISN };
	syn.key.client_port = htons(40000);
	syn.key.service_port = htons(80);
	assert_true(addr_parse("192.0.2.9", &syn.key.client));
	assert_true(addr_parse("10.0.0.1", &syn.key.service));
	return 0;
}

static int stop(void **context)
{
	(void)context;
	free(flows);
	return 0;
}

/* Stays here, or goes back to the peer that it came from; the view is as it was. */
static void assert_landed(uint32_t entry_id, enum reason reason)
{
	struct view_node before[NODES];
	struct verdict v;

	memcpy(before, nodes, sizeof(before));
	v = decide_landed(&env, &syn, entry_id, 0);
	assert_string_equal(reason_name(v.reason), reason_name(reason));
	assert_int_equal(v.kind, reason_kind(reason));
	assert_int_equal(v.node_id, entry_id);
	for (unsigned i = 0; i < NODES; i++)
		assert_int_equal(nodes[i].eligible, before[i].eligible);
}

static void goes_back_when_others_should_serve(void **context)
{
	(void)context;
	assert_landed(103, REASON_SENT_BACK);
	assert_landed(101, REASON_SENT_BACK);
	env.max_load = 11;
	assert_landed(103, REASON_FROM_PEER);
	env.max_load = 10;
	assert_landed(103, REASON_SENT_BACK);
	nodes[0].load = 4;
	assert_landed(103, REASON_FROM_PEER);
	env.max_load = 0;
	/* This node has the lowest load; 101 is as low, but cannot get back its own connection. */
	assert_landed(103, REASON_FROM_PEER);
	nodes[0].load = 5;
	assert_landed(103, REASON_SENT_BACK);
	assert_landed(101, REASON_FROM_PEER);
	/* The entry node is not in the view, as if it were not heard: any other node may serve. */
	assert_landed(177, REASON_SENT_BACK);
}

/* A load in a byte: rounded up, by a sixteenth at most, over all that a node may announce. */
static void code_of_a_load(void **context)
{
	(void)context;
	assert_int_equal(decide_alternative_code(0), 0);
	assert_int_equal(decide_alternative_code(-3), 0);
	assert_int_equal(decide_alternative_code(INFINITY), UINT8_MAX);
	for (double load = 0.01; load < 3.9e9; load *= 1.01) {
		double back = decide_alternative_load(decide_alternative_code(load));

		assert_true(back >= load);
		assert_true(1 + back < (1 + load) * 1.0906);
	}
}

/* The sender's best other choice goes with its SYN, and the SYN stays while it is no better here. */
static void stays_while_the_sender_has_nothing_better(void **context)
{
	struct verdict v;

	(void)context;
	/* From 100 to 101, which has 4: the best of the others is 102 with 6. */
	v = decide_new(&env, &syn);
	assert_int_equal(v.node_id, 101);
	assert_int_equal(v.alternative, decide_alternative_code(6));
	nodes[0].load = 5.5;
	assert_int_equal(decide_new(&env, &syn).alternative, decide_alternative_code(5.5));
	/* This node does not count itself while it sheds its load. */
	env.draining = true;
	assert_int_equal(decide_new(&env, &syn).alternative, 0);
	env.draining = false;
	nodes[0].load = 10;
	assert_int_equal(decide_landed(&env, &syn, 103, decide_alternative_code(10)).reason, REASON_FROM_PEER);
	assert_int_equal(decide_landed(&env, &syn, 103, decide_alternative_code(9)).reason, REASON_SENT_BACK);
	/* Only today's load counts: a node that drains keeps nothing. */
	env.draining = true;
	assert_int_equal(decide_landed(&env, &syn, 103, UINT8_MAX).reason, REASON_SENT_BACK);
}

/* When only the entry node has room, this node keeps the SYN: it would go back and forth. */
static void stays_when_only_the_entry_node_has_room(void **context)
{
	(void)context;
	nodes[2].load = nodes[3].load = 30;
	assert_landed(101, REASON_FROM_PEER);
	assert_landed(102, REASON_SENT_BACK);
	nodes[2].eligible = nodes[3].eligible = false;
	nodes[1].load = 0;
	assert_landed(101, REASON_FROM_PEER);
	assert_int_equal(decide_room(&env, 1), 0);
	view.count = 2;
	assert_landed(101, REASON_FROM_PEER);
	assert_true(decide_room(&env, 1) > 0);
	env.draining = true;
	assert_landed(101, REASON_FROM_PEER);
	assert_true(decide_room(&env, 1) > 0);
}

static void stays_when_in_doubt(void **context)
{
	static const struct policy *const blind[] = { &policy_random, &policy_rr,  &policy_wrr,
						      &policy_lc,     &policy_wlc, &policy_local };

	(void)context;
	for (unsigned i = 0; i < sizeof(blind) / sizeof(blind[0]); i++) {
		env.policy = blind[i];
		assert_landed(103, REASON_FROM_PEER);
		assert_true(decide_room(&env, 1) > 0);
	}
	env.policy = &policy_least;
	env.min_advantage = 7;
	assert_landed(103, REASON_FROM_PEER);
	env.min_advantage = 0;
	env.minority = true;
	assert_landed(103, REASON_FROM_PEER);
	env.minority = false;
	env.rate_limited = true;
	assert_landed(103, REASON_FROM_PEER);
	env.rate_limited = false;
	assert_landed(103, REASON_SENT_BACK);
}

/* Its announcement that it drains may be on the way. */
static void draining_sends_all_back(void **context)
{
	(void)context;
	nodes[0].load = 0;
	assert_landed(103, REASON_FROM_PEER);
	assert_true(decide_room(&env, 1) > 0);
	env.draining = true;
	assert_landed(103, REASON_SENT_BACK);
	assert_int_equal(decide_room(&env, 1), 0);
	env.draining = false;
	env.unhealthy = true;
	assert_landed(103, REASON_SENT_BACK);
	assert_int_equal(decide_room(&env, 1), 0);
}

/* While room is reported, no SYN would go back, whichever peer sends; after that one would, for at least one peer. */
static void room_says_when_to_ask(void **context)
{
	unsigned finite = 0, sent_back = 0;

	(void)context;
	for (unsigned c = 0; c < 4 * 4 * 4 * 4; c++) {
		const double connection_load = c % 13 ? 1 : 0.75;
		unsigned room;

		for (unsigned i = 0; i < NODES; i++)
			nodes[i].load = 2 * (c >> 2 * i & 3);
		nodes[0].weight = 1 + c % 2;
		env.max_load_auto = false;
		env.max_load = c % 5;
		nodes[3].eligible = c % 7;
		nodes[2].eligible = c % 11 % 2;
		room = decide_room(&env, connection_load);
		finite += room > 0 && room < 20;
		for (unsigned landed = 0; landed < 20; landed++) {
			bool back = false;

			for (unsigned entry = 1; entry <= NODES; entry++)
				back |= decide_landed(&env, &syn, SELF + entry, 0).kind == VERDICT_FORWARD;
			assert_int_equal(back, landed >= room);
			sent_back += back;
			nodes[0].load += connection_load;
		}
	}
	assert_true(finite > 100 && sent_back > 1000);
}

/* Connections may add nothing to a load of processors. */
static void room_without_connections_in_the_load(void **context)
{
	(void)context;
	assert_int_equal(decide_room(&env, 0), 0);
	nodes[0].load = 1;
	assert_true(decide_room(&env, 0) == UINT_MAX);
	assert_int_equal(decide_room(&env, 0.5), 8);
}

static void add_flow(uint32_t node_id)
{
	struct flow evicted;

	assert_true(flow_add(flows, &syn.key, node_id, ISN, MADE_MS, &evicted));
}

static struct verdict assert_returned(uint32_t from_id, enum reason reason, uint32_t node_id)
{
	struct verdict v = decide_returned(&env, &syn, from_id);

	assert_string_equal(reason_name(v.reason), reason_name(reason));
	assert_int_equal(v.kind, reason_kind(reason));
	assert_int_equal(v.node_id, node_id);
	assert_int_equal(v.old_flow, reason != REASON_RETURNED_LATE);
	return v;
}

static void another_one_is_chosen(void **context)
{
	(void)context;
	add_flow(101);
	assert_int_equal(assert_returned(101, REASON_CHOSEN_AGAIN, 102).view_index, 2);
	assert_true(nodes[1].eligible);
	nodes[2].eligible = false;
	/* 103 has more than we have. */
	assert_returned(101, REASON_LOWEST_LOAD, 0);
	nodes[0].load = 3;
	assert_returned(101, REASON_BELOW_MAX_LOAD, 0);
	nodes[3].eligible = false;
	assert_returned(101, REASON_NO_PEER, 0);
	env.draining = true;
	assert_returned(101, REASON_NO_PEER, 0);
	nodes[3].eligible = true;
	assert_returned(101, REASON_CHOSEN_AGAIN, 103);
}

/* A copy of the SYN may be with that node, or another decision has been made meanwhile. */
static void too_late(void **context)
{
	struct flow flow;

	(void)context;
	assert_returned(101, REASON_RETURNED_LATE, 0);
	add_flow(102);
	assert_returned(101, REASON_RETURNED_LATE, 0);
	add_flow(101);
	/* The table's clock ticks every 17 ms. */
	env.now_ms = MADE_MS + STALE_MS - 20;
	assert_returned(101, REASON_CHOSEN_AGAIN, 102);
	env.now_ms = MADE_MS + STALE_MS + 20;
	assert_returned(101, REASON_RETURNED_LATE, 0);
	env.now_ms = MADE_MS;
	env.maybe_stale = true;
	assert_returned(101, REASON_RETURNED_LATE, 0);
	env.maybe_stale = false;
	syn.tcp_sequence++;
	assert_returned(101, REASON_RETURNED_LATE, 0);
	syn.tcp_sequence--;
	syn.tcp_flags = TCP_ACK;
	assert_returned(101, REASON_RETURNED_LATE, 0);
	syn.tcp_flags = TCP_SYN;
	syn.key.client_port++;
	assert_returned(101, REASON_RETURNED_LATE, 0);
	syn.key.client_port--;
	assert_returned(101, REASON_CHOSEN_AGAIN, 102);
	assert_true(flow_find(flows, &syn.key, &flow));
	flow_touch(flows, &flow, TCP_ACK, MADE_MS);
	assert_returned(101, REASON_RETURNED_LATE, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(goes_back_when_others_should_serve),
		TEST(stays_while_the_sender_has_nothing_better),
		cmocka_unit_test(code_of_a_load),
		TEST(stays_when_only_the_entry_node_has_room),
		TEST(stays_when_in_doubt),
		TEST(draining_sends_all_back),
		TEST(room_says_when_to_ask),
		TEST(room_without_connections_in_the_load),
		TEST(another_one_is_chosen),
		TEST(too_late),
	};

	return cmocka_run_group_tests_name("second look", tests, NULL, NULL);
}
