// SPDX-License-Identifier: GPL-2.0-or-later
/* Shared addresses at the start: without memory that fails, and nothing is left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void *no_memory(size_t count, size_t bytes);

#define calloc no_memory
#include "dprd/shared/shared.c" // NOLINT(bugprone-suspicious-include)
#undef calloc

static struct dprd d;

static void *no_memory(size_t count, size_t bytes)
{
	(void)count;
	(void)bytes;
	return NULL;
}

static void test_no_memory(void **context)
{
	(void)context;
	d.config.shared_count = 1;
	assert_int_equal(shared_open(&d), -ENOMEM);
	assert_null(d.shared);
}

static void test_no_shared_address(void **context)
{
	(void)context;
	d.config.shared_count = 0;
	assert_int_equal(shared_open(&d), 0);
	assert_null(d.shared);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_no_shared_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
