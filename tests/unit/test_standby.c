// SPDX-License-Identifier: GPL-2.0-or-later
/* test_standby.c - when a worker stands still. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dprd/standby.h"

static struct standby_watch watch;
static uint64_t now_ms, stamp;

static int start(void **state)
{
	(void)state;
	watch = (struct standby_watch) { 0 };
	now_ms = 5000000;
	stamp = now_ms - 30;
	return 0;
}

/* For so long, a look each time; how long the worker was thought to stand still at the end. */
static unsigned look_for(unsigned ms, bool packets_wait)
{
	unsigned still_ms = 0, passed;

	for (passed = 0; passed < ms; passed += STANDBY_LOOK_MS) {
		now_ms += STANDBY_LOOK_MS;
		still_ms = standby_judge(&watch, stamp, packets_wait, now_ms) ? still_ms + STANDBY_LOOK_MS : 0;
	}
	return still_ms;
}

/* It looks only when there is something, or now and then. */
static void test_idle(void **state)
{
	(void)state;
	assert_int_equal(look_for(60000, false), 0);
}

static void test_busy(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		stamp = now_ms;
		assert_int_equal(look_for(STANDBY_PATIENCE_MS - STANDBY_LOOK_MS, true), 0);
	}
}

static void test_still(void **state)
{
	(void)state;
	/* What waits was first seen at the second look; patience begins there. */
	assert_int_equal(look_for(1000, false), 0);
	assert_int_equal(look_for(STANDBY_LOOK_MS + STANDBY_PATIENCE_MS - STANDBY_PATIENCE_MS % STANDBY_LOOK_MS, true),
			 0);
	assert_int_equal(look_for(STANDBY_LOOK_MS, true), STANDBY_LOOK_MS);
	/* Once it is known, nothing waits any more. */
	assert_int_equal(look_for(1000, false), 1000);
	assert_int_equal(look_for(1000, true), 1000);
	stamp = now_ms;
	assert_int_equal(look_for(STANDBY_PATIENCE_MS, true), 0);
}

/* Packets that come and go are no sign: somebody takes them. */
static void test_now_and_then(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(look_for(STANDBY_PATIENCE_MS - STANDBY_LOOK_MS, true), 0);
		assert_int_equal(look_for(STANDBY_LOOK_MS, false), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_idle, start),
		cmocka_unit_test_setup(test_busy, start),
		cmocka_unit_test_setup(test_still, start),
		cmocka_unit_test_setup(test_now_and_then, start),
	};

	return cmocka_run_group_tests_name("standby", tests, NULL, NULL);
}
