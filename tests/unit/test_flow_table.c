// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "tests/unit/flow_tables.h"

static void a_flow_takes_40_bytes(void **state)
{
	struct flow_limits limits = { .max_confirmed = 262144, .max_half_open = 16384 };

	(void)state;
	assert_int_equal(flow_table_bytes(&limits), 64 * 128 + (262144 + 16384) * 40 + 128 + 171 * 128);
	limits.max_confirmed = 4194304;
	assert_int_equal(flow_table_bytes(&limits), 64 * 128 + (4194304 + 16384) * 40 + 128 + 2571 * 128);
	limits.max_confirmed = 1;
	limits.max_half_open = 0;
	assert_int_equal(flow_table_bytes(&limits), 64 * 128 + 128 + 128 + 128);
}

static void assert_same_flow(const struct flow *was, const struct flow *is)
{
	assert_memory_equal(&was->key, &is->key, sizeof(was->key));
	assert_int_equal(was->state, is->state);
	assert_int_equal(was->node_id, is->node_id);
	assert_int_equal(was->syn_sequence, is->syn_sequence);
	assert_int_equal(was->last_seen_ms, is->last_seen_ms);
}

static void adopted_flows_are_the_same(void **state)
{
	const struct flow_limits other = {
		.max_confirmed = 300, .max_half_open = 70, .idle_timeout_ms = 1, .hash_key = { 9 }
	};
	struct flow_table *old = filled_table(), *table = new_table(&other);
	struct flow was, is;
	unsigned i;

	(void)state;
	/* The indices differ from those in old. */
	assert_true(add_in_state(table, 2, FLOW_CONFIRMED, 1000));
	assert_int_equal(flow_table_adopt(table, old, model_bytes(old)), 12);
	assert_int_equal(flow_counts(table).half_open, 4);
	assert_int_equal(flow_counts(table).confirmed, 9);
	assert_int_equal(flow_counts(table).closing, 4);
	flow_expire(table, 0, 5000, count_gone, NULL);
	for (i = 100; i < 112; i++) {
		assert_true(find_number(old, i, &was));
		assert_true(find_number(table, i, &is));
		assert_same_flow(&was, &is);
	}
	free(old);
	free(table);
}

/* Adopting again takes over changes in old; changes here stay. */
static void adopting_again_takes_what_changed(void **state)
{
	struct flow_table *old = filled_table(), *table = filled_table();
	struct flow_key key = numbered_key(103);
	struct flow was, is, evicted;
	unsigned i;

	(void)state;
	assert_true(find_number(old, 108, &was));
	flow_touch(old, &was, TCP_ACK, 7000);
	assert_true(find_number(old, 100, &was));
	flow_touch(old, &was, TCP_FIN | TCP_ACK, 7000);
	assert_true(find_number(old, 101, &was));
	flow_touch(old, &was, TCP_ACK, 7000);
	assert_true(find_number(table, 102, &is));
	flow_touch(table, &is, TCP_RST, 8000);
	assert_true(find_number(table, 104, &is));
	flow_touch(table, &is, TCP_ACK, 8000);
	assert_true(add_in_state(table, 200, FLOW_CONFIRMED, 8000));
	/* The client's next connection from the same port does not concern old. */
	assert_true(flow_add(table, &key, 5, 999, 8000, &evicted));
	assert_int_equal(flow_table_adopt(table, old, model_bytes(old)), 11);
	for (i = 100; i < 112; i++) {
		static const uint8_t states[] = { FLOW_CLOSING,   FLOW_CONFIRMED, FLOW_RESET,     FLOW_HALF_OPEN,
						  FLOW_CONFIRMED, FLOW_CONFIRMED, FLOW_CLOSING,   FLOW_RESET,
						  FLOW_CONFIRMED, FLOW_HALF_OPEN, FLOW_HALF_OPEN, FLOW_HALF_OPEN };
		static const unsigned seen_ms[] = { 7000, 7000, 8000, 8000, 8000, 2500,
						    2600, 2700, 7000, 2900, 3000, 3100 };

		assert_true(find_number(table, i, &is));
		assert_int_equal(is.state, states[i - 100]);
		assert_in_range(is.last_seen_ms, seen_ms[i - 100] - 17, seen_ms[i - 100]);
	}
	assert_true(find_number(table, 103, &is));
	assert_int_equal(is.node_id, 5);
	assert_int_equal(flow_counts(table).half_open, 4);
	assert_int_equal(flow_counts(table).confirmed, 9);
	assert_int_equal(flow_counts(table).closing, 4);
	free(old);
	free(table);
}

/* Smaller pools take the flows that fit; no other flow is left half taken. */
static void smaller_tables_adopt_what_fits(void **state)
{
	struct flow_limits small = model_limits;
	struct flow_table *old = filled_table(), *table;

	(void)state;
	small.max_confirmed = 3;
	small.max_half_open = 2;
	table = new_table(&small);
	assert_int_equal(flow_table_adopt(table, old, model_bytes(old)), 5);
	assert_int_equal(flow_counts(table).half_open, 2);
	assert_int_equal(flow_counts(table).confirmed, 3);
	free(old);
	free(table);
}

/* A table of a dprd without occupied bits: its flows are taken, its memory is not used. */
static void a_table_without_bits_is_adopted(void **state)
{
	struct flow_table *old = filled_table(), *table = new_table(&large_limits);
	size_t bytes = FLOW_HEADER_BUCKETS * 128 + (flow_table_buckets(old) + 1) * sizeof(struct flow_bucket);
	struct flow_limits limits = old->limits;
	unsigned i;

	(void)state;
	assert_int_equal(old->version, 4);
	old->version = 3;
	assert_int_equal(flow_table_adopt(table, old, model_bytes(old)), -EINVAL);
	assert_null(flow_table_open(old, bytes, &limits));
	assert_int_equal(flow_table_adopt(table, old, bytes), 12);
	for (i = 100; i < 112; i++)
		assert_true(find_number(table, i, NULL));
	old->version = 4;
	assert_int_equal(flow_table_adopt(table, old, bytes), -EINVAL);
	free(old);
	free(table);
}

static void what_is_no_table_is_refused(void **state)
{
	struct flow_table *old = filled_table(), *table = new_table(&large_limits);
	size_t bytes = model_bytes(old), size;
	uint8_t *copy = aligned_alloc(128, bytes + 128);
	struct flow_table *header = (struct flow_table *)copy;
	struct flow_limits limits = old->limits;
	unsigned bit;

	(void)state;
	memset(copy, 0, bytes + 128);
	memcpy(copy, old, bytes);
	for (size = 0; size <= bytes + 128; size++) {
		if (size == bytes)
			continue;
		assert_int_equal(flow_table_adopt(table, copy, size), -EINVAL);
		assert_null(flow_table_open(copy, size, &limits));
	}
	for (bit = 0; bit < 128; bit++) { /* magic, version, size of a slot, number of buckets */
		copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(flow_table_adopt(table, copy, bytes), -EINVAL);
		assert_null(flow_table_open(copy, bytes, &limits));
		copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	header->service_count = FLOW_SERVICES_MAX + 1;
	assert_int_equal(flow_table_adopt(table, copy, bytes), -EINVAL);
	header->service_count = old->service_count;
	header->nodes[0].id = 1;
	assert_int_equal(flow_table_adopt(table, copy, bytes), -EINVAL);
	header->nodes[0].id = 0;
	assert_int_equal(flow_table_adopt(table, copy, bytes), 12);
	memset(copy, 0, bytes);
	assert_int_equal(flow_table_adopt(table, copy, bytes), -EINVAL);
	free(copy);
	free(old);
	free(table);
}

static bool is_occupied(void *context, const struct flow *flow)
{
	struct flow_table *table = context;
	struct flow_search s;

	flow_search_key(table, &flow->key, flow_slot_at(table, flow->slot)->v4.service, &s);
	assert_true(flow_is_occupied(flow_occupied_at(table, s.bucket), s.bucket));
	return true;
}

/* dprd starts again: the same memory, new limits, the old hash key; whatever the occupied bits are. */
static void an_opened_table_goes_on(void **state)
{
	struct flow_table *table = filled_table();
	struct flow_limits limits = table->limits, other = table->limits;
	struct flow_counts counts = flow_counts(table);
	struct flow was[12], is;
	unsigned i, gone = 0;

	(void)state;
	for (i = 0; i < 12; i++)
		assert_true(find_number(table, 100 + i, &was[i]));
	other.max_confirmed += 100;
	assert_null(flow_table_open(table, model_bytes(table), &other));
	limits.idle_timeout_ms = 500;
	limits.hash_key[0] = limits.hash_key[1] = 0;
	memset(&table->counts, 7, sizeof(table->counts));
	table->cursor = table->hand = UINT32_MAX;
	memset(flow_occupied_at(table, 0), 0, sizeof(struct flow_occupied));
	assert_ptr_equal(flow_table_open(table, model_bytes(table), &limits), table);
	flow_each(table, is_occupied, table);
	assert_memory_equal(limits.hash_key, model_limits.hash_key, sizeof(limits.hash_key));
	assert_ptr_equal(flow_table_hash_key(table), table->limits.hash_key);
	assert_memory_equal(table->limits.hash_key, model_limits.hash_key, sizeof(limits.hash_key));
	assert_int_equal(flow_counts(table).half_open, counts.half_open);
	assert_int_equal(flow_counts(table).confirmed, counts.confirmed);
	assert_int_equal(flow_counts(table).closing, counts.closing);
	for (i = 0; i < 12; i++) {
		assert_true(find_number(table, 100 + i, &is));
		assert_same_flow(&was[i], &is);
	}
	assert_true(flow_has_room(table, 3200));
	flow_expire(table, 1000, 3200, count_gone, &gone);
	assert_int_equal(gone, 4); /* the confirmed ones, by the new timeout */
	free(table);
}

static bool is_sound_flow(void *context, const struct flow *flow)
{
	assert_int_not_equal(flow->node_id, 0);
	assert_in_range(flow->state, FLOW_HALF_OPEN, FLOW_RESET);
	++*(unsigned *)context;
	return true;
}

static bool is_found(void *context, const struct flow *flow)
{
	struct flow found;

	assert_true(flow_find(context, &flow->key, &found));
	assert_int_equal(found.slot, flow->slot);
	return true;
}

/* Whatever its slots hold, the table can be walked, filled, used and emptied; then it is like a new one. */
static void assert_usable(struct flow_table *table)
{
	unsigned i, shown = 0, gone = 0;
	struct flow evicted, flow;

	flow_each(table, is_sound_flow, &shown);
	for (i = 0; i < 3 * MODEL_KEYS; i++) {
		struct flow_key key = numbered_key(i);

		if (flow_add(table, &key, 1 + i % 2, i, 9000 + 50 * i, &evicted) && flow_find(table, &key, &flow))
			flow_touch(table, &flow, i % 3 ? TCP_SYN : TCP_ACK, 9000 + 50 * i);
	}
	shown = 0;
	flow_each(table, is_sound_flow, &shown);
	flow_remove_node(table, 2, count_gone, &gone);
	/* Damaged slots, times in the future, slots that seem taken: all are gone in the end. */
	for (i = 0; i < 8; i++)
		flow_expire(table, flow_slots(table), 1000000ull * (i + 1), count_gone, &gone);
	for (i = 0; i < flow_slots(table); i++)
		assert_true(flow_slot_is_free(flow_slot_at(table, i)));
	for (i = 0; i <= flow_table_buckets(table); i++)
		assert_false(flow_bucket_overflows(flow_bucket_at(table, i)));
	assert_int_equal(flow_counts(table).half_open + flow_counts(table).confirmed, 0);
	assert_true(add_in_state(table, 5, FLOW_CONFIRMED, 20000000));
	assert_true(find_number(table, 5, NULL));
}

/* A flow that no search finds in its place, or whose address is not the hashed one. */
static void a_misplaced_flow_is_not_adopted(void **state)
{
	unsigned i, bit;
	struct flow flow;

	(void)state;
	for (i = 100; i < 112; i++) {
		struct flow_table *old = filled_table(), *table = new_table(&large_limits);
		struct flow_slot *slot, *free_slot;
		uint32_t home;

		assert_true(find_number(old, i, &flow));
		slot = flow_slot_at(old, flow.slot);
		if (slot->v4.tag == FLOW_TAG_V6) {
			for (bit = 0; bit < 64; bit++) {
				flow_table_init(table, &large_limits);
				(bit % 2 ? &slot[1].address_low : &slot[1].address_high)[0] ^= 1ull << bit;
				assert_int_equal(flow_table_adopt(table, old, model_bytes(old)), 11);
				(bit % 2 ? &slot[1].address_low : &slot[1].address_high)[0] ^= 1ull << bit;
			}
		}
		/* Two buckets further no search looks for it. */
		home = (flow.slot / FLOW_BUCKET_SLOTS + 2) % flow_table_buckets(old);
		for (free_slot = flow_bucket_at(old, home)->slot;
		     !flow_slot_is_free(free_slot) || !flow_slot_is_free(free_slot + 1); free_slot += 2)
			;
		memcpy(free_slot, slot, sizeof(*slot) * (slot->v4.tag == FLOW_TAG_V6 ? 2 : 1));
		flow_slot_clear(old, flow.slot);
		flow_table_init(table, &large_limits);
		assert_int_equal(flow_table_adopt(table, old, model_bytes(old)), 11);
		free(old);
		free(table);
	}
}

enum { HEADER_FIELDS_BYTES = 64 };

static void damage(uint8_t *copy, size_t bytes)
{
	const size_t slots_at = FLOW_HEADER_BUCKETS * sizeof(struct flow_bucket);
	unsigned flips;

	for (flips = 1 + random_below(40); flips; flips--) {
		/* Some damage hits the header, often its first fields: the table is refused, or nothing changes. */
		size_t header = random_below(2) ? HEADER_FIELDS_BYTES : slots_at;
		size_t at = random_below(8) == 0 ? random_below((uint32_t)header)
						 : slots_at + random_below((uint32_t)(bytes - slots_at));

		copy[at] = (uint8_t)(random_below(2) ? random_below(256) : copy[at] ^ 1u << random_below(8));
	}
}

static void corrupted_tables_do_no_harm(void **state)
{
	struct flow_table *old = filled_table(), *table = new_table(&old->limits);
	size_t bytes = model_bytes(old);
	uint8_t *copy = aligned_alloc(128, bytes);
	unsigned round, adopted = 0, refused = 0, opened = 0;

	(void)state;
	for (round = 0; round < rounds(4000); round++) {
		struct flow_limits limits = old->limits;
		int result;

		memcpy(copy, old, bytes);
		damage(copy, bytes);
		flow_table_init(table, &old->limits);
		result = flow_table_adopt(table, copy, bytes);
		if (result < 0)
			assert_int_equal(result, -EINVAL);
		else
			assert_int_equal(result, flow_counts(table).half_open + flow_counts(table).confirmed);
		flow_each(table, is_found, table);
		assert_usable(table);
		adopted += result >= 0;
		refused += result < 0;
		if (flow_table_open(copy, bytes, &limits)) {
			assert_usable((struct flow_table *)copy);
			opened++;
		}
	}
	assert_true(adopted && refused && opened);
	free(copy);
	free(old);
	free(table);
}

static struct addr service_address(unsigned i)
{
	return addr_from_v4(htonl(0xc6336400 + i));
}

/* A service keeps its index while flows use it, and for a round after that. */
static void service_indices_are_kept_while_used(void **state)
{
	struct flow_table *table = new_table(&large_limits);
	struct flow_key key = numbered_key(0);
	struct addr address;
	struct flow evicted;
	unsigned i, gone = 0;

	(void)state;
	for (i = 0; i < FLOW_SERVICES_MAX; i++) {
		address = service_address(i / 2);
		assert_int_equal(flow_table_service(table, &address, i % 2, false), -1);
		assert_int_equal(flow_table_service(table, &address, i % 2, true), i);
		assert_int_equal(flow_table_service(table, &address, i % 2, true), i);
	}
	address = service_address(i);
	assert_int_equal(flow_table_service(table, &address, 0, true), -1);
	for (i = 0; i < 4; i++) {
		key = numbered_key(i);
		key.service = service_address(0);
		key.service_port = i % 2;
		assert_true(flow_add(table, &key, 1, 1, 1000, &evicted));
	}
	flow_expire(table, flow_slots(table), 1000, count_gone, &gone);
	address = service_address(500);
	assert_int_equal(flow_table_service(table, &address, 0, true), -1);
	/* One service is used again, so another one goes next. */
	address = service_address(1);
	assert_int_equal(flow_table_service(table, &address, 0, true), 2);
	flow_expire(table, flow_slots(table), 1000, count_gone, &gone);
	address = service_address(500);
	assert_int_equal(flow_table_service(table, &address, 0, true), 3);
	address = service_address(1);
	assert_int_equal(flow_table_service(table, &address, 0, false), 2);
	assert_int_equal(flow_table_service(table, &address, 1, false), -1);
	address = service_address(500);
	assert_int_equal(flow_table_service(table, &address, 0, false), 3);
	assert_int_equal(gone, 0);
	free(table);
}

static void node_indices_are_kept_while_used(void **state)
{
	struct flow_table *table = new_table(&large_limits), *old = filled_table();
	struct flow_key key = numbered_key(0);
	unsigned i, gone = 0;
	struct flow evicted;

	(void)state;
	assert_int_equal(flow_table_node(table, 0, true), -1);
	for (i = 1; i <= FLOW_NODES_MAX; i++) {
		assert_int_equal(flow_table_node(table, 1000 + i, false), -1);
		assert_int_equal(flow_table_node(table, 1000 + i, true), i);
		assert_int_equal(flow_table_node(table, 1000 + i, false), i);
		assert_int_equal(flow_table_node_id(table, i), 1000 + i);
	}
	assert_int_equal(flow_table_node(table, 7, true), -1);
	assert_int_equal(flow_table_adopt(table, old, model_bytes(old)), 0);
	assert_false(flow_add(table, &key, 7, 1, 1000, &evicted));
	assert_true(flow_add(table, &key, 1000 + FLOW_NODES_MAX, 1, 1000, &evicted));
	flow_expire(table, flow_slots(table), 1000, count_gone, &gone);
	assert_int_equal(flow_table_node(table, 7, true), -1);
	flow_expire(table, flow_slots(table), 1000, count_gone, &gone);
	assert_int_equal(flow_table_node(table, 7, true), FLOW_NODES_MAX - 1);
	assert_int_equal(flow_table_node_id(table, FLOW_NODES_MAX - 1), 7);
	assert_int_equal(flow_table_node(table, 1000 + FLOW_NODES_MAX, false), FLOW_NODES_MAX);
	assert_int_equal(flow_table_node_id(table, 0), 0);
	assert_int_equal(flow_table_node_id(table, FLOW_NODES_MAX + 1), 0);
	free(old);
	free(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flow_takes_40_bytes),
		cmocka_unit_test(adopted_flows_are_the_same),
		cmocka_unit_test(adopting_again_takes_what_changed),
		cmocka_unit_test(smaller_tables_adopt_what_fits),
		cmocka_unit_test(a_table_without_bits_is_adopted),
		cmocka_unit_test(what_is_no_table_is_refused),
		cmocka_unit_test(an_opened_table_goes_on),
		cmocka_unit_test(a_misplaced_flow_is_not_adopted),
		cmocka_unit_test(corrupted_tables_do_no_harm),
		cmocka_unit_test(service_indices_are_kept_while_used),
		cmocka_unit_test(node_indices_are_kept_while_used),
	};

	return cmocka_run_group_tests(tests, seed, NULL);
}
