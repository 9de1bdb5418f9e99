// SPDX-License-Identifier: GPL-2.0-or-later
/* test_flow_count.c - the counts of the flow table while BPF programs make and confirm flows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "tests/unit/flow_tables.h"

static void confirm_as_bpf(struct flow_table *table, uint32_t i)
{
	struct flow flow;

	assert_true(find_number(table, i, &flow));
	flow_slot_touch(flow_slot_at(table, flow.slot), TCP_ACK, flow_tick(2000));
}

/*
 * The BPF programs confirm what dprd made. A sixteenth of a round later the counts show the half-open pool nearly
 * empty; a round later they are exact, however many flows came and went meanwhile.
 */
static void counts_follow_what_bpf_programs_do(void **state)
{
	struct flow_limits limits = large_limits;
	struct flow_table *table;
	unsigned i, gone = 0, sum;

	(void)state;
	limits.max_half_open = 8192;
	table = new_table(&limits);
	for (i = 0; i < 8192; i++)
		assert_true(add_in_state(table, i, FLOW_HALF_OPEN, 2000));
	for (i = 0; i < 8000; i++)
		confirm_as_bpf(table, i);
	assert_false(flow_has_room(table, 2000));
	flow_expire(table, flow_slots(table) / 16, 2000, count_gone, &gone);
	assert_true(flow_has_room(table, 2000));
	assert_in_range(flow_counts(table).half_open, 192, 192 * 2 + 512);
	sum = flow_counts(table).half_open + flow_counts(table).confirmed;
	assert_int_equal(sum, 8192);
	/* Flows before and behind the cursor. */
	for (; i < 16000; i++) {
		assert_true(add_in_state(table, 1000 + i, i % 2 ? FLOW_CONFIRMED : FLOW_CLOSING, 2000));
		if (i % 1000 == 0)
			flow_expire(table, flow_slots(table) / 32, 2000, count_gone, &gone);
	}
	while (table->cursor)
		flow_expire(table, 1, 2000, count_gone, &gone);
	assert_int_equal(flow_counts(table).half_open, 192);
	assert_int_equal(flow_counts(table).confirmed, 16000);
	assert_int_equal(flow_counts(table).closing, 4000);
	assert_int_equal(gone, 0);
	free(table);
}

/* True when the flow lies where the running round has been. */
static bool make_as_bpf(struct flow_table *table, uint32_t i)
{
	struct flow_counts counts = table->counts, sums = table->sums;
	struct flow flow;

	assert_true(add_in_state(table, i, FLOW_HALF_OPEN, 2000));
	table->counts = counts;
	table->sums = sums;
	assert_true(find_number(table, i, &flow));
	return flow.slot / FLOW_BUCKET_SLOTS < flow_swept_buckets(table);
}

/* This holds at any time, in the middle of a round and after it. */
static void what_bpf_programs_made_counts_at_once(void **state)
{
	struct flow_limits limits = large_limits;
	unsigned i, gone = 0, behind = 0;
	struct flow_table *table;

	(void)state;
	limits.max_half_open = 8192;
	table = new_table(&limits);
	for (i = 0; i < 3000; i++) {
		bool swept = make_as_bpf(table, i);

		flow_count_made(table, 1, swept);
		behind += swept;
		flow_expire(table, flow_slots(table) / 2000 / FLOW_BUCKET_SLOTS * FLOW_BUCKET_SLOTS, 2000, count_gone,
			    &gone);
		assert_int_equal(flow_counts(table).half_open, i + 1);
	}
	assert_in_range(behind, 1000, 2000);
	assert_int_equal(gone, 0);
	free(table);
}

/* When dprd itself confirmed all flows, no sample may lower the counts. */
static void samples_do_not_lower_true_counts(void **state)
{
	struct flow_limits limits = large_limits;
	struct flow_table *table;
	unsigned i, gone = 0;

	(void)state;
	limits.max_half_open = 8192;
	table = new_table(&limits);
	for (i = 0; i < 8192; i++)
		assert_true(add_in_state(table, i, FLOW_HALF_OPEN, 2000));
	for (i = 0; i < 200; i++) {
		flow_expire(table, flow_slots(table) / 64, 2000, count_gone, &gone);
		assert_int_equal(flow_counts(table).half_open, 8192);
	}
	free(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_follow_what_bpf_programs_do),
		cmocka_unit_test(what_bpf_programs_made_counts_at_once),
		cmocka_unit_test(samples_do_not_lower_true_counts),
	};

	return cmocka_run_group_tests(tests, seed, NULL);
}
