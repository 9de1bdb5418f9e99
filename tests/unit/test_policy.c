// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Each policy with views written by hand and against its distribution (chi-square with a fixed seed); all policies with
 * random views.
 */
#include <math.h>

#include "tests/unit/views.h"

static void test_list(void **context)
{
	unsigned count = 0;

	(void)context;
	assert_ptr_equal(policies[0], &policy_li);
	for (; policies[count]; count++) {
		assert_ptr_equal(policy_find(policies[count]->name), policies[count]);
		assert_true(strlen(policies[count]->summary) > 10);
	}
	assert_int_equal(count, 10);
	assert_null(policy_find("LI"));
	assert_null(policy_find(""));
}

static void test_load(void **context)
{
	struct view_node node = { .eligible = true, .load = 7, .sent_open = 3, .weight = 4 };

	(void)context;
	assert_true(policy_load(&node) == 2.5);
	assert_true(policy_weight(&node) == 4);
	node.eligible = false;
	assert_true(policy_weight(&node) == 0);
	node.weight = 0;
	assert_true(policy_load(&node) == 10);
}

static double estimate(const struct policy *policy, uint32_t sent)
{
	nodes[1].sent = sent;
	policy_count_sent(policy, &view);
	return policy_load(&nodes[1]);
}

/*
 * Sending at the same rate as before changes no load; a higher or lower rate does, as far as the connections are open.
 */
static void test_load_sent_before(void **context)
{
	(void)context;
	add(0, 1);
	*add(7, 1) =
		(struct view_node) { .eligible = true, .load = 7, .weight = 1, .age_ms = 500, .sent_before_per_s = 20 };
	/* No arrivals: nothing has ended. */
	assert_true(estimate(&policy_li, 10) == 7);
	assert_true(estimate(&policy_li, 14) == 11);
	assert_true(estimate(&policy_li, 4) == 1);
	assert_true(estimate(&policy_li, 0) == 0);
	assert_true(nodes[1].sent_open == -7);
	/* 7 open at 14 per s: a life of 0.5 s; all were sent within it. */
	nodes[1].arrivals_per_s = 14;
	assert_true(fabs(estimate(&policy_li, 14) - (7 + 4 * (1 - exp(-1)))) < 1e-9);
	assert_true(fabs(estimate(&policy_p2c, 4) - (7 - 6 * (1 - exp(-1)))) < 1e-9);
	/* Policies that follow the lowest load count only connections sent since. */
	assert_true(estimate(&policy_least, 4) == 11);
	assert_true(estimate(&policy_lc, 10) == 17);
	assert_true(estimate(&policy_wlc, 0) == 7);
}

static void test_max_load_auto(void **context)
{
	(void)context;
	add(1, 1);
	assert_true(policy_max_load_auto(&view) == 2);
	add(10, 1)->sent = 4;
	assert_true(policy_max_load_auto(&view) == 5.5);
	add(300, 1)->eligible = false;
	assert_true(policy_max_load_auto(&view) == 5.5);
	/* (1 + 10 + 45) / (1 + 1 + 3) */
	add(45, 3);
	assert_true(policy_max_load_auto(&view) == 11.2);
	nodes[0].eligible = false;
	assert_true(policy_max_load_auto(&view) == 11.2);
}

static void test_draw(void **context)
{
	const double weight[] = { 1, 0, 2, 3, 0, 4, 0 }, none[3] = { 0 };

	(void)context;
	memset(hits, 0, sizeof(hits));
	for (unsigned i = 0; i < DRAWS; i++)
		hits[policy_draw(weight, 7, next_random())]++;
	assert_shares("draw", weight, 7);
	assert_int_equal(policy_draw(weight, 7, 0), 0);
	assert_int_equal(policy_draw(weight, 7, UINT64_MAX), 5);
	assert_int_equal(policy_draw(none, 3, next_random()), 0);
	assert_true(policy_uniform(UINT64_MAX) < 1);
	assert_true(policy_uniform(0) >= 0);
}

static void test_local(void **context)
{
	(void)context;
	add(1e6, 1);
	add(0, 1);
	assert_always(&policy_local, 0);
}

static void test_least(void **context)
{
	static const double even[] = { 0, 1, 1, 1 };

	(void)context;
	add(9, 1);
	add(8, 2);
	add(5, 1);
	assert_always(&policy_least, 1); /* 9, 4, 5 */
	nodes[1].sent = 3;
	assert_always(&policy_least, 2); /* 9, 5.5, 5 */
	nodes[2].eligible = false;
	assert_always(&policy_least, 1);
	nodes[2].eligible = true;
	nodes[2].load = 9;
	nodes[1].sent = 10;
	assert_always(&policy_least, 0); /* 9, 9, 9: self */
	nodes[0].load = 10;
	add(9, 1);
	count_hits(&policy_least); /* 10, 9, 9, 9 */
	assert_shares("least, ties", even, 4);
}

static void test_lc_and_wlc(void **context)
{
	(void)context;
	add(9, 1);
	add(8, 2);
	add(5, 1);
	assert_always(&policy_lc, 2); /* 9, 8, 5 */
	assert_always(&policy_wlc, 1); /* 9, 4, 5 */
	nodes[2].sent = 4;
	assert_always(&policy_lc, 1); /* 9, 8, 9 */
	nodes[0].load = 0;
	assert_always(&policy_lc, 0);
	assert_false(policy_lc.threshold || policy_wlc.threshold);
}

static void test_inverse(void **context)
{
	/* 1/(0+1), 1/(3+1), 2/(8/2+1), not eligible, 1/((1+8)+1); self never. */
	static const double share[] = { 0, 1, 0.25, 0.4, 0, 0.1 };

	(void)context;
	add(0, 1);
	add(0, 1);
	add(3, 1);
	add(8, 2);
	add(0, 1)->eligible = false;
	add(1, 1)->sent = 8;
	count_hits(&policy_inverse);
	assert_shares("inverse", share, 6);
}

static void test_p2c(void **context)
{
	static const double weight[] = { 1, 2, 3, 4 }; /* loads per weight rise with the index */
	double share[4] = { 0 };

	(void)context;
	for (unsigned i = 0; i < 4; i++)
		add(weight[i] * (i + 1), weight[i]);
	for (unsigned i = 0; i < 4; i++)
		for (unsigned j = 0; j < 4; j++)
			if (i != j)
				share[i < j ? i : j] += weight[i] / 10 * weight[j] / (10 - weight[i]);
	count_hits(&policy_p2c);
	assert_shares("p2c", share, 4);
	nodes[0].eligible = nodes[2].eligible = false;
	assert_always(&policy_p2c, 1); /* both are always drawn */
	nodes[1].eligible = false;
	assert_always(&policy_p2c, 3);
}

static void test_random_shares(void **context)
{
	static const double share[] = { 1, 2, 0, 3, 0.5 };

	(void)context;
	for (unsigned i = 0; i < 5; i++)
		add(i == 0 ? 1e9 : 0, share[i]); /* loads do not matter */
	count_hits(&policy_random);
	assert_shares("random", share, 5);
}

/* A flow moves only to a node that came or from one that went: never between two that stay. */
static void test_random_is_sticky(void **context)
{
	unsigned moved = 0;

	(void)context;
	for (unsigned i = 0; i < 8; i++)
		add(0, 1 + i % 3);
	for (unsigned i = 0; i < 10000; i++) {
		struct policy_input input = { .view = &view, .state = &state, .flow_hash = next_random() };
		unsigned before = policy_random.choose(&input), after;

		input.random = next_random();
		assert_int_equal(policy_random.choose(&input), before);
		nodes[5].eligible = false;
		after = policy_random.choose(&input);
		nodes[5].eligible = true;
		assert_int_not_equal(after, 5);
		assert_true(after == before || before == 5);
		moved += after != before;
		/* The node's place in the view does not matter either. */
		if (before != 2 && before != 6) {
			struct view_node swap = nodes[2];

			nodes[2] = nodes[6];
			nodes[6] = swap;
			assert_int_equal(policy_random.choose(&input), before);
		}
	}
	/* Node 5 has 3 of 15 parts: 2,000 flows, standard deviation 40. */
	assert_in_range(moved, 1800, 2200);
}

static void test_rr(void **context)
{
	static const unsigned expected[] = { 1, 3, 0, 1, 3, 0, 1 };

	(void)context;
	state.placed = true;
	for (unsigned i = 0; i < 4; i++)
		add(i * 100.0, i + 1);
	nodes[2].eligible = false;
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(choose_once(&policy_rr), expected[i]);
	/* The order is that of the members, wherever they stand in the view. */
	nodes[0].member = 2;
	nodes[1].member = 7;
	nodes[3].member = 5;
	state.next = 4;
	assert_int_equal(choose_once(&policy_rr), 3);
	assert_int_equal(choose_once(&policy_rr), 1);
	assert_int_equal(choose_once(&policy_rr), 0);
}

static void test_wrr(void **context)
{
	static const unsigned expected[] = { 0, 0, 1, 0, 2, 0, 0 };

	(void)context;
	state.placed = true;
	add(0, 5);
	add(0, 1);
	add(0, 1);
	for (unsigned i = 0; i < 70; i++)
		assert_int_equal(choose_once(&policy_wrr), expected[i % 7]);
	/* A node that served out of turn has a debt; none is left later. */
	assert_int_equal(choose_once(&policy_wrr), 0);
	assert_true(state.current_weight[0] < 0);
	nodes[0].eligible = false;
	choose_once(&policy_wrr);
	assert_true(state.current_weight[0] == 0);
	nodes[0].eligible = true;
	/* 1,000 turns away do not become a burst. */
	nodes[1].eligible = false;
	for (unsigned i = 0; i < 1000; i++)
		choose_once(&policy_wrr);
	nodes[1].eligible = true;
	memset(hits, 0, sizeof(hits));
	for (unsigned i = 0; i < 70; i++)
		hits[choose_once(&policy_wrr)]++;
	assert_in_range(hits[1], 9, 11);
	assert_in_range(hits[2], 9, 11);
}

/* Nodes that start together do not go round in step: each begins anywhere, and goes on in turn. */
static void test_rounds_begin_anywhere(void **context)
{
	static const struct policy *const rounds[] = { &policy_rr, &policy_wrr };
	enum { NODES = 8, STARTS = 8000 };

	(void)context;
	for (unsigned i = 0; i < NODES; i++)
		add(0, 1);
	for (unsigned p = 0; p < 2; p++) {
		memset(hits, 0, sizeof(hits));
		for (unsigned i = 0; i < STARTS; i++) {
			unsigned first;

			memset(&state, 0, sizeof(state));
			first = choose_once(rounds[p]);
			hits[first]++;
			assert_int_equal(choose_once(rounds[p]), (first + 1) % NODES);
		}
		/* 1,000 each, standard deviation 30. */
		for (unsigned i = 0; i < NODES; i++)
			assert_in_range(hits[i], 850, 1150);
	}
}

static void random_view(unsigned count)
{
	view.count = 0;
	for (unsigned i = 0; i < count; i++) {
		struct view_node *node = add((double)(next_random() % 1000), (double)(next_random() % 4));

		node->eligible = next_random() % 3 && node->weight > 0;
		node->sent = next_random() % 50;
		node->age_ms = i ? (uint32_t)(next_random() >> (32 + next_random() % 32)) : 0;
		node->arrivals_per_s = (double)(next_random() % 5000);
	}
}

/* No policy chooses an ineligible peer, nor self when self may not serve and a peer may. */
static void test_contract(void **context)
{
	(void)context;
	for (unsigned round = 0; round < 3000; round++) {
		bool peers = false;

		random_view(1 + next_random() % 20);
		for (unsigned i = 1; i < view.count; i++)
			peers |= nodes[i].eligible;
		for (const struct policy *const *p = policies; *p; p++) {
			unsigned index = choose_once(*p);

			assert_true(index < view.count);
			assert_true(index == 0 || nodes[index].eligible);
			if (*p != &policy_local && peers && !nodes[0].eligible)
				assert_int_not_equal(index, 0);
		}
	}
}

static void test_alone(void **context)
{
	(void)context;
	for (const struct policy *const *p = policies; *p; p++) {
		start(NULL);
		add(5, 1);
		assert_always(*p, 0);
		nodes[0].eligible = false;
		assert_always(*p, 0);
		for (unsigned i = 1; i < 10; i++)
			add(0, i % 2)->eligible = false;
		assert_always(*p, 0);
	}
}

static void test_1024_nodes(void **context)
{
	(void)context;
	for (unsigned round = 0; round < 20; round++) {
		random_view(POLICY_NODES_MAX);
		for (const struct policy *const *p = policies; *p; p++) {
			unsigned index = choose_once(*p);

			assert_true(index == 0 || (index < POLICY_NODES_MAX && nodes[index].eligible));
		}
	}
	/* In a larger view the nodes beyond the limit are not considered. */
	for (unsigned i = 0; i < POLICY_NODES_MAX; i++)
		nodes[i].eligible = false;
	view.count = POLICY_NODES_MAX + 1;
	for (const struct policy *const *p = policies; *p; p++)
		assert_int_equal(choose_once(*p), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_list, start),
		cmocka_unit_test_setup(test_load, start),
		cmocka_unit_test_setup(test_load_sent_before, start),
		cmocka_unit_test_setup(test_max_load_auto, start),
		cmocka_unit_test_setup(test_draw, start),
		cmocka_unit_test_setup(test_local, start),
		cmocka_unit_test_setup(test_least, start),
		cmocka_unit_test_setup(test_lc_and_wlc, start),
		cmocka_unit_test_setup(test_inverse, start),
		cmocka_unit_test_setup(test_p2c, start),
		cmocka_unit_test_setup(test_random_shares, start),
		cmocka_unit_test_setup(test_random_is_sticky, start),
		cmocka_unit_test_setup(test_rr, start),
		cmocka_unit_test_setup(test_rounds_begin_anywhere, start),
		cmocka_unit_test_setup(test_wrr, start),
		cmocka_unit_test_setup(test_contract, start),
		cmocka_unit_test_setup(test_alone, start),
		cmocka_unit_test_setup(test_1024_nodes, start),
	};

	return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
