// SPDX-License-Identifier: GPL-2.0-or-later
/* test_flood.c - the detection of a flood of SYNs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "dprd/core/decide/flood.h"

enum { TICK_MS = 50, MAX_HALF_OPEN = 16384, MAX_PER_SECOND = 50000 };

static struct flood flood;
static struct flood_signs signs;
static uint64_t now_ms;

static int start(void **state)
{
	(void)state;
	flood = (struct flood) { .on = false };
	signs = (struct flood_signs) { .max_half_open = MAX_HALF_OPEN, .max_per_second = MAX_PER_SECOND };
	now_ms = 5000000;
	return 0;
}

/* Lets ticks pass with this many SYNs in each; returns the number of changes. */
static unsigned go_on(unsigned ticks, unsigned syns)
{
	unsigned changed = 0;

	while (ticks--) {
		now_ms += TICK_MS;
		signs.syns += syns;
		changed += flood_update(&flood, &signs, now_ms);
	}
	return changed;
}

static void test_quiet(void **state)
{
	(void)state;
	signs.half_open = MAX_HALF_OPEN / 4 * 3;
	assert_int_equal(go_on(1000, MAX_PER_SECOND / (1000 / TICK_MS)), 0);
	assert_false(flood.on);
}

static void test_half_open(void **state)
{
	(void)state;
	signs.half_open = MAX_HALF_OPEN / 4 * 3 + 1;
	assert_int_equal(go_on(1, 0), 1);
	assert_true(flood.on);
	assert_int_equal(go_on(100, 0), 0);
}

static void test_rate(void **state)
{
	(void)state;
	go_on(20, 0);
	/* Twice the window, so that a whole window is in it. */
	assert_int_equal(go_on(2 * FLOOD_WINDOW_MS / TICK_MS, MAX_PER_SECOND / (1000 / TICK_MS) + 1), 1);
	assert_true(flood.on);
}

/* A burst shorter than 200 ms. */
static void test_burst(void **state)
{
	(void)state;
	go_on(20, 0);
	assert_int_equal(go_on(1, 3 * MAX_PER_SECOND / (1000 / TICK_MS)), 0);
	assert_int_equal(go_on(20, 0), 0);
	assert_false(flood.on);
}

/* SYNs from before the first tick, or while dprd stood still, make no rate. */
static void test_no_window(void **state)
{
	(void)state;
	assert_int_equal(go_on(1, MAX_PER_SECOND), 0);
	assert_int_equal(go_on(20, 0), 0);
	now_ms += 10000;
	/* Also more than may come in that time. */
	assert_int_equal(go_on(1, MAX_PER_SECOND * 11), 0);
	assert_false(flood.on);
}

static void test_ends(void **state)
{
	(void)state;
	signs.half_open = MAX_HALF_OPEN;
	go_on(1, 0);
	signs.half_open = MAX_HALF_OPEN / 8;
	assert_int_equal(go_on(FLOOD_LASTS_MS / TICK_MS - 1, 0), 0);
	assert_true(flood.on);
	assert_int_equal(go_on(1, 0), 1);
	assert_false(flood.on);
}

/* Half-open flows show that the flood goes on, though few SYNs come to dprd. */
static void test_lasts(void **state)
{
	(void)state;
	signs.half_open = MAX_HALF_OPEN;
	go_on(1, 0);
	signs.half_open = MAX_HALF_OPEN / 8 + 1;
	assert_int_equal(go_on(10 * FLOOD_LASTS_MS / TICK_MS, FLOOD_FREE_PER_SECOND / (1000 / TICK_MS)), 0);
	assert_true(flood.on);
	signs.half_open--;
	assert_int_equal(go_on(1, 0), 1);
}

/* Its time counts from when it was last seen. */
static void test_again(void **state)
{
	(void)state;
	signs.half_open = MAX_HALF_OPEN;
	go_on(FLOOD_LASTS_MS / TICK_MS, 0);
	signs.half_open = 0;
	assert_int_equal(go_on(FLOOD_LASTS_MS / TICK_MS - 1, 0), 0);
	assert_int_equal(go_on(1, 0), 1);
}

/* For this long, reports every five seconds that per_second more SYNs passed in each second. */
static void pass(unsigned seconds, uint64_t per_second)
{
	static uint64_t passed;

	for (; seconds; seconds -= 5) {
		go_on(5000 / TICK_MS, FLOOD_FREE_PER_SECOND / (1000 / TICK_MS));
		passed += 5 * per_second;
		flood_passed(&flood, passed, MAX_PER_SECOND, now_ms);
	}
}

static void test_passed(void **state)
{
	(void)state;
	pass(5, 0);
	signs.half_open = MAX_HALF_OPEN;
	go_on(1, 0);
	signs.half_open = 0;
	pass(600, MAX_PER_SECOND + 1);
	assert_true(flood.on);
	pass(FLOOD_LASTS_MS / 1000 - 5, MAX_PER_SECOND);
	assert_true(flood.on);
	pass(5, MAX_PER_SECOND);
	assert_false(flood.on);
	/* Passed SYNs begin no flood: without a flood none passes. */
	pass(20, 2 * MAX_PER_SECOND);
	assert_false(flood.on);
}

/* An old report does not count, nor does a counter that was set back. */
static void test_passed_unknown(void **state)
{
	(void)state;
	flood_passed(&flood, 1000000000, MAX_PER_SECOND, now_ms);
	signs.half_open = MAX_HALF_OPEN;
	go_on(1, 0);
	signs.half_open = 0;
	go_on(FLOOD_LASTS_MS / TICK_MS - 1, 0);
	flood_passed(&flood, 1000, MAX_PER_SECOND, now_ms - 1000);
	flood_passed(&flood, 1100, MAX_PER_SECOND, now_ms);
	assert_int_equal(go_on(1, 0), 1);
	signs.half_open = MAX_HALF_OPEN;
	go_on(1, 0);
	signs.half_open = 0;
	go_on(2 * FLOOD_LASTS_MS / TICK_MS - 1, 0);
	assert_false(flood.on);
	now_ms += 10 * FLOOD_LASTS_MS;
	signs.half_open = MAX_HALF_OPEN;
	go_on(1, 0);
	signs.half_open = 0;
	go_on(FLOOD_LASTS_MS / TICK_MS - 1, 0);
	flood_passed(&flood, 1ULL << 40, MAX_PER_SECOND, now_ms);
	assert_int_equal(go_on(1, 0), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_quiet, start),     cmocka_unit_test_setup(test_half_open, start),
		cmocka_unit_test_setup(test_rate, start),      cmocka_unit_test_setup(test_burst, start),
		cmocka_unit_test_setup(test_no_window, start), cmocka_unit_test_setup(test_ends, start),
		cmocka_unit_test_setup(test_lasts, start),     cmocka_unit_test_setup(test_again, start),
		cmocka_unit_test_setup(test_passed, start),    cmocka_unit_test_setup(test_passed_unknown, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
