// SPDX-License-Identifier: GPL-2.0-or-later
/* SYNs that were answered: found for a while, in one place each, and pushed out by others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/core/flow/answered.h"

enum { SYNS = 200000, TICK = 0x12345 };

static uint64_t table[ANSWERED_PLACES];

static void note(uint64_t hash, uint32_t tick)
{
	table[answered_place(hash)] = answered_word(hash, tick);
}

static bool has(uint64_t hash, uint32_t tick)
{
	return answered_has(table[answered_place(hash)], hash, tick, ANSWERED_TICKS);
}

static int start(void **state)
{
	(void)state;
	memset(table, 0, sizeof(table));
	return 0;
}

/* Also across the places where the tick's bits wrap around, and when another processor's clock is a little ahead. */
static void found_for_a_while(void **state)
{
	static const uint32_t ticks[] = { 0, 1, 0xfffe, 0xffff, 0x10000, TICK, UINT32_MAX };
	const uint64_t hash = 0x123456789abcdef0;
	unsigned i;

	(void)state;
	assert_false(has(hash, TICK));
	for (i = 0; i < sizeof(ticks) / sizeof(ticks[0]); i++) {
		note(hash, ticks[i]);
		assert_true(has(hash, ticks[i]));
		assert_true(has(hash, ticks[i] - ANSWERED_AHEAD_TICKS));
		assert_true(has(hash, ticks[i] + ANSWERED_TICKS));
		assert_false(has(hash, ticks[i] + ANSWERED_TICKS + 1));
		assert_false(has(hash, ticks[i] - ANSWERED_AHEAD_TICKS - 1));
		assert_false(has(hash ^ 1, ticks[i]));
		assert_false(has(hash ^ 1ull << 47, ticks[i]));
	}
	assert_false(answered_has(table[answered_place(hash)], hash, UINT32_MAX + 10u, 5));
}

/* A flood takes no more memory, and no SYN is taken for another one. */
static void a_flood_pushes_out(void **state)
{
	unsigned i, found = 0;

	(void)state;
	for (i = 0; i < SYNS; i++)
		note(flow_slot_mix(flow_slot_mix(i + 1)), TICK);
	for (i = 0; i < SYNS; i++) {
		found += has(flow_slot_mix(flow_slot_mix(i + 1)), TICK);
		assert_false(has(flow_slot_mix(flow_slot_mix(i + 1 + SYNS)), TICK));
	}
	/* The newest of each place. */
	assert_true(found > ANSWERED_PLACES * 9 / 10 && found <= ANSWERED_PLACES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(found_for_a_while, start),
		cmocka_unit_test_setup(a_flood_pushes_out, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
