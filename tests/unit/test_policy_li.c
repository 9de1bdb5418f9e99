// SPDX-License-Identifier: GPL-2.0-or-later
/* The default policy: its level compared with another computation, its shares, and its effect with many entry nodes. */
/* Its statics are needed; it comes before views.h, whose globals it does not know. */
#include "dprd/core/policy/li.c" // NOLINT(bugprone-suspicious-include)

#include "tests/unit/views.h"

static void test_li_written_out(void **context)
{
	static const double equal[] = { 4, 2, 0 }, weighted[] = { 2, 4 }, by_weight[] = { 1, 2 };

	(void)context;
	/* K = 60/s * 0.1 s = 6: level (2 + 4 + 6) / 2 = 6, below 10. */
	add(2, 1)->arrivals_per_s = 60;
	add(4, 1);
	add(10, 1);
	count_hits(&policy_li);
	assert_shares("li, equal weights", equal, 3);
	/* Level (2 + 4 + 6) / 3 = 4 per weight: 4 - 2 and 8 - 4. */
	nodes[1].weight = 2;
	view.count = 2;
	count_hits(&policy_li);
	assert_shares("li, weights", weighted, 2);
	/* A table ten hours old tells nothing: the choice is by weight. */
	nodes[1].age_ms = 36000000;
	count_hits(&policy_li);
	assert_shares("li, very old", by_weight, 2);
	/* No arrivals, K = 1: the lowest. */
	nodes[0].arrivals_per_s = 0;
	nodes[1].load = 20;
	assert_always(&policy_li, 0);
	nodes[0].load = 12;
	assert_always(&policy_li, 1);
}

static void test_li_own_increments(void **context)
{
	static const double decayed[] = { 91.606 - 60, 91.606 - 63.212 };

	(void)context;
	/* Little: (30 + 30) / 10 per s = 6 s of life, announced just now: all connections sent count. */
	add(40, 1)->arrivals_per_s = 10;
	add(30, 1)->age_ms = 0;
	assert_always(&policy_li, 1);
	nodes[1].sent = 20;
	assert_always(&policy_li, 0);
	/*
	 * 60 open at 10 per s: 6 s of life. Of 100 sent over the last 6 s, 1 - 1/e are still open: 63.2.
	 * K = 10 per s * 6 s: the level is (60 + 63.2 + 60) / 2.
	 */
	nodes[0].load = 60;
	nodes[1].load = 0;
	nodes[1].sent = 100;
	nodes[1].age_ms = 6000;
	policy_count_sent(&policy_li, &view);
	assert_true(fabs(nodes[1].sent_open - 100 * (1 - exp(-1))) < 1e-9);
	nodes[1].age_ms = 600000;
	policy_count_sent(&policy_li, &view);
	assert_true(fabs(nodes[1].sent_open - 1) < 1e-9);
	nodes[1].age_ms = 6000;
	count_hits(&policy_li);
	assert_shares("li, own increments", decayed, 2);
}

/* Finds the level by bisection of its equation. */
static double plain_level(const double *load, const double *weight, unsigned count, double water)
{
	double low = 0, high = 1e7;

	for (unsigned round = 0; round < 200; round++) {
		double level = (low + high) / 2, poured = 0;

		for (unsigned i = 0; i < count; i++)
			poured += weight[i] > 0 ? fmax(0, weight[i] * level - load[i]) : 0;
		if (poured < water)
			low = level;
		else
			high = level;
	}
	return low;
}

static void test_li_level(void **context)
{
	double load[64], weight[64];

	(void)context;
	for (unsigned round = 0; round < 2000; round++) {
		unsigned count = 1 + next_random() % 64;
		double water = 1 + policy_uniform(next_random()) * 1000, level, expected;

		for (unsigned i = 0; i < count; i++) {
			load[i] = floor(exp(policy_uniform(next_random()) * 12));
			weight[i] = i ? (double)(next_random() % 5) : 1;
		}
		level = water_level(load, weight, count, water);
		expected = plain_level(load, weight, count, water);
		assert_true(fabs(level - expected) <= 1e-6 * expected);
	}
}

/*
 * 16 entry nodes with load 12 each hear that node 15 is idle and the other peers have 10. Until the
 * next announcement each gets 10 connections: how many of the 160 go to the idle one?
 */
static unsigned herd(const struct policy *policy)
{
	unsigned arrived = 0;

	for (unsigned entry = 0; entry < 16; entry++) {
		start(NULL);
		random_state += entry * 1000;
		for (unsigned i = 0; i < 16; i++)
			add(i == 0 ? 12 : i == 15 ? 0 : 10, 1)->arrivals_per_s = 10;
		for (unsigned i = 1; i < 16; i++)
			nodes[i].age_ms = 1000;
		for (unsigned i = 0; i < 10; i++) {
			unsigned index = choose_once(policy);

			arrived += index == 15;
			if (index == 0)
				nodes[0].load++;
			else
				nodes[index].sent++;
		}
	}
	return arrived;
}

static void test_herd(void **context)
{
	unsigned least = herd(&policy_least), li = herd(&policy_li), inverse = herd(&policy_inverse);

	(void)context;
	print_message("         of 160 to the idle node: least %u, inverse %u, li %u, seed %d\n", least, inverse, li,
		      SEED);
	assert_int_equal(least, 160);
	/* Level (12 + 14 * 10 + 160) / 16 = 19.5 for all; without increments the idle one gets 19.5 of 160. */
	assert_in_range(li, 8, 30);
	assert_in_range(inverse, 30, 120);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_li_written_out, start),
		cmocka_unit_test_setup(test_li_own_increments, start),
		cmocka_unit_test_setup(test_li_level, start),
		cmocka_unit_test_setup(test_herd, start),
	};

	return cmocka_run_group_tests_name("policy_li", tests, NULL, NULL);
}
