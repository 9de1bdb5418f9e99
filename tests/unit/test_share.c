// SPDX-License-Identifier: GPL-2.0-or-later
/* Shares of the shared addresses: take-over, give-back, weights, and never two owners. */
#include "tests/unit/share_world.h"

enum { SETTLE_MS = 3500, TAKEOVER_MS = 1000, LEASE_MS = 800 };

static struct world world;

static int settle(void **state)
{
	(void)state;
	world_make(&world, 3, 1);
	world_run(&world, SETTLE_MS);
	return 0;
}

static int settle_anew(void **state)
{
	(void)state;
	world_make(&world, 3, world_seed());
	world_run(&world, SETTLE_MS);
	return 0;
}

/* Milliseconds until all buckets have an owner. */
static unsigned heal_ms(unsigned most_ms)
{
	unsigned ms = 0;

	do {
		world_run(&world, WORLD_STEP_MS);
		ms += WORLD_STEP_MS;
	} while (world.owned < WORLD_BUCKETS && ms < most_ms);
	return ms;
}

static void nothing_at_once(void **state)
{
	(void)state;
	world_make(&world, 3, 1);
	world_run(&world, 3 * WORLD_PERIOD_MS + TAKEOVER_MS - WORLD_STEP_MS);
	assert_int_equal(world.owned, 0);
	assert_true(heal_ms(2000) < 1000);
	for (unsigned i = 0; i < 3; i++)
		assert_true(world_share_of(&world, i) > 0.30 && world_share_of(&world, i) < 0.37);
}

static void alone(void **state)
{
	(void)state;
	world_make(&world, 3, 1);
	world.node[1].alive = world.node[2].alive = false;
	world_run(&world, SETTLE_MS);
	assert_true(world_share_of(&world, 0) == 1);
}

static void takeover(void **state)
{
	unsigned ms;

	(void)state;
	assert_int_equal(world.owned, WORLD_BUCKETS);
	world.node[2].alive = false;
	world_run(&world, WORLD_STEP_MS);
	assert_true(world.owned < WORLD_BUCKETS);
	ms = heal_ms(3000);
	print_message("         all taken over after %u ms\n", ms);
	assert_in_range(ms, TAKEOVER_MS - 300 - WORLD_DELAY_MS, TAKEOVER_MS + 200);
	assert_true(world_share_of(&world, 0) + world_share_of(&world, 1) == 1);
	assert_int_equal(world.doubles, 0);
}

/* The kernel goes on for as long as the lease, and not longer. */
static void announcer_dies(void **state)
{
	(void)state;
	world.node[2].running = false;
	world_run(&world, LEASE_MS - 2 * 300 - 2 * WORLD_DELAY_MS);
	assert_true(world_share_of(&world, 2) > 0.30);
	world_run(&world, LEASE_MS);
	assert_true(world_share_of(&world, 2) == 0);
	assert_true(heal_ms(1000) < 600);
	assert_int_equal(world.doubles, 0);
}

static void giveback(void **state)
{
	(void)state;
	world.node[2].alive = false;
	world_run(&world, 2000);
	assert_true(world_share_of(&world, 0) + world_share_of(&world, 1) == 1);
	world_start(&world, 2);
	world_run(&world, SETTLE_MS);
	assert_true(world_share_of(&world, 2) > 0.30);
	assert_int_equal(world.owned, WORLD_BUCKETS);
	assert_int_equal(world.doubles, 0);
}

/* A node that stood still comes back without taking buckets that others have now. */
static void freeze(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		world.node[i].running = false;
		world_run(&world, 3000);
		world.node[i].running = true;
		world_run(&world, 8000);
		assert_int_equal(world.owned, WORLD_BUCKETS);
		assert_true(world_share_of(&world, i) > 0.30);
	}
	assert_int_equal(world.doubles, 0);
}

static void weights(void **state)
{
	(void)state;
	world.node[0].weight = 300;
	world_run(&world, 2000);
	assert_true(world_share_of(&world, 0) > 0.57 && world_share_of(&world, 0) < 0.63);
	world.node[0].weight = 10;
	world_run(&world, 2000);
	assert_true(world_share_of(&world, 0) < 0.06 && world_share_of(&world, 0) > 0.03);
	world.node[0].weight = 0;
	world_run(&world, 2000);
	assert_true(world_share_of(&world, 0) == 0);
	world.node[0].weight = 100;
	world_run(&world, SETTLE_MS);
	assert_true(world_share_of(&world, 0) > 0.30);
	assert_int_equal(world.owned, WORLD_BUCKETS);
	assert_int_equal(world.doubles, 0);
}

/* Comes and goes: after the second time it has to stay for a while before it gets its share back. */
static void flapping(void **state)
{
	unsigned before_ms = 0, ms;

	(void)state;
	for (unsigned round = 0; round < 4; round++) {
		world.node[2].alive = false;
		world_run(&world, 2000);
		world_start(&world, 2);
		for (ms = 0; ms < 30000 && world_share_of(&world, 2) < 0.3; ms += 100)
			world_run(&world, 100);
		print_message("         share back after %u ms\n", ms);
		assert_true(ms < 30000);
		if (round > 1)
			assert_true(ms > before_ms + 1000);
		before_ms = ms;
		world_run(&world, 1000);
	}
	assert_int_equal(world.doubles, 0);
}

static void lossy(void **state)
{
	unsigned steps = 0, whole = 0;

	(void)state;
	world.loss = 0.3;
	for (; steps < world_rounds(20000, 1000); steps++) {
		world_run(&world, WORLD_STEP_MS);
		whole += world.owned == WORLD_BUCKETS;
		/* No node is dead, so none may be left out. */
		for (unsigned i = 0; i < 3; i++)
			for (unsigned k = 0; k < 3; k++)
				assert_true(i == k || world.node[i].share.peer[k].level == SHARE_IN);
	}
	print_message("         30 %% lost: all buckets owned in %.2f %% of the time\n", 100.0 * whole / steps);
	assert_true(whole > steps * 98 / 100);
	assert_int_equal(world.doubles, 0);
}

/* A node of half the strength ends up with about half the share of the others. */
static void rebalanced(void **state)
{
	uint32_t weight[3] = { 100, 100, 100 };
	double load[3];

	(void)state;
	for (unsigned step = 0; step < 200; step++) {
		double total = weight[0] + weight[1] + weight[2];

		for (unsigned i = 0; i < 3; i++)
			load[i] = weight[i] / total * (i == 2 ? 2 : 1);
		for (unsigned i = 0; i < 3; i++)
			weight[i] = share_rebalanced(weight[i], 100, load[i], (load[0] + load[1] + load[2]) / 3);
	}
	assert_int_equal(weight[0], 100);
	assert_in_range(weight[2], 50, 65);
	assert_int_equal(share_rebalanced(26, 100, 9, 1), 25);
	assert_int_equal(share_rebalanced(25, 100, 9, 1), 25);
	assert_int_equal(share_rebalanced(98, 100, 1, 2), 100);
	assert_int_equal(share_rebalanced(1, 1, 9, 1), 1);
	assert_int_equal(share_rebalanced(60, 100, 1.1, 1), 60);
}

/* A wish that falls and rises again before the peers have answered: their earlier grants do not count then. */
static void wavering(void **state)
{
	(void)state;
	for (unsigned ms = 10; ms < 600; ms += getenv("UNIT_SHORT") ? 100 : 10) {
		world.node[0].weight = 50;
		world_run(&world, ms);
		world.node[0].weight = 200;
		world_run(&world, 700);
		assert_true(world_share_of(&world, 0) > 0.45);
	}
	assert_int_equal(world.doubles, 0);
}

static void minority(void **state)
{
	static const struct {
		unsigned count, heard; /* bits */
		bool minority;
	} cases[] = {
		{ 1, 1, false },    { 2, 1, false }, { 2, 2, false },    { 3, 1, true },      { 3, 3, false },
		{ 4, 1, true },     { 4, 3, false }, { 4, 2 | 4, true }, { 4, 1 | 8, false }, { 4, 14, false },
		{ 5, 1 | 2, true }, { 5, 7, false }, { 5, 28, false },   { 5, 24, true },
	};

	(void)state;
	for (unsigned c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		unsigned self = (unsigned)__builtin_ctz(cases[c].heard);
		struct share *share = &world.node[self].share;

		world_make(&world, cases[c].count, 1);
		for (unsigned i = 0; i < cases[c].count; i++) {
			if (cases[c].heard >> i & 1)
				share_hear(share, i, &(struct share_said) { .weight = 1 }, world.now_ms);
		}
		if (share_is_minority(share) != cases[c].minority)
			fail_msg("case %u", c);
	}
	/* After a start no node has been heard yet. */
	world_make(&world, 3, 1);
	assert_true(share_is_minority(&world.node[0].share));
	/* A member without weight has no vote. */
	world.config[0].member[1].weight = world.config[0].member[2].weight = 0;
	assert_false(share_is_minority(&world.node[0].share));
}

/* Two of three ask for nothing: the third, which hears both, is no minority, and is one when it does not. */
static void minority_drained(void **state)
{
	(void)state;
	world.node[1].weight = world.node[2].weight = 0;
	world_run(&world, 3000);
	assert_false(share_is_minority(&world.node[0].share));
	assert_true(world_share_of(&world, 0) == 1);
	for (unsigned k = 1; k < 3; k++)
		world.cut[0][k] = world.cut[k][0] = true;
	world_run(&world, LEASE_MS + WORLD_STEP_MS);
	assert_true(share_is_minority(&world.node[0].share));
}

/* n1 does not hear n2 and serves alone; while it stands still n2 takes over, and n1 cannot know. */
static void freeze_unheard(void **state)
{
	(void)state;
	world_make(&world, 2, 3);
	world.cut[1][0] = true;
	world_run(&world, 10000);
	for (unsigned round = 0; round < 10; round++) {
		assert_true(world_share_of(&world, 0) == 1);
		world.node[0].running = false;
		world_run(&world, 3000);
		assert_true(world_share_of(&world, 1) == 1);
		world.node[0].running = true;
		world_run(&world, 10000);
		assert_int_equal(world.doubles, 0);
	}
}

/* The others do not wait for a node that says farewell. */
static void good_bye(void **state)
{
	(void)state;
	world.node[2].weight = 0;
	assert_in_range(heal_ms(2000), 0, WORLD_DELAY_MS + 2 * WORLD_STEP_MS);
	world_run(&world, 300);
	world.node[2].alive = false;
	for (unsigned ms = 0; ms < 2000; ms += WORLD_STEP_MS) {
		world_run(&world, WORLD_STEP_MS);
		assert_int_equal(world.owned, WORLD_BUCKETS);
	}
	assert_int_equal(world.doubles, 0);
}

/* Random faults of all kinds at once. No two nodes are cut off from each other both ways at the same time. */
static void chaos(uint64_t seed)
{
	world_make(&world, 2 + seed % (WORLD_NODES - 1), seed);
	for (unsigned round = 0; round < 60; round++) {
		unsigned i = (unsigned)(world_random(&world) % world.count);
		unsigned k = (unsigned)(world_random(&world) % world.count);
		struct world_node *n = &world.node[i];

		switch (world_random(&world) % 8) {
		case 0:
			n->alive = false;
			break;
		case 1:
		case 2:
			world_start(&world, i);
			break;
		case 3:
			n->running = !n->running;
			break;
		case 4:
			/* With losses on top, two nodes would not hear each other at all. */
			world.cut[i][k] = !world.cut[k][i];
			world.loss = 0;
			break;
		case 5:
			memset(world.cut, 0, sizeof(world.cut));
			break;
		case 6:
			memset(world.cut, 0, sizeof(world.cut));
			world.loss = world_chance(&world, 0.5) ? 0 : 0.3;
			break;
		default:
			n->weight = (uint32_t)(world_random(&world) % 3 * 100);
		}
		world_run(&world, (unsigned)(world_random(&world) % 1500));
	}
	if (world.doubles)
		fail_msg("seed %llu: a bucket had two owners in %u cases", (unsigned long long)seed, world.doubles);
	memset(world.cut, 0, sizeof(world.cut));
	world.loss = 0;
	/* Whatever they hold against each other. */
	for (unsigned i = 0; i < world.count; i++) {
		if (!world.node[i].alive)
			world_start(&world, i);
		world.node[i].running = true;
		world.node[i].weight = 100;
	}
	world_run(&world, 10000);
	assert_int_equal(world.owned, WORLD_BUCKETS);
	world_run(&world, 65000);
	for (unsigned i = 0; i < world.count; i++)
		assert_true(world_share_of(&world, i) > 0.7 / world.count);
	assert_int_equal(world.doubles, 0);
	assert_int_equal(world.owned, WORLD_BUCKETS);
}

static void any_order(void **state)
{
	(void)state;
	for (unsigned round = 0; round < world_rounds(12, 1); round++)
		chaos(world_seed());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_at_once),
		cmocka_unit_test(alone),
		cmocka_unit_test_setup(takeover, settle),
		cmocka_unit_test_setup(announcer_dies, settle),
		cmocka_unit_test_setup(giveback, settle),
		cmocka_unit_test_setup(freeze, settle),
		cmocka_unit_test_setup(weights, settle),
		cmocka_unit_test_setup(flapping, settle),
		cmocka_unit_test_setup(lossy, settle_anew),
		cmocka_unit_test(rebalanced),
		cmocka_unit_test_setup(wavering, settle),
		cmocka_unit_test(minority),
		cmocka_unit_test_setup(minority_drained, settle),
		cmocka_unit_test(freeze_unheard),
		cmocka_unit_test_setup(good_bye, settle),
		cmocka_unit_test(any_order),
	};

	return cmocka_run_group_tests(tests, world_begin, NULL);
}
