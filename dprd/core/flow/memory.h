/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flow/memory.h - the flow table's header and the reading of slots, shared by flow.c (single flows), flow/expire.c
 * (rounds through all of them) and flow/table.c (the table as a whole). Private to these.
 *
 * Memory: header, as long as FLOW_HEADER_BUCKETS | buckets | one bucket more, so that each has a next | struct
 * flow_occupied for all of these.
 * Only dprd writes the header, under its lock; slots change at any time (flow/slot.h).
 */
#ifndef DPRD_FLOW_PRIVATE_H
#define DPRD_FLOW_PRIVATE_H

#include "dprd/core/flow/flow.h"

enum {
	FLOW_TICK_BITS = 32 - FLOW_TIME_SHIFT,
	FLOW_TICKS = 1 << FLOW_TICK_BITS, /* they wrap around after 104 days */
	FLOW_SAMPLES = 16, /* parts of a round, each of them a fair sample of the table */
};

/* The service of an index. It stays unchanged while flows use it. */
struct flow_service {
	struct addr address;
	be16 port;
	uint8_t seen; /* in the running round: a flow uses it, or it was asked for */
	uint8_t used; /* the same of the last whole round */
};

struct flow_node {
	uint32_t id; /* 0: not in use */
	uint8_t seen, used;
};

/*
 * counts follow the changes that dprd sees. sums belong to the slots before the cursor; at the end of a round of
 * flow_expire() they become the counts. So the counts miss changes by the BPF programs for at most two rounds: flows
 * that these made are missing, and flows that these confirmed count as half-open. To see many confirmations sooner,
 * every sixteenth of a round is a sample: no more flows count as half-open than it makes likely (within four standard
 * deviations, and 512). All three wrap around: a count that was lowered too often is corrected by the next raise.
 */
struct flow_table {
	uint32_t magic, version;
	uint32_t slot_bytes;
	uint32_t bucket_count; /* without the last one */
	struct flow_limits limits;
	uint64_t now_ms; /* the latest time known: ticks are near it */
	struct flow_counts counts, sums;
	uint32_t cursor; /* slot where flow_expire() goes on */
	uint32_t sample_slots, sample_half_open; /* of the running sample, so far */
	uint32_t half_open_most; /* by the last sample */
	uint32_t hand; /* bucket where flow_add() goes on to look for an old half-open flow */
	uint32_t looks_in_vain; /* for an old half-open flow, within looked_ms */
	uint64_t looked_ms;
	uint32_t service_count;
	struct flow_service services[FLOW_SERVICES_MAX];
	struct flow_node nodes[FLOW_NODES_MAX + 1];
};

_Static_assert(sizeof(struct flow_table) <= FLOW_HEADER_BUCKETS * sizeof(struct flow_bucket), "the header fits");
_Static_assert(sizeof(struct flow_slot) == 16, "BPF programs of another build read them, too");
_Static_assert(sizeof(struct flow_occupied) == sizeof(struct flow_bucket), "the BPF map's entries");

static inline struct flow_bucket *flow_bucket_at(const struct flow_table *t, uint32_t bucket)
{
	return (struct flow_bucket *)(uintptr_t)t + FLOW_HEADER_BUCKETS + bucket;
}

static inline uint64_t *flow_occupied_at(const struct flow_table *t, uint32_t bucket)
{
	struct flow_occupied *rooms = (struct flow_occupied *)flow_bucket_at(t, t->bucket_count + 1);

	return flow_occupied_word(&rooms[flow_occupied_room(bucket)], bucket);
}

static inline uint32_t flow_slot_count(const struct flow_table *t)
{
	return (t->bucket_count + 1) * FLOW_BUCKET_SLOTS;
}

static inline struct flow_slot *flow_slot_at(const struct flow_table *t, uint32_t slot)
{
	return &flow_bucket_at(t, 0)->slot[0] + slot;
}

/*
 * The number of next slots that are empty and need no repair, by one look at their bucket: most buckets of most tables
 * are empty. 0: read the slot itself. steps: the caller's limit.
 */
static inline unsigned flow_empty_slots(const struct flow_table *t, uint32_t slot, unsigned steps)
{
	const struct flow_slot *first = flow_slot_at(t, slot);
	uint64_t any = 0;
	unsigned i;

	if (slot % FLOW_BUCKET_SLOTS || steps < FLOW_BUCKET_SLOTS)
		return 0;
	for (i = 0; i < FLOW_BUCKET_SLOTS; i++)
		any |= first[i].address_high | first[i].address_low;
	return any ? 0 : FLOW_BUCKET_SLOTS;
}

static inline uint32_t flow_tick(uint64_t ms)
{
	return (uint32_t)(ms * 1000000 >> FLOW_TICK_SHIFT) & (FLOW_TICKS - 1);
}

/* The number of ticks after which ms have passed, or almost. */
static inline uint32_t flow_ticks_of(uint32_t ms)
{
	return flow_tick(ms) + 1;
}

static inline uint32_t flow_slot_word(const struct flow_slot *slot)
{
	return *(volatile const uint32_t *)&slot->state;
}

/* Ticks since the state's time. More than half of all ticks means a time in the future, which counts as 0. */
static inline uint32_t flow_age_ticks(uint32_t word, uint32_t tick)
{
	uint32_t age = (tick - (word >> FLOW_TIME_SHIFT)) & (FLOW_TICKS - 1);

	return age < FLOW_TICKS / 2 ? age : 0;
}

/* A count that may have been lowered below 0. */
static inline unsigned flow_count_of(unsigned count)
{
	return (int)count < 0 ? 0 : count;
}

/* A copy of the flow in a slot; false when it holds none, or a damaged one. */
bool flow_slot_read(const struct flow_table *t, uint32_t slot, struct flow *ret);

/* Index of a service, or -1. */
int flow_service_find(const struct flow_table *t, const struct addr *service, be16 port);

/* The key for a search, with the index of its service. */
void flow_search_key(const struct flow_table *t, const struct flow_key *key, unsigned service, struct flow_search *ret);
/* Puts a flow in its place and returns its slot; NULL: there is no place. state: a whole word. */
struct flow_slot *flow_insert(const struct flow_table *t, const struct flow_search *s, uint32_t target, uint32_t state);
/* The slot of this flow, or NULL. */
struct flow_slot *flow_slot_find(const struct flow_table *t, const struct flow_search *s);

/* Counts a flow that came (from FLOW_FREE), changed or went (to FLOW_FREE). */
void flow_count(struct flow_table *t, uint32_t slot, unsigned from, unsigned to);
void flow_count_in(struct flow_counts *counts, unsigned state, unsigned by);

/*
 * Clears the key first: from then on no search finds the flow. Clears the target last: from then on the slot may be
 * taken.
 */
void flow_slot_clear(const struct flow_table *t, uint32_t slot);
/* Clears the slot and counts it. flow: as just read. */
void flow_remove_as_read(struct flow_table *t, const struct flow *flow);

#endif
