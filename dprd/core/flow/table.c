// SPDX-License-Identifier: GPL-2.0-or-later
/* flow/table.c - makes, opens, adopts and walks the whole flow table. */
#include <errno.h>
#include <sodium.h>

#include "dprd/core/flow/memory.h"

enum {
	FLOW_MAGIC = 0x574f4c46, /* "FLOW" */
	FLOW_VERSION = 4,
	FLOW_VERSION_PLAIN = 3, /* without struct flow_occupied; can be adopted, too */
	FLOW_BUCKETS_MAX = 1 << 24,
};

_Static_assert(sizeof(struct flow_key) == 36, "flow keys are hashed and compared as bytes");

/* A load of 0.4: 40 bytes for an IPv4 flow. */
static uint32_t buckets_for(const struct flow_limits *limits)
{
	uint64_t flows = (uint64_t)limits->max_confirmed + limits->max_half_open;

	return (uint32_t)((flows * sizeof(struct flow_slot) * 10 / 4 + sizeof(struct flow_bucket) - 1) /
			  sizeof(struct flow_bucket));
}

static size_t table_bytes(uint32_t buckets, uint32_t version)
{
	size_t occupied = version == FLOW_VERSION_PLAIN ? 0 : (size_t)flow_occupied_room(buckets) + 1;

	return (FLOW_HEADER_BUCKETS + (size_t)buckets + 1 + occupied) * sizeof(struct flow_bucket);
}

size_t flow_table_bytes(const struct flow_limits *limits)
{
	return table_bytes(buckets_for(limits), FLOW_VERSION);
}

struct flow_table *flow_table_init(void *memory, const struct flow_limits *limits)
{
	struct flow_table *t = memory;

	memset(memory, 0, flow_table_bytes(limits));
	t->magic = FLOW_MAGIC;
	t->version = FLOW_VERSION;
	t->slot_bytes = sizeof(struct flow_slot);
	t->bucket_count = buckets_for(limits);
	t->limits = *limits;
	t->half_open_most = INT32_MAX;
	return t;
}

void flow_table_set_timeouts(struct flow_table *t, const struct flow_limits *limits)
{
	t->limits.syn_timeout_ms = limits->syn_timeout_ms;
	t->limits.idle_timeout_ms = limits->idle_timeout_ms;
	t->limits.fin_timeout_ms = limits->fin_timeout_ms;
	t->limits.rst_timeout_ms = limits->rst_timeout_ms;
}

/* True when it is a table whose header can be used as it is; its slots are not trusted. */
static bool is_table(const void *memory, size_t size)
{
	const struct flow_table *t = memory;

	return size >= table_bytes(1, FLOW_VERSION_PLAIN) && (uintptr_t)memory % sizeof(uint64_t) == 0 &&
	       t->magic == FLOW_MAGIC && (t->version == FLOW_VERSION || t->version == FLOW_VERSION_PLAIN) &&
	       t->slot_bytes == sizeof(struct flow_slot) && t->bucket_count <= FLOW_BUCKETS_MAX &&
	       size == table_bytes(t->bucket_count, t->version) && t->service_count <= FLOW_SERVICES_MAX &&
	       !t->nodes[0].id;
}

/* Sets the bits of all buckets that hold a flow, whatever they were. Programs may make flows meanwhile. */
static void note_all(const struct flow_table *t)
{
	uint32_t bucket;

	for (bucket = 0; bucket <= t->bucket_count; bucket++) {
		if (!flow_empty_slots(t, bucket * FLOW_BUCKET_SLOTS, FLOW_BUCKET_SLOTS))
			flow_occupied_note(flow_occupied_at(t, bucket), bucket);
	}
}

static bool count_one(void *context, const struct flow *flow)
{
	flow_count(context, flow->slot, FLOW_FREE, flow->state);
	return true;
}

struct flow_table *flow_table_open(void *memory, size_t size, struct flow_limits *limits)
{
	struct flow_table *t = memory;
	unsigned i;

	if (!is_table(memory, size) || t->version != FLOW_VERSION || t->bucket_count != buckets_for(limits))
		return NULL;
	memcpy(limits->hash_key, t->limits.hash_key, sizeof(limits->hash_key));
	t->limits = *limits;
	t->counts = t->sums = (struct flow_counts) { 0 };
	t->cursor = t->hand = t->sample_slots = t->sample_half_open = 0;
	t->half_open_most = INT32_MAX;
	for (i = 0; i < t->service_count; i++)
		t->services[i].used = t->services[i].seen = 1;
	for (i = 0; i <= FLOW_NODES_MAX; i++)
		t->nodes[i].used = t->nodes[i].seen = 1;
	note_all(t);
	flow_each(t, count_one, t);
	return t;
}

struct flow_table *flow_table_share(void *memory, size_t size)
{
	struct flow_table *t = memory;

	return is_table(memory, size) && t->version == FLOW_VERSION ? t : NULL;
}

uint32_t flow_table_buckets(const struct flow_table *t)
{
	return t->bucket_count;
}

const uint64_t *flow_table_hash_key(const struct flow_table *t)
{
	return t->limits.hash_key;
}

unsigned flow_slots(const struct flow_table *t)
{
	return flow_slot_count(t);
}

/* --- walking --- */

void flow_walk(const struct flow_table *t, uint32_t *cursor, unsigned steps, flow_visit_fn *visit, void *context)
{
	struct flow flow;
	bool more = true;

	while (more && steps && *cursor < flow_slot_count(t)) {
		unsigned done = flow_empty_slots(t, *cursor, steps);

		if (!done) {
			if (flow_slot_read(t, *cursor, &flow))
				more = visit(context, &flow);
			done = 1;
		}
		*cursor += done;
		steps -= done;
	}
	if (*cursor >= flow_slot_count(t))
		*cursor = 0;
}

void flow_each(const struct flow_table *t, flow_visit_fn *visit, void *context)
{
	uint32_t cursor = 0;

	flow_walk(t, &cursor, flow_slot_count(t), visit, context);
}

/* --- adoption --- */

/* True when the flow lies where a search finds it and, with IPv6, its check bits are right. */
static bool is_sound(const struct flow_table *t, const struct flow *flow)
{
	const struct flow_slot *slot = flow_slot_at(t, flow->slot);
	uint32_t bucket = flow->slot / FLOW_BUCKET_SLOTS;
	struct flow_search s;

	if (flow->key.client.bytes[0] == 0xff)
		return false;
	flow_search_key(t, &flow->key, slot->v4.service, &s);
	return s.slot.key == slot->key && (s.bucket == bucket || s.bucket + 1 == bucket);
}

/* Merges the same flow of both tables: the later state, the later time. */
static void merge(struct flow_table *t, struct flow_slot *slot, uint32_t theirs)
{
	uint32_t mine = flow_slot_word(slot), state = mine & FLOW_STATE_MASK, tick = mine >> FLOW_TIME_SHIFT;

	if ((theirs & FLOW_STATE_MASK) > state)
		state = theirs & FLOW_STATE_MASK;
	if ((((theirs >> FLOW_TIME_SHIFT) - tick) & (FLOW_TICKS - 1)) < FLOW_TICKS / 2)
		tick = theirs >> FLOW_TIME_SHIFT;
	if (__sync_bool_compare_and_swap(&slot->state, mine, tick << FLOW_TIME_SHIFT | (mine & FLOW_OVERFLOW) | state))
		flow_count(t, (uint32_t)(slot - flow_slot_at(t, 0)), flow_state_of(mine), state + FLOW_HALF_OPEN);
}

static bool adopt_one(struct flow_table *t, const struct flow *flow, uint32_t word)
{
	int service = flow_table_service(t, &flow->key.service, flow->key.service_port, true);
	int node = flow_table_node(t, flow->node_id, true);
	uint32_t target = flow->syn_sequence << FLOW_SEQUENCE_SHIFT | (uint32_t)node;
	struct flow_slot *slot;
	struct flow_search s;

	if (service < 0 || node < 0)
		return false;
	flow_search_key(t, &flow->key, (unsigned)service, &s);
	slot = flow_slot_find(t, &s);
	if (slot) {
		/* Another target means a younger connection of the same client port, which stays. */
		if (slot->target != target)
			return false;
		merge(t, slot, word);
		return true;
	}
	if (flow->state == FLOW_HALF_OPEN ? flow_counts(t).half_open >= t->limits.max_half_open
					  : flow_counts(t).confirmed >= t->limits.max_confirmed)
		return false;
	word = (word & ~(uint32_t)FLOW_STATE_MASK) | flow_slot_state_of((enum flow_state)flow->state);
	slot = flow_insert(t, &s, target, word);
	if (slot)
		flow_count(t, (uint32_t)(slot - flow_slot_at(t, 0)), FLOW_FREE, flow->state);
	return slot;
}

int flow_table_adopt(struct flow_table *t, const void *old, size_t size)
{
	const struct flow_table *from = old;
	struct flow flow;
	uint32_t i;
	int adopted = 0;

	if (!is_table(old, size))
		return -EINVAL;
	if (!t->now_ms)
		t->now_ms = from->now_ms;
	for (i = 0; i < flow_slot_count(from); i++) {
		if (flow_slot_read(from, i, &flow) && is_sound(from, &flow))
			adopted += adopt_one(t, &flow, flow_slot_word(flow_slot_at(from, i)));
	}
	return adopted;
}

struct flow_counts flow_counts(const struct flow_table *t)
{
	return (struct flow_counts) { .half_open = flow_count_of(t->counts.half_open),
				      .confirmed = flow_count_of(t->counts.confirmed),
				      .closing = flow_count_of(t->counts.closing) };
}

uint64_t flow_hash(const uint64_t hash_key[2], const struct flow_key *key)
{
	uint64_t hash;

	crypto_shorthash((unsigned char *)&hash, (const unsigned char *)key, sizeof(*key),
			 (const unsigned char *)hash_key);
	return hash;
}
