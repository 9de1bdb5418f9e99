// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_surge_objects.c - file sets: sizes, popularity, their matching, the index on disk; and the laws as a whole.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/experiments/surge/dist.h"
#include "tests/experiments/surge/objects.h"
#include "tests/experiments/surge/selfcheck.h"

enum { MOST_BYTES = 10000000 };

static int upwards(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* All numbers are handed out, and no share of small files differs from the law by more than one step. */
static void matching_keeps_the_numbers_and_follows_the_law(void **state)
{
	enum { COUNT = 1000 };
	uint64_t sizes[COUNT], requests[COUNT], matched[COUNT], sum = 0, given = 0;
	struct prng prng = prng_new(3, 0, 0);
	double largest, worst = 0;

	(void)state;
	for (unsigned i = 0; i < COUNT; i++) {
		sizes[i] = (uint64_t)file_size_quantile((i + prng_unit(&prng)) / COUNT, MOST_BYTES);
		sum += requests[i] = 10000 / (i + 1);
	}
	qsort(sizes, COUNT, sizeof(sizes[0]), upwards);
	match_requests(sizes, requests, matched, COUNT);
	largest = (double)sizes[COUNT - 1];
	for (unsigned i = 0; i < COUNT; i++) {
		given += matched[i];
		worst = fmax(worst, fabs((double)given / (double)sum - request_size_cdf((double)sizes[i], &largest)));
	}
	assert_int_equal(given, sum);
	assert_true(worst < (double)requests[0] / (double)sum / 2 + 0.02);
	qsort(requests, COUNT, sizeof(requests[0]), upwards);
	qsort(matched, COUNT, sizeof(matched[0]), upwards);
	assert_memory_equal(requests, matched, sizeof(requests));
}

static void a_seed_makes_the_same_set_again(void **state)
{
	struct file_set a, b, other;

	(void)state;
	assert_true(file_set_make(&a, 500, 5, MOST_BYTES, 5000));
	assert_true(file_set_make(&b, 500, 5, MOST_BYTES, 5000));
	assert_true(file_set_make(&other, 500, 6, MOST_BYTES, 5000));
	assert_memory_equal(a.files, b.files, 500 * sizeof(*a.files));
	assert_memory_not_equal(a.files, other.files, 500 * sizeof(*a.files));
	file_set_free(&a);
	file_set_free(&b);
	file_set_free(&other);
}

static void ranks_and_requests_are_zipf(void **state)
{
	struct file_set set;
	uint64_t sum = 0;
	bool seen[801] = { false };

	(void)state;
	assert_true(file_set_make(&set, 800, 1, MOST_BYTES, 8000));
	for (unsigned i = 0; i < set.count; i++) {
		const struct file *file = &set.files[i];

		assert_in_range(file->rank, 1, 800);
		assert_false(seen[file->rank]);
		seen[file->rank] = true;
		assert_int_equal(file->requests, llround(8000.0 / file->rank));
		assert_in_range(file->size_bytes, 1, MOST_BYTES);
		sum += file->requests;
	}
	assert_int_equal(sum, set.requests);
	assert_true(fabs(popularity_cdf(800, &set) - 1) < 1e-9);
	assert_true(fabs(popularity_cdf(1, &set) - 8000.0 / (double)sum) < 1e-3);
	file_set_free(&set);
}

/* A name must not tell the size. */
static void sizes_are_in_no_order(void **state)
{
	struct file_set set;
	unsigned rises = 0;

	(void)state;
	assert_true(file_set_make(&set, 2000, 1, MOST_BYTES, 20000));
	for (unsigned i = 1; i < set.count; i++)
		rises += set.files[i].size_bytes > set.files[i - 1].size_bytes;
	assert_in_range(rises, 900, 1100);
	file_set_free(&set);
}

static void a_smaller_limit_cuts_the_tail(void **state)
{
	struct file_set set;

	(void)state;
	assert_true(file_set_make(&set, 2000, 1, 200000, 20000));
	for (unsigned i = 0; i < set.count; i++)
		assert_in_range(set.files[i].size_bytes, 1, 200000);
	file_set_free(&set);
}

static void an_index_is_read_as_it_was_written(void **state)
{
	char path[] = "/tmp/surge-index-XXXXXX";
	struct file_set set, again;
	const int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_true(file_set_make(&set, 300, 2, MOST_BYTES, 3000));
	assert_true(index_write(path, &set, "a test"));
	assert_true(index_read(path, &again));
	assert_int_equal(again.count, set.count);
	assert_int_equal(again.requests, set.requests);
	assert_memory_equal(again.files, set.files, set.count * sizeof(*set.files));
	file_set_free(&set);
	file_set_free(&again);
	unlink(path);
}

static void a_bad_index_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"# only a remark\n",
		"a.html 100\n",
		"a.html 100 5 6\n",
		"a.html minus 5\n",
		"a.html 100 0\n",
		"/a.html 100 5\n",
		"a.html 100 5",
		"a.html 99999999999999999999999999 5\n",
		"averyveryveryveryveryveryveryveryveryveryverylongname.html 100 5\n",
	};
	char path[] = "/tmp/surge-index-XXXXXX";
	const int fd = mkstemp(path);
	struct file_set set;

	(void)state;
	assert_true(fd >= 0);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, bad[i], strlen(bad[i]), 0), strlen(bad[i]));
		if (index_read(path, &set))
			fail_msg("this index was taken: %s", bad[i]);
	}
	close(fd);
	unlink(path);
	assert_false(index_read("/nonexistent/surge.index", &set));
}

static void every_property_is_within_its_bound(void **state)
{
	struct selfcheck checks[CHECKS];

	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		assert_true(selfcheck_run(seed, 2000, 300, 300, checks));
		for (unsigned i = 0; i < CHECKS; i++) {
			if (!(checks[i].distance <= checks[i].bound))
				fail_msg("seed %u, %s: %.4f, bound %.4f", (unsigned)seed, checks[i].property,
					 checks[i].distance, checks[i].bound);
			/* A bound that anything meets would say nothing. */
			assert_true(checks[i].bound < (i == CHECK_LARGE_FILES ? 0.2 : 0.1));
			assert_true(checks[i].values > 100);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matching_keeps_the_numbers_and_follows_the_law),
		cmocka_unit_test(a_seed_makes_the_same_set_again),
		cmocka_unit_test(ranks_and_requests_are_zipf),
		cmocka_unit_test(sizes_are_in_no_order),
		cmocka_unit_test(a_smaller_limit_cuts_the_tail),
		cmocka_unit_test(an_index_is_read_as_it_was_written),
		cmocka_unit_test(a_bad_index_is_refused),
		cmocka_unit_test(every_property_is_within_its_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
