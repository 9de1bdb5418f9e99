// SPDX-License-Identifier: GPL-2.0-or-later
/* The parts of the simulator: timers, rings, histogram, laws, alias method, values of options. */
#include "tests/unit/sim_setups.h"

#include "dprd/sim/histogram.h"
#include "dprd/sim/random.h"
#include "dprd/sim/ring.h"
#include "dprd/sim/timers.h"

enum { SEED = 20260102, TIMERS = 50 };

static struct random_stream stream;

static int start_stream(void **context)
{
	(void)context;
	random_start(&stream, SEED, 0);
	return 0;
}

/*
 * Compares with a plain array: timers are set, moved and stopped; the earliest is always on top, the lowest of equals.
 */
static void timers_like_a_list(void **state)
{
	struct timers timers;
	double at_s[TIMERS];

	(void)state;
	assert_true(timers_init(&timers, TIMERS));
	for (unsigned i = 0; i < TIMERS; i++)
		at_s[i] = INFINITY;
	for (unsigned step = 0; step < sim_fewer(200000); step++) {
		uint32_t timer = (uint32_t)(random_bits(&stream) % TIMERS), first = TIMER_OFF;

		if (random_bits(&stream) % 3 == 0) {
			at_s[timer] = INFINITY;
			timer_stop(&timers, timer);
		} else {
			at_s[timer] = (double)(random_bits(&stream) % 40);
			timer_set(&timers, timer, at_s[timer]);
		}
		for (uint32_t i = 0; i < TIMERS; i++)
			if (isfinite(at_s[i]) && (first == TIMER_OFF || at_s[i] < at_s[first]))
				first = i;
		assert_int_equal(timers_next(&timers), first);
	}
	timers_free(&timers);
}

static void ring_keeps_order(void **state)
{
	struct ring ring = { .element_bytes = sizeof(unsigned) };
	unsigned in = 0, out = 0;

	(void)state;
	for (unsigned step = 0; step < 20000; step++) {
		if (random_bits(&stream) % 5 < 3) {
			unsigned *slot = ring_push(&ring);

			assert_non_null(slot);
			*slot = in++;
		} else if (ring_first(&ring)) {
			assert_int_equal(*(unsigned *)ring_first(&ring), out++);
			ring_pop(&ring);
		}
		assert_int_equal(ring.count, in - out);
	}
	ring_free(&ring);
}

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

static void histogram_percentiles(void **state)
{
	enum { VALUES = 20000 };
	static struct histogram h;
	static double values[VALUES];
	const double shares[] = { 0.01, 0.5, 0.9, 0.99, 0.999 };
	double sum = 0;

	(void)state;
	assert_true(histogram_percentile(&h, 0.5) <= 0);
	for (unsigned i = 0; i < VALUES; i++) {
		values[i] = exp(10 * random_uniform(&stream) - 8);
		sum += values[i];
		histogram_add(&h, values[i]);
	}
	qsort(values, VALUES, sizeof(values[0]), compare);
	for (unsigned i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
		assert_near("percentile", histogram_percentile(&h, shares[i]),
			    values[(unsigned)(shares[i] * VALUES) - 1], 0.006);
	assert_true(fabs(histogram_mean(&h) - sum / VALUES) < 1e-12 * sum);
	assert_true(fabs(h.most - values[VALUES - 1]) <= 0);
	histogram_add(&h, 0);
	histogram_add(&h, INFINITY);
}

static double mean_of(const char *text, double *ret_most)
{
	struct sim_law from;
	struct law law;
	double sum = 0;

	assert_true(value_law(text, &from));
	law_start(&law, &from);
	*ret_most = 0;
	for (unsigned i = 0; i < sim_fewer(1000000); i++) {
		double value = law_draw(&law, &stream);

		assert_true(value > 0);
		sum += value;
		*ret_most = fmax(*ret_most, value);
	}
	return sum / sim_fewer(1000000);
}

static void laws_have_mean_1(void **state)
{
	double most;

	(void)state;
	assert_near("exp", mean_of("exp", &most), 1, sim_slack(0.005));
	assert_near("det", mean_of("det", &most), 1, 0);
	assert_near("lognormal:1", mean_of("lognormal:1", &most), 1, sim_slack(0.01));
	assert_near("pareto:2.5", mean_of("pareto:2.5", &most), 1, sim_slack(0.01));
	assert_near("pareto:1.2:100", mean_of("pareto:1.2:100", &most), 1, sim_slack(0.01));
	assert_true(most > 90 && most <= 100);
	assert_near("pareto:1:50", mean_of("pareto:1:50", &most), 1, sim_slack(0.01));
	assert_true(most > 40 && most <= 50);
}

static void alias_draws_by_share(void **state)
{
	double share[SIM_NODES_MAX];
	unsigned hits[7] = { 0 }, draws = sim_fewer(700000);
	struct alias alias;

	(void)state;
	assert_true(value_skew("4:1:0:2:0.5:8:1", 7, share));
	alias_start(&alias, share, 7);
	for (unsigned i = 0; i < draws; i++)
		hits[alias_draw(&alias, &stream)]++;
	for (unsigned i = 0; i < 7; i++)
		assert_true(fabs((double)hits[i] / draws - share[i]) < sim_slack(0.002));
	assert_int_equal(hits[2], 0);
	/* One of many nodes has all. */
	assert_true(value_skew("1:0:0:0:0:0:0", 7, share));
	alias_start(&alias, share, 7);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(alias_draw(&alias, &stream), 0);
}

static void times_and_shares(void **state)
{
	const char *const bad_times[] = { "", "10", "ms", "-1s", " 1s", "1 s", "1days", "nan", "infs", "1e400s" };
	const char *const bad_shares[] = { "", "101%", "1.01", "-1%", "x", "5%%" };
	double value;

	(void)state;
	assert_true(value_time("0.2ms", &value) && fabs(value - 0.0002) < 1e-12);
	assert_true(value_time("100us", &value) && fabs(value - 0.0001) < 1e-12);
	assert_true(value_time("1.5s", &value) && fabs(value - 1.5) < 1e-12);
	assert_true(value_time("2m", &value) && fabs(value - 120) < 1e-9);
	assert_true(value_time("0", &value) && value <= 0);
	for (unsigned i = 0; i < sizeof(bad_times) / sizeof(bad_times[0]); i++)
		assert_false(value_time(bad_times[i], &value));
	assert_true(value_share("10%", &value) && fabs(value - 0.1) < 1e-12);
	assert_true(value_share("0.25", &value) && fabs(value - 0.25) < 1e-12);
	for (unsigned i = 0; i < sizeof(bad_shares) / sizeof(bad_shares[0]); i++)
		assert_false(value_share(bad_shares[i], &value));
}

static void lists_and_laws(void **state)
{
	const char *const bad_laws[] = { "",         "expo",       "pareto",       "pareto:",
					 "pareto:0", "pareto:2:1", "pareto:1:2:3", "lognormal:x" };
	double numbers[4];
	unsigned count;
	struct sim_law law;
	struct sim_failure failure;

	(void)state;
	assert_true(value_list("4:1:0.5", 4, numbers, &count));
	assert_int_equal(count, 3);
	assert_false(value_list("1:2:3:4:5", 4, numbers, &count));
	assert_false(value_list("1::2", 4, numbers, &count));
	assert_false(value_list("1:", 4, numbers, &count));
	assert_true(value_per_node("1:3", 4, numbers));
	assert_true(fabs(numbers[2] - 1) <= 0 && fabs(numbers[3] - 3) <= 0);
	assert_true(value_skew("zipf:1", 4, numbers) && fabs(numbers[0] - 0.48) < 1e-12);
	assert_false(value_skew("0:0:0:0", 4, numbers));
	assert_false(value_skew("zipf", 4, numbers));
	assert_true(value_law("pareto:1.5:20", &law) && law.kind == SIM_LAW_PARETO && fabs(law.most - 20) <= 0);
	for (unsigned i = 0; i < sizeof(bad_laws) / sizeof(bad_laws[0]); i++)
		assert_false(value_law(bad_laws[i], &law));
	assert_true(value_failure("n3@10s", &failure) && failure.node == 2 && fabs(failure.at_s - 10) <= 0);
	assert_true(value_failure("3@10ms", &failure));
	assert_false(value_failure("0@10s", &failure));
	assert_false(value_failure("@10s", &failure));
	assert_false(value_failure("n@10s", &failure));
	assert_false(value_failure("3", &failure));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timers_like_a_list),    cmocka_unit_test(ring_keeps_order),
		cmocka_unit_test(histogram_percentiles), cmocka_unit_test(laws_have_mean_1),
		cmocka_unit_test(alias_draws_by_share),  cmocka_unit_test(times_and_shares),
		cmocka_unit_test(lists_and_laws),
	};

	return cmocka_run_group_tests(tests, start_stream, NULL);
}
