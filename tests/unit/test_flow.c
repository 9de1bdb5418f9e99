// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#define MODEL_CHECK(condition) assert_true(condition)
#include "tests/unit/flow_model.h"
#include "tests/unit/flow_tables.h"

static void random_scripts_agree_with_the_model(void **state)
{
	uint8_t script[1501];
	unsigned round;
	size_t i;

	(void)state;
	for (round = 0; round < rounds(300); round++) {
		/* Some runs only add, some touch often, so that the pools stay full for long. */
		unsigned from = random_below(12);

		for (i = 0; i < sizeof(script); i++)
			script[i] = (uint8_t)(i % 3 == 1 && random_below(2) ? from + random_below(16 - from)
									    : random_below(256));
		model_run(script, sizeof(script));
	}
}

/* 100,000 SYNs of strangers: the confirmed flows are all still there. */
static void a_flood_leaves_confirmed_flows_alone(void **state)
{
	const struct flow_limits limits = { .max_confirmed = 100, .max_half_open = 20, .hash_key = { 1, 2 } };
	struct flow_table *table = new_table(&limits);
	unsigned i, added = 0, evictions = 0;
	struct flow evicted, flow;
	struct flow_key key;

	(void)state;
	for (i = 0; i < 70; i++)
		add_in_state(table, i, FLOW_CONFIRMED, 1000);
	for (i = 0; i < rounds(100000); i++) {
		key = numbered_key(1000 + i);
		added += flow_add(table, &key, 2, i, 2000 + i * 60, &evicted);
		evictions += evicted.state != FLOW_FREE;
		assert_true(evicted.state == FLOW_FREE || evicted.syn_sequence + 17 <= i);
	}
	assert_int_equal(added - evictions, 20);
	assert_true(added > rounds(100000) / 10 * 9);
	assert_int_equal(flow_counts(table).confirmed, 70);
	assert_int_equal(flow_counts(table).half_open, 20);
	for (i = 0; i < 70; i++) {
		key = numbered_key(i);
		assert_true(flow_find(table, &key, &flow));
		assert_int_equal(flow.state, FLOW_CONFIRMED);
	}
	free(table);
}

static void states_live_as_long_as_they_may(void **state)
{
	static const struct {
		uint8_t state;
		unsigned lifetime_ms;
	} cases[] = {
		{ FLOW_HALF_OPEN, 30000 },
		{ FLOW_CONFIRMED, 200000 },
		{ FLOW_CLOSING, 200000 },
		{ FLOW_RESET, 200000 },
	};
	const struct flow_counts none = { 0 };
	struct flow_key key = numbered_key(0);
	struct flow_limits limits = model_limits, shorter;
	struct flow_table *table;
	unsigned i, gone = 0;

	(void)state;
	limits.max_confirmed = 64; /* one flow is less than an eighth of it */
	shorter = limits;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		table = new_table(&limits);
		gone = 0;
		add_in_state(table, 0, cases[i].state, 5000);
		assert_int_equal(flow_lifetime_ms(&limits, cases[i].state, &none), cases[i].lifetime_ms);
		/* Exact to a tick of 17 ms. */
		flow_expire(table, 1000, 5000 + cases[i].lifetime_ms - 17, count_gone, &gone);
		flow_expire(table, 1000, 4000, count_gone, &gone); /* a clock read before the packet's */
		assert_int_equal(gone, 0);
		assert_true(flow_find(table, &key, NULL));
		free(table);
		table = new_table(&limits);
		add_in_state(table, 0, cases[i].state, 5000);
		flow_expire(table, 1000, 5000 + cases[i].lifetime_ms + 17, count_gone, &gone);
		assert_int_equal(gone, 1);
		assert_false(flow_find(table, &key, NULL));
		free(table);
	}
	shorter.idle_timeout_ms = 20;
	table = new_table(&limits);
	gone = 0;
	add_in_state(table, 0, FLOW_CONFIRMED, 5000);
	flow_table_set_timeouts(table, &shorter);
	flow_expire(table, 1000, 5040, count_gone, &gone);
	assert_int_equal(gone, 1);
	free(table);
}

/*
 * A FIN or RST ends no flow while there is room: the other half may be open, and the RST forged (RFC 5961). Above half of
 * a pool it is believed sooner than its timeout says, and a SYN doubted; no confirmed flow suffers.
 */
static void flows_make_room_under_pressure(void **state)
{
	static const unsigned used[] = { 0, 11, 12, 24, 25, 49, 50, 74, 75, 100 };
	static const unsigned closing_ms[] = {
		200000, 200000, 100000, 100000, 100000, 100000, 12500, 12500, 1562, 1562
	};
	static const unsigned reset_ms[] = { 200000, 200000, 25000, 25000, 10000, 10000, 1250, 1250, 156, 156 };
	static const unsigned half_open_ms[] = { 30000, 30000, 30000, 30000, 30000, 30000, 3750, 3750, 1500, 1500 };
	struct flow_limits limits = model_limits, small = model_limits;
	unsigned i;

	(void)state;
	limits.max_confirmed = limits.max_half_open = 100;
	small.syn_timeout_ms = 700;
	for (i = 0; i < sizeof(used) / sizeof(used[0]); i++) {
		const struct flow_counts confirmed = { .confirmed = used[i] }, half_open = { .half_open = used[i] };

		assert_int_equal(flow_lifetime_ms(&limits, FLOW_CLOSING, &confirmed), closing_ms[i]);
		assert_int_equal(flow_lifetime_ms(&limits, FLOW_RESET, &confirmed), reset_ms[i]);
		assert_int_equal(flow_lifetime_ms(&limits, FLOW_CONFIRMED, &confirmed), 200000);
		assert_int_equal(flow_lifetime_ms(&limits, FLOW_HALF_OPEN, &confirmed), 30000);
		assert_int_equal(flow_lifetime_ms(&limits, FLOW_HALF_OPEN, &half_open), half_open_ms[i]);
		assert_int_equal(flow_lifetime_ms(&limits, FLOW_CLOSING, &half_open), 200000);
		assert_int_equal(flow_lifetime_ms(&small, FLOW_HALF_OPEN, &half_open), 700);
	}
}

/* A flow that stays only because there is room does not keep dprd's rules at a stop. */
static void an_ended_flow_is_over_after_its_timeout(void **state)
{
	static const unsigned timeout_ms[] = { [FLOW_CLOSING] = 100000, [FLOW_RESET] = 10000 };
	struct flow flow = { .last_seen_ms = 5000 };
	unsigned s;

	(void)state;
	for (s = FLOW_HALF_OPEN; s <= FLOW_RESET; s++) {
		flow.state = (uint8_t)s;
		assert_false(
			flow_is_over(&flow, &model_limits, 5000 + timeout_ms[s < FLOW_CLOSING ? FLOW_CLOSING : s] - 1));
		assert_int_equal(flow_is_over(&flow, &model_limits, 5000 + 200000), s >= FLOW_CLOSING);
	}
}

/* A half-open flow makes room only when its client has had a second to answer. */
static void room_is_not_taken_from_the_young(void **state)
{
	const struct flow_key keys[] = { numbered_key(0), numbered_key(1), numbered_key(2) };
	struct flow_limits limits = model_limits;
	struct flow_table *table;
	struct flow evicted, flow;

	(void)state;
	limits.max_half_open = 2;
	limits.max_confirmed = 3;
	table = new_table(&limits);
	assert_true(flow_add(table, &keys[0], 7, 1, 5000, &evicted));
	assert_true(flow_has_room(table, 5000));
	assert_true(flow_add(table, &keys[1], 7, 1, 5000, &evicted));
	assert_false(flow_has_room(table, 5999));
	assert_false(flow_add(table, &keys[2], 7, 1, 5999, &evicted));
	assert_int_equal(evicted.state, FLOW_FREE);
	assert_true(flow_has_room(table, 6020));
	assert_true(flow_find(table, &keys[0], &flow));
	flow_touch(table, &flow, TCP_ACK, 6020);
	assert_true(flow_add(table, &keys[2], 7, 1, 6020, &evicted));
	assert_int_equal(evicted.state, FLOW_FREE);
	/* One is confirmed and two may become so: all three places are reserved. */
	assert_false(flow_has_room(table, 60000));
	free(table);
}

/* In a pool where BPF programs make flows, old flows, and only these, are removed ahead, each once. */
static void old_flows_are_evicted_ahead(void **state)
{
	struct flow_limits limits = model_limits;
	struct flow_table *table;
	unsigned i, evicted = 0;
	struct flow flow;

	(void)state;
	table = new_table(&limits);
	for (i = 0; i < 4; i++)
		assert_true(add_in_state(table, i, i == 3 ? FLOW_CONFIRMED : FLOW_HALF_OPEN, i < 2 ? 5000 : 5900));
	assert_false(flow_evict_old(table, 5990));
	while (evicted < 5 && flow_evict_old(table, 6100))
		evicted++;
	assert_int_equal(evicted, 2);
	assert_false(find_number(table, 0, &flow) || find_number(table, 1, &flow));
	assert_true(find_number(table, 2, &flow) && find_number(table, 3, &flow));
	assert_int_equal(flow_counts(table).half_open, 1);
	assert_int_equal(flow_counts(table).confirmed, 1);
	free(table);
}

/*
 * However many SYNs come, searching the slots costs a bounded part of their time: within one ms a few searches without
 * success, and then none.
 */
static void a_full_pool_is_not_searched_for_every_syn(void **state)
{
	struct flow_limits limits = large_limits;
	struct flow_table *table;
	unsigned i, moves = 0;
	uint32_t hand;

	(void)state;
	limits.max_half_open = 64;
	table = new_table(&limits);
	for (i = 0; i < 64; i++)
		add_in_state(table, i, FLOW_HALF_OPEN, 5000);
	for (i = 0; i < 1000; i++) {
		hand = table->hand;
		assert_false(flow_has_room(table, 5001));
		moves += table->hand != hand;
	}
	assert_int_equal(moves, 8);
	assert_false(flow_has_room(table, 5002));
	assert_int_not_equal(table->hand, hand);
	free(table);
}

/* Fills the whole table, and one flow more; then it empties in steps of which none is long. */
static void it_holds_65536_flows(void **state)
{
	struct flow_table *table = new_table(&large_limits);
	unsigned i, gone = 0, before, refused = 0;
	struct flow evicted, flow;
	struct flow_key key;

	(void)state;
	for (i = 0; i < large_limits.max_confirmed; i++)
		refused += !add_in_state(table, i, FLOW_CONFIRMED, i);
	/* One of four is IPv6 here. */
	assert_true(refused < large_limits.max_confirmed / 1000);
	assert_int_equal(flow_counts(table).confirmed, large_limits.max_confirmed - refused);
	for (i = 0; i < large_limits.max_confirmed; i++) {
		key = numbered_key(i);
		if (!flow_find(table, &key, &flow)) {
			refused--;
			continue;
		}
		assert_int_equal(flow.syn_sequence, i);
		assert_int_equal(flow.node_id, 1 + i % 7);
		assert_memory_equal(&flow.key, &key, sizeof(key));
	}
	assert_int_equal(refused, 0);
	for (; flow_has_room(table, 65536); i++)
		add_in_state(table, i, FLOW_CONFIRMED, i);
	key = numbered_key(i);
	assert_false(flow_add(table, &key, 1, i, i, &evicted));
	assert_int_equal(evicted.state, FLOW_FREE);
	for (i = 0; i < flow_slots(table); i += 1000) {
		before = gone;
		flow_expire(table, 1000, 1 << 20, count_gone, &gone);
		assert_true(gone - before <= 1000);
	}
	assert_int_equal(gone, large_limits.max_confirmed);
	assert_int_equal(flow_counts(table).confirmed + flow_counts(table).half_open, 0);
	free(table);
}

/* The ticks last 104 days: at any time of the clock ages and times are right. */
static void times_go_on_after_the_last_tick(void **state)
{
	static const uint64_t starts_ms[] = { 0, 9007199000ull, 9007199254ull, 4503599620ull, 90071992540ull };
	struct flow_key key = numbered_key(3);
	struct flow flow;
	unsigned i, gone;

	(void)state;
	for (i = 0; i < 5; i++) {
		struct flow_table *table = new_table(&model_limits);

		gone = 0;
		add_in_state(table, 3, FLOW_CONFIRMED, starts_ms[i] + 1000);
		flow_expire(table, 1000, starts_ms[i] + 150000, count_gone, &gone);
		assert_true(flow_find(table, &key, &flow));
		assert_in_range(flow.last_seen_ms, starts_ms[i] + 984, starts_ms[i] + 1000);
		flow_touch(table, &flow, TCP_ACK, starts_ms[i] + 150000);
		assert_in_range(flow.last_seen_ms, starts_ms[i] + 149984, starts_ms[i] + 150000);
		flow_expire(table, 1000, starts_ms[i] + 349000, count_gone, &gone);
		assert_int_equal(gone, 0);
		flow_expire(table, 1000, starts_ms[i] + 351000, count_gone, &gone);
		assert_int_equal(gone, 1);
		free(table);
	}
}

/* A time in the future becomes the present time. */
static void times_in_the_future_are_mended(void **state)
{
	struct flow_table *table = new_table(&model_limits);
	struct flow_key key = numbered_key(0);
	unsigned gone = 0;
	struct flow flow;

	(void)state;
	add_in_state(table, 0, FLOW_CONFIRMED, 1u << 30);
	flow_expire(table, 1000, 1000000, count_gone, &gone);
	assert_true(flow_find(table, &key, &flow));
	assert_in_range(flow.last_seen_ms, 999983, 1000000);
	flow_expire(table, 1000, 1199000, count_gone, &gone);
	assert_int_equal(gone, 0);
	flow_expire(table, 1000, 1201000, count_gone, &gone);
	assert_int_equal(gone, 1);
	free(table);
}

/* A packet of a flow costs no write for its time, unless that is 268 ms old. */
static void times_are_written_now_and_then(void **state)
{
	struct flow_table *table = new_table(&model_limits);
	unsigned ms, writes = 0;
	struct flow flow;
	uint32_t word;

	(void)state;
	add_in_state(table, 0, FLOW_CONFIRMED, 10000);
	assert_true(find_number(table, 0, &flow));
	for (ms = 10000; ms < 20000; ms++) {
		word = flow_slot_at(table, flow.slot)->state;
		flow_touch(table, &flow, TCP_ACK, ms);
		writes += word != flow_slot_at(table, flow.slot)->state;
		assert_true(flow.last_seen_ms <= ms && flow.last_seen_ms + 285 > ms);
	}
	assert_in_range(writes, 10000 / 285, 10000 / 268);
	free(table);
}

/* A flow was found, and is gone when its packet is counted: nothing happens, also not to a flow in its place. */
static void a_flow_that_is_gone_is_left_alone(void **state)
{
	struct flow_table *table = new_table(&model_limits);
	struct flow_key key = numbered_key(0), other = numbered_key(0);
	struct flow flow, there;

	(void)state;
	add_in_state(table, 0, FLOW_HALF_OPEN, 1000);
	flow_prefetch(table, &key, false);
	assert_true(find_number(table, 0, &flow));
	flow_remove(table, &flow);
	flow_touch(table, &flow, TCP_ACK, 2000);
	assert_int_equal(flow.state, FLOW_HALF_OPEN);
	assert_int_equal(flow_counts(table).half_open + flow_counts(table).confirmed, 0);
	/* Makes flows until one lies in the same place. */
	for (there.slot = UINT32_MAX; there.slot != flow.slot;) {
		other.client_port++;
		flow_prefetch(table, &other, true);
		assert_true(flow_add(table, &other, 2, 7, 2000, &there));
		assert_true(flow_find(table, &other, &there));
		if (there.slot != flow.slot)
			flow_remove(table, &there);
	}
	flow_touch(table, &flow, TCP_ACK, 2000);
	flow_remove(table, &flow);
	assert_true(flow_find(table, &other, &there));
	assert_int_equal(there.state, FLOW_HALF_OPEN);
	free(table);
}

static void multicast_clients_are_refused(void **state)
{
	struct flow_table *table = new_table(&model_limits);
	struct flow_key key = model_key(2);
	struct flow evicted;

	(void)state;
	assert_true(flow_add(table, &key, 1, 1, 1000, &evicted));
	key.client.bytes[0] = 0xff;
	assert_false(flow_add(table, &key, 1, 1, 1000, &evicted));
	assert_false(flow_add(table, &key, 0, 1, 1000, &evicted));
	assert_false(flow_find(table, &key, NULL));
	free(table);
}

/* Walking in parts of any size, or slot by slot, shows every flow once. */
static void walking_shows_every_flow_once(void **state)
{
	struct flow_table *table = filled_table();
	unsigned steps, i;

	(void)state;
	for (steps = 0; steps < 20; steps++) {
		unsigned seen[112] = { 0 }, calls = 0;
		uint32_t cursor = 0;

		do {
			flow_walk(table, &cursor, steps ? steps : 1000, steps ? count_each : count_one, seen);
		} while (cursor && ++calls < 100);
		assert_int_equal(cursor, 0);
		for (i = 100; i < 112; i++)
			assert_int_equal(seen[i], 1);
	}
	free(table);
}

static void the_hash_depends_on_key_and_secret(void **state)
{
	uint64_t secret[2] = { 3, 4 }, other[2] = { 3, 5 };
	struct flow_key key = model_key(0), changed;
	uint64_t hash = flow_hash(secret, &key);
	size_t i;

	(void)state;
	assert_int_equal(flow_hash(secret, &key), hash);
	assert_int_not_equal(flow_hash(other, &key), hash);
	for (i = 0; i < sizeof(key); i++) {
		changed = key;
		((uint8_t *)&changed)[i] ^= 1;
		assert_int_not_equal(flow_hash(secret, &changed), hash);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_scripts_agree_with_the_model),
		cmocka_unit_test(a_flood_leaves_confirmed_flows_alone),
		cmocka_unit_test(states_live_as_long_as_they_may),
		cmocka_unit_test(flows_make_room_under_pressure),
		cmocka_unit_test(an_ended_flow_is_over_after_its_timeout),
		cmocka_unit_test(room_is_not_taken_from_the_young),
		cmocka_unit_test(old_flows_are_evicted_ahead),
		cmocka_unit_test(a_full_pool_is_not_searched_for_every_syn),
		cmocka_unit_test(it_holds_65536_flows),
		cmocka_unit_test(times_go_on_after_the_last_tick),
		cmocka_unit_test(times_in_the_future_are_mended),
		cmocka_unit_test(times_are_written_now_and_then),
		cmocka_unit_test(a_flow_that_is_gone_is_left_alone),
		cmocka_unit_test(multicast_clients_are_refused),
		cmocka_unit_test(walking_shows_every_flow_once),
		cmocka_unit_test(the_hash_depends_on_key_and_secret),
	};

	return cmocka_run_group_tests(tests, seed, NULL);
}
