// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The flow table: the first byte chooses between a script of operations that a plain array checks,
 * and a table of a former process, damaged as the input says, to be adopted and to be opened.
 */
#include <errno.h>
#include <stdio.h>

#define MODEL_CHECK(condition)                                                          \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)
#include "tests/unit/flow_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct census {
	struct flow_table *table;
	unsigned flows;
	bool found; /* each flow must be found by its key */
};

static bool count_sound(void *context, const struct flow *flow)
{
	struct census *census = context;
	struct flow found;

	MODEL_CHECK(flow->node_id != 0);
	MODEL_CHECK(flow->state > FLOW_FREE && flow->state <= FLOW_RESET);
	if (census->found)
		MODEL_CHECK(flow_find(census->table, &flow->key, &found) && found.slot == flow->slot);
	census->flows++;
	return true;
}

static void nothing(void *context, const struct flow *flow)
{
	(void)context;
	(void)flow;
}

static struct flow_table *new_table(void)
{
	void *memory = aligned_alloc(sizeof(struct flow_bucket), flow_table_bytes(&model_limits));

	MODEL_CHECK(memory != NULL);
	return flow_table_init(memory, &model_limits);
}

static void fill(struct flow_table *table, unsigned keys, uint64_t now_ms)
{
	struct flow flow;
	unsigned i;

	for (i = 0; i < keys; i++) {
		struct flow_key key = model_key(i);

		flow_add(table, &key, 1 + i, i, now_ms, &flow);
		if (flow_find(table, &key, &flow))
			flow_touch(table, &flow, i % 2 ? TCP_SYN : TCP_ACK, now_ms);
	}
}

/* Whatever was in its slots, the table can be used and emptied, and then nothing is left. */
static void use_up(struct flow_table *table)
{
	struct census census = { .table = table };
	unsigned i;

	flow_each(table, count_sound, &census);
	fill(table, MODEL_KEYS, 9000);
	flow_remove_node(table, 3, nothing, NULL);
	for (i = 0; i < 8; i++)
		flow_expire(table, flow_slots(table), 1000000ull * (i + 1), nothing, NULL);
	for (i = 0; i < flow_slots(table); i++)
		MODEL_CHECK(flow_slot_is_free(flow_slot_at(table, i)));
	for (i = 0; i <= flow_table_buckets(table); i++)
		MODEL_CHECK(!flow_bucket_overflows(flow_bucket_at(table, i)));
	MODEL_CHECK(flow_counts(table).half_open == 0 && flow_counts(table).confirmed == 0);
}

/* Input: an offset of two bytes and a value, again and again. */
static void adopt_damaged(const uint8_t *data, size_t size)
{
	struct flow_table *old = new_table(), *table = new_table();
	struct census census = { .table = table, .found = true };
	struct flow_limits limits = model_limits;
	size_t bytes = model_bytes(old), at;
	struct flow_counts counts;
	int result;

	fill(old, 12, 1000);
	for (at = 0; at + 3 <= size; at += 3)
		((uint8_t *)old)[(size_t)(data[at] << 8 | data[at + 1]) % bytes] = data[at + 2];
	result = flow_table_adopt(table, old, bytes);
	flow_each(table, count_sound, &census);
	counts = flow_counts(table);
	MODEL_CHECK(census.flows == counts.half_open + counts.confirmed);
	MODEL_CHECK(result < 0 ? result == -EINVAL && census.flows == 0 : result == (int)census.flows);
	use_up(table);
	if (flow_table_open(old, bytes, &limits))
		use_up(old);
	free(old);
	free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > 1024)
		return 0;
	if (data[0] & 1)
		adopt_damaged(data + 1, size - 1);
	else
		model_run(data + 1, size - 1);
	return 0;
}
