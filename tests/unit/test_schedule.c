// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Decide=kernel against decide(): the verdicts made ahead, and the verdicts of decide() for the same number of SYNs one
 * after the other, with the effect of each counted as in path.c. Policies without chance must give the same sequence.
 * The others must give the same distribution over nodes and reasons, by a chi-square test of two samples.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/core/decide/schedule.h"

enum { SEED = 20260103, NODES = 4, AHEAD = 128, ROUNDS = 400 };

static const uint64_t hash_key[2] = { 5, 6 };
static uint64_t random_state;
static struct view_node start_nodes[NODES], nodes[NODES];
static struct load_view view = { .count = NODES, .nodes = nodes };
static struct policy_state state;
static struct flow_table *flows;
static struct decide_env env;

static uint64_t next_random(void)
{
	return policy_mix(random_state++);
}

static int start(void **context)
{
	/* The loads have no ties, which would be drawn. */
	static const double load[NODES] = { 11.503, 3.217, 6.131, 9.047 }, weight[NODES] = { 1, 1, 2, 1 };
	const struct flow_limits limits = { .max_confirmed = 64, .max_half_open = 64, .hash_key = { 1, 2 } };
	unsigned i;

	(void)context;
	random_state = policy_mix(SEED);
	for (i = 0; i < NODES; i++)
		start_nodes[i] = (struct view_node) { .member = (uint16_t)i,
						      .node_id = 100 + i,
						      .eligible = true,
						      .weight = weight[i],
						      .load = load[i],
						      .age_ms = i ? 80 : 0,
						      .arrivals_per_s = 40 };
	flows = flow_table_init(aligned_alloc(128, flow_table_bytes(&limits)), &limits);
	env = (struct decide_env) { .flows = flows,
				    .view = &view,
				    .policy_state = &state,
				    .hash_key = hash_key,
				    .max_load = 4,
				    .now_ms = 1000 };
	return 0;
}

static int stop(void **context)
{
	(void)context;
	free(flows);
	return 0;
}

static void restart(const struct policy *policy)
{
	memcpy(nodes, start_nodes, sizeof(nodes));
	memset(&state, 0, sizeof(state));
	state.placed = true;
	env.policy = policy;
}

/* AHEAD SYNs of different clients, one after the other. */
static void decide_each(struct schedule_entry *entries)
{
	unsigned i;

	for (i = 0; i < AHEAD; i++) {
		struct packet syn = { .kind = PACKET_TCP, .tcp_flags = TCP_SYN };
		struct verdict verdict;

		syn.key.client = addr_from_v4((be32)next_random());
		syn.key.service = addr_from_v4(0x010200c0);
		syn.key.client_port = (be16)next_random();
		env.random = next_random();
		verdict = decide(&env, &syn);
		entries[i] = (struct schedule_entry) { .reason = (uint8_t)verdict.reason };
		if (verdict.kind == VERDICT_FORWARD) {
			entries[i].view_index = (uint16_t)verdict.view_index;
			nodes[verdict.view_index].sent++;
		} else {
			nodes[0].load += 1;
		}
	}
}

static void expect_same_sequence(const struct policy *policy)
{
	struct schedule_entry each[AHEAD], ahead[AHEAD];
	unsigned i;

	restart(policy);
	decide_each(each);
	restart(policy);
	schedule_make(&env, 1, next_random(), ahead, AHEAD);
	for (i = 0; i < AHEAD; i++) {
		if (each[i].reason != ahead[i].reason || each[i].view_index != ahead[i].view_index)
			fail_msg("%s, SYN %u: decide() says node %u, %s; made ahead was node %u, %s", policy->name, i,
				 each[i].view_index, reason_name(each[i].reason), ahead[i].view_index,
				 reason_name(ahead[i].reason));
	}
}

static void count(const struct schedule_entry *entries, unsigned hits[NODES][REASONS])
{
	unsigned i;

	for (i = 0; i < AHEAD; i++)
		hits[entries[i].view_index][entries[i].reason]++;
}

static void expect_same_distribution(const struct policy *policy)
{
	/* 99.99 % points for 1 .. 8 degrees of freedom. */
	static const double limit[] = { 0, 15.1, 18.4, 21.1, 23.5, 25.7, 27.9, 29.9, 31.8 };
	static unsigned one[NODES][REASONS], other[NODES][REASONS];
	struct schedule_entry entries[AHEAD];
	unsigned round, node, reason, cells = 0;
	double square = 0;

	memset(one, 0, sizeof(one));
	memset(other, 0, sizeof(other));
	for (round = 0; round < ROUNDS; round++) {
		restart(policy);
		decide_each(entries);
		count(entries, one);
		restart(policy);
		schedule_make(&env, 1, next_random(), entries, AHEAD);
		count(entries, other);
	}
	for (node = 0; node < NODES; node++) {
		for (reason = 0; reason < REASONS; reason++) {
			double a = one[node][reason], b = other[node][reason];

			if (a + b == 0)
				continue;
			square += (a - b) * (a - b) / (a + b);
			cells++;
		}
	}
	assert_in_range(cells, 2, 9);
	/* Draws within a round depend on each other, which only narrows their sums. */
	if (square > limit[cells - 1])
		fail_msg("%s: chi-square %.1f with %u cells (seed %d)", policy->name, square, cells, SEED);
}

static bool has_chance(const struct policy *policy)
{
	static const struct policy *const drawn[] = { &policy_random, &policy_inverse, &policy_p2c, &policy_li };
	unsigned i;

	for (i = 0; i < sizeof(drawn) / sizeof(drawn[0]); i++) {
		if (policy == drawn[i])
			return true;
	}
	return false;
}

static void test_every_policy(void **context)
{
	unsigned i;

	(void)context;
	for (i = 0; policies[i]; i++) {
		if (has_chance(policies[i]))
			expect_same_distribution(policies[i]);
		else
			expect_same_sequence(policies[i]);
	}
}

/* A node that drains sends all away; one without peers keeps all. */
static void test_states(void **context)
{
	struct schedule_entry entries[AHEAD];
	unsigned i;

	(void)context;
	restart(&policy_li);
	env.draining = true;
	schedule_make(&env, 1, next_random(), entries, AHEAD);
	for (i = 0; i < AHEAD; i++) {
		assert_int_equal(entries[i].reason, REASON_DRAINING);
		assert_int_not_equal(entries[i].view_index, 0);
	}
	restart(&policy_li);
	for (i = 1; i < NODES; i++)
		nodes[i].eligible = false;
	schedule_make(&env, 1, next_random(), entries, AHEAD);
	for (i = 0; i < AHEAD; i++) {
		assert_int_equal(entries[i].reason, REASON_NO_PEER);
		assert_int_equal(entries[i].view_index, 0);
	}
}

/* The own load grows with kept connections: it reaches MaxLoad after as many as are missing. */
static void test_own_load_counts(void **context)
{
	struct schedule_entry entries[AHEAD];
	unsigned i;

	(void)context;
	restart(&policy_least);
	env.draining = false;
	nodes[0].load = 0.5;
	schedule_make(&env, 1, next_random(), entries, AHEAD);
	for (i = 0; i < 4; i++)
		assert_int_equal(entries[i].reason, REASON_BELOW_MAX_LOAD);
	assert_int_not_equal(entries[4].reason, REASON_BELOW_MAX_LOAD);
}

/* Two families share the low loads: a low node is not filled up by each of them. */
static void test_both_families(void **context)
{
	static struct view_node other_nodes[NODES];
	static const double load[NODES] = { 100, 10, 30, 30 };
	struct load_view other_view = { .count = NODES, .nodes = other_nodes };
	struct schedule_entry entries[2][AHEAD];
	struct decide_env other;
	struct schedule_family family[2] = { { .env = &env, .seed = 1, .expected = 1, .count = 30 },
					     { .env = &other, .seed = 2, .expected = 1, .count = 30 } };
	unsigned hits[2] = { 0 }, f, i;

	(void)context;
	restart(&policy_least);
	for (i = 0; i < NODES; i++) {
		nodes[i].load = load[i];
		nodes[i].weight = 1;
	}
	memcpy(other_nodes, nodes, sizeof(nodes));
	other = env;
	other.view = &other_view;
	for (f = 0; f < 2; f++)
		family[f].entries = entries[f];
	schedule_make_both(family, 1);
	for (f = 0; f < 2; f++) {
		for (i = 0; i < 30; i++)
			hits[f] += entries[f][i].view_index == 1;
		assert_in_range(hits[f], 10, 22);
	}
	/* 20 fill it up, and a third of the others come to it. */
	assert_in_range(hits[0] + hits[1], 33, 34);
	assert_int_equal(nodes[2].sent, other_nodes[2].sent);
	/* Three of four connections are of one family: it has three of four places at the low node. */
	for (i = 0; i < NODES; i++)
		nodes[i].sent = other_nodes[i].sent = 0;
	family[0].expected = 3;
	schedule_make_both(family, 1);
	for (i = 0; i < 15; i++)
		assert_int_equal(entries[0][i].view_index, 1);
	for (i = 0; i < 5; i++)
		assert_int_equal(entries[1][i].view_index, 1);
	/* One family alone: the same as schedule_make(). */
	for (i = 0; i < NODES; i++)
		nodes[i].sent = other_nodes[i].sent = 0;
	family[1].count = 0;
	schedule_make_both(family, 1);
	for (i = 0; i < NODES; i++)
		nodes[i].sent = 0;
	schedule_make(&env, 1, family[0].seed, entries[1], 30);
	assert_memory_equal(entries[0], entries[1], 30 * sizeof(entries[0][0]));
}

/* Connections are shared out over the times of all; none is lost or invented. */
static void test_ages(void **context)
{
	struct schedule_ages ages = { .all = 0 };
	unsigned connections, age, sum;

	(void)context;
	assert_int_equal(schedule_ages_part(&ages, 7, 0), 7);
	assert_int_equal(schedule_ages_part(&ages, 7, 1), 0);
	schedule_ages_add(&ages, -1);
	schedule_ages_add(&ages, 2);
	schedule_ages_add(&ages, 2);
	schedule_ages_add(&ages, INT32_MAX);
	assert_int_equal(schedule_ages_part(&ages, 100, 0), 25);
	assert_int_equal(schedule_ages_part(&ages, 100, 1), 0);
	assert_int_equal(schedule_ages_part(&ages, 100, 2), 50);
	assert_int_equal(schedule_ages_part(&ages, 100, SCHEDULE_AGES - 1), 25);
	for (connections = 0; connections < 1000; connections++) {
		for (age = sum = 0; age < SCHEDULE_AGES; age++)
			sum += schedule_ages_part(&ages, connections, age);
		assert_int_equal(sum, connections);
	}
	ages = (struct schedule_ages) { .all = UINT32_MAX, .count = { UINT32_MAX } };
	assert_int_equal(schedule_ages_part(&ages, UINT32_MAX, 0), UINT32_MAX);
}

/* Decide=auto: fast from 1,000 SYNs per second, until a second after the last tick with 500. */
static void test_pace(void **context)
{
	struct schedule_pace pace = { .fast = false };
	uint64_t now_ms = 100000, syns = 7, i;

	(void)context;
	/* SYNs from before the first tick are not a burst. */
	assert_false(schedule_pace_fast(&pace, now_ms, syns));
	assert_false(schedule_pace_fast(&pace, now_ms += 50, syns += 49));
	assert_true(schedule_pace_fast(&pace, now_ms += 50, syns += 50));
	/* Too early to say. */
	assert_true(schedule_pace_fast(&pace, now_ms + 19, syns));
	for (i = 0; i < 40; i++)
		assert_true(schedule_pace_fast(&pace, now_ms += 50, syns += 25));
	for (i = 0; i < 19; i++)
		assert_true(schedule_pace_fast(&pace, now_ms += 50, syns += 24));
	assert_false(schedule_pace_fast(&pace, now_ms += 50, syns += 24));
	assert_false(schedule_pace_fast(&pace, now_ms += 50, syns += 49));
	assert_false(schedule_pace_fast(&pace, now_ms + 19, syns + 1000));
	assert_true(schedule_pace_fast(&pace, now_ms + 20, syns + 20));
	/* No clock, no counter: nothing breaks. */
	assert_false(schedule_pace_fast(&(struct schedule_pace) { .fast = false }, 0, UINT64_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_every_policy, start, stop),
		cmocka_unit_test_setup_teardown(test_states, start, stop),
		cmocka_unit_test_setup_teardown(test_own_load_counts, start, stop),
		cmocka_unit_test_setup_teardown(test_both_families, start, stop),
		cmocka_unit_test(test_ages),
		cmocka_unit_test(test_pace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
