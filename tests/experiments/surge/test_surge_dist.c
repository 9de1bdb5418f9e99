// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_surge_dist.c - quantiles, distribution functions and the distance between a sample and a law.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/experiments/surge/dist.h"

static void assert_near(double a, double b, double tolerance)
{
	if (!(fabs(a - b) <= tolerance))
		fail_msg("%.12g is not within %.3g of %.12g", a, tolerance, b);
}

/* Figures of any table of the normal distribution. */
static void the_normal_law_has_its_known_points(void **state)
{
	(void)state;
	assert_near(normal_cdf(0), 0.5, 1e-15);
	assert_near(normal_cdf(1.96), 0.975002104852, 1e-11);
	assert_near(normal_quantile(0.5), 0, 1e-12);
	assert_near(normal_quantile(0.975), 1.959963984540, 1e-10);
	assert_near(normal_quantile(0.001), -3.090232306168, 1e-10);
	assert_near(normal_quantile(1e-10), -6.361340902404, 1e-8);
}

static void quantiles_undo_the_distribution_functions(void **state)
{
	(void)state;
	for (double u = 1e-6; u < 1; u += 0.000917) {
		assert_near(lognormal_cdf(lognormal_quantile(u, 9.357, 1.318), 9.357, 1.318), u, 1e-11);
		assert_near(weibull_cdf(weibull_quantile(u, 1.46, 0.382), 1.46, 0.382), u, 1e-11);
		assert_near(pareto_cdf(pareto_quantile(u, 1, 1.5, INFINITY), 1, 1.5, INFINITY), u, 1e-11);
		assert_near(pareto_cdf(pareto_quantile(u, 1000, 1, 1e7), 1000, 1, 1e7), u, 1e-11);
		assert_near(file_size_cdf(file_size_quantile(u, 1e7), 1e7), u, 1e-11);
	}
}

static void the_laws_have_their_known_points(void **state)
{
	(void)state;
	assert_near(pareto_quantile(0.5, 1, 1.5, INFINITY), pow(2, 1 / 1.5), 1e-12);
	assert_near(pareto_cdf(2, 1, 1, INFINITY), 0.5, 1e-12);
	assert_near(pareto_cdf(2, 1, 1, 4), 0.5 / 0.75, 1e-12);
	assert_near(weibull_cdf(0.382, 1.46, 0.382), 1 - exp(-1), 1e-12);
	assert_near(lognormal_quantile(0.5, 9.357, 1.318), exp(9.357), 1e-6);
	assert_near(file_size_cdf(133000, 1e7), 0.93, 1e-12);
	assert_near(file_size_quantile(0.999999999, 1e7), 1e7, 100);
	assert_int_equal((int)pareto_cdf(0.5, 1, 1.5, INFINITY), 0);
}

/* P(n files or more) = n^-2.43, and the mean is then the zeta function's value. */
static void pages_have_whole_numbers_of_files(void **state)
{
	double mean = 0;

	(void)state;
	assert_int_equal(page_files_quantile(1e-12), 1);
	assert_int_equal(page_files_quantile(1 - 1e-16), PAGE_FILES_MAX);
	for (unsigned files = 1; files <= PAGE_FILES_MAX; files++) {
		const double share = page_files_cdf(files) - page_files_cdf(files - 1.0);

		mean += files * share;
		assert_int_equal(page_files_quantile(page_files_cdf(files) - share / 2), files);
	}
	assert_near(page_files_cdf(1), 1 - pow(2, -2.43), 1e-5);
	assert_near(page_files_cdf(PAGE_FILES_MAX), 1, 1e-12);
	assert_near(mean, 1.365, 0.01);
}

static void streams_are_apart_and_come_again(void **state)
{
	struct prng a = prng_new(7, 1, 2), again = prng_new(7, 1, 2);
	struct prng others[] = { prng_new(8, 1, 2), prng_new(7, 2, 2), prng_new(7, 1, 3), prng_new(7, 2, 1) };

	(void)state;
	for (int i = 0; i < 1000; i++) {
		const uint64_t number = prng_next(&a);

		assert_int_equal(number, prng_next(&again));
		for (unsigned j = 0; j < sizeof(others) / sizeof(others[0]); j++)
			assert_int_not_equal(number, prng_next(&others[j]));
	}
}

static void units_are_spread_evenly_and_never_an_end(void **state)
{
	struct prng prng = prng_new(1, 0, 0);
	unsigned tenths[10] = { 0 };

	(void)state;
	for (int i = 0; i < 100000; i++) {
		const double u = prng_unit(&prng);

		assert_true(u > 0 && u < 1);
		tenths[(int)(u * 10)]++;
	}
	for (int i = 0; i < 10; i++)
		assert_in_range(tenths[i], 9600, 10400);
}

static double uniform(double x, const void *parameters)
{
	(void)parameters;
	return x < 0 ? 0 : x > 1 ? 1 : x;
}

static double die(double x, const void *parameters)
{
	(void)parameters;
	return x < 1 ? 0 : x > 6 ? 1 : floor(x) / 6;
}

static void the_distance_is_the_largest_gap(void **state)
{
	const double middle[] = { 0.5 }, quarters[] = { 0.25, 0.5, 0.75, 1 }, low[] = { 0.1, 0.1, 0.2, 0.2 };
	const double weights[] = { 1, 1, 1, 97 }, eyes[] = { 1, 2, 3, 4, 5, 6 }, ones[] = { 1, 1, 1, 1, 1, 2 };

	(void)state;
	assert_near(ks_distance(middle, NULL, 1, false, uniform, NULL), 0.5, 1e-12);
	assert_near(ks_distance(quarters, NULL, 4, false, uniform, NULL), 0.25, 1e-12);
	assert_near(ks_distance(low, NULL, 4, false, uniform, NULL), 0.8, 1e-12);
	assert_near(ks_distance(quarters, weights, 4, false, uniform, NULL), 0.97, 1e-12);
	assert_near(ks_distance(eyes, NULL, 6, true, die, NULL), 0, 1e-12);
	assert_near(ks_distance(ones, NULL, 6, true, die, NULL), 5.0 / 6 - 1.0 / 6, 1e-12);
	/* Nothing below 5: the gap is just before it. */
	assert_near(ks_distance(eyes + 4, NULL, 2, true, die, NULL), 4.0 / 6, 1e-12);
	assert_near(ks_distance(NULL, NULL, 0, false, uniform, NULL), 1, 1e-12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_normal_law_has_its_known_points),
		cmocka_unit_test(quantiles_undo_the_distribution_functions),
		cmocka_unit_test(the_laws_have_their_known_points),
		cmocka_unit_test(pages_have_whole_numbers_of_files),
		cmocka_unit_test(streams_are_apart_and_come_again),
		cmocka_unit_test(units_are_spread_evenly_and_never_an_end),
		cmocka_unit_test(the_distance_is_the_largest_gap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
