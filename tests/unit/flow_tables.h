/* SPDX-License-Identifier: GPL-2.0-or-later */
/* flow_tables.h - flow tables of many flows, and random numbers, for the unit tests of the flow table. */
#ifndef TESTS_UNIT_FLOW_TABLES_H
#define TESTS_UNIT_FLOW_TABLES_H

#include <time.h>

#include "tests/unit/flow_keys.h"

static uint64_t random_state;

static inline uint32_t random_below(uint32_t limit)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (uint32_t)((z ^ z >> 31) >> 32) % limit;
}

/* UNIT_SHORT: a tenth of the rounds, for valgrind. */
static inline unsigned rounds(unsigned normal)
{
	return getenv("UNIT_SHORT") ? normal / 10 : normal;
}

static int seed(void **state)
{
	const char *given = getenv("UNIT_SEED");

	(void)state;
	random_state = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
	print_message("UNIT_SEED=%llu\n", (unsigned long long)random_state);
	return 0;
}

static const struct flow_limits large_limits = {
	.max_confirmed = 1 << 16,
	.max_half_open = 1 << 10,
	.syn_timeout_ms = 1000,
	.idle_timeout_ms = 1000,
	.fin_timeout_ms = 1000,
	.rst_timeout_ms = 1000,
	.hash_key = { 1, 2 },
};

static inline struct flow_table *new_table(const struct flow_limits *limits)
{
	void *memory = aligned_alloc(sizeof(struct flow_bucket), flow_table_bytes(limits));

	assert_non_null(memory);
	return flow_table_init(memory, limits);
}

/* One of four is IPv6. */
static inline struct flow_key numbered_key(uint32_t i)
{
	struct flow_key key = model_key(i % 4 == 3 ? 2 : i % 2);

	memcpy(key.client.bytes + 12, &i, sizeof(i));
	return key;
}

static inline bool find_number(const struct flow_table *table, uint32_t i, struct flow *ret)
{
	struct flow_key key = numbered_key(i);

	return flow_find(table, &key, ret);
}

static inline bool add_in_state(struct flow_table *table, uint32_t i, uint8_t state, uint64_t now_ms)
{
	static const uint8_t flags[] = {
		[FLOW_HALF_OPEN] = TCP_SYN,
		[FLOW_CONFIRMED] = TCP_ACK,
		[FLOW_CLOSING] = TCP_FIN | TCP_ACK,
		[FLOW_RESET] = TCP_RST,
	};
	struct flow_key key = numbered_key(i);
	struct flow flow;

	if (!flow_add(table, &key, 1 + i % 7, i, now_ms, &flow))
		return false;
	assert_int_equal(flow.state, FLOW_FREE);
	assert_true(flow_find(table, &key, &flow));
	flow_touch(table, &flow, flags[state], now_ms);
	assert_int_equal(flow.state, state);
	return true;
}

static inline void count_gone(void *context, const struct flow *flow)
{
	unsigned *count = context;

	assert_int_not_equal(flow->state, FLOW_FREE);
	++*count;
}

/* Twelve flows of all states, numbers 100 to 111; half-open are the last four. */
static inline struct flow_table *filled_table(void)
{
	static const uint8_t states[] = { FLOW_CONFIRMED, FLOW_CONFIRMED, FLOW_CLOSING, FLOW_RESET };
	struct flow_limits limits = model_limits;
	struct flow_table *table;
	unsigned i;

	limits.max_confirmed = 20;
	table = new_table(&limits);
	for (i = 0; i < 12; i++)
		assert_true(add_in_state(table, 100 + i, i < 8 ? states[i % 4] : FLOW_HALF_OPEN, 2000 + 100 * i));
	return table;
}

static inline bool count_each(void *context, const struct flow *flow)
{
	++((unsigned *)context)[flow->syn_sequence];
	return true;
}

static inline bool count_one(void *context, const struct flow *flow)
{
	count_each(context, flow);
	return false;
}

#endif
