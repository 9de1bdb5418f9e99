/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flow_model.h - the flow table against a plain array, driven by a script of bytes: random ones in the unit test,
 * chosen ones in the fuzzer. Some operations are dprd's, others change the slots as the BPF programs do. The including
 * file defines MODEL_CHECK(condition).
 */
#ifndef TESTS_UNIT_FLOW_MODEL_H
#define TESTS_UNIT_FLOW_MODEL_H

#include "tests/unit/flow_keys.h"

enum {
	MODEL_LEAKS = 4, /* slots taken by a process that was killed before it published */
	MODEL_GRACE_TICKS = 60, /* the least number of ticks that is more than a second */
	MODEL_REFRESH_TICKS = 16,
};

struct model_flow {
	uint8_t state;
	uint32_t node_id, syn_sequence;
	uint64_t tick;
};

struct model {
	struct flow_table *table;
	struct flow_limits sizes; /* of memory; the table's own limits may be beyond them, to have it crowded */
	bool crowded;
	struct model_flow flows[MODEL_KEYS];
	uint64_t now_ms;
	unsigned leaks;
	bool behind; /* BPF programs changed flows since the counts were whole */
	unsigned gone[MODEL_KEYS]; /* calls of gone() within one operation */
};

static uint64_t model_tick(uint64_t ms)
{
	return ms * 1000000 / 16777216;
}

static unsigned model_count(const struct model *m, bool half_open)
{
	unsigned i, count = 0;

	for (i = 0; i < MODEL_KEYS; i++)
		count += m->flows[i].state != FLOW_FREE && (m->flows[i].state == FLOW_HALF_OPEN) == half_open;
	return count;
}

static void model_new_table(struct model *m)
{
	m->table = aligned_alloc(sizeof(struct flow_bucket), flow_table_bytes(&m->sizes));
	MODEL_CHECK(m->table != NULL);
	MODEL_CHECK(flow_table_init(m->table, &m->sizes) == m->table);
	MODEL_CHECK(flow_table_bytes(&m->sizes) == model_bytes(m->table));
}

/* Puts 40 flows of both families where 9 were planned: buckets overflow, and at times there is no place. */
static void model_crowd(struct model *m)
{
	if (!m->crowded)
		return;
	m->table->limits.max_confirmed = 40;
	m->table->limits.max_half_open = 24;
}

static void model_same(const struct model_flow *expected, const struct flow *flow)
{
	MODEL_CHECK(flow->state == expected->state);
	MODEL_CHECK(flow->node_id == expected->node_id);
	MODEL_CHECK(flow->syn_sequence == expected->syn_sequence);
	MODEL_CHECK(model_tick(flow->last_seen_ms) == expected->tick);
}

static bool model_visit(void *context, const struct flow *flow)
{
	struct model *m = context;
	int i = model_index(&flow->key);

	MODEL_CHECK(i >= 0);
	m->gone[i]++;
	model_same(&m->flows[i], flow);
	return true;
}

/* The home bucket of a flow; *ret is its search key. */
static struct flow_bucket *model_home(const struct flow_table *t, unsigned i, struct flow_search *ret)
{
	struct flow_key key = model_key(i);
	int service = flow_service_find(t, &key.service, key.service_port);

	MODEL_CHECK(service >= 0);
	flow_search_key(t, &key, (unsigned)service, ret);
	return flow_bucket_at(t, ret->bucket);
}

/* True when the flow has a place in one of its two buckets. */
static bool model_has_place(const struct flow_table *t, unsigned i)
{
	struct flow_search s;
	const struct flow_slot *slot = model_home(t, i, &s)->slot;
	unsigned at;

	for (at = 0; at < 2 * FLOW_BUCKET_SLOTS; at += 2) {
		if (s.v6 ? flow_slot_is_free(&slot[at]) && flow_slot_is_free(&slot[at + 1])
			 : flow_slot_is_free(&slot[at]) ||
				    (slot[at].v4.tag == FLOW_TAG_V4 && !slot[at + 1].key && !slot[at + 1].target))
			return true;
	}
	return false;
}

static void model_gone(void *context, const struct flow *flow)
{
	struct model *m = context;
	int i = model_index(&flow->key);

	MODEL_CHECK(i >= 0);
	model_same(&m->flows[i], flow);
	m->gone[i]++;
}

/* Checks that the table shows the same flows as the array. */
static void model_compare(struct model *m)
{
	struct flow_counts counts = flow_counts(m->table);
	unsigned i, closing = 0;
	struct flow_search s;

	flow_expire(m->table, 0, m->now_ms, model_gone, m); /* only sets the time */
	memset(m->gone, 0, sizeof(m->gone));
	flow_each(m->table, model_visit, m);
	for (i = 0; i < MODEL_KEYS; i++) {
		struct flow_key key = model_key(i);
		struct flow flow;
		bool found = flow_find(m->table, &key, &flow);

		MODEL_CHECK(m->gone[i] == (m->flows[i].state != FLOW_FREE));
		MODEL_CHECK(found == (m->flows[i].state != FLOW_FREE));
		closing += m->flows[i].state == FLOW_CLOSING || m->flows[i].state == FLOW_RESET;
		if (!found)
			continue;
		model_same(&m->flows[i], &flow);
		model_home(m->table, i, &s);
		MODEL_CHECK(flow_is_occupied(flow_occupied_at(m->table, s.bucket), s.bucket));
	}
	if (m->behind)
		return;
	MODEL_CHECK(counts.half_open == model_count(m, true));
	MODEL_CHECK(counts.confirmed == model_count(m, false));
	MODEL_CHECK(counts.closing == closing);
}

static bool model_is_old(const struct model *m, unsigned i)
{
	return m->flows[i].state == FLOW_HALF_OPEN && model_tick(m->now_ms) - m->flows[i].tick >= MODEL_GRACE_TICKS;
}

static bool model_has_old(const struct model *m)
{
	unsigned i;

	for (i = 0; i < MODEL_KEYS; i++) {
		if (model_is_old(m, i))
			return true;
	}
	return false;
}

static void model_evict(struct model *m, const struct flow *evicted)
{
	int victim = model_index(&evicted->key);

	MODEL_CHECK(victim >= 0);
	model_same(&m->flows[victim], evicted);
	MODEL_CHECK(model_is_old(m, (unsigned)victim));
	m->flows[victim].state = FLOW_FREE;
}

static void model_made(struct model *m, unsigned i, uint8_t detail)
{
	m->flows[i] = (struct model_flow) { .state = FLOW_HALF_OPEN,
					    .node_id = 1u + detail % MODEL_NODES,
					    .syn_sequence = detail * 0x010101u,
					    .tick = model_tick(m->now_ms) };
}

static void model_add(struct model *m, unsigned i, uint8_t detail)
{
	struct flow_key key = model_key(i);
	struct flow_counts counts;
	struct flow evicted;
	bool pool_full, full, added, has_room = flow_has_room(m->table, m->now_ms);

	counts = flow_counts(m->table);
	pool_full = counts.half_open >= m->table->limits.max_half_open;
	full = counts.half_open + counts.confirmed >= m->table->limits.max_confirmed;
	if (!m->behind)
		MODEL_CHECK(has_room == (!full && (!pool_full || model_has_old(m))));
	added = flow_add(m->table, &key, 1u + detail % MODEL_NODES, detail * 0x01010101u, m->now_ms, &evicted);
	if (evicted.state != FLOW_FREE)
		model_evict(m, &evicted);
	if (!added) {
		MODEL_CHECK(evicted.state == FLOW_FREE);
		/* A flow of the same key may just have been the last old one. */
		MODEL_CHECK(m->behind || m->flows[i].state != FLOW_FREE || !has_room || !model_has_place(m->table, i));
		m->flows[i].state = FLOW_FREE;
		return;
	}
	MODEL_CHECK(has_room || m->flows[i].state != FLOW_FREE || m->behind);
	model_made(m, i, detail);
}

/* Makes a flow as a BPF program does: without limits, and without the counts. */
static void model_bpf_add(struct model *m, unsigned i, uint8_t detail)
{
	struct flow_key key = model_key(i);
	int service = flow_table_service(m->table, &key.service, key.service_port, true);
	int node = flow_table_node(m->table, 1u + detail % MODEL_NODES, true);
	struct flow_search s;
	bool has_place;

	MODEL_CHECK(service >= 0 && node > 0);
	if (m->flows[i].state != FLOW_FREE)
		return;
	model_home(m->table, i, &s);
	has_place = model_has_place(m->table, i);
	MODEL_CHECK(has_place == !!flow_insert(m->table, &s, detail * 0x010101u << FLOW_SEQUENCE_SHIFT | (uint32_t)node,
					       flow_tick(m->now_ms) << FLOW_TIME_SHIFT | SLOT_HALF_OPEN));
	if (!has_place)
		return;
	m->behind = true;
	model_made(m, i, detail);
}

/* Computes flow_state_after() in another way: the effect of each packet on each state. */
static uint8_t model_next(uint8_t state, uint8_t flags)
{
	if (state == FLOW_HALF_OPEN && flags & TCP_SYN)
		return FLOW_HALF_OPEN;
	if (flags & TCP_RST)
		return FLOW_RESET;
	if (state == FLOW_CLOSING || flags & TCP_FIN)
		return FLOW_CLOSING;
	if (state == FLOW_RESET && flags & TCP_SYN)
		return FLOW_RESET;
	return FLOW_CONFIRMED;
}

static void model_touch(struct model *m, unsigned i, uint8_t flags, bool bpf)
{
	struct flow_key key = model_key(i);
	struct model_flow *expected = &m->flows[i];
	uint8_t next = model_next(expected->state, flags);
	struct flow flow;

	if (!flow_find(m->table, &key, &flow))
		return;
	if (bpf) {
		struct flow_slot *slot = flow_slot_at(m->table, flow.slot);

		MODEL_CHECK(flow_slot_touch(slot, flags, flow_tick(m->now_ms)) + FLOW_HALF_OPEN == expected->state);
		m->behind |= next != expected->state;
	} else {
		flow_touch(m->table, &flow, flags, m->now_ms);
	}
	if (next != expected->state ||
	    (next != FLOW_HALF_OPEN && model_tick(m->now_ms) - expected->tick >= MODEL_REFRESH_TICKS))
		expected->tick = model_tick(m->now_ms);
	expected->state = next;
	if (!bpf)
		model_same(expected, &flow);
}

/* used: the counts when the sweep began; ended flows stay while there is room, and all go sooner from half of a pool on. */
static bool model_expired(const struct model *m, const struct model_flow *flow, const struct flow_counts *used)
{
	const struct flow_limits *l = &m->table->limits;
	unsigned max = l->max_confirmed, count = used->confirmed, limit = l->idle_timeout_ms;

	if (flow->state == FLOW_FREE)
		return false;
	if (flow->state == FLOW_HALF_OPEN) {
		max = l->max_half_open;
		count = used->half_open;
		limit = l->syn_timeout_ms;
	}
	if (flow->state == FLOW_CLOSING)
		limit = l->fin_timeout_ms;
	if (flow->state == FLOW_RESET)
		limit = l->rst_timeout_ms;
	if (flow->state != FLOW_CONFIRMED && count >= max / 2)
		limit /= count < 3 * (max / 4) ? 8 : 64;
	if (flow->state == FLOW_HALF_OPEN && limit < 1500)
		limit = 1500;
	if (flow->state == FLOW_CLOSING || flow->state == FLOW_RESET) {
		if (count < max / 8)
			limit = l->idle_timeout_ms;
		else if (count < max / 4 && limit < l->idle_timeout_ms / 8)
			limit = l->idle_timeout_ms / 8;
	}
	return model_tick(m->now_ms) - flow->tick > model_tick(limit);
}

/* Few steps may miss some expired flows; a whole round may not. A flow that is not expired never goes. */
static void model_expire(struct model *m, unsigned steps)
{
	struct flow_counts used = flow_counts(m->table);
	unsigned i, removed = 0;

	memset(m->gone, 0, sizeof(m->gone));
	flow_expire(m->table, steps, m->now_ms, model_gone, m);
	for (i = 0; i < MODEL_KEYS; i++) {
		MODEL_CHECK(m->gone[i] <= model_expired(m, &m->flows[i], &used));
		if (steps >= flow_slots(m->table))
			MODEL_CHECK(m->gone[i] == model_expired(m, &m->flows[i], &used));
		if (m->gone[i])
			m->flows[i].state = FLOW_FREE;
		removed += m->gone[i];
	}
	MODEL_CHECK(removed <= steps);
}

/* After whole rounds the counts are right, no slot is lost, and each overflow bit and occupied bit has its reason. */
static void model_settle(struct model *m)
{
	struct flow_search s;
	struct flow flow;
	uint32_t i;
	unsigned guests[64] = { 0 };

	for (i = 0; i < 6; i++)
		model_expire(m, flow_slots(m->table));
	m->behind = false;
	m->leaks = 0;
	for (i = 0; i < flow_slots(m->table); i++) {
		const struct flow_slot *slot = flow_slot_at(m->table, i);

		if (!flow_slot_read(m->table, i, &flow)) {
			MODEL_CHECK(flow_slot_is_free(slot) || (i % 2 && flow_slot_tag(slot - 1) == FLOW_TAG_V6));
			continue;
		}
		model_home(m->table, (unsigned)model_index(&flow.key), &s);
		MODEL_CHECK(s.bucket == i / FLOW_BUCKET_SLOTS || s.bucket + 1 == i / FLOW_BUCKET_SLOTS);
		guests[s.bucket] += s.bucket != i / FLOW_BUCKET_SLOTS;
	}
	for (i = 0; i <= flow_table_buckets(m->table); i++)
		MODEL_CHECK(flow_bucket_overflows(flow_bucket_at(m->table, i)) == (guests[i] > 0));
	for (i = 0; i <= flow_table_buckets(m->table); i++)
		MODEL_CHECK(!flow_is_occupied(flow_occupied_at(m->table, i), i) ||
			    !flow_empty_slots(m->table, i * FLOW_BUCKET_SLOTS, FLOW_BUCKET_SLOTS));
}

/* A process takes a slot, writes half of a flow, and is killed. */
static void model_leak(struct model *m, unsigned i, uint8_t detail)
{
	struct flow_key key = model_key(i);
	struct flow_search s;
	struct flow_slot *slot;

	if (m->leaks == MODEL_LEAKS || flow_table_service(m->table, &key.service, key.service_port, true) < 0)
		return;
	slot = flow_bucket_take(model_home(m->table, i, &s) + detail % 2, &s, 1);
	if (!slot)
		return;
	m->leaks++;
	if (s.v6 && detail & 2)
		slot[1].address_high = s.address_high;
	if (s.v6 && detail & 4)
		slot[1].address_low = s.address_low;
}

static void model_remove(struct model *m, unsigned i)
{
	struct flow_key key = model_key(i);
	struct flow flow;

	if (!flow_find(m->table, &key, &flow))
		return;
	flow_remove(m->table, &flow);
	flow_remove(m->table, &flow);
	m->flows[i].state = FLOW_FREE;
}

static void model_remove_node(struct model *m, uint32_t node_id)
{
	unsigned i, removed = 0, told;

	memset(m->gone, 0, sizeof(m->gone));
	told = flow_remove_node(m->table, node_id, model_gone, m);
	for (i = 0; i < MODEL_KEYS; i++) {
		unsigned hit = m->flows[i].state != FLOW_FREE && m->flows[i].node_id == node_id;

		/* A flow that a BPF program just made may be missed when it is the node's first. */
		MODEL_CHECK(m->behind ? m->gone[i] <= hit : m->gone[i] == hit);
		removed += m->gone[i];
		if (m->gone[i])
			m->flows[i].state = FLOW_FREE;
	}
	MODEL_CHECK(told == removed);
}

/* A successor takes over, at times with another key and other sizes; adopting a second time changes nothing. */
static void model_adopt(struct model *m, uint8_t detail)
{
	struct flow_table *old = m->table;
	size_t old_bytes = model_bytes(old);
	unsigned i, adopted = 0;
	int result;

	m->sizes.max_confirmed = model_limits.max_confirmed + detail % 3 * 4;
	m->sizes.hash_key[0] += detail / 4 % 4;
	model_new_table(m);
	m->table->limits.max_confirmed = m->table->limits.max_half_open = MODEL_KEYS;
	result = flow_table_adopt(m->table, old, old_bytes);
	for (i = 0; i < MODEL_KEYS; i++) {
		struct flow_key key = model_key(i);
		bool found = flow_find(m->table, &key, NULL);

		adopted += found;
		if (m->flows[i].state != FLOW_FREE && !found)
			MODEL_CHECK(!model_has_place(m->table, i));
		if (!found)
			m->flows[i].state = FLOW_FREE;
	}
	MODEL_CHECK(result == (int)adopted);
	MODEL_CHECK(flow_table_adopt(m->table, old, old_bytes) == result);
	m->table->limits.max_confirmed = m->sizes.max_confirmed;
	m->table->limits.max_half_open = m->sizes.max_half_open;
	model_crowd(m);
	m->behind = false;
	m->leaks = 0;
	free(old);
}

/* dprd starts again, and uses the table as it is. */
static void model_reopen(struct model *m)
{
	struct flow_limits limits = m->sizes;

	limits.hash_key[0] = 0;
	MODEL_CHECK(flow_table_open(m->table, model_bytes(m->table), &limits) == m->table);
	MODEL_CHECK(memcmp(&limits, &m->sizes, sizeof(limits)) == 0);
	model_crowd(m);
	m->behind = false;
}

static void model_step(struct model *m, unsigned operation, unsigned key, uint8_t detail)
{
	switch (operation) {
	case 0:
		model_remove(m, key);
		break;
	case 1:
		model_remove_node(m, 1u + detail % (MODEL_NODES + 1));
		break;
	case 2:
		if (detail % 2)
			model_adopt(m, detail / 2);
		else
			model_reopen(m);
		break;
	case 3:
		if (detail < 128)
			model_expire(m, detail);
		else
			model_settle(m);
		break;
	case 4:
		m->now_ms += (uint64_t)detail * 100;
		break;
	case 5:
		model_leak(m, key, detail);
		break;
	case 6:
		model_bpf_add(m, key, detail);
		break;
	case 7:
		model_touch(m, key, detail, true);
		break;
	case 8:
	case 9:
	case 10:
	case 11:
		model_add(m, key, detail);
		break;
	default:
		model_touch(m, key, detail, false);
		break;
	}
}

/* The script has one byte, then three for each operation: operation, key, detail. */
static inline void model_run(const uint8_t *script, size_t length)
{
	struct model m = { .sizes = model_limits, .now_ms = 1000 };
	size_t at;

	m.crowded = length && script[0] % 2;
	model_new_table(&m);
	model_crowd(&m);
	for (at = 1; at + 3 <= length; at += 3) {
		model_step(&m, script[at] % 16, script[at + 1] % MODEL_KEYS, script[at + 2]);
		model_compare(&m);
	}
	free(m.table);
}

#endif
