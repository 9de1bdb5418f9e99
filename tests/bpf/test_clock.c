// SPDX-License-Identifier: GPL-2.0-or-later
/* test_clock.c - the programs' clock, which goes by jiffies, beside CLOCK_MONOTONIC. */
#include <unistd.h>

#include "dprd/base/clock.h"
#include "tests/bpf/fixture.h"

enum {
	LOOKS = 300,
	PAUSE_US = 1000,
	BEHIND_JIFFIES = 2,
	LATE_JIFFIES = 2, /* that a busy host may count one so late */
};

/* The time since when a SYN waits that the programs queue now. */
static uint64_t programs_ns(struct plane *p)
{
	const struct craft_names names = site_names(0);
	struct plane_run run = { 0 };
	struct frame in, out;

	craft(&names, "ip cl>s1 | tcp 40000>80 S", NULL, &in);
	p->fastpath->control->waiting_ns = 0;
	p->fastpath->control->heartbeat_ns = clock_flow_ns();
	assert_int_equal(plane_run(p, &run, &in, &out), 0);
	return p->fastpath->control->waiting_ns;
}

static void check_now(struct plane *p)
{
	uint64_t allowed_ns = (BEHIND_JIFFIES + LATE_JIFFIES) * clock_jiffy_ns();
	uint64_t before_ns = plane_monotonic_ns(), ns = programs_ns(p), after_ns = plane_monotonic_ns();

	assert_in_range(ns, before_ns - allowed_ns, after_ns);
}

/* The clock is set once, and then in the middle of any jiffy. */
static void test_goes_on(void **state)
{
	struct plane *p = site_plane(0);
	unsigned i;

	(void)state;
	site_reset(0);
	for (i = 0; i < LOOKS; i++) {
		check_now(p);
		usleep(PAUSE_US);
		plane_tick(p);
	}
}

/* The clock is wrong as after lost jiffies, and as nothing known makes it. A setting holds until the next heartbeat. */
static void test_is_mended(void **state)
{
	static const int64_t off_ns[] = { -SECOND_NS, SECOND_NS };
	struct plane *p = site_plane(0);
	unsigned i;

	(void)state;
	site_reset(0);
	for (i = 0; i < LOOKS; i++) {
		p->fastpath->control->jiffies_start_ns += (uint64_t)off_ns[i % 2];
		plane_tick(p);
		check_now(p);
		usleep((unsigned)clock_jiffy_ns() / 1000);
		check_now(p);
	}
}

static void test_is_mended_by_heartbeat(void **state)
{
	struct plane *p = site_plane(0);

	(void)state;
	site_reset(0);
	p->fastpath->control->jiffies_start_ns -= SECOND_NS;
	fastpath_heartbeat(p->fastpath, true);
	check_now(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_goes_on), cmocka_unit_test(test_is_mended),
					    cmocka_unit_test(test_is_mended_by_heartbeat) };

	return fixture_main("clock", NULL, 0, tests, sizeof(tests) / sizeof(tests[0]));
}
