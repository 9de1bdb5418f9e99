// SPDX-License-Identifier: GPL-2.0-or-later
/* How much of its weight a node holds back, from the moment on at which it serves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "loadcast/core/slow_start.h"

enum { DURATION_MS = 10000 };

static void grows(void **state)
{
	struct slow_start s = { 0 };
	unsigned last = SLOW_START_HELD;

	(void)state;
	assert_int_equal(slow_start_held(&s, false, DURATION_MS, 500), 0);
	assert_int_equal(slow_start_held(&s, true, DURATION_MS, 1000), SLOW_START_HELD);
	for (uint64_t ms = 0; ms < DURATION_MS; ms += 100) {
		unsigned held = slow_start_held(&s, true, DURATION_MS, 1000 + ms);

		assert_true(held <= last);
		last = held;
	}
	assert_int_equal(slow_start_held(&s, true, DURATION_MS, 1000 + DURATION_MS / 2), SLOW_START_HELD / 2);
	assert_in_range(last, 1, 10);
	assert_int_equal(slow_start_held(&s, true, DURATION_MS, 1000 + DURATION_MS), 0);
	assert_int_equal(slow_start_held(&s, true, DURATION_MS, UINT64_MAX), 0);
}

/* Each time that it comes back, and not while it is away. */
static void begins_again(void **state)
{
	struct slow_start s = { 0 };

	(void)state;
	slow_start_held(&s, true, DURATION_MS, 1000);
	assert_int_equal(slow_start_held(&s, true, DURATION_MS, 50000), 0);
	assert_int_equal(slow_start_held(&s, false, DURATION_MS, 51000), 0);
	assert_int_equal(slow_start_held(&s, true, DURATION_MS, 52000), SLOW_START_HELD);
	assert_int_equal(slow_start_held(&s, false, DURATION_MS, 53000), 0);
	assert_int_equal(slow_start_held(&s, true, DURATION_MS, 54000), SLOW_START_HELD);
}

static void is_off(void **state)
{
	struct slow_start s = { 0 }, served = { .serves = true };

	(void)state;
	assert_int_equal(slow_start_held(&s, true, 0, 1000), 0);
	/* It served before this loadcast began. */
	assert_int_equal(slow_start_held(&served, true, DURATION_MS, 5), 0);
	assert_int_equal(slow_start_held(&served, true, DURATION_MS, 1000), 0);
	assert_int_equal(slow_start_held(&served, false, DURATION_MS, 2000), 0);
	assert_int_equal(slow_start_held(&served, true, DURATION_MS, 3000), SLOW_START_HELD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grows),
		cmocka_unit_test(begins_again),
		cmocka_unit_test(is_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
