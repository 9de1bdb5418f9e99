// SPDX-License-Identifier: GPL-2.0-or-later
/* test_counters.c - each processor counts separately; dprd takes the sum, and each packet once. */
#define _GNU_SOURCE
#include <sched.h>

#include "tests/bpf/fixture.h"

enum { TIMES = 3 };

/* Runs on this processor; false: the test may not run there. */
static bool run_on(unsigned processor)
{
	const struct craft_names names = site_names(0);
	struct plane *p = site_plane(0);
	struct plane_run run = { 0 };
	struct frame in, out;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(processor, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		return false;
	craft(&names, "tunnel xx>c1 | ip cl>s2 | tcp 40000>80 .", NULL, &in);
	assert_int_equal(plane_run(p, &run, &in, &out), 0);
	assert_int_equal(run.verdict, DROP);
	return true;
}

static void test_all_processors(void **state)
{
	struct plane *p = site_plane(0);
	struct fastpath_counters taken;
	unsigned round, processor, expected;
	cpu_set_t before;

	(void)state;
	site_reset(0);
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	for (round = 0; round < TIMES; round++) {
		expected = 0;
		for (processor = 0; processor < p->fastpath->processors; processor++)
			expected += run_on(processor);
		assert_true(expected >= 1);
		fastpath_counters_take(p->fastpath, &taken);
		assert_int_equal(taken.reason[REASON_NOT_PEER], expected);
	}
	fastpath_counters_take(p->fastpath, &taken);
	assert_int_equal(taken.reason[REASON_NOT_PEER], 0);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_all_processors) };

	return fixture_main("counters", NULL, 0, tests, sizeof(tests) / sizeof(tests[0]));
}
