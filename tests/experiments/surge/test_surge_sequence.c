// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_surge_sequence.c - plans of users: the same again, longer ones begin as shorter ones, long enough.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/experiments/surge/locality.h"
#include "tests/experiments/surge/sequence.h"

static struct file_set set;

static int make_set(void **state)
{
	(void)state;
	return file_set_make(&set, 400, 1, 1000000, 4000) ? 0 : -1;
}

static int free_set(void **state)
{
	(void)state;
	file_set_free(&set);
	return 0;
}

static struct plan new_plan(unsigned users, double seconds, uint64_t seed, bool keep_order)
{
	struct plan plan;

	assert_int_equal(plan_make(&plan, &set, users, seconds, seed, keep_order), 0);
	assert_int_equal(plan.users, users);
	return plan;
}

static unsigned same_steps(const struct user_plan *a, const struct user_plan *b)
{
	unsigned same = 0;

	while (same < a->count && same < b->count && memcmp(&a->steps[same], &b->steps[same], sizeof(*a->steps)) == 0)
		same++;
	return same;
}

static void a_seed_plans_the_same_again(void **state)
{
	struct plan a = new_plan(50, 60, 9, false), b = new_plan(50, 60, 9, false), other = new_plan(50, 60, 10, false);
	unsigned all_same = 0;

	(void)state;
	for (unsigned user = 0; user < 50; user++) {
		assert_int_equal(a.of[user].count, b.of[user].count);
		assert_int_equal(same_steps(&a.of[user], &b.of[user]), a.of[user].count);
		all_same += same_steps(&a.of[user], &other.of[user]) > 0;
	}
	assert_true(all_same < 5);
	plan_free(&a);
	plan_free(&b);
	plan_free(&other);
}

static void a_longer_plan_begins_as_the_shorter_one(void **state)
{
	struct plan shorter = new_plan(40, 30, 4, false), longer = new_plan(40, 90, 4, false);
	unsigned more = 0;

	(void)state;
	for (unsigned user = 0; user < 40; user++) {
		assert_int_equal(same_steps(&shorter.of[user], &longer.of[user]), shorter.of[user].count);
		more += longer.of[user].count > shorter.of[user].count;
	}
	assert_true(more > 30);
	plan_free(&shorter);
	plan_free(&longer);
}

/* Users are apart: OFF times and page lengths of one do not depend on how many others there are. */
static void pauses_do_not_depend_on_the_others(void **state)
{
	struct plan few = new_plan(5, 60, 4, false), many = new_plan(50, 60, 4, false);

	(void)state;
	for (unsigned user = 0; user < 5; user++) {
		assert_int_equal(few.of[user].count, many.of[user].count);
		for (unsigned i = 0; i < few.of[user].count; i++) {
			const struct step *a = &few.of[user].steps[i], *b = &many.of[user].steps[i];

			assert_int_equal(a->pause_us, b->pause_us);
			assert_int_equal(a->is_last_of_page, b->is_last_of_page);
		}
	}
	plan_free(&few);
	plan_free(&many);
}

static void plans_are_whole_pages_and_long_enough(void **state)
{
	struct plan plan = new_plan(30, 100, 2, false);

	(void)state;
	for (unsigned user = 0; user < 30; user++) {
		const struct user_plan *of = &plan.of[user];
		uint64_t inactive_us = 0;

		for (unsigned i = 0; i < of->count; i++) {
			assert_in_range(of->steps[i].file, 0, set.count - 1);
			if (of->steps[i].is_last_of_page) {
				assert_true(of->steps[i].pause_us >= 1000000);
				inactive_us += of->steps[i].pause_us;
			}
		}
		assert_true(of->steps[of->count - 1].is_last_of_page);
		assert_true(inactive_us > 100 * 1000000ul);
		assert_true(inactive_us - of->steps[of->count - 1].pause_us <= 100 * 1000000ul);
	}
	plan_free(&plan);
}

/* The order is that of all users' pages: every file of it is in some plan, and none is there twice. */
static void the_order_has_every_step_once(void **state)
{
	struct plan plan = new_plan(20, 50, 3, true);
	unsigned *balance = calloc(set.count, sizeof(*balance));
	size_t steps = 0;

	(void)state;
	assert_non_null(balance);
	for (size_t i = 0; i < plan.order_count; i++)
		balance[plan.order[i]]++;
	for (unsigned user = 0; user < 20; user++)
		for (unsigned i = 0; i < plan.of[user].count; i++, steps++)
			balance[plan.of[user].steps[i].file]--;
	assert_int_equal(steps, plan.order_count);
	for (unsigned i = 0; i < set.count; i++)
		assert_int_equal(balance[i], 0);
	free(balance);
	plan_free(&plan);
}

static void too_large_a_plan_is_refused(void **state)
{
	struct plan plan;

	(void)state;
	assert_int_equal(plan_make(&plan, &set, 2, 1e9, 1, false), -E2BIG);
}

/* Popular files are asked for most, already in a stretch of some thousand. */
static void references_follow_popularity_soon(void **state)
{
	struct locality *locality = locality_new(&set, 1);
	unsigned top = 0, rare = 0;

	(void)state;
	assert_non_null(locality);
	for (unsigned i = 0; i < 20000; i++) {
		const uint32_t file = locality_next(locality);

		assert_in_range(file, 0, set.count - 1);
		top += set.files[file].rank <= 10;
		rare += set.files[file].rank > 200;
	}
	/* With 400 files it is 44.6 % and 10.5 % by the law of Zipf. */
	assert_in_range(top, 20000 * 0.40, 20000 * 0.49);
	assert_in_range(rare, 20000 * 0.08, 20000 * 0.13);
	locality_free(locality);
}

static void one_file_is_enough(void **state)
{
	struct file file = { .name = "a", .size_bytes = 1, .requests = 1, .rank = 1 };
	const struct file_set one = { .count = 1, .requests = 1, .files = &file };
	struct plan plan;

	(void)state;
	assert_int_equal(plan_make(&plan, &one, 3, 20, 1, false), 0);
	assert_true(plan.of[2].count > 0);
	plan_free(&plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_seed_plans_the_same_again),
		cmocka_unit_test(a_longer_plan_begins_as_the_shorter_one),
		cmocka_unit_test(pauses_do_not_depend_on_the_others),
		cmocka_unit_test(plans_are_whole_pages_and_long_enough),
		cmocka_unit_test(the_order_has_every_step_once),
		cmocka_unit_test(too_large_a_plan_is_refused),
		cmocka_unit_test(references_follow_popularity_soon),
		cmocka_unit_test(one_file_is_enough),
	};

	return cmocka_run_group_tests(tests, make_set, free_set);
}
