// SPDX-License-Identifier: GPL-2.0-or-later
/* Shares of nodes whose periods differ, or change by a reload: never two owners. */
#include "tests/unit/share_world.h"

static struct world world;

static double share_of(unsigned i)
{
	return world_share_of(&world, i);
}

static int settle_anew(void **state)
{
	(void)state;
	world_make(&world, 3, world_seed());
	world_run(&world, 3500);
	return 0;
}

/* The lease of a slow node and the take-over of a quick one, and the other way round. */
static void other_period(void **state)
{
	(void)state;
	for (unsigned n = 0; n < world_rounds(40, 4); n++) {
		unsigned round = getenv("UNIT_LONG") ? n : world_seed() % 40;
		unsigned slow = round & 1, victim = round >> 1 & 1, settled_ms = 1000 + round * 37;

		world_make(&world, 2 + (round >> 2 & 1), world_seed());
		world.config[slow].period_ms = 5 * WORLD_PERIOD_MS;
		world_run(&world, 20000);
		for (unsigned i = 0; i < world.count; i++)
			assert_true(share_of(i) > 0.9 / world.count);
		world_run(&world, settled_ms);
		world.node[victim].running = false;
		world_run(&world, 5 * 5 * WORLD_PERIOD_MS + 500);
		assert_int_equal(world.doubles, 0);
		assert_int_equal(world.owned, WORLD_BUCKETS);
		assert_true(share_of(victim) == 0);
	}
}

/* A slow node stands still while a quick one, which had asked for nothing, starts. */
static void other_period_drained(void **state)
{
	(void)state;
	world_make(&world, 2, 1);
	world.config[0].period_ms = 5 * WORLD_PERIOD_MS;
	world.node[1].weight = 0;
	world_run(&world, 20000);
	assert_true(share_of(0) == 1);
	world.node[0].running = false;
	world_start(&world, 1);
	world_run(&world, 3000);
	assert_true(share_of(1) == 1);
	assert_int_equal(world.doubles, 0);
}

/* The first announcements with a longer period are lost. */
static void unheard_change(void **state)
{
	(void)state;
	for (unsigned n = 0; n < world_rounds(20, 2); n++) {
		unsigned round = getenv("UNIT_LONG") ? n : world_seed() % 20;

		world_make(&world, 3, world_seed());
		world_run(&world, 10000 + round * 11);
		world.cut[0][1] = world.cut[0][2] = true;
		world_reload(&world, 0, 5 * WORLD_PERIOD_MS);
		world_run(&world, 6000);
		assert_int_equal(world.doubles, 0);
		assert_true(share_of(0) == 0);
		assert_int_equal(world.owned, WORLD_BUCKETS);
	}
}

/* n1 serves alone, as it does not hear n2, and the first announcement with a longer period is lost; it may stand still then. */
static void unheard_change_alone(void **state)
{
	(void)state;
	for (unsigned round = 0; round < world_rounds(30, 5); round++) {
		world_make(&world, 2, world_seed());
		world.cut[1][0] = true;
		world_run(&world, 6000);
		world.longest_ms = 0;
		world.cut[0][1] = true;
		world_reload(&world, 0, 5 * WORLD_PERIOD_MS);
		world_run(&world, 2 * WORLD_STEP_MS);
		world.cut[0][1] = false;
		world.node[0].running = round % 2;
		world_run(&world, 6000);
		assert_int_equal(world.doubles, 0);
		assert_true(share_of(!(round % 2)) == 1);
		assert_true(world.longest_ms == 0 || !(round % 2));
	}
}

/*
 * n2 is deaf and has left out n1, whose period is long, perhaps only since then. n2 asks for a share by a shorter one
 * while n1 stands still.
 */
static void shorter_while_silent(void **state)
{
	(void)state;
	for (unsigned round = 0; round < world_rounds(30, 5); round++) {
		world_make(&world, 2, world_seed());
		world.config[0].period_ms = round % 2 ? WORLD_PERIOD_MS : 5 * WORLD_PERIOD_MS;
		world.config[1].period_ms = 5 * WORLD_PERIOD_MS;
		world_run(&world, 12000);
		world.cut[0][1] = true;
		world.node[1].weight = 0;
		world_run(&world, 12000);
		world_reload(&world, 0, 5 * WORLD_PERIOD_MS);
		world_run(&world, 6000);
		assert_true(share_of(0) == 1);
		world.node[0].running = false;
		world_reload(&world, 1, WORLD_PERIOD_MS);
		world.node[1].weight = 100;
		world_run(&world, 12000);
		assert_int_equal(world.doubles, 0);
		assert_true(share_of(1) == 1);
	}
}

/* Two longer periods follow each other and no node hears of them; then the others have the shortest of all. */
static void unheard_changes(void **state)
{
	(void)state;
	for (unsigned round = 0; round < world_rounds(15, 3); round++) {
		world_make(&world, 3, world_seed());
		world.config[1].period_ms = world.config[2].period_ms = 5 * WORLD_PERIOD_MS;
		world_run(&world, 12000);
		world.cut[0][1] = world.cut[0][2] = true;
		world_reload(&world, 0, 5 * WORLD_PERIOD_MS / 2);
		world_run(&world, 100);
		world_reload(&world, 0, 5 * WORLD_PERIOD_MS);
		world_run(&world, 1200);
		world_reload(&world, 1, WORLD_PERIOD_MS);
		world_reload(&world, 2, WORLD_PERIOD_MS);
		world_run(&world, 6000);
		assert_int_equal(world.doubles, 0);
		assert_true(share_of(0) == 0);
		assert_int_equal(world.owned, WORLD_BUCKETS);
	}
}

/* A node that stands still does not hear that the others have a shorter period now. */
static void unread_change(void **state)
{
	(void)state;
	world_make(&world, 3, 1);
	for (unsigned i = 0; i < 3; i++)
		world.config[i].period_ms = 5 * WORLD_PERIOD_MS;
	world_run(&world, 20000);
	world.node[0].running = false;
	world_reload(&world, 1, WORLD_PERIOD_MS);
	world_reload(&world, 2, WORLD_PERIOD_MS);
	world_run(&world, 6000);
	assert_int_equal(world.doubles, 0);
	assert_int_equal(world.owned, WORLD_BUCKETS);
}

/* Node after node gets a longer period and the old one back: no node loses a bucket, and hardly ever a lease. */
static void period_changes(void **state)
{
	static const unsigned periods_ms[] = { 1000, 200, 50, 400 };

	(void)state;
	world_make(&world, 3, 1);
	world_run(&world, 2800); /* less than a node with the longest of them listens at its start */
	world.longest_ms = 0;
	for (unsigned round = 0; round < sizeof(periods_ms) / sizeof(periods_ms[0]); round++) {
		for (unsigned i = 0; i < 3; i++) {
			world_reload(&world, i, periods_ms[round]);
			for (unsigned ms = 0; ms < 4000; ms += 100) {
				world_run(&world, 100);
				for (unsigned k = 0; k < 3; k++)
					assert_true(world.node[k].share.used == 100);
			}
		}
	}
	print_message("         a bucket was nobody's for %u ms\n", world.longest_ms);
	assert_in_range(world.longest_ms, 0, 300);
	assert_int_equal(world.doubles, 0);
}

/* The step between the tested lengths of a fault. */
static unsigned step_ms(void)
{
	return getenv("UNIT_SHORT") ? 900 : getenv("UNIT_LONG") ? 50 : 200;
}

/* n1 reloads a longer period when it goes on; meanwhile n2 took over, and n1 did not hear of it. */
static void longer_after_standing(void **state)
{
	(void)state;
	for (unsigned still_ms = world_seed() % step_ms(); still_ms < 6000; still_ms += step_ms()) {
		world_make(&world, 3, world_seed());
		world.config[1].period_ms = world.config[2].period_ms = 5 * WORLD_PERIOD_MS;
		world_run(&world, 12000);
		world.node[0].running = false;
		world_reload(&world, 1, WORLD_PERIOD_MS);
		world_reload(&world, 2, WORLD_PERIOD_MS);
		world_run(&world, still_ms);
		world_go_on(&world, 0, 5 * WORLD_PERIOD_MS, true);
		world_run(&world, 6000);
		assert_int_equal(world.doubles, 0);
		assert_int_equal(world.owned, WORLD_BUCKETS);
	}
}

/* The same of two nodes, the first of which does not hear the second. */
static void longer_after_standing_unheard(void **state)
{
	(void)state;
	for (unsigned still_ms = world_seed() % step_ms(); still_ms < 6000; still_ms += step_ms()) {
		world_make(&world, 2, world_seed());
		world.cut[1][0] = true;
		world_run(&world, 6000);
		assert_true(share_of(0) == 1);
		world.node[0].running = false;
		world_run(&world, still_ms);
		world_go_on(&world, 0, 5 * WORLD_PERIOD_MS, false);
		world_run(&world, 12000);
		assert_int_equal(world.doubles, 0);
		assert_int_equal(world.owned, WORLD_BUCKETS);
	}
}

/* n1, which does not hear n2, wants a share again, and has a shorter period before it announced that. */
static void shorter_while_asking(void **state)
{
	(void)state;
	for (unsigned round = 0; round < world_rounds(60, 10); round++) {
		world_make(&world, 2, world_seed());
		world.cut[1][0] = true;
		world.config[0].period_ms = 5 * WORLD_PERIOD_MS;
		world.node[0].weight = 0;
		world_run(&world, 12000);
		assert_true(share_of(1) == 1);
		for (unsigned ms = 0; world.node[0].next_ms < world.now_ms + 1100; ms += WORLD_STEP_MS) {
			world_run(&world, WORLD_STEP_MS);
			assert_true(ms < 60000);
		}
		world.node[0].weight = 100;
		world_run(&world, 1050);
		world_reload(&world, 0, WORLD_PERIOD_MS);
		world_run(&world, 6000);
		assert_int_equal(world.doubles, 0);
		assert_int_equal(world.owned, WORLD_BUCKETS);
	}
}

static unsigned any_period(void)
{
	static const unsigned periods_ms[] = { 50, 200, 500, 1000 };

	return periods_ms[world_random(&world) % 4];
}

/* Changes by chance, while one node at a time stands still. */
static void period_changes_and_faults(void **state)
{
	static const unsigned periods_ms[] = { 200, 500, 1000 };

	(void)state;
	for (unsigned round = 0; round < world_rounds(300, 10); round++) {
		world_reload(&world, (unsigned)(world_random(&world) % 3), periods_ms[world_random(&world) % 3]);
		world_run(&world, (unsigned)(world_random(&world) % 1500));
		if (round % 2) {
			struct world_node *n = &world.node[world_random(&world) % 3];

			n->running = false;
			world_run(&world, (unsigned)(world_random(&world) % 6000));
			n->running = true;
		}
	}
	assert_int_equal(world.doubles, 0);
}

/* Reloads of any node, one after the other; some are back at once. A node that stands still finds its own later. */
static void reload_some(unsigned victim, unsigned *later_ms, unsigned ms)
{
	for (unsigned end = (unsigned)(world_random(&world) % ms), passed = 0; passed < end;) {
		unsigned i = (unsigned)(world_random(&world) % world.count);
		unsigned step = (unsigned)(world_random(&world) % 1000);

		if (i == victim && !world.node[i].running)
			*later_ms = any_period();
		else
			world_reload(&world, i, any_period());
		world_run(&world, step);
		passed += step;
	}
}

/* Changes by chance while one node stands still, is deaf, is mute, wants nothing, or starts with another period. */
static void period_changes_and_more_faults(void **state)
{
	(void)state;
	world_make(&world, 2 + world_seed() % 2, world_seed());
	for (unsigned round = 0; round < world_rounds(300, 10); round++) {
		unsigned victim = (unsigned)(world_random(&world) % world.count), later_ms = 0;
		unsigned fault = (unsigned)(world_random(&world) % 5);
		struct world_node *n = &world.node[victim];

		reload_some(world.count, &later_ms, 2500);
		if (fault == 0)
			n->running = false;
		if (fault == 3)
			n->weight = 0;
		if (fault == 4) {
			world.config[victim].period_ms = any_period();
			world_start(&world, victim);
			world_run(&world, 300);
		}
		for (unsigned k = 0; k < world.count; k++) {
			world.cut[victim][k] = fault == 1;
			world.cut[k][victim] = fault == 2;
		}
		reload_some(victim, &later_ms, 6000);
		memset(world.cut, 0, sizeof(world.cut));
		n->weight = 100;
		if (!n->running)
			world_go_on(&world, victim, later_ms ? later_ms : world.config[victim].period_ms,
				    world_chance(&world, 0.5));
		if (world.doubles)
			fail_msg("%u nodes, round %u, fault %u of n%u", world.count, round, fault, victim + 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_period),
		cmocka_unit_test(other_period_drained),
		cmocka_unit_test(unheard_change),
		cmocka_unit_test(unheard_change_alone),
		cmocka_unit_test(unheard_changes),
		cmocka_unit_test(shorter_while_silent),
		cmocka_unit_test(unread_change),
		cmocka_unit_test(period_changes),
		cmocka_unit_test(longer_after_standing),
		cmocka_unit_test(longer_after_standing_unheard),
		cmocka_unit_test(shorter_while_asking),
		cmocka_unit_test_setup(period_changes_and_faults, settle_anew),
		cmocka_unit_test(period_changes_and_more_faults),
	};

	return cmocka_run_group_tests(tests, world_begin, NULL);
}
