// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two processors at the same slots. One operation is stopped before one of its atomic steps, another one runs from
 * beginning to end, and the first goes on: at every step, for random tables and random operations of dprd and the BPF
 * programs. An operation that was told that a flow is there must find it then, and nothing else may be there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

/* An operation can be stopped here. The flow files are compiled in, so that their steps are included. */
static void step(void);
#define __sync_val_compare_and_swap(at, old, new) (step(), __sync_val_compare_and_swap(at, old, new))
#define __sync_fetch_and_or(at, bits) (step(), __sync_fetch_and_or(at, bits))
#define __sync_fetch_and_and(at, bits) (step(), __sync_fetch_and_and(at, bits))
#define __atomic_store_n(at, value, order) (step(), __atomic_store_n(at, value, order))
#define __atomic_thread_fence(order) (step(), __atomic_thread_fence(order))
#define __atomic_load_n(at, order) (step(), __atomic_load_n(at, order))

#include "dprd/core/flow/flow.c" // NOLINT(bugprone-suspicious-include)
/* There is also a step between reading a bucket's bits and reading its slots. */
#define flow_empty_slots(table, slot, steps) (step(), flow_empty_slots(table, slot, steps))
#include "dprd/core/flow/expire.c" // NOLINT(bugprone-suspicious-include)
#include "tests/unit/flow_tables.h"

enum { KEYS = 40, NOW_MS = 100000, NO_STEP = -1 };

enum operation { BPF_INSERT, BPF_TOUCH, BPF_RENEW, FIND, ADD, REMOVE, REPLACE, EXPIRE, OPERATIONS };

static struct flow_table *table;
static struct turn_flow {
	bool there;
	unsigned generation; /* number of its flow, part of the sequence number */
} flows[KEYS];

/* The inner operation, and the step of the outer one before which it runs. */
static enum operation inner;
static uint32_t inner_key;
static int inner_step, steps;
static bool stopped;

static struct flow_key key_of(uint32_t i)
{
	struct flow_key key = model_key(i % 3 == 0 ? 2 : 0);

	/* Zeros and a first slot's tag where a second slot must not be taken for a free or a first one. */
	if (i % 3 == 0)
		key.client = (struct addr) { .bytes = { [0] = i % 2 ? 0xfe : 0, [8] = i % 4 == 0, [15] = (uint8_t)i } };
	else
		key.client = addr_from_v4(htonl(0xc0000200 + i));
	return key;
}

static uint32_t sequence_of(uint32_t i)
{
	return i | flows[i].generation << 8;
}

static uint32_t node_of(uint32_t i)
{
	return 100 + sequence_of(i) % 7;
}

static void bpf_search(uint32_t i, struct flow_search *ret)
{
	struct flow_key key = key_of(i);

	flow_search_key(table, &key, (unsigned)flow_service_find(table, &key.service, key.service_port), ret);
}

static void bpf_insert(uint32_t i)
{
	struct flow_search s;

	if (flows[i].there)
		return;
	bpf_search(i, &s);
	flows[i].generation++;
	flows[i].there = flow_insert(
		table, &s, sequence_of(i) << FLOW_SEQUENCE_SHIFT | (uint32_t)flow_table_node(table, node_of(i), false),
		flow_tick(NOW_MS) << FLOW_TIME_SHIFT | SLOT_HALF_OPEN);
}

static void bpf_touch(uint32_t i)
{
	struct flow_search s;
	struct flow_slot *slot;

	bpf_search(i, &s);
	slot = flow_slot_find(table, &s);
	if (slot)
		flow_slot_touch(slot, i % 2 ? TCP_ACK : TCP_SYN, flow_tick(NOW_MS) + 20);
}

/* The client uses its port again. */
static void bpf_renew(uint32_t i)
{
	uint32_t state = (flow_tick(NOW_MS) + 20) << FLOW_TIME_SHIFT | SLOT_HALF_OPEN;
	struct flow_search s;
	struct flow_slot *slot;

	bpf_search(i, &s);
	slot = flow_slot_find(table, &s);
	if (!slot)
		return;
	flows[i].generation++;
	if (flow_slot_renew(slot, s.slot.key,
			    sequence_of(i) << FLOW_SEQUENCE_SHIFT | (uint32_t)flow_table_node(table, node_of(i), false),
			    state))
		assert_int_equal(slot->state & ~(uint32_t)FLOW_OVERFLOW, state);
	else
		bpf_insert(i);
}

/* The flow is right, or gone meanwhile; it never has another flow's target. */
static void find(uint32_t i, bool must)
{
	struct flow_key key = key_of(i);
	struct flow flow;

	if (!flow_find(table, &key, &flow)) {
		assert_false(must);
		return;
	}
	assert_memory_equal(&flow.key, &key, sizeof(key));
	assert_int_equal(flow.syn_sequence & 0xff, i);
	assert_int_equal(flow.node_id, 100 + flow.syn_sequence % 7);
}

static void add(uint32_t i)
{
	struct flow_key key = key_of(i);
	struct flow evicted;

	flows[i].generation++;
	flows[i].there = flow_add(table, &key, node_of(i), sequence_of(i), NOW_MS, &evicted);
	assert_int_equal(evicted.state, FLOW_FREE);
}

static void remove_flow(uint32_t i)
{
	struct flow_key key = key_of(i);
	struct flow flow;

	if (flow_find(table, &key, &flow))
		flow_remove(table, &flow);
	flows[i].there = false;
}

static void gone(void *context, const struct flow *flow)
{
	(void)context;
	(void)flow;
	fail_msg("nothing is old here");
}

static void operate(enum operation operation, uint32_t i)
{
	bool there = flows[i].there;

	switch (operation) {
	case BPF_INSERT:
		bpf_insert(i);
		break;
	case BPF_TOUCH:
		bpf_touch(i);
		break;
	case BPF_RENEW:
		bpf_renew(i);
		break;
	case FIND:
		find(i, false);
		/* Only the inner operation may remove it. */
		if (there && flows[i].there)
			find(i, true);
		break;
	case ADD:
		add(i);
		break;
	case REMOVE:
		remove_flow(i);
		break;
	case REPLACE: /* Another one will lie there, of the same family or not. */
		remove_flow(i);
		bpf_insert((i + 1) % KEYS);
		bpf_insert((i + 3) % KEYS);
		break;
	default:
		flow_expire(table, flow_slot_count(table), NOW_MS, gone, NULL);
	}
}

static void step(void)
{
	if (steps++ != inner_step || stopped)
		return;
	stopped = true;
	operate(inner, inner_key);
}

static bool is_of_bpf(enum operation operation)
{
	return operation == BPF_INSERT || operation == BPF_TOUCH || operation == BPF_RENEW;
}

/* Only one of the two may be dprd's, which has a lock; and they do not make the same flow. */
static bool is_possible(enum operation outer, uint32_t outer_key)
{
	bool outer_bpf = is_of_bpf(outer), inner_bpf = is_of_bpf(inner), makes = inner == BPF_INSERT || inner == ADD;

	if ((!outer_bpf && !inner_bpf) || outer == REPLACE)
		return false;
	if (inner == REPLACE && ((inner_key + 1) % KEYS == outer_key || (inner_key + 3) % KEYS == outer_key))
		return outer == BPF_TOUCH;
	if (inner == REPLACE || inner == REMOVE || makes)
		return inner_key != outer_key || outer == BPF_TOUCH || (outer == FIND && inner != ADD) ||
		       (outer == BPF_RENEW && !makes);
	if (inner == BPF_RENEW)
		return inner_key != outer_key || (outer != BPF_INSERT && outer != ADD);
	return true;
}

static bool is_of_table(void *context, const struct flow *flow)
{
	unsigned *shown = context;

	assert_true(flows[flow->syn_sequence & 0xff].there);
	++*shown;
	return true;
}

static void assert_all_there(void)
{
	unsigned shown = 0, expected = 0;
	struct flow_search s;
	struct flow_key key;
	struct flow flow;
	uint32_t i;

	for (i = 0; i < KEYS; i++) {
		key = key_of(i);
		assert_int_equal(flow_find(table, &key, &flow), flows[i].there);
		expected += flows[i].there;
		if (!flows[i].there)
			continue;
		assert_int_equal(flow.syn_sequence, sequence_of(i) & FLOW_SEQUENCE_MASK);
		assert_int_equal(flow.node_id, node_of(i));
		bpf_search(i, &s);
		assert_true(flow_is_occupied(flow_occupied_at(table, s.bucket), s.bucket));
	}
	flow_each(table, is_of_table, &shown);
	assert_int_equal(shown, expected);
}

/* No slot is lost for ever: after some rounds each slot has a flow or is free, and empty buckets have no bits. */
static void assert_tidy(void)
{
	struct flow flow;
	uint32_t i;

	for (i = 0; i < 6; i++)
		flow_expire(table, flow_slot_count(table), NOW_MS, gone, NULL);
	for (i = 0; i < flow_slot_count(table); i++) {
		const struct flow_slot *slot = flow_slot_at(table, i);

		assert_true(flow_slot_read(table, i, &flow) || flow_slot_is_free(slot) ||
			    (i % 2 && flow_slot_tag(slot - 1) == FLOW_TAG_V6));
	}
	for (i = 0; i <= flow_table_buckets(table); i++)
		assert_true(!flow_is_occupied(flow_occupied_at(table, i), i) ||
			    !flow_empty_slots(table, i * FLOW_BUCKET_SLOTS, FLOW_BUCKET_SLOTS));
}

/* Makes an empty table with one bucket or four, and one more. */
static void new_situation(bool small)
{
	struct flow_limits limits = model_limits;
	uint32_t i;

	limits.hash_key[0] = random_below(UINT32_MAX);
	limits.max_confirmed = limits.max_half_open = small ? 1 : 5;
	memset(table, 0, flow_table_bytes(&limits));
	flow_table_init(table, &limits);
	table->limits.max_confirmed = table->limits.max_half_open = 2 * KEYS;
	memset(flows, 0, sizeof(flows));
	for (i = 0; i < 7; i++)
		assert_true(flow_table_node(table, 100 + i, true) > 0);
	for (i = 0; i < 3; i++) {
		struct flow_key key = key_of(i);

		assert_true(flow_table_service(table, &key.service, key.service_port, true) >= 0);
	}
}

/* Leaves room for as many flows as fit, for fewer, or for none; the bits of empty buckets are new, old, or cleared. */
static void random_flows(void)
{
	unsigned left;
	uint32_t gone_too;

	for (left = random_below(2 * KEYS); left; left--) {
		uint32_t i = random_below(KEYS);

		if (random_below(4))
			bpf_insert(i);
		else
			remove_flow(i);
	}
	for (gone_too = random_below(4) ? KEYS : 0; gone_too < KEYS; gone_too++)
		remove_flow(gone_too);
	for (left = random_below(3); left; left--)
		flow_expire(table, flow_slot_count(table), NOW_MS, gone, NULL);
}

/* Repeats the operation, each time stopped one step later, until it reaches its end. */
static unsigned stop_at_every_step(enum operation outer, uint32_t outer_key)
{
	static uint8_t memory[(FLOW_HEADER_BUCKETS + 16) * sizeof(struct flow_bucket)];
	static struct turn_flow start[KEYS];
	size_t bytes = model_bytes(table);
	int stops = 0;

	assert_true(bytes <= sizeof(memory));
	memcpy(memory, table, bytes);
	memcpy(start, flows, sizeof(start));
	do {
		memcpy(table, memory, bytes);
		memcpy(flows, start, sizeof(start));
		stopped = false;
		steps = 0;
		inner_step = stops++;
		operate(outer, outer_key);
		inner_step = NO_STEP;
		assert_all_there();
		assert_tidy();
		assert_all_there();
	} while (stopped);
	return (unsigned)stops - 1;
}

static void one_comes_between_the_steps_of_another(void **state)
{
	unsigned round, stops[OPERATIONS][OPERATIONS] = { 0 };

	(void)state;
	table = new_table(&model_limits); /* large enough for all */
	for (round = 0; round < rounds(20000); round++) {
		enum operation outer = random_below(OPERATIONS);
		uint32_t outer_key = random_below(KEYS);

		inner_step = NO_STEP;
		inner = random_below(OPERATIONS);
		inner_key = random_below(2) ? outer_key : random_below(KEYS);
		if (!is_possible(outer, outer_key))
			continue;
		new_situation(random_below(4));
		random_flows();
		stops[outer][inner] += stop_at_every_step(outer, outer_key);
	}
	for (round = 0; round < OPERATIONS; round++)
		print_message("%u: insert %u, touch %u, renew %u, find %u, add %u, remove %u, replace %u, expire %u\n",
			      round, stops[round][0], stops[round][1], stops[round][2], stops[round][3],
			      stops[round][4], stops[round][5], stops[round][6], stops[round][7]);
	assert_true(stops[BPF_INSERT][REPLACE] && stops[BPF_INSERT][EXPIRE] && stops[EXPIRE][BPF_INSERT]);
	assert_true(stops[BPF_RENEW][REPLACE] && stops[BPF_RENEW][EXPIRE] && stops[EXPIRE][BPF_RENEW]);
	free(table);
}

/*
 * The only place left is beside an IPv4 flow. Before it is taken, that flow ends and an IPv6 flow takes the pair; its
 * address has zeros where a free slot has them.
 */
static void a_place_may_become_half_of_a_pair(void **state)
{
	static const uint32_t v6[] = { 0, 6, 9, 12, 15, 18, 21 };
	unsigned i;

	(void)state;
	table = new_table(&model_limits);
	inner_step = NO_STEP;
	new_situation(true);
	bpf_insert(2);
	for (i = 0; i < sizeof(v6) / sizeof(v6[0]); i++) {
		bpf_insert(v6[i]);
		assert_true(flows[v6[i]].there);
	}
	inner = REPLACE;
	inner_key = 2;
	assert_int_equal(stop_at_every_step(BPF_INSERT, 1), 4);
	free(table);
}

/* The last flow of a bucket that lay in the next one has ended; while its bit is cleared, another flow comes. */
static void a_guest_comes_as_the_bit_goes(void **state)
{
	static const uint32_t v4[FLOW_BUCKET_SLOTS] = { 1, 2, 4, 5, 7, 8, 10, 11 };
	unsigned i;

	(void)state;
	table = new_table(&model_limits);
	inner_step = NO_STEP;
	new_situation(true);
	for (i = 0; i < FLOW_BUCKET_SLOTS; i++)
		bpf_insert(v4[i]);
	bpf_insert(13);
	assert_true(flows[13].there && flow_bucket_overflows(flow_bucket_at(table, 0)));
	remove_flow(13);
	inner = BPF_INSERT;
	inner_key = 14;
	assert_true(stop_at_every_step(EXPIRE, 0) > 1);
	free(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_place_may_become_half_of_a_pair),
		cmocka_unit_test(a_guest_comes_as_the_bit_goes),
		cmocka_unit_test(one_comes_between_the_steps_of_another),
	};

	return cmocka_run_group_tests(tests, seed, NULL);
}
