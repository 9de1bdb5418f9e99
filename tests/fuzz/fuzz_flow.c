// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The flow table: the first byte chooses between a script of operations that a plain array checks,
 * and a table of a former process, damaged as the input says, to be adopted.
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
	unsigned half_open, confirmed;
};

static bool count_sound(void *context, const struct flow *flow)
{
	struct census *census = context;

	MODEL_CHECK(flow_find(census->table, &flow->key) == flow);
	MODEL_CHECK(flow->node_id != 0);
	MODEL_CHECK(flow->state > FLOW_FREE && flow->state <= FLOW_RESET);
	if (flow->state == FLOW_HALF_OPEN)
		census->half_open++;
	else
		census->confirmed++;
	return true;
}

static void nothing(void *context, const struct flow *flow)
{
	(void)context;
	(void)flow;
}

static struct flow_table *new_table(void)
{
	void *memory = malloc(flow_table_bytes(&model_limits));

	MODEL_CHECK(memory != NULL);
	return flow_table_init(memory, &model_limits);
}

static void fill(struct flow_table *table, unsigned keys, uint64_t now_ms)
{
	struct flow evicted;
	unsigned i;

	for (i = 0; i < keys; i++) {
		struct flow_key key = model_key(i);

		flow_touch(table, flow_add(table, &key, 1 + i, i, now_ms, &evicted), i % 2 ? TCP_SYN : TCP_ACK, now_ms);
	}
}

/* Input: an offset of two bytes and a value, again and again. */
static void adopt_damaged(const uint8_t *data, size_t size)
{
	struct flow_table *old = new_table(), *table = new_table();
	size_t bytes = flow_table_bytes(&model_limits), at;
	struct census census = { .table = table };
	int result;

	fill(old, 12, 1000);
	for (at = 0; at + 3 <= size; at += 3)
		((uint8_t *)old)[(size_t)(data[at] << 8 | data[at + 1]) % bytes] = data[at + 2];
	result = flow_table_adopt(table, old, bytes);
	flow_each(table, count_sound, &census);
	MODEL_CHECK(census.half_open == flow_counts(table).half_open);
	MODEL_CHECK(census.confirmed == flow_counts(table).confirmed);
	MODEL_CHECK(result < 0 ? result == -EINVAL : result == (int)(census.half_open + census.confirmed));
	MODEL_CHECK(result >= 0 || census.half_open + census.confirmed == 0);
	fill(table, MODEL_KEYS, 9000);
	flow_expire(table, 1000, UINT64_MAX, nothing, NULL);
	MODEL_CHECK(flow_counts(table).half_open == 0 && flow_counts(table).confirmed == 0);
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
