// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The lease as programs in the kernel see it while it is written: on other processors they read it between any two
 * stores. They load active first, and must find a whole share there, with the time of its change.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* A reader may look here. */
static void look(void);
#define __atomic_store_n(at, value, order) (look(), __atomic_store_n(at, value, order))

#undef fail /* it has one of its own */
#include "loadcast/lease.c" // NOLINT(bugprone-suspicious-include)

enum { LONG_AGO_NS = 1000 };

static struct bucket_lease_cell cell;
static struct lease lease = { .listener = -1, .connection = -1, .module = -1, .cell = &cell };
static struct bucket_share before, after;
static unsigned looks;

static struct bucket_share share_of(uint32_t weight)
{
	return (struct bucket_share) { .self_id = 11, .count = 2, .member = { { 11, weight }, { 12, weight + 1 } } };
}

static bool is_active(const struct bucket_share *share)
{
	return memcmp(&cell.share[cell.active & 1], share, sizeof(*share)) == 0;
}

static void look(void)
{
	looks++;
	assert_true(is_active(&before) || is_active(&after));
	/* The new share comes with the time from which copies of SYNs stay with their node. */
	if (!is_active(&before))
		assert_true(cell.changed_ns > LONG_AGO_NS);
}

static int start(void **state)
{
	(void)state;
	before = after = share_of(1);
	cell = (struct bucket_lease_cell) { .until_ns = 77, .changed_ns = LONG_AGO_NS, .active = 1 };
	cell.share[1] = before;
	looks = 0;
	return 0;
}

/* The former share stays beside the new one: SYNs are judged by both. */
static void another_share(void **state)
{
	uint64_t started_ns = monotonic_ns();

	(void)state;
	after = share_of(5);
	assert_true(lease_write(&lease, &after, 99));
	assert_true(looks >= 3);
	assert_true(is_active(&after));
	assert_memory_equal(&cell.share[1], &before, sizeof(before));
	assert_in_range(cell.changed_ns, started_ns, monotonic_ns());
	assert_int_equal(cell.until_ns, 99);
	/* The next share replaces the oldest. */
	before = after;
	after = share_of(9);
	assert_true(lease_write(&lease, &after, 100));
	assert_true(is_active(&after));
	assert_int_equal(cell.active, 1);
	assert_memory_equal(&cell.share[0], &before, sizeof(before));
}

/* A longer lease does not change the share. */
static void the_same_share(void **state)
{
	(void)state;
	assert_true(lease_write(&lease, &after, 99));
	assert_int_equal(cell.until_ns, 99);
	assert_int_equal(cell.active, 1);
	assert_int_equal(cell.changed_ns, LONG_AGO_NS);
	assert_true(lease_write(&lease, &after, 0));
	assert_int_equal(cell.until_ns, 0);
	assert_int_equal(looks, 2);
}

static void nobody_there(void **state)
{
	struct lease without = { .listener = -1, .connection = -1, .module = -1 };

	(void)state;
	assert_false(lease_write(&without, &after, 99));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(another_share, start),
		cmocka_unit_test_setup(the_same_share, start),
		cmocka_unit_test_setup(nobody_there, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
