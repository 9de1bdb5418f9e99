/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flow/slot.h - one flow as it lies in memory, for dprd and for the BPF programs. Pure, header only.
 *
 * A bucket is two cache lines: eight slots of 16 bytes. An IPv4 flow takes one slot, an IPv6 flow an even slot and the
 * odd one behind it, which holds the client's address. A flow that finds no room at home lies in the next bucket, and
 * slot 0 at home shows that.
 *
 *   slot            key: tag | service | client port | client address (IPv6: check bits of the hash)
 *                   target: ISN's low 24 bits << 8 | node          state: tick << 3 | overflow | state
 *   IPv6, 2nd slot  client address
 *
 * A processor that makes a flow takes the slot by its target, fills it, and writes the key last; to end a flow it
 * clears the key first. So a reader that finds the key finds all of it. Only the state word changes in the life of a
 * flow, by compare-and-swap, since all processors see its packets; and the target, when the client uses its port again.
 *
 * Behind the buckets lie two bits for each: occupied, noted. A packet without a flow only reads the first and need not
 * wait for a bucket, which is in no cache, above all in a flood. Occupied is set for the home of every flow that can be
 * found, and for a while after the last flow has ended. Making a flow sets both; rounds of expiry clear noted of an
 * empty bucket, and occupied in a later round if nothing was noted meanwhile. So the bit is never cleared while a flow
 * is being made.
 */
#ifndef DPRD_FLOW_SLOT_H
#define DPRD_FLOW_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/base/inline.h"
#include "dprd/core/packet/packet.h"

enum {
	FLOW_BUCKET_SLOTS = 8,
	FLOW_TICK_SHIFT = 24, /* ns to ticks of 16.8 ms */
	FLOW_REFRESH_TICKS = 16, /* a state that is as young is not written for its time alone */
	FLOW_RENEW_TRIES = 3, /* against packets of the old flow */

	FLOW_STATE_MASK = 3,
	FLOW_OVERFLOW = 4, /* only in slot 0: some flow of this bucket lives in the next one */
	FLOW_TIME_SHIFT = 3,
	FLOW_NODE_MASK = 0xff,
	FLOW_SEQUENCE_SHIFT = 8,
	FLOW_SEQUENCE_MASK = 0xffffff,

	/* No client has a multicast address (ff00::/8): a second slot is never taken for a first one. */
	FLOW_TAG_V4 = 0xff,
	FLOW_TAG_V6 = 0xfe,
	/* The key of a slot found taken but not published. Its process died and will not publish any more. */
	FLOW_ABANDONED = 1,

	FLOW_OCCUPIED_BUCKETS = 32, /* the bits of this many buckets are in one word: occupied below, noted above */
	FLOW_OCCUPIED_WORDS = 16, /* in a bucket's room */
};

/* The bits of FLOW_STATE_MASK. enum flow_state in flow.h is the same list behind FLOW_FREE. */
enum flow_slot_state { SLOT_HALF_OPEN, SLOT_CONFIRMED, SLOT_CLOSING, SLOT_RESET };

struct flow_slot {
	union {
		uint64_t key; /* 0: free */
		struct {
			uint8_t tag, service;
			uint16_t client_port; /* network order */
			uint32_t client; /* network order */
		} v4;
		struct {
			uint8_t tag, service;
			uint16_t client_port;
			uint32_t check;
		} v6;
		uint64_t address_high; /* second slot of an IPv6 flow */
	};
	union {
		struct {
			uint32_t target; /* 0: free */
			uint32_t state;
		};
		uint64_t address_low;
	};
};

struct flow_bucket {
	struct flow_slot slot[FLOW_BUCKET_SLOTS];
};

/* A bucket's room, which holds the bits of many buckets. */
struct flow_occupied {
	uint64_t word[FLOW_OCCUPIED_WORDS];
};

/* The key of a search: made once per packet. */
struct flow_search {
	struct flow_slot slot; /* the key in the form in which it is stored */
	uint64_t address_high, address_low; /* of an IPv6 client, as in memory */
	uint32_t bucket; /* home */
	bool v6;
};

/* The secret makes buckets unpredictable: an attacker can choose the client's address and port. */
static inline uint64_t flow_slot_mix(uint64_t value)
{
	value *= 0x9e3779b97f4a7c15ull;
	return value ^ value >> 32;
}

/*
 * Makes the key in a register, in the form that it has in memory: reading a word that was just written in pieces is
 * slow.
 */
static inline uint64_t flow_slot_key(uint8_t tag, uint8_t service, uint16_t client_port, uint32_t rest)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return tag | (uint64_t)service << 8 | (uint64_t)client_port << 16 | (uint64_t)rest << 32;
#else
	return (uint64_t)tag << 56 | (uint64_t)service << 48 | (uint64_t)client_port << 32 | rest;
#endif
}

static inline void flow_search_v4(struct flow_search *s, const uint64_t secret[2], uint32_t buckets, uint8_t service,
				  uint32_t client, uint16_t client_port)
{
	uint64_t hash;

	s->v6 = false;
	s->slot.key = flow_slot_key(FLOW_TAG_V4, service, client_port, client);
	hash = flow_slot_mix(flow_slot_mix(s->slot.key ^ secret[0]) ^ secret[1]);
	s->bucket = (uint32_t)((hash >> 32) * buckets >> 32);
}

static inline void flow_search_v6(struct flow_search *s, const uint64_t secret[2], uint32_t buckets, uint8_t service,
				  uint64_t address_high, uint64_t address_low, uint16_t client_port)
{
	uint64_t hash;

	s->v6 = true;
	s->slot.key = flow_slot_key(FLOW_TAG_V6, service, client_port, 0);
	s->address_high = address_high;
	s->address_low = address_low;
	hash = flow_slot_mix(s->slot.key ^ secret[0]);
	hash = flow_slot_mix(hash ^ address_high);
	hash = flow_slot_mix(hash ^ address_low ^ secret[1]);
	s->slot.key = flow_slot_key(FLOW_TAG_V6, service, client_port, (uint32_t)hash);
	s->bucket = (uint32_t)((hash >> 32) * buckets >> 32);
}

/* The index of the flow's slot in this bucket; negative: none. */
static inline int flow_bucket_place(const struct flow_bucket *bucket, const struct flow_search *s)
{
	int i;

	if (!s->v6) {
#pragma GCC unroll 8
		for (i = 0; i < FLOW_BUCKET_SLOTS; i++) {
			if (*(volatile const uint64_t *)&bucket->slot[i].key == s->slot.key)
				return i;
		}
		return -1;
	}
#pragma GCC unroll 4
	for (i = 0; i < FLOW_BUCKET_SLOTS; i += 2) {
		if (*(volatile const uint64_t *)&bucket->slot[i].key == s->slot.key &&
		    bucket->slot[i + 1].address_high == s->address_high &&
		    bucket->slot[i + 1].address_low == s->address_low)
			return i;
	}
	return -1;
}

/* The slot of the flow in this bucket, or NULL. */
static inline struct flow_slot *flow_bucket_find(struct flow_bucket *bucket, const struct flow_search *s)
{
	int place = flow_bucket_place(bucket, s);

	return place < 0 ? 0 : &bucket->slot[place];
}

static inline bool flow_bucket_overflows(const struct flow_bucket *bucket)
{
	return *(volatile const uint32_t *)&bucket->slot[0].state & FLOW_OVERFLOW;
}

static inline uint8_t flow_slot_tag(const struct flow_slot *slot)
{
	return *(volatile const uint8_t *)&slot->v4.tag;
}

static inline bool flow_slot_is_free(const struct flow_slot *slot)
{
	return !*(volatile const uint64_t *)&slot->key && !*(volatile const uint32_t *)&slot->target;
}

/* True: the caller owns the slot until it publishes a flow in it or gives it back. */
static inline bool flow_slot_take(struct flow_slot *slot, uint32_t target)
{
	return flow_slot_is_free(slot) && !__sync_val_compare_and_swap(&slot->target, 0, target);
}

/* Does nothing when the slot has become an IPv6 flow's second one, which holds part of an address. */
static inline void flow_slot_give_back(struct flow_slot *slot, uint32_t target)
{
	__sync_val_compare_and_swap(&slot->target, target, 0);
}

/*
 * Takes a slot of this bucket, for IPv6 a pair, and fills in the address; target is not 0. NULL: all are in use. A
 * processor that takes an odd one for IPv4, and one that takes the pair for IPv6, both read the other's place again
 * after their compare-and-swap, so that at most one of them stays.
 */
INLINE struct flow_slot *flow_bucket_take(struct flow_bucket *bucket, const struct flow_search *s, uint32_t target)
{
	int i;

#pragma GCC unroll 8
	for (i = 0; i < FLOW_BUCKET_SLOTS; i++) {
		struct flow_slot *slot = &bucket->slot[i];

		if (i % 2 && (s->v6 || flow_slot_tag(slot - 1) != FLOW_TAG_V4))
			continue;
		if (!flow_slot_take(slot, target))
			continue;
		if (i % 2 ? flow_slot_tag(slot - 1) == FLOW_TAG_V4 : !s->v6)
			return slot;
		if (!(i % 2) && flow_slot_is_free(slot + 1)) {
			slot[1].address_high = s->address_high;
			slot[1].address_low = s->address_low;
			return slot;
		}
		flow_slot_give_back(slot, target);
	}
	return 0;
}

/* Makes a flow of a slot that was taken: all processors see it from now on. state: a whole word. */
static inline void flow_slot_publish(struct flow_slot *slot, const struct flow_search *s, uint32_t state)
{
	/* The overflow bit belongs to the bucket, and may be set at any time. */
	__sync_fetch_and_and(&slot->state, FLOW_OVERFLOW);
	__sync_fetch_and_or(&slot->state, state & ~(uint32_t)FLOW_OVERFLOW);
	if (__sync_val_compare_and_swap(&slot->key, 0, s->slot.key))
		__sync_val_compare_and_swap(&slot->key, FLOW_ABANDONED, s->slot.key);
}

/* The bucket's room behind the buckets that has the bits; flow_occupied_word(): the word there. */
static inline uint32_t flow_occupied_room(uint32_t bucket)
{
	return bucket / (FLOW_OCCUPIED_BUCKETS * FLOW_OCCUPIED_WORDS);
}

static inline uint64_t *flow_occupied_word(struct flow_occupied *room, uint32_t bucket)
{
	return &room->word[bucket / FLOW_OCCUPIED_BUCKETS % FLOW_OCCUPIED_WORDS];
}

static inline bool flow_is_occupied(const uint64_t *word, uint32_t bucket)
{
	return *(const volatile uint64_t *)word >> bucket % FLOW_OCCUPIED_BUCKETS & 1;
}

/*
 * Call it before the flow is published and after its slot was taken: an empty bucket with both bits loses them in two
 * rounds.
 */
static inline void flow_occupied_note(uint64_t *word, uint32_t bucket)
{
	uint64_t both = (1ull << FLOW_OCCUPIED_BUCKETS | 1) << bucket % FLOW_OCCUPIED_BUCKETS;

	if ((*(volatile uint64_t *)word & both) != both)
		__sync_fetch_and_or(word, both);
}

/* Call it when the bucket was found empty after the word was read. A note made since then stays. */
static inline void flow_occupied_fade(uint64_t *word, uint64_t as_read, uint32_t bucket)
{
	uint64_t occupied = 1ull << bucket % FLOW_OCCUPIED_BUCKETS, noted = occupied << FLOW_OCCUPIED_BUCKETS;

	if (as_read & noted)
		__sync_fetch_and_and(word, ~noted);
	else if (as_read & occupied)
		__sync_val_compare_and_swap(word, as_read, as_read & ~occupied);
}

/*
 * Inserts the flow in one of two consecutive buckets; returns its slot, or NULL when both are full. occupied: the word
 * of home.
 */
static inline struct flow_slot *flow_slot_insert(struct flow_bucket *home, struct flow_bucket *next, uint64_t *occupied,
						 const struct flow_search *s, uint32_t target, uint32_t state)
{
	struct flow_slot *slot = flow_bucket_take(home, s, target);

	if (slot) {
		flow_occupied_note(occupied, s->bucket);
		flow_slot_publish(slot, s, state);
		return slot;
	}
	slot = flow_bucket_take(next, s, target);
	if (!slot)
		return 0;
	__sync_fetch_and_or(&home->slot[0].state, FLOW_OVERFLOW);
	flow_occupied_note(occupied, s->bucket);
	flow_slot_publish(slot, s, state);
	/* A processor that clears the bit reads the next bucket once more after that: one of the two sees the other. */
	if (!flow_bucket_overflows(home))
		__sync_fetch_and_or(&home->slot[0].state, FLOW_OVERFLOW);
	return slot;
}

/*
 * The state word after a packet with these TCP flags (RFC 9293 3.6: FIN or RST of the client; the server's half is not
 * seen here). A SYN leaves a half-open flow as it is: its time is that of the first one. Only the serving node can tell
 * if an RST is genuine (RFC 5961 3.2). A later packet of the client proves that the RST ended nothing.
 */
static inline uint32_t flow_state_after(uint32_t word, uint8_t tcp_flags, uint32_t tick)
{
	uint32_t state = word & FLOW_STATE_MASK,
		 age = (tick - (word >> FLOW_TIME_SHIFT)) & (UINT32_MAX >> FLOW_TIME_SHIFT);
	uint32_t next = state;

	if (state == SLOT_HALF_OPEN) {
		if (tcp_flags & TCP_SYN)
			return word;
		next = SLOT_CONFIRMED;
	}
	if (tcp_flags & TCP_RST)
		next = SLOT_RESET;
	else if (tcp_flags & TCP_FIN)
		next = SLOT_CLOSING;
	else if (state == SLOT_RESET && !(tcp_flags & TCP_SYN))
		next = SLOT_CONFIRMED;
	if (next == state && age < FLOW_REFRESH_TICKS)
		return word;
	return tick << FLOW_TIME_SHIFT | (word & FLOW_OVERFLOW) | next;
}

/*
 * True when a packet with these flags says that the client has been answered. An RST does, too: a client sends none before
 * it got an answer.
 */
static inline bool flow_is_confirmed_by(enum flow_slot_state before, uint8_t tcp_flags)
{
	return before == SLOT_HALF_OPEN && !(tcp_flags & TCP_SYN);
}

/* Moves the flow on by a packet. Returns the state it had before. */
static inline uint32_t flow_slot_touch(struct flow_slot *slot, uint8_t tcp_flags, uint32_t tick)
{
	uint32_t old = *(volatile uint32_t *)&slot->state, word = flow_state_after(old, tcp_flags, tick);

	/* Another processor's packet of the same flow came first: it has done the same work. */
	if (word != old)
		__sync_val_compare_and_swap(&slot->state, old, word);
	return old & FLOW_STATE_MASK;
}

static inline bool flow_slot_has(const struct flow_slot *slot, uint64_t key)
{
	return *(volatile const uint64_t *)&slot->key == key;
}

/*
 * The client uses its port again: the flow of this key, found here, gets another target and state. False: the flow has
 * ended meanwhile, and nothing was changed. When another processor's SYN of the same flow came first, it has done the
 * same work.
 */
static inline bool flow_slot_renew(struct flow_slot *slot, uint64_t key, uint32_t target, uint32_t state)
{
	uint32_t old_target = *(volatile uint32_t *)&slot->target, old;
	int i;

	if (!flow_slot_has(slot, key))
		return false;
	if (__sync_val_compare_and_swap(&slot->target, old_target, target) != old_target)
		return flow_slot_has(slot, key);
	/* State and time change in one step: dprd must not see a new state with the time of the old flow. */
	for (i = 0; i < FLOW_RENEW_TRIES; i++) {
		old = *(volatile uint32_t *)&slot->state;
		if (!flow_slot_has(slot, key)) {
			/* If it is not free, it may be another flow's now, with the target that this flow had. */
			__sync_val_compare_and_swap(&slot->target, target, old_target);
			return false;
		}
		if (__sync_val_compare_and_swap(&slot->state, old, (old & FLOW_OVERFLOW) | state) == old)
			return true;
	}
	return true;
}

#endif
