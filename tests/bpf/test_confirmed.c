// SPDX-License-Identifier: GPL-2.0-or-later
/* test_confirmed.c - the programs count connections that their clients confirm, by node and family. */
#include "tests/bpf/fixture.h"

/* The confirmed connections of a family, of all nodes. */
static unsigned confirmed(unsigned variant, bool v6)
{
	const uint32_t *counts = site_plane(variant)->fastpath->confirmed;
	unsigned i, sum = 0;

	for (i = v6; i < FASTPATH_WAYS; i += 2)
		sum += counts[i];
	return sum;
}

static void passes(unsigned variant, const char *packet)
{
	const struct craft_names names = site_names(variant);
	struct plane_run run = { 0 };
	struct frame in, out;

	craft(&names, packet, NULL, &in);
	assert_int_equal(plane_run(site_plane(variant), &run, &in, &out), 0);
	assert_int_equal(run.verdict, REDIRECT);
}

static void test_by_family(void **state)
{
	static const struct {
		const char *flow, *packet;
		unsigned confirmed;
	} cases[] = {
		{ "half_open n2 isn 5 age 3", "ip cl>s1 | tcp 40000>80 . seq 6", 1 },
		{ "half_open n2 isn 5 age 3", "ip cl>s1 | tcp 40000>80 F. seq 6", 1 },
		{ "half_open n2 isn 5 age 3", "ip cl>s1 | tcp 40000>80 R seq 6", 1 },
		{ "half_open n2 isn 5 age 3", "ip cl>s1 | tcp 40000>80 S. seq 6", 0 },
		{ "confirmed n2 isn 5 age 3", "ip cl>s1 | tcp 40000>80 . seq 6", 0 },
	};
	unsigned variant, i, before, other;

	(void)state;
	for (variant = 0; variant < SITE_QUEUE_VARIANTS; variant++) {
		for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			site_reset(variant);
			site_add_flow(variant, cases[i].flow);
			before = confirmed(variant, variant & SITE_V6);
			other = confirmed(variant, !(variant & SITE_V6));
			passes(variant, cases[i].packet);
			assert_int_equal(confirmed(variant, variant & SITE_V6) - before, cases[i].confirmed);
			assert_int_equal(confirmed(variant, !(variant & SITE_V6)), other);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_by_family) };

	return fixture_main("confirmed", NULL, 0, tests, sizeof(tests) / sizeof(tests[0]));
}
