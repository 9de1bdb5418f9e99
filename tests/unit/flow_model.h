/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flow_model.h - the flow table against a plain array, driven by a script of bytes: random ones in
 * the unit test, chosen ones in the fuzzer. Whoever includes it defines MODEL_CHECK(condition).
 */
#ifndef TESTS_UNIT_FLOW_MODEL_H
#define TESTS_UNIT_FLOW_MODEL_H

#include <stdlib.h>

#include "dprd/flow.h"

enum { MODEL_KEYS = 32, MODEL_NODES = 3 };

struct model_flow {
	uint8_t state;
	uint32_t node_id, syn_sequence;
	uint64_t last_seen_ms, packets;
	uint64_t turn; /* when it was last added or touched; 0: adopted, older than all later turns */
};

struct model {
	struct flow_table *table;
	struct flow_limits limits;
	struct model_flow flows[MODEL_KEYS];
	uint64_t now_ms, turn;
	unsigned gone[MODEL_KEYS]; /* calls of gone() within one operation */
};

/* Small pools, so that they fill up. */
static const struct flow_limits model_limits = {
	.max_confirmed = 9,
	.max_half_open = 5,
	.syn_timeout_ms = 3000,
	.idle_timeout_ms = 20000,
	.fin_timeout_ms = 10000,
	.rst_timeout_ms = 1000,
	.hash_key = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 },
};

static struct flow_key model_key(unsigned i)
{
	struct flow_key key = { .client_port = (be16)htons((uint16_t)(40000 + i / 4)),
				.service_port = (be16)htons(80) };

	/* Both families, and keys that differ in one field only. */
	key.client = addr_from_v4(htonl(0xc0000200 + i % 2));
	key.service = addr_from_v4(htonl(0xc6336401));
	if (i % 4 >= 2) {
		key.client.bytes[0] = 0x20;
		key.service.bytes[0] = 0x20;
	}
	return key;
}

static int model_index(const struct flow_key *key)
{
	int i;

	for (i = 0; i < MODEL_KEYS; i++) {
		struct flow_key other = model_key((unsigned)i);

		if (memcmp(key, &other, sizeof(other)) == 0)
			return i;
	}
	return -1;
}

static unsigned model_count(const struct model *m, bool half_open)
{
	unsigned i, count = 0;

	for (i = 0; i < MODEL_KEYS; i++)
		count += m->flows[i].state != FLOW_FREE && (m->flows[i].state == FLOW_HALF_OPEN) == half_open;
	return count;
}

static void model_same(const struct model_flow *expected, const struct flow *flow)
{
	MODEL_CHECK(flow->state == expected->state);
	MODEL_CHECK(flow->node_id == expected->node_id);
	MODEL_CHECK(flow->syn_sequence == expected->syn_sequence);
	MODEL_CHECK(flow->last_seen_ms == expected->last_seen_ms);
	MODEL_CHECK(flow->packets == expected->packets);
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

/* Everything that the table shows is what the array has. */
static void model_compare(struct model *m)
{
	struct flow_counts counts = flow_counts(m->table);
	unsigned i, closing = 0;

	MODEL_CHECK(counts.half_open == model_count(m, true));
	MODEL_CHECK(counts.confirmed == model_count(m, false));
	memset(m->gone, 0, sizeof(m->gone));
	flow_each(m->table, model_visit, m);
	for (i = 0; i < MODEL_KEYS; i++) {
		struct flow_key key = model_key(i);
		struct flow *flow = flow_find(m->table, &key);

		MODEL_CHECK(m->gone[i] == (m->flows[i].state != FLOW_FREE));
		MODEL_CHECK(!flow == (m->flows[i].state == FLOW_FREE));
		closing += m->flows[i].state == FLOW_CLOSING || m->flows[i].state == FLOW_RESET;
		if (flow)
			model_same(&m->flows[i], flow);
	}
	MODEL_CHECK(counts.closing == closing);
}

static void model_add(struct model *m, unsigned i, uint8_t detail)
{
	struct flow_key key = model_key(i);
	struct flow evicted;
	struct flow *flow;

	m->flows[i].state = FLOW_FREE;
	flow = flow_add(m->table, &key, 1u + detail % MODEL_NODES, detail * 0x01010101u, m->now_ms, &evicted);
	MODEL_CHECK(flow != NULL);
	MODEL_CHECK((evicted.state != FLOW_FREE) == (model_count(m, true) == m->limits.max_half_open));
	if (evicted.state != FLOW_FREE) {
		int victim = model_index(&evicted.key), other;

		MODEL_CHECK(victim >= 0);
		model_same(&m->flows[victim], &evicted);
		MODEL_CHECK(evicted.state == FLOW_HALF_OPEN);
		for (other = 0; other < MODEL_KEYS; other++) {
			if (m->flows[other].state == FLOW_HALF_OPEN)
				MODEL_CHECK(m->flows[victim].turn <= m->flows[other].turn);
		}
		m->flows[victim].state = FLOW_FREE;
	}
	m->flows[i] = (struct model_flow) { .state = FLOW_HALF_OPEN,
					    .node_id = 1u + detail % MODEL_NODES,
					    .syn_sequence = detail * 0x01010101u,
					    .last_seen_ms = m->now_ms,
					    .packets = 1,
					    .turn = ++m->turn };
}

static void model_touch(struct model *m, unsigned i, uint8_t flags)
{
	struct flow_key key = model_key(i);
	struct flow *flow = flow_find(m->table, &key), *moved;
	struct model_flow *expected = &m->flows[i];
	bool full = model_count(m, false) == m->limits.max_confirmed;

	if (!flow)
		return;
	moved = flow_touch(m->table, flow, flags, m->now_ms);
	expected->last_seen_ms = m->now_ms;
	expected->packets++;
	expected->turn = ++m->turn;
	if (expected->state == FLOW_HALF_OPEN && !(flags & TCP_SYN)) {
		MODEL_CHECK(!moved == full);
		if (full) {
			model_same(expected, flow);
			return;
		}
		expected->state = FLOW_CONFIRMED;
	}
	MODEL_CHECK(moved != NULL && moved == flow_find(m->table, &key));
	if (expected->state == FLOW_HALF_OPEN)
		return;
	if (flags & TCP_RST)
		expected->state = FLOW_RESET;
	else if (expected->state == FLOW_RESET)
		expected->state = FLOW_CLOSING;
	else if (flags & TCP_FIN && expected->state == FLOW_CONFIRMED)
		expected->state = FLOW_CLOSING;
}

/* used: of the confirmed pool when the sweep began; above half of it closing flows go sooner. */
static bool model_expired(const struct model *m, const struct model_flow *flow, unsigned used)
{
	static const size_t lifetime[] = {
		[FLOW_HALF_OPEN] = offsetof(struct flow_limits, syn_timeout_ms),
		[FLOW_CONFIRMED] = offsetof(struct flow_limits, idle_timeout_ms),
		[FLOW_CLOSING] = offsetof(struct flow_limits, fin_timeout_ms),
		[FLOW_RESET] = offsetof(struct flow_limits, rst_timeout_ms),
	};
	unsigned limit, quarters = m->limits.max_confirmed / 4;

	if (flow->state == FLOW_FREE)
		return false;
	memcpy(&limit, (const uint8_t *)&m->limits + lifetime[flow->state], sizeof(limit));
	if ((flow->state == FLOW_CLOSING || flow->state == FLOW_RESET) && used >= m->limits.max_confirmed / 2)
		limit /= used < 3 * quarters ? 8 : 64;
	return m->now_ms - flow->last_seen_ms >= limit;
}

static void model_gone(void *context, const struct flow *flow)
{
	struct model *m = context;
	int i = model_index(&flow->key);

	MODEL_CHECK(i >= 0);
	model_same(&m->flows[i], flow);
	m->gone[i]++;
}

/* Few steps may miss some; as many as there are entries may not. Never one that is not expired. */
static void model_expire(struct model *m, unsigned steps)
{
	unsigned entries = m->limits.max_half_open + m->limits.max_confirmed, i, removed = 0, used;

	used = model_count(m, false);
	memset(m->gone, 0, sizeof(m->gone));
	flow_expire(m->table, steps, m->now_ms, model_gone, m);
	for (i = 0; i < MODEL_KEYS; i++) {
		MODEL_CHECK(m->gone[i] <= model_expired(m, &m->flows[i], used));
		if (steps >= entries)
			MODEL_CHECK(m->gone[i] == model_expired(m, &m->flows[i], used));
		if (m->gone[i])
			m->flows[i].state = FLOW_FREE;
		removed += m->gone[i];
	}
	MODEL_CHECK(removed <= steps);
}

static void model_remove_node(struct model *m, uint32_t node_id)
{
	unsigned i, removed = 0;
	unsigned told;

	memset(m->gone, 0, sizeof(m->gone));
	told = flow_remove_node(m->table, node_id, model_gone, m);
	for (i = 0; i < MODEL_KEYS; i++) {
		bool hit = m->flows[i].state != FLOW_FREE && m->flows[i].node_id == node_id;

		MODEL_CHECK(m->gone[i] == hit);
		removed += hit;
		if (hit)
			m->flows[i].state = FLOW_FREE;
	}
	MODEL_CHECK(told == removed);
}

/* A successor with another key takes over; its pools are not smaller, so that nothing is lost. */
static void model_adopt(struct model *m, uint8_t detail)
{
	struct flow_table *old = m->table;
	size_t old_bytes = flow_table_bytes(&m->limits);
	unsigned i, flows = model_count(m, true) + model_count(m, false);

	m->limits.max_half_open += detail % 2;
	m->limits.max_confirmed += detail / 2 % 2;
	m->limits.hash_key[0] += detail;
	m->limits.idle_timeout_ms += 1000;
	m->table = malloc(flow_table_bytes(&m->limits));
	MODEL_CHECK(m->table != NULL);
	MODEL_CHECK(flow_table_init(m->table, &m->limits) == m->table);
	MODEL_CHECK(flow_table_adopt(m->table, old, old_bytes) == (int)flows);
	for (i = 0; i < MODEL_KEYS; i++)
		m->flows[i].turn = 0;
	free(old);
}

/* Three bytes an operation: what, which key, detail. */
static void model_run(const uint8_t *script, size_t length)
{
	struct model m = { .limits = model_limits, .now_ms = 1000 };
	size_t at;

	m.table = malloc(flow_table_bytes(&m.limits));
	MODEL_CHECK(m.table != NULL);
	MODEL_CHECK(flow_table_init(m.table, &m.limits) == m.table);
	for (at = 0; at + 3 <= length; at += 3) {
		unsigned key = script[at + 1] % MODEL_KEYS;
		uint8_t detail = script[at + 2];
		struct flow_key text = model_key(key);

		switch (script[at] % 16) {
		case 0:
			if (flow_find(m.table, &text)) {
				flow_remove(m.table, flow_find(m.table, &text));
				m.flows[key].state = FLOW_FREE;
			}
			break;
		case 1:
			model_remove_node(&m, 1u + detail % (MODEL_NODES + 1));
			break;
		case 2:
			if (m.limits.max_confirmed < 40)
				model_adopt(&m, detail);
			break;
		case 3:
			model_expire(&m, detail);
			break;
		case 4:
		case 5:
			m.now_ms += (uint64_t)detail * 20;
			break;
		case 6:
		case 7:
		case 8:
		case 9:
		case 10:
			model_add(&m, key, detail);
			break;
		default:
			model_touch(&m, key, detail);
			break;
		}
		model_compare(&m);
	}
	free(m.table);
}

#endif
