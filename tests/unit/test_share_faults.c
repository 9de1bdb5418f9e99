// SPDX-License-Identifier: GPL-2.0-or-later
/* Shares after many faults: no bucket is without an owner for longer than a take-over or a give-back takes. */
#include "tests/unit/share_world.h"

enum { LEASE_MS = SHARE_LEASE_PERIODS * WORLD_PERIOD_MS };

static struct world world;

static double share_of(unsigned i)
{
	return world_share_of(&world, i);
}

static int settle(void **state)
{
	(void)state;
	world_make(&world, 3, 1);
	world_run(&world, 3500);
	return 0;
}

static int settle_anew(void **state)
{
	(void)state;
	world_make(&world, 3, world_seed());
	world_run(&world, 3500);
	return 0;
}

/* n1 does not reach n2, but n2 reaches n1: n1 may not act on knowledge that it alone has. */
static void one_way(void **state)
{
	(void)state;
	world.cut[0][1] = true;
	world_run(&world, 10000);
	assert_int_equal(world.doubles, 0);
	assert_true(share_of(0) == 0);
	assert_true(share_of(1) > 0.45);
	/* n2 refuses n1 and announces that: n1 asks for nothing, and n3 leaves it nothing. */
	assert_int_equal(share_refuser(&world.node[0].share, world.now_ms), 1);
	assert_int_equal(world.owned, WORLD_BUCKETS);
	world.cut[0][1] = false;
	world_run(&world, 10000);
	assert_int_equal(world.doubles, 0);
	assert_int_equal(world.owned, WORLD_BUCKETS);
	assert_true(share_of(0) > 0.30);
}

/* Two nodes remember differently how often the third was lost: no node gives a share that another refuses. */
static void held_by_one(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 4; round++) {
		world.node[2].alive = false;
		world_run(&world, 2000);
		world_start(&world, 2);
		for (unsigned ms = 0; ms < 30000 && share_of(2) < 0.3; ms += 100)
			world_run(&world, 100);
		world_run(&world, 1000);
	}
	world.node[2].alive = false;
	world_run(&world, 2000);
	world_start(&world, 0);
	world_run(&world, 5000);
	world.longest_ms = 0;
	world_start(&world, 2);
	world_run(&world, 5000);
	assert_true(share_refuses(&world.node[1].share, 2, world.now_ms));
	assert_false(share_refuses(&world.node[0].share, 2, world.now_ms));
	assert_true(share_of(2) == 0);
	world_run(&world, 20000);
	assert_true(share_of(2) > 0.3);
	print_message("         a bucket was nobody's for %u ms\n", world.longest_ms);
	assert_true(world.longest_ms < 600);
	assert_int_equal(world.doubles, 0);
}

/* n3 starts, and n2 and it do not hear each other: n1, which hears both, gives it nothing that n2 may have. */
static void refused_by_one(void **state)
{
	(void)state;
	world.cut[1][2] = world.cut[2][1] = true;
	world.node[2].alive = false;
	world_run(&world, 3000);
	world_start(&world, 2);
	world_run(&world, 5000);
	assert_int_equal(world.owned, WORLD_BUCKETS);
	assert_true(share_of(2) == 0);
	memset(world.cut, 0, sizeof(world.cut));
	world_run(&world, 5000);
	assert_true(share_of(2) > 0.3);
	assert_int_equal(world.doubles, 0);
}

/* Two parts come together again, whatever they hold against each other: neither waits for the other. */
static void healing(void **state)
{
	(void)state;
	for (unsigned count = 2; count <= 3; count++) {
		world_make(&world, count, count);
		world_run(&world, 3500);
		for (unsigned round = 0; round < 5; round++) {
			for (unsigned k = 1; k < count; k++)
				world.cut[0][k] = world.cut[k][0] = true;
			world_run(&world, 2000);
			/* It may have begun to ask just before, which the others have not echoed. */
			for (unsigned ms = 0; share_of(0) < 1 && ms < LEASE_MS; ms += WORLD_STEP_MS)
				world_run(&world, WORLD_STEP_MS);
			assert_true(share_of(0) == 1);
			memset(world.cut, 0, sizeof(world.cut));
			world.longest_ms = 0;
			world_run(&world, 3000);
			assert_int_equal(world.owned, WORLD_BUCKETS);
			assert_in_range(world.longest_ms, 0, 600);
		}
	}
}

/* A node that stood still for a moment has not forgotten which peers were silent before. */
static void silent_and_stalled(void **state)
{
	(void)state;
	world.node[2].alive = false;
	world_run(&world, 3000);
	assert_true(share_refuses(&world.node[0].share, 2, world.now_ms));
	world.node[0].running = false;
	world_run(&world, 2 * WORLD_PERIOD_MS);
	world.node[0].running = true;
	world_run(&world, WORLD_STEP_MS);
	assert_true(share_refuses(&world.node[0].share, 2, world.now_ms));
}

/* n1 hears no node, again and again: it must not serve alone for a minute because of that. */
static void deaf_again(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 5; round++) {
		world.cut[1][0] = world.cut[2][0] = true;
		world_run(&world, 1600);
		world.cut[1][0] = world.cut[2][0] = false;
		world_run(&world, 3000);
		for (unsigned i = 0; i < 3; i++)
			assert_true(share_of(i) > 0.30);
	}
	assert_int_equal(world.doubles, 0);
}

/* Fault upon fault on one node of three at a time, as soon as all have their shares again. */
static void fault_after_fault(void **state)
{
	enum { FAULT_MS = 1600, ROUNDS = 80 };

	(void)state;
	world.longest_ms = 0;
	for (unsigned round = 0; round < world_rounds(ROUNDS, 8); round++) {
		unsigned i = (unsigned)(world_random(&world) % 3), ms = 0;

		switch (round % 4) {
		case 0:
			world.node[i].running = false;
			world.node[i].run = 0;
			world_run(&world, FAULT_MS);
			world_start(&world, i);
			break;
		case 1:
			world.node[i].running = false;
			world_run(&world, FAULT_MS);
			world.node[i].running = true;
			break;
		default:
			for (unsigned k = 0; k < 3; k++)
				world.cut[i][k] = !(world.cut[k][i] = round % 4 == 2);
			world_run(&world, FAULT_MS);
			memset(world.cut, 0, sizeof(world.cut));
		}
		world_run(&world, 2400 + (unsigned)(world_random(&world) % 1700));
		for (; ms < 75000 && (share_of(0) < 0.3 || share_of(1) < 0.3 || share_of(2) < 0.3); ms += 100)
			world_run(&world, 100);
		assert_true(ms < 75000);
	}
	print_message("         a bucket was nobody's for %u ms\n", world.longest_ms);
	assert_true(world.longest_ms < FAULT_MS + 1000);
	assert_int_equal(world.doubles, 0);
}

/* The announcer is killed and starts at once, and the former lease lives on in a kernel that it does not reach yet. */
static void restarts_without_a_kernel(void **state)
{
	enum { ROUNDS = 120, BLIND_MS = 2000, REST_MS = 2000 };

	(void)state;
	for (unsigned round = 0; round < world_rounds(ROUNDS, 12); round++) {
		unsigned i = (unsigned)(world_random(&world) % 3), ms = 0;

		world.loss = (double)(world_random(&world) % 4) * 0.1;
		world_restart_blind(&world, i, (unsigned)(world_random(&world) % BLIND_MS));
		world_run(&world, (unsigned)(world_random(&world) % (2 * BLIND_MS)));
		world.loss = 0;
		world_run(&world, REST_MS);
		for (; ms < 75000 && (share_of(0) < 0.3 || share_of(1) < 0.3 || share_of(2) < 0.3); ms += 100)
			world_run(&world, 100);
		assert_true(ms < 75000);
	}
	print_message("         a bucket was nobody's for %u ms\n", world.longest_ms);
	assert_int_equal(world.doubles, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(one_way, settle),
		cmocka_unit_test_setup(held_by_one, settle),
		cmocka_unit_test_setup(refused_by_one, settle),
		cmocka_unit_test(healing),
		cmocka_unit_test_setup(silent_and_stalled, settle),
		cmocka_unit_test_setup(deaf_again, settle),
		cmocka_unit_test_setup(fault_after_fault, settle_anew),
		cmocka_unit_test_setup(restarts_without_a_kernel, settle_anew),
	};

	return cmocka_run_group_tests(tests, world_begin, NULL);
}
