// SPDX-License-Identifier: GPL-2.0-or-later
/* flow.c - finds, makes, moves on and removes single flows. Contract: flow.h; memory: flow/memory.h. */
#include "dprd/core/flow/memory.h"

enum {
	HAND_BUCKETS = 64, /* searched for an old half-open flow */
	LOOKS_IN_VAIN = 8, /* failed searches within a ms */
};

/* The first whole ms of the tick; converting it back gives the same tick. */
static uint64_t ms_of(uint64_t now_ms, uint32_t word)
{
	uint64_t tick = now_ms * 1000000 >> FLOW_TICK_SHIFT, age = flow_age_ticks(word, flow_tick(now_ms));

	return age < tick ? (((tick - age) << FLOW_TICK_SHIFT) + 999999) / 1000000 : 0;
}

bool flow_slot_read(const struct flow_table *t, uint32_t index, struct flow *ret)
{
	const struct flow_slot *slot = flow_slot_at(t, index);
	struct flow_slot copy = { .key = *(volatile const uint64_t *)&slot->key };
	bool v6 = copy.v4.tag == FLOW_TAG_V6;

	if ((!v6 && copy.v4.tag != FLOW_TAG_V4) || (v6 && index % 2))
		return false;
	/* A flow found here stays: flows are removed only under dprd's lock. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	copy.target = *(volatile const uint32_t *)&slot->target;
	copy.state = flow_slot_word(slot);
	if (copy.v4.service >= t->service_count || !t->nodes[copy.target & FLOW_NODE_MASK].id)
		return false;
	if (v6) {
		memcpy(ret->key.client.bytes, &slot[1].address_high, 8);
		memcpy(ret->key.client.bytes + 8, &slot[1].address_low, 8);
	} else {
		ret->key.client = addr_from_v4(copy.v4.client);
	}
	ret->key.service = t->services[copy.v4.service].address;
	ret->key.service_port = t->services[copy.v4.service].port;
	ret->key.client_port = copy.v4.client_port;
	ret->node_id = t->nodes[copy.target & FLOW_NODE_MASK].id;
	ret->syn_sequence = copy.target >> FLOW_SEQUENCE_SHIFT;
	ret->state = (uint8_t)flow_state_of(copy.state);
	ret->last_seen_ms = ms_of(t->now_ms, copy.state);
	ret->slot = index;
	return true;
}

void flow_search_key(const struct flow_table *t, const struct flow_key *key, unsigned service, struct flow_search *ret)
{
	uint64_t high, low;

	memset(ret, 0, sizeof(*ret));
	if (addr_is_v4(&key->client)) {
		flow_search_v4(ret, t->limits.hash_key, t->bucket_count, (uint8_t)service, addr_v4(&key->client),
			       key->client_port);
		return;
	}
	memcpy(&high, key->client.bytes, 8);
	memcpy(&low, key->client.bytes + 8, 8);
	flow_search_v6(ret, t->limits.hash_key, t->bucket_count, (uint8_t)service, high, low, key->client_port);
}

struct flow_slot *flow_insert(const struct flow_table *t, const struct flow_search *s, uint32_t target, uint32_t state)
{
	struct flow_bucket *home = flow_bucket_at(t, s->bucket);

	return flow_slot_insert(home, home + 1, flow_occupied_at(t, s->bucket), s, target, state);
}

struct flow_slot *flow_slot_find(const struct flow_table *t, const struct flow_search *s)
{
	struct flow_bucket *home = flow_bucket_at(t, s->bucket);
	struct flow_slot *slot;

	if (!flow_is_occupied(flow_occupied_at(t, s->bucket), s->bucket))
		return NULL;
	slot = flow_bucket_find(home, s);
	return slot || !flow_bucket_overflows(home) ? slot : flow_bucket_find(home + 1, s);
}

static uint32_t index_of(const struct flow_table *t, const struct flow_slot *slot)
{
	return (uint32_t)(slot - flow_slot_at(t, 0));
}

bool flow_find(const struct flow_table *t, const struct flow_key *key, struct flow *ret)
{
	int service = flow_service_find(t, &key->service, key->service_port);
	struct flow_slot *slot;
	struct flow_search s;
	struct flow unused;

	if (service < 0)
		return false;
	flow_search_key(t, key, (unsigned)service, &s);
	slot = flow_slot_find(t, &s);
	return slot && flow_slot_read(t, index_of(t, slot), ret ? ret : &unused);
}

void flow_prefetch(const struct flow_table *t, const struct flow_key *key, bool made)
{
	int service = flow_service_find(t, &key->service, key->service_port);
	const struct flow_bucket *home;
	struct flow_search s;

	if (service < 0)
		return;
	flow_search_key(t, key, (unsigned)service, &s);
	if (!made && !flow_is_occupied(flow_occupied_at(t, s.bucket), s.bucket))
		return;
	home = flow_bucket_at(t, s.bucket);
	__builtin_prefetch(&home->slot[0]);
	__builtin_prefetch(&home->slot[FLOW_BUCKET_SLOTS / 2]);
}

void flow_count_in(struct flow_counts *counts, unsigned state, unsigned by)
{
	if (state == FLOW_HALF_OPEN)
		counts->half_open += by;
	else if (state != FLOW_FREE)
		counts->confirmed += by;
	if (state == FLOW_CLOSING || state == FLOW_RESET)
		counts->closing += by;
}

void flow_count(struct flow_table *t, uint32_t slot, unsigned from, unsigned to)
{
	flow_count_in(&t->counts, from, -1u);
	flow_count_in(&t->counts, to, 1);
	if (slot < t->cursor) {
		flow_count_in(&t->sums, from, -1u);
		flow_count_in(&t->sums, to, 1);
	}
}

uint32_t flow_swept_buckets(const struct flow_table *t)
{
	return t->cursor / FLOW_BUCKET_SLOTS;
}

void flow_count_made(struct flow_table *t, unsigned made, unsigned behind)
{
	t->counts.half_open += made;
	t->sums.half_open += behind;
}

void flow_slot_clear(const struct flow_table *t, uint32_t index)
{
	struct flow_slot *slot = flow_slot_at(t, index);
	bool v6 = flow_slot_tag(slot) == FLOW_TAG_V6;

	__atomic_store_n(&slot->key, 0, __ATOMIC_SEQ_CST);
	if (v6 && index % 2 == 0) {
		slot[1].address_high = 0;
		slot[1].address_low = 0;
	}
	__sync_fetch_and_and(&slot->state, FLOW_OVERFLOW);
	__atomic_store_n(&slot->target, 0, __ATOMIC_RELEASE);
}

void flow_remove_as_read(struct flow_table *t, const struct flow *flow)
{
	flow_slot_clear(t, flow->slot);
	flow_count(t, flow->slot, flow->state, FLOW_FREE);
}

/* True when the flow still lies where it was found; *ret is its present state. */
static bool is_still_there(const struct flow_table *t, const struct flow *flow, struct flow *ret)
{
	return flow->slot < flow_slot_count(t) && flow_slot_read(t, flow->slot, ret) &&
	       memcmp(&ret->key, &flow->key, sizeof(flow->key)) == 0;
}

void flow_remove(struct flow_table *t, const struct flow *flow)
{
	struct flow there;

	if (is_still_there(t, flow, &there))
		flow_remove_as_read(t, &there);
}

void flow_touch(struct flow_table *t, struct flow *flow, uint8_t tcp_flags, uint64_t now_ms)
{
	struct flow there;

	t->now_ms = now_ms;
	if (!is_still_there(t, flow, &there))
		return;
	flow_slot_touch(flow_slot_at(t, flow->slot), tcp_flags, flow_tick(now_ms));
	if (!is_still_there(t, &there, flow))
		return;
	flow_count(t, flow->slot, there.state, flow->state);
}

/* --- half-open flows that make room --- */

static bool is_old(const struct flow_table *t, uint32_t index, uint32_t tick, struct flow *ret)
{
	const struct flow_slot *slot = flow_slot_at(t, index);

	if ((flow_slot_word(slot) & FLOW_STATE_MASK) != SLOT_HALF_OPEN || flow_slot_is_free(slot))
		return false;
	/* Read the age only after the state: the flow may just have come. */
	return flow_slot_read(t, index, ret) && ret->state == FLOW_HALF_OPEN &&
	       flow_age_ticks(flow_slot_word(slot), tick) >= flow_ticks_of(HALF_OPEN_GRACE_MS);
}

/*
 * Goes on where the last one was found. After LOOKS_IN_VAIN failed searches there is no other search in the same ms, so
 * that most SYNs of a flood cost nothing more.
 */
static bool find_old(struct flow_table *t, uint64_t now_ms, struct flow *ret)
{
	uint32_t buckets, i;

	if (t->looked_ms != now_ms)
		t->looks_in_vain = 0;
	t->looked_ms = now_ms;
	if (t->looks_in_vain >= LOOKS_IN_VAIN)
		return false;
	for (buckets = 0; buckets < HAND_BUCKETS && buckets <= t->bucket_count; buckets++) {
		for (i = 0; i < FLOW_BUCKET_SLOTS; i++) {
			if (is_old(t, t->hand * FLOW_BUCKET_SLOTS + i, flow_tick(now_ms), ret))
				return true;
		}
		t->hand = (t->hand + 1) % (t->bucket_count + 1);
	}
	t->looks_in_vain++;
	return false;
}

/* True when the place of a flow is large enough for the wanted flow. */
static bool is_enough(const struct flow_slot *slot, bool odd, const struct flow_search *s)
{
	if (flow_slot_tag(slot) == FLOW_TAG_V6)
		return true;
	if (s->v6)
		return flow_slot_is_free(odd ? slot - 1 : slot + 1);
	return !odd || flow_slot_tag(slot - 1) == FLOW_TAG_V4;
}

/* Searches the two buckets in which the wanted flow may lie. */
static bool find_old_nearby(const struct flow_table *t, const struct flow_search *s, uint64_t now_ms, struct flow *ret)
{
	uint32_t first = s->bucket * FLOW_BUCKET_SLOTS, i;

	for (i = first; i < first + 2 * FLOW_BUCKET_SLOTS; i++) {
		if (is_old(t, i, flow_tick(now_ms), ret) && is_enough(flow_slot_at(t, i), i % 2, s))
			return true;
	}
	return false;
}

static unsigned all_flows(const struct flow_table *t)
{
	return flow_count_of(t->counts.half_open + t->counts.confirmed);
}

bool flow_has_room(struct flow_table *t, uint64_t now_ms)
{
	struct flow unused;

	t->now_ms = now_ms;
	return all_flows(t) < t->limits.max_confirmed &&
	       (flow_count_of(t->counts.half_open) < t->limits.max_half_open || find_old(t, now_ms, &unused));
}

bool flow_evict_old(struct flow_table *t, uint64_t now_ms)
{
	struct flow old;

	t->now_ms = now_ms;
	if (!find_old(t, now_ms, &old))
		return false;
	flow_remove_as_read(t, &old);
	return true;
}

/* Removes all flows of this key: two processors may have made one each. */
static void remove_same(struct flow_table *t, const struct flow_search *s)
{
	struct flow_slot *slot;
	struct flow flow;
	unsigned i;

	for (i = 0; i < 2 * FLOW_BUCKET_SLOTS && (slot = flow_slot_find(t, s)); i++) {
		if (flow_slot_read(t, index_of(t, slot), &flow))
			flow_remove_as_read(t, &flow);
		else
			flow_slot_clear(t, index_of(t, slot));
	}
}

/*
 * Puts the flow in its place. victim: an old half-open flow that is removed afterwards, since the pool is full; state
 * FLOW_FREE: none. Without a free place an old flow nearby is removed instead, and returned in victim.
 */
static struct flow_slot *insert_for(struct flow_table *t, const struct flow_search *s, uint32_t target, uint64_t now_ms,
				    struct flow *victim)
{
	uint32_t word = flow_tick(now_ms) << FLOW_TIME_SHIFT | SLOT_HALF_OPEN;
	struct flow_slot *slot = flow_insert(t, s, target, word);
	struct flow nearby;

	if (!slot) {
		victim->state = FLOW_FREE;
		if (!find_old_nearby(t, s, now_ms, &nearby))
			return NULL;
		*victim = nearby;
	}
	if (victim->state != FLOW_FREE)
		flow_remove_as_read(t, victim);
	return slot ? slot : flow_insert(t, s, target, word);
}

bool flow_add(struct flow_table *t, const struct flow_key *key, uint32_t node_id, uint32_t syn_sequence,
	      uint64_t now_ms, struct flow *ret_evicted)
{
	int service = flow_table_service(t, &key->service, key->service_port, true);
	int node = flow_table_node(t, node_id, true);
	struct flow victim = { .state = FLOW_FREE };
	struct flow_slot *slot;
	struct flow_search s;

	t->now_ms = now_ms;
	ret_evicted->state = FLOW_FREE;
	if (service < 0 || node < 0 || key->client.bytes[0] == 0xff)
		return false;
	flow_search_key(t, key, (unsigned)service, &s);
	remove_same(t, &s);
	if (all_flows(t) >= t->limits.max_confirmed)
		return false;
	if (flow_count_of(t->counts.half_open) >= t->limits.max_half_open && !find_old(t, now_ms, &victim))
		return false;
	slot = insert_for(t, &s, syn_sequence << FLOW_SEQUENCE_SHIFT | (uint32_t)node, now_ms, &victim);
	*ret_evicted = victim;
	if (!slot)
		return false;
	flow_count(t, index_of(t, slot), FLOW_FREE, FLOW_HALF_OPEN);
	return true;
}
