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

static uint64_t random_state;

static uint32_t random_below(uint32_t limit)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (uint32_t)((z ^ z >> 31) >> 32) % limit;
}

/* UNIT_SHORT: a tenth of the rounds, for valgrind. */
static unsigned rounds(unsigned normal)
{
	return getenv("UNIT_SHORT") ? normal / 10 : normal;
}

static struct flow_table *new_table(const struct flow_limits *limits)
{
	void *memory = test_malloc(flow_table_bytes(limits));

	assert_non_null(memory);
	return flow_table_init(memory, limits);
}

static void nothing_gone(void *context, const struct flow *flow)
{
	unsigned *count = context;

	assert_int_not_equal(flow->state, FLOW_FREE);
	++*count;
}

static void random_scripts_agree_with_the_model(void **state)
{
	uint8_t script[1500];
	unsigned round;
	size_t i;

	(void)state;
	for (round = 0; round < rounds(400); round++) {
		/* Some runs are all adding, some touch much: the pools stay full for long. */
		unsigned from = random_below(12);

		for (i = 0; i < sizeof(script); i++)
			script[i] = (uint8_t)(i % 3 == 0 && random_below(2) ? from + random_below(16 - from)
									    : random_below(256));
		model_run(script, sizeof(script));
	}
}

/* 100,000 SYNs of strangers: the confirmed flows are all still there. */
static void a_flood_leaves_confirmed_flows_alone(void **state)
{
	struct flow_table *table = new_table(&model_limits);
	struct flow_key key;
	struct flow evicted;
	unsigned i;

	(void)state;
	for (i = 0; i < model_limits.max_confirmed; i++) {
		key = model_key(i);
		flow_touch(table, flow_add(table, &key, 1, i, 1000, &evicted), TCP_ACK, 1000);
	}
	for (i = 0; i < rounds(100000); i++) {
		struct flow_key stranger = model_key(0);

		memcpy(stranger.client.bytes + 8, &i, sizeof(i));
		flow_add(table, &stranger, 2, i, 2000, &evicted);
		assert_int_equal(evicted.state, i < model_limits.max_half_open ? FLOW_FREE : FLOW_HALF_OPEN);
		if (evicted.state != FLOW_FREE)
			assert_int_equal(evicted.syn_sequence, i - model_limits.max_half_open);
	}
	assert_int_equal(flow_counts(table).confirmed, model_limits.max_confirmed);
	assert_int_equal(flow_counts(table).half_open, model_limits.max_half_open);
	for (i = 0; i < model_limits.max_confirmed; i++) {
		key = model_key(i);
		assert_non_null(flow_find(table, &key));
		assert_int_equal(flow_find(table, &key)->state, FLOW_CONFIRMED);
	}
	test_free(table);
}

static void states_live_as_long_as_they_may(void **state)
{
	static const struct {
		int flags;
		unsigned lifetime_ms;
	} cases[] = { { -1, 3000 }, { TCP_ACK, 20000 }, { TCP_FIN | TCP_ACK, 10000 }, { TCP_RST, 1000 } };
	struct flow_key key = model_key(0);
	struct flow_limits shorter = model_limits;
	struct flow evicted, *flow;
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct flow_table *table = new_table(&model_limits);
		unsigned gone = 0;

		flow = flow_add(table, &key, 1, 7, 5000, &evicted);
		if (cases[i].flags >= 0)
			flow = flow_touch(table, flow, (uint8_t)cases[i].flags, 5000);
		assert_int_equal(flow_lifetime_ms(&model_limits, flow->state, 0), cases[i].lifetime_ms);
		flow_expire(table, 1000, 5000 + cases[i].lifetime_ms - 1, nothing_gone, &gone);
		flow_expire(table, 1000, 4000, nothing_gone, &gone); /* a clock read before the packet's */
		assert_int_equal(gone, 0);
		flow_expire(table, 1000, 5000 + cases[i].lifetime_ms, nothing_gone, &gone);
		assert_int_equal(gone, 1);
		assert_null(flow_find(table, &key));
		test_free(table);
	}
	shorter.idle_timeout_ms = 10;
	struct flow_table *table = new_table(&model_limits);
	unsigned gone = 0;

	flow_touch(table, flow_add(table, &key, 1, 7, 5000, &evicted), TCP_ACK, 5000);
	flow_table_set_timeouts(table, &shorter);
	flow_expire(table, 1000, 5010, nothing_gone, &gone);
	assert_int_equal(gone, 1);
	test_free(table);
}

/* Above half of the pool a FIN or RST is believed sooner, and nobody else suffers. */
static void closing_flows_make_room_under_pressure(void **state)
{
	static const unsigned used[] = { 0, 49, 50, 74, 75, 100 };
	static const unsigned share[] = { 1, 1, 8, 8, 64, 64 };
	struct flow_limits limits = model_limits;
	unsigned i;

	(void)state;
	limits.max_confirmed = 100;
	for (i = 0; i < 6; i++) {
		assert_int_equal(flow_lifetime_ms(&limits, FLOW_CLOSING, used[i]), 10000 / share[i]);
		assert_int_equal(flow_lifetime_ms(&limits, FLOW_RESET, used[i]), 1000 / share[i]);
		assert_int_equal(flow_lifetime_ms(&limits, FLOW_CONFIRMED, used[i]), 20000);
		assert_int_equal(flow_lifetime_ms(&limits, FLOW_HALF_OPEN, used[i]), 3000);
	}
}

static struct flow_key numbered_key(uint32_t i)
{
	struct flow_key key = model_key(i % 4);

	memcpy(key.client.bytes + 12, &i, sizeof(i));
	return key;
}

static const struct flow_limits large = {
	.max_confirmed = 1 << 16,
	.max_half_open = 1 << 10,
	.syn_timeout_ms = 1000,
	.idle_timeout_ms = 1000,
	.fin_timeout_ms = 1000,
	.rst_timeout_ms = 1000,
	.hash_key = { 1, 2 },
};

/* A half-open flow makes room only when its client has had a second to answer. */
static void room_is_not_taken_from_the_young(void **state)
{
	const struct flow_key keys[] = { model_key(0), model_key(1), model_key(2) };
	struct flow_limits limits = model_limits;
	struct flow_table *table;
	struct flow evicted;

	(void)state;
	limits.max_half_open = 2;
	limits.max_confirmed = 3;
	table = flow_table_init(calloc(1, flow_table_bytes(&limits)), &limits);
	flow_add(table, &keys[0], 7, 1, 5000, &evicted);
	assert_true(flow_has_room(table, 5000));
	flow_add(table, &keys[1], 7, 1, 5000, &evicted);
	assert_false(flow_has_room(table, 5999));
	assert_true(flow_has_room(table, 6000));
	flow_touch(table, flow_find(table, &keys[0]), TCP_ACK, 6000);
	flow_add(table, &keys[2], 7, 1, 6000, &evicted);
	/* One confirmed and two that may become so: all three places are promised. */
	assert_false(flow_has_room(table, 60000));
	free(table);
}

/* The whole pool, and one more; then it empties in steps of which none is long. */
static void it_holds_65536_flows(void **state)
{
	struct flow_table *table = new_table(&large);
	unsigned entries = large.max_confirmed + large.max_half_open, i, gone = 0, before;
	struct flow evicted, *flow;

	(void)state;
	for (i = 0; i < large.max_confirmed; i++) {
		struct flow_key key = numbered_key(i);

		flow = flow_add(table, &key, 1 + i % 7, i, i, &evicted);
		assert_int_equal(evicted.state, FLOW_FREE);
		assert_non_null(flow_touch(table, flow, TCP_ACK, i));
	}
	assert_int_equal(flow_counts(table).confirmed, 1 << 16);
	struct flow_key key = numbered_key(i);

	flow = flow_add(table, &key, 1, i, i, &evicted);
	assert_null(flow_touch(table, flow, TCP_ACK, i));
	assert_int_equal(flow->state, FLOW_HALF_OPEN);
	for (i = 0; i < large.max_confirmed; i++) {
		key = numbered_key(i);
		flow = flow_find(table, &key);
		assert_non_null(flow);
		assert_int_equal(flow->syn_sequence, i);
		assert_int_equal(flow->node_id, 1 + i % 7);
	}
	for (i = 0; i < entries; i += 1000) {
		before = gone;
		flow_expire(table, 1000, 1 << 20, nothing_gone, &gone);
		assert_true(gone - before <= 1000);
	}
	assert_int_equal(gone, (1 << 16) + 1);
	assert_int_equal(flow_counts(table).confirmed + flow_counts(table).half_open, 0);
	test_free(table);
}

/* A table with flows of all states, in test_malloc()ed memory. */
static struct flow_table *filled_table(void)
{
	static const uint8_t flags[] = { TCP_ACK, TCP_ACK, TCP_FIN | TCP_ACK, TCP_RST };
	struct flow_table *table = new_table(&model_limits);
	struct flow evicted;
	unsigned i;

	for (i = 0; i < 12; i++) {
		struct flow_key key = model_key(i);
		struct flow *flow = flow_add(table, &key, 1 + i % MODEL_NODES, 100 + i, 1000 + i, &evicted);

		if (i < 8)
			flow_touch(table, flow, flags[i % 4], 2000 + i);
	}
	return table;
}

static void adopted_flows_are_the_same(void **state)
{
	struct flow_limits other = {
		.max_confirmed = 300, .max_half_open = 70, .idle_timeout_ms = 1, .hash_key = { 9 }
	};
	struct flow_table *old = filled_table(), *table = new_table(&other);
	unsigned i;

	(void)state;
	assert_int_equal(flow_table_adopt(table, old, flow_table_bytes(&model_limits)), 12);
	assert_int_equal(flow_counts(table).half_open, 4);
	assert_int_equal(flow_counts(table).confirmed, 8);
	for (i = 0; i < 12; i++) {
		struct flow_key key = model_key(i);
		const struct flow *was = flow_find(old, &key), *is = flow_find(table, &key);

		assert_non_null(is);
		assert_int_equal(is->state, was->state);
		assert_int_equal(is->node_id, was->node_id);
		assert_int_equal(is->syn_sequence, was->syn_sequence);
		assert_int_equal(is->last_seen_ms, was->last_seen_ms);
		assert_int_equal(is->packets, was->packets);
	}
	test_free(old);
	test_free(table);
}

/* Smaller pools take what fits; nothing of the rest is left half-way. */
static void smaller_tables_adopt_what_fits(void **state)
{
	struct flow_limits small = model_limits;
	struct flow_table *old = filled_table(), *table;

	(void)state;
	small.max_confirmed = 3;
	small.max_half_open = 2;
	table = new_table(&small);
	assert_int_equal(flow_table_adopt(table, old, flow_table_bytes(&model_limits)), 5);
	assert_int_equal(flow_counts(table).half_open, 2);
	assert_int_equal(flow_counts(table).confirmed, 3);
	test_free(old);
	test_free(table);
}

static void what_is_no_table_is_refused(void **state)
{
	struct flow_table *old = filled_table(), *table = new_table(&model_limits);
	size_t bytes = flow_table_bytes(&model_limits), size;
	uint8_t *copy = test_malloc(bytes + 8);
	unsigned bit;

	(void)state;
	memcpy(copy, old, bytes);
	memset(copy + bytes, 0, 8);
	for (size = 0; size < bytes + 8; size++) {
		if (size != bytes)
			assert_int_equal(flow_table_adopt(table, copy, size), -EINVAL);
	}
	for (bit = 0; bit < 128; bit++) { /* magic, version, size of an entry, number of buckets */
		copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(flow_table_adopt(table, copy, bytes), -EINVAL);
		copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	memset(copy, 0, bytes);
	assert_int_equal(flow_table_adopt(table, copy, bytes), -EINVAL);
	assert_int_equal(flow_counts(table).half_open + flow_counts(table).confirmed, 0);
	assert_int_equal(flow_table_adopt(table, old, bytes), 12);
	test_free(copy);
	test_free(old);
	test_free(table);
}

struct census {
	struct flow_table *table;
	unsigned half_open, confirmed;
};

static bool count_sound(void *context, const struct flow *flow)
{
	struct census *census = context;

	assert_ptr_equal(flow_find(census->table, &flow->key), flow);
	assert_int_not_equal(flow->node_id, 0);
	assert_in_range(flow->state, FLOW_HALF_OPEN, FLOW_RESET);
	if (flow->state == FLOW_HALF_OPEN)
		census->half_open++;
	else
		census->confirmed++;
	return true;
}

/* Whatever was adopted, the table holds together: it can be walked, filled, used and emptied. */
static void assert_sound(struct flow_table *table)
{
	struct census census = { .table = table };
	struct flow evicted;
	unsigned i, gone = 0;

	flow_each(table, count_sound, &census);
	assert_int_equal(census.half_open, flow_counts(table).half_open);
	assert_int_equal(census.confirmed, flow_counts(table).confirmed);
	for (i = 0; i < 3 * MODEL_KEYS; i++) {
		struct flow_key key = numbered_key(i);

		flow_touch(table, flow_add(table, &key, 1 + i % 2, i, 9000, &evicted), i % 3 ? TCP_SYN : TCP_ACK, 9000);
	}
	census.half_open = census.confirmed = 0;
	flow_each(table, count_sound, &census);
	assert_int_equal(census.half_open, model_limits.max_half_open);
	assert_int_equal(census.confirmed, model_limits.max_confirmed);
	flow_expire(table, 1000, UINT64_MAX, nothing_gone, &gone);
	assert_int_equal(flow_counts(table).half_open + flow_counts(table).confirmed, 0);
}

static void corrupted_tables_do_no_harm(void **state)
{
	struct flow_table *old = filled_table(), *table = new_table(&model_limits);
	size_t bytes = flow_table_bytes(&model_limits);
	uint8_t *copy = test_malloc(bytes);
	unsigned round, flips, adopted = 0, refused = 0;

	(void)state;
	for (round = 0; round < rounds(20000); round++) {
		int result;

		memcpy(copy, old, bytes);
		for (flips = 1 + random_below(40); flips; flips--) {
			/* Some into the header: refused, or without effect. */
			size_t at = random_below(8) == 0 ? random_below(128) : random_below((uint32_t)bytes);

			copy[at] = (uint8_t)(random_below(2) ? random_below(256) : copy[at] ^ 1u << random_below(8));
		}
		flow_table_init(table, &model_limits);
		result = flow_table_adopt(table, copy, bytes);
		if (result < 0) {
			assert_int_equal(result, -EINVAL);
			refused++;
		} else {
			assert_int_equal(result, flow_counts(table).half_open + flow_counts(table).confirmed);
			adopted++;
		}
		assert_sound(table);
	}
	assert_true(adopted && refused);
	test_free(copy);
	test_free(old);
	test_free(table);
}

/* A process killed within a promotion leaves the flow in both pools. */
static void a_flow_left_twice_is_adopted_once(void **state)
{
	struct flow_table *old = new_table(&model_limits), *table = new_table(&model_limits);
	size_t bytes = flow_table_bytes(&model_limits);
	struct flow_key key = model_key(3);
	struct flow evicted, *half_open, copy, *confirmed;

	(void)state;
	half_open = flow_add(old, &key, 1, 5, 1000, &evicted);
	copy = *half_open;
	confirmed = flow_touch(old, half_open, TCP_ACK, 1000);
	assert_ptr_not_equal(half_open, confirmed);
	*half_open = copy;
	assert_int_equal(flow_table_adopt(table, old, bytes), 1);
	assert_non_null(flow_find(table, &key));
	assert_sound(table);
	test_free(old);
	test_free(table);
}

static bool count_each(void *context, const struct flow *flow)
{
	++((unsigned *)context)[flow->syn_sequence];
	return true;
}

static bool count_one(void *context, const struct flow *flow)
{
	count_each(context, flow);
	return false;
}

/* In parts of any size, or one by one, every flow is shown once. */
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
	test_free(table);
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

static int seed(void **state)
{
	const char *given = getenv("UNIT_SEED");

	(void)state;
	random_state = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
	print_message("UNIT_SEED=%llu\n", (unsigned long long)random_state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_scripts_agree_with_the_model),
		cmocka_unit_test(a_flood_leaves_confirmed_flows_alone),
		cmocka_unit_test(states_live_as_long_as_they_may),
		cmocka_unit_test(closing_flows_make_room_under_pressure),
		cmocka_unit_test(room_is_not_taken_from_the_young),
		cmocka_unit_test(it_holds_65536_flows),
		cmocka_unit_test(adopted_flows_are_the_same),
		cmocka_unit_test(smaller_tables_adopt_what_fits),
		cmocka_unit_test(what_is_no_table_is_refused),
		cmocka_unit_test(corrupted_tables_do_no_harm),
		cmocka_unit_test(a_flow_left_twice_is_adopted_once),
		cmocka_unit_test(walking_shows_every_flow_once),
		cmocka_unit_test(the_hash_depends_on_key_and_secret),
	};

	return cmocka_run_group_tests(tests, seed, NULL);
}
