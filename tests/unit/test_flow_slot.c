// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Operations of dprd and the BPF programs on slots, one after the other; test_flow_turns.c runs them at the same time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "tests/unit/flow_tables.h"

/* The effect of each packet on each state, by RFC 9293 3.6 as far as one direction shows it. */
static void packets_move_states_on(void **state)
{
	static const struct {
		uint8_t flags;
		enum flow_slot_state after[4]; /* half-open, confirmed, closing, reset */
	} cases[] = {
		{ TCP_SYN, { SLOT_HALF_OPEN, SLOT_CONFIRMED, SLOT_CLOSING, SLOT_RESET } },
		{ TCP_ACK, { SLOT_CONFIRMED, SLOT_CONFIRMED, SLOT_CLOSING, SLOT_CONFIRMED } },
		{ TCP_ACK | TCP_PSH, { SLOT_CONFIRMED, SLOT_CONFIRMED, SLOT_CLOSING, SLOT_CONFIRMED } },
		{ TCP_ACK | TCP_FIN, { SLOT_CLOSING, SLOT_CLOSING, SLOT_CLOSING, SLOT_CLOSING } },
		{ TCP_RST, { SLOT_RESET, SLOT_RESET, SLOT_RESET, SLOT_RESET } },
		{ TCP_RST | TCP_FIN, { SLOT_RESET, SLOT_RESET, SLOT_RESET, SLOT_RESET } },
		{ 0, { SLOT_CONFIRMED, SLOT_CONFIRMED, SLOT_CLOSING, SLOT_CONFIRMED } },
	};
	unsigned i, from, overflow;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (from = SLOT_HALF_OPEN; from <= SLOT_RESET; from++) {
			for (overflow = 0; overflow <= FLOW_OVERFLOW; overflow += FLOW_OVERFLOW) {
				uint32_t word = 1000 << FLOW_TIME_SHIFT | overflow | from;
				uint32_t young = flow_state_after(word, cases[i].flags, 1015);
				uint32_t old = flow_state_after(word, cases[i].flags, 1016);
				bool moves = cases[i].after[from] != from;
				bool keeps = from == SLOT_HALF_OPEN && cases[i].flags & TCP_SYN;

				assert_int_equal(young & 7, overflow | cases[i].after[from]);
				assert_int_equal(old & 7, overflow | cases[i].after[from]);
				assert_int_equal(young >> FLOW_TIME_SHIFT, moves ? 1015 : 1000);
				assert_int_equal(old >> FLOW_TIME_SHIFT, keeps ? 1000 : 1016);
			}
		}
	}
}

static struct flow_search search_for(uint32_t number, bool v6)
{
	static const uint64_t secret[2] = { 5, 6 };
	struct flow_search s;

	memset(&s, 0, sizeof(s));
	if (v6)
		flow_search_v6(&s, secret, 1, 3, 0x0100000000000020ull, (uint64_t)number << 32 | 1, 4000);
	else
		flow_search_v4(&s, secret, 1, 3, number, 4000);
	return s;
}

static struct flow_slot *put(struct flow_bucket *buckets, uint32_t number, bool v6)
{
	struct flow_search s = search_for(number, v6);
	uint64_t occupied = 0;
	struct flow_slot *slot =
		flow_slot_insert(buckets, buckets + 1, &occupied, &s, number << FLOW_SEQUENCE_SHIFT | 1, 0);

	assert_int_equal(flow_is_occupied(&occupied, s.bucket), slot != NULL);
	return slot;
}

static struct flow_slot *look(struct flow_bucket *buckets, uint32_t number, bool v6)
{
	struct flow_search s = search_for(number, v6);
	struct flow_slot *slot = flow_bucket_find(buckets, &s);

	return slot || !flow_bucket_overflows(buckets) ? slot : flow_bucket_find(buckets + 1, &s);
}

/* Sixteen IPv4 flows, or eight IPv6 ones; then there is no place. */
static void two_buckets_hold_as_many_as_they_can(void **state)
{
	unsigned v6, i;

	(void)state;
	for (v6 = 0; v6 < 2; v6++) {
		struct flow_bucket buckets[2] = { 0 };
		unsigned step = v6 ? 2 : 1, places = 16 / step;

		for (i = 0; i < places; i++) {
			assert_null(look(buckets, i + 1, v6));
			assert_ptr_equal(put(buckets, i + 1, v6), &buckets[0].slot[0] + i * step);
			assert_int_equal(flow_bucket_overflows(buckets), i >= places / 2);
		}
		assert_null(put(buckets, i + 1, v6));
		assert_null(put(buckets, i + 1, !v6));
		for (i = 0; i < places; i++) {
			assert_ptr_equal(look(buckets, i + 1, v6), &buckets[0].slot[0] + i * step);
			assert_null(look(buckets, i + 1, !v6));
		}
		assert_false(flow_bucket_overflows(buckets + 1));
	}
}

/* The key has only 32 bits of the address's hash: the address itself decides. */
static void an_address_is_compared_whole(void **state)
{
	struct flow_bucket buckets[2] = { 0 };
	struct flow_slot *slot = put(buckets, 1, true);
	unsigned bit;

	(void)state;
	for (bit = 0; bit < 64; bit++) {
		slot[1].address_high ^= 1ull << bit;
		assert_null(look(buckets, 1, true));
		slot[1].address_high ^= 1ull << bit;
		slot[1].address_low ^= 1ull << bit;
		assert_null(look(buckets, 1, true));
		slot[1].address_low ^= 1ull << bit;
	}
	assert_ptr_equal(look(buckets, 1, true), slot);
}

/* Two rounds that find a bucket empty take its bits, unless something was noted after the first, or meanwhile. */
static void bits_of_an_empty_bucket_fade(void **state)
{
	const uint64_t others = 0x5555555555555555ull;
	uint32_t bucket;

	(void)state;
	for (bucket = 0; bucket < 2 * FLOW_OCCUPIED_BUCKETS; bucket++) {
		uint64_t mine = 0x0000000100000001ull << bucket % FLOW_OCCUPIED_BUCKETS, word = others & ~mine, as_read;

		flow_occupied_fade(&word, word, bucket);
		assert_int_equal(word, others & ~mine);
		flow_occupied_note(&word, bucket);
		assert_int_equal(word, others | mine);
		flow_occupied_fade(&word, word, bucket);
		assert_true(flow_is_occupied(&word, bucket));
		flow_occupied_note(&word, bucket);
		flow_occupied_fade(&word, word, bucket);
		assert_true(flow_is_occupied(&word, bucket));
		as_read = word;
		flow_occupied_note(&word, bucket);
		flow_occupied_fade(&word, as_read, bucket);
		assert_int_equal(word, others | mine);
		flow_occupied_fade(&word, word, bucket);
		flow_occupied_fade(&word, word, bucket);
		assert_int_equal(word, others & ~mine);
	}
}

/* An odd slot is IPv4's only beside IPv4, and IPv6 takes whole pairs. */
static void families_do_not_mix_within_a_pair(void **state)
{
	struct flow_bucket buckets[2] = { 0 };
	struct flow_slot *slot = buckets[0].slot;
	struct flow_search s = search_for(9, false), s6 = search_for(9, true);

	(void)state;
	assert_ptr_equal(put(buckets, 1, false), slot);
	assert_ptr_equal(put(buckets, 2, true), slot + 2);
	assert_ptr_equal(put(buckets, 3, false), slot + 1);
	assert_ptr_equal(put(buckets, 4, false), slot + 4);
	assert_ptr_equal(put(buckets, 5, true), slot + 6);
	/* The first of a pair goes: one of IPv4 may come back, one of IPv6 may not. */
	slot[0].key = slot[0].target = 0;
	assert_ptr_equal(flow_bucket_take(buckets, &s6, 7), NULL);
	assert_true(flow_slot_is_free(slot));
	assert_ptr_equal(flow_bucket_take(buckets, &s, 7), slot);
	/* A slot is taken and not yet published: its neighbour cannot be taken. */
	slot[1].key = slot[1].target = 0;
	assert_ptr_equal(flow_bucket_take(buckets, &s, 7), slot + 5);
	assert_null(flow_bucket_take(buckets, &s, 7));
	flow_slot_give_back(slot, 7);
	assert_ptr_equal(flow_bucket_take(buckets, &s6, 8), slot);
	/* An address is not a target: a late taker cannot give the slot back. */
	flow_slot_give_back(slot + 1, 7);
	assert_int_equal(slot[1].address_high, s6.address_high);
	assert_int_equal(slot[1].address_low, s6.address_low);
	/* Marked as abandoned, and published after all. */
	slot[0].key = FLOW_ABANDONED;
	flow_slot_publish(slot, &s6, 5 << FLOW_TIME_SHIFT | SLOT_CLOSING);
	assert_ptr_equal(look(buckets, 9, true), slot);
	assert_int_equal(slot[0].state, 5 << FLOW_TIME_SHIFT | SLOT_CLOSING);
}

/* The flow keeps its place and its overflow bit; a slot that now belongs to another flow stays untouched. */
static void a_port_is_used_again(void **state)
{
	unsigned v6, overflow;

	(void)state;
	for (v6 = 0; v6 < 2; v6++) {
		for (overflow = 0; overflow <= FLOW_OVERFLOW; overflow += FLOW_OVERFLOW) {
			const struct flow_search s = search_for(1, v6), other = search_for(2, v6);
			uint32_t renewed = 9 << FLOW_TIME_SHIFT | SLOT_HALF_OPEN;
			struct flow_bucket buckets[2] = { 0 }, before;
			struct flow_slot *slot = put(buckets, 1, v6);

			slot->state = 7 << FLOW_TIME_SHIFT | overflow | SLOT_CLOSING;
			before = buckets[0];
			assert_false(flow_slot_renew(slot, other.slot.key, 0x777, renewed));
			assert_memory_equal(&buckets[0], &before, sizeof(before));
			assert_true(flow_slot_renew(slot, s.slot.key, 0x777, renewed));
			assert_int_equal(slot->target, 0x777);
			assert_int_equal(slot->state, renewed | overflow);
			assert_ptr_equal(look(buckets, 1, v6), slot);
			slot->key = slot->target = 0;
			assert_false(flow_slot_renew(slot, s.slot.key, 0x777, renewed));
			assert_true(flow_slot_is_free(slot));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_move_states_on),
		cmocka_unit_test(two_buckets_hold_as_many_as_they_can),
		cmocka_unit_test(an_address_is_compared_whole),
		cmocka_unit_test(bits_of_an_empty_bucket_fade),
		cmocka_unit_test(families_do_not_mix_within_a_pair),
		cmocka_unit_test(a_port_is_used_again),
	};

	return cmocka_run_group_tests(tests, seed, NULL);
}
