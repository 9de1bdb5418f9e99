// SPDX-License-Identifier: GPL-2.0-or-later
/* test_wakeup.c - the waiting of a queue's worker for its turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "dprd/core/decide/wakeup.h"

static struct wakeup wakeup;
static uint64_t now_ms;

static int start(void **state)
{
	(void)state;
	wakeup = (struct wakeup) { .waits = false };
	now_ms = 5000000;
	/* The first window has no meaningful beginning. */
	wakeup_packets(&wakeup, now_ms, WAKEUP_WINDOW_PACKETS);
	return 0;
}

/* Plays windows with this many packets each; returns the number of windows after which the worker waited. */
static unsigned go_on(unsigned windows, unsigned packets)
{
	unsigned waited = 0, i;

	while (windows--) {
		for (i = 0; i < 10; i++) {
			now_ms += WAKEUP_WINDOW_MS / 10;
			wakeup_packets(&wakeup, now_ms, packets / 10);
		}
		waited += wakeup.waits;
	}
	return waited;
}

/* Fires the timer this often, this late. */
static void timer(unsigned times, uint64_t late_us)
{
	while (times--)
		wakeup_timer(&wakeup, now_ms, late_us);
}

static void test_first_window(void **state)
{
	(void)state;
	assert_false(wakeup.waits);
}

static void test_slow(void **state)
{
	(void)state;
	assert_int_equal(go_on(100, WAKEUP_WINDOW_PACKETS - 10), 0);
}

static void test_fast(void **state)
{
	(void)state;
	assert_int_equal(go_on(100, WAKEUP_WINDOW_PACKETS), 100);
	assert_int_equal(go_on(1, WAKEUP_WINDOW_PACKETS - 10), 0);
	assert_int_equal(go_on(1, WAKEUP_WINDOW_PACKETS), 1);
}

/* A worker that was idle finds new packets; one that stood still finds the packets of a long time. */
static void test_gap(void **state)
{
	(void)state;
	now_ms += 2 * WAKEUP_WINDOW_MS;
	wakeup_packets(&wakeup, now_ms, 100 * WAKEUP_WINDOW_PACKETS);
	assert_false(wakeup.waits);
	go_on(1, WAKEUP_WINDOW_PACKETS);
	now_ms += 2 * WAKEUP_WINDOW_MS;
	wakeup_packets(&wakeup, now_ms, 100 * WAKEUP_WINDOW_PACKETS);
	assert_false(wakeup.waits);
}

static void test_late(void **state)
{
	(void)state;
	go_on(1, WAKEUP_WINDOW_PACKETS);
	timer(1000, WAKEUP_LATE_US);
	timer(WAKEUP_LATE_TIMES - 1, WAKEUP_LATE_US + 1);
	assert_true(wakeup.waits);
	timer(1, UINT64_MAX);
	assert_false(wakeup.waits);
	/* The timer is not set then, but an event may be on its way. */
	timer(100, 0);
	assert_false(wakeup.waits);
}

/* Now and then another program has the processor for long: that does not count. */
static void test_seldom_late(void **state)
{
	unsigned i;

	(void)state;
	go_on(1, WAKEUP_WINDOW_PACKETS);
	for (i = 0; i < 1000; i++) {
		timer(1, 10 * WAKEUP_LATE_US);
		timer(1, 0);
	}
	assert_true(wakeup.waits);
	for (i = 0; i < WAKEUP_LATE_TIMES; i++) {
		timer(2, 10 * WAKEUP_LATE_US);
		timer(1, 0);
	}
	assert_false(wakeup.waits);
}

/* The time until the worker waits again. */
static uint64_t retried_after_ms(void)
{
	uint64_t from_ms = now_ms;

	timer(WAKEUP_LATE_TIMES, WAKEUP_LATE_US + 1);
	assert_false(wakeup.waits);
	while (!wakeup.waits && now_ms - from_ms < 10 * WAKEUP_RETRY_MOST_MS)
		go_on(1, WAKEUP_WINDOW_PACKETS);
	return now_ms - from_ms;
}

static void test_retry(void **state)
{
	uint64_t after_ms = WAKEUP_RETRY_MS;

	(void)state;
	go_on(1, WAKEUP_WINDOW_PACKETS);
	for (; after_ms < WAKEUP_RETRY_MOST_MS; after_ms *= 2)
		assert_int_equal(retried_after_ms(), after_ms);
	assert_int_equal(retried_after_ms(), WAKEUP_RETRY_MOST_MS);
	assert_int_equal(retried_after_ms(), WAKEUP_RETRY_MOST_MS);
	/* After good windows for this long, former trouble is forgotten. */
	go_on(WAKEUP_RETRY_MOST_MS / WAKEUP_WINDOW_MS, WAKEUP_WINDOW_PACKETS);
	assert_int_equal(retried_after_ms(), WAKEUP_RETRY_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_first_window, start), cmocka_unit_test_setup(test_slow, start),
		cmocka_unit_test_setup(test_fast, start),         cmocka_unit_test_setup(test_gap, start),
		cmocka_unit_test_setup(test_late, start),         cmocka_unit_test_setup(test_seldom_late, start),
		cmocka_unit_test_setup(test_retry, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
