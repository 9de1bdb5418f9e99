// SPDX-License-Identifier: GPL-2.0-or-later
/* tally.h against connections whose begin and end the test knows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/core/policy/policy.h"
#include "dprd/core/policy/tally.h"

enum { CONNECTIONS = 200000, RANDOM_STEPS = 20000 };

/* A world with one node: all connections that began, by the time of their end. */
static struct {
	struct tally p;
	uint64_t now_ms, counted_ms;
	unsigned count_period_ms, own;
	uint64_t end_ms[CONNECTIONS];
	unsigned first, count; /* those before first are over */
} world;

static unsigned truth(void)
{
	unsigned open = 0;

	while (world.first < world.count && world.end_ms[world.first] <= world.now_ms)
		world.first++;
	for (unsigned i = world.first; i < world.count; i++)
		open += world.end_ms[i] > world.now_ms;
	return open;
}

static double estimate(void)
{
	return tally_open(&world.p, world.now_ms);
}

static void count_now(void)
{
	const struct tally_count found = { .open = truth(), .any = world.count > 0, .own = world.own };

	tally_start(&world.p, world.now_ms);
	tally_end(&world.p, &found, world.now_ms);
	world.counted_ms = world.now_ms;
}

static void begin(unsigned life_ms)
{
	assert_true(world.count < CONNECTIONS);
	world.end_ms[world.count++] = world.now_ms + life_ms;
	tally_began(&world.p, 1, world.now_ms);
}

static void pass(unsigned ms)
{
	world.now_ms += ms;
	if (world.now_ms >= world.counted_ms + world.count_period_ms)
		count_now();
}

/* One connection each ms * so many, each with this life. Returns the largest distance to the truth. */
static double traffic(unsigned duration_ms, unsigned per_ms, unsigned life_ms)
{
	double most = 0;

	for (unsigned ms = 0; ms < duration_ms; ms++) {
		double off;

		for (unsigned i = 0; i < per_ms; i++)
			begin(life_ms);
		pass(1);
		off = estimate() - truth();
		most = off > most ? off : -off > most ? -off : most;
	}
	return most;
}

static int make(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	world.now_ms = 1000000;
	world.count_period_ms = 250;
	return 0;
}

enum { HOUR_MS = 3600000 };

/* One connection, which is over, shows that there are some to be counted. */
static void learn_the_place(void)
{
	begin(10);
	pass(20);
	count_now();
	assert_true(world.p.used);
}

static void not_used(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		tally_began(&world.p, 1, world.now_ms);
		world.now_ms += 10;
	}
	assert_true(estimate() <= 0);
	count_now();
	assert_false(world.p.used);
	assert_true(estimate() <= 0);
}

/* Each of a burst counts at once, and no count comes in between. */
static void held(void **state)
{
	(void)state;
	learn_the_place();
	world.count_period_ms = HOUR_MS;
	for (unsigned i = 1; i <= 40; i++) {
		begin(HOUR_MS);
		assert_in_range((unsigned)(estimate() * 1000), i * 1000 - 200, i * 1000);
		pass(20);
	}
}

/* Ten connections are open, and 20 begin while a count runs that finds so many of all. */
static unsigned counted_in_a_burst(unsigned found)
{
	assert_int_equal(make(NULL), 0);
	for (unsigned i = 0; i < 10; i++)
		begin(HOUR_MS);
	count_now();
	tally_start(&world.p, world.now_ms);
	for (unsigned i = 0; i < 20; i++)
		begin(HOUR_MS);
	tally_end(&world.p, &(struct tally_count) { .open = found, .any = true }, world.now_ms);
	assert_false(world.p.began > 0);
	return (unsigned)(estimate() + 0.5);
}

/* A count does not say which of the new ones it has found, so each of them is open until it cannot be. */
static void burst_during_a_count(void **state)
{
	(void)state;
	assert_int_equal(counted_in_a_burst(10), 30);
	assert_int_equal(counted_in_a_burst(17), 30);
	assert_int_equal(counted_in_a_burst(30), 30);
	/* Three have ended; five were never seen. */
	assert_int_equal(counted_in_a_burst(7), 27);
	assert_int_equal(counted_in_a_burst(35), 35);
}

/* The counts are 20 s apart, as with 100,000 entries of connections that are over. */
static void short_connections(void **state)
{
	(void)state;
	learn_the_place();
	traffic(2000, 1, 20);
	world.count_period_ms = 20000;
	assert_true(traffic(45000, 1, 20) <= 5);
	/* Twice and half the rate are known at once. */
	assert_true(traffic(5000, 2, 20) <= 10);
	assert_true(traffic(5000, 1, 20) <= 10);
	/* No connection comes any more. */
	pass(1000);
	assert_int_equal(truth(), 0);
	assert_true(estimate() < 2);
}

/* Connections that stay do not fade between the counts when the short ones no longer come. */
static void both_kinds(void **state)
{
	(void)state;
	learn_the_place();
	for (unsigned i = 0; i < 40; i++)
		begin(HOUR_MS);
	traffic(10000, 1, 10);
	count_now();
	for (unsigned i = 0; i < 3; i++) {
		pass(1000);
		count_now();
	}
	world.count_period_ms = HOUR_MS;
	for (unsigned i = 0; i < 5; i++) {
		pass(1000);
		assert_in_range((unsigned)(estimate() + 0.5), 38, 40);
	}
}

/* New connections are divided as the open ones are. */
static void some_ports_only(void **state)
{
	double before;

	(void)state;
	world.own = 300;
	for (unsigned i = 0; i < 100; i++)
		begin(HOUR_MS);
	count_now();
	before = estimate();
	assert_in_range((unsigned)before, 100, 100);
	tally_began(&world.p, 90, world.now_ms);
	assert_in_range((unsigned)(estimate() - before + 0.5), 30, 30);
}

/* A container is replaced by a server on the node: the connections have sockets from then on. */
static void used_no_more(void **state)
{
	const struct tally_count none = { .own = 20 };
	unsigned began = 0;

	(void)state;
	learn_the_place();
	for (; world.p.used && began < 100; began++) {
		tally_began(&world.p, 1, world.now_ms);
		assert_true(tally_may_change(&world.p));
		tally_start(&world.p, world.now_ms);
		tally_end(&world.p, &none, world.now_ms);
		assert_false(tally_may_change(&world.p));
	}
	assert_in_range(began, 10, 20);
	assert_true(estimate() <= 0);
}

/* Whatever is counted, the estimate is a number between nothing and all that can be open. */
static void always_bounded(void **state)
{
	uint64_t random = 20261129;
	double since_start = 0, since_count = 0;

	(void)state;
	tally_start(&world.p, world.now_ms);
	for (unsigned step = 0; step < RANDOM_STEPS; step++) {
		unsigned value;

		random = policy_mix(random);
		value = (unsigned)(random >> 8) % 1000;
		switch (random % 4) {
		case 0:
		case 1:
			tally_began(&world.p, value, world.now_ms);
			since_start += value;
			since_count += value;
			break;
		case 2:
			world.now_ms += value;
			break;
		case 3:
			tally_end(&world.p, &(struct tally_count) { value, value % 7 > 0, value / 2 }, world.now_ms);
			assert_true(estimate() <= value + since_start + 1e-6);
			since_count = value + since_start;
			tally_start(&world.p, world.now_ms);
			since_start = 0;
			break;
		}
		assert_true(estimate() >= 0);
		assert_true(estimate() <= since_count + 1e-6);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(not_used, make),
		cmocka_unit_test_setup(held, make),
		cmocka_unit_test_setup(burst_during_a_count, make),
		cmocka_unit_test_setup(short_connections, make),
		cmocka_unit_test_setup(both_kinds, make),
		cmocka_unit_test_setup(some_ports_only, make),
		cmocka_unit_test_setup(used_no_more, make),
		cmocka_unit_test_setup(always_bounded, make),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
