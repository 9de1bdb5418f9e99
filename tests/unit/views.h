/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * views.h - views for the tests of policies, written by hand, with a fixed seed; choices are compared with the promised
 * distribution by Pearson's chi-square.
 */
#ifndef TESTS_UNIT_VIEWS_H
#define TESTS_UNIT_VIEWS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/core/policy/policy.h"

enum { SEED = 20260101, DRAWS = 100000 };

static uint64_t random_state;
static struct view_node nodes[POLICY_NODES_MAX];
static struct load_view view = { .nodes = nodes };
static struct policy_state state;
static unsigned hits[POLICY_NODES_MAX];

static inline uint64_t next_random(void)
{
	return policy_mix(random_state++);
}

static inline int start(void **context)
{
	(void)context;
	random_state = policy_mix(SEED);
	memset(nodes, 0, sizeof(nodes));
	memset(&state, 0, sizeof(state));
	view.count = 0;
	return 0;
}

static inline struct view_node *add(double load, double weight)
{
	struct view_node *node = &nodes[view.count];

	*node = (struct view_node) {
		.member = (uint16_t)view.count,
		.node_id = 1000 + view.count,
		.eligible = true,
		.load = load,
		.weight = weight,
		.age_ms = view.count ? 100 : 0,
	};
	view.count++;
	return node;
}

static inline unsigned choose_once(const struct policy *policy)
{
	struct policy_input input = {
		.view = &view,
		.state = &state,
		.random = next_random(),
		.flow_hash = next_random(),
	};

	policy_count_sent(policy, &view);
	return policy->choose(&input);
}

static inline void count_hits(const struct policy *policy)
{
	memset(hits, 0, sizeof(hits));
	for (unsigned i = 0; i < DRAWS; i++)
		hits[choose_once(policy)]++;
}

/* Pearson's chi-square of hits[] against share[], which need not be normalised. */
static inline void assert_shares(const char *what, const double *share, unsigned count)
{
	/* 99.99 % points for 1 .. 7 degrees of freedom: a right policy fails for 1 seed in 10,000. */
	static const double limit[] = { 0, 15.1, 18.4, 21.1, 23.5, 25.7, 27.9, 29.9 };
	double total = 0, chi_square = 0, most;
	unsigned freedom = 0, drawn = 0;

	for (unsigned i = 0; i < count; i++) {
		total += share[i];
		drawn += hits[i];
	}
	assert_int_equal(drawn, DRAWS);
	for (unsigned i = 0; i < count; i++) {
		double expected = DRAWS * share[i] / total;

		if (share[i] <= 0) {
			assert_int_equal(hits[i], 0);
			continue;
		}
		chi_square += (hits[i] - expected) * (hits[i] - expected) / expected;
		freedom++;
	}
	freedom--;
	assert_in_range(freedom, 1, 7);
	most = freedom < sizeof(limit) / sizeof(limit[0]) ? limit[freedom] : 0;
	print_message("         %s: chi-square %.2f, limit %.1f, seed %d\n", what, chi_square, most, SEED);
	assert_true(chi_square < most);
}

static inline void assert_always(const struct policy *policy, unsigned index)
{
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(choose_once(policy), index);
}

#endif
