/* SPDX-License-Identifier: GPL-2.0-or-later */
/* flow_keys.h - a small flow table and its keys, for all tests of the flow table. */
#ifndef TESTS_UNIT_FLOW_KEYS_H
#define TESTS_UNIT_FLOW_KEYS_H

#include <stdlib.h>

#include "dprd/core/flow/memory.h"

enum { MODEL_KEYS = 64, MODEL_NODES = 3 };

/* Small pools, so that they fill up. */
static const struct flow_limits model_limits = {
	.max_confirmed = 9,
	.max_half_open = 5,
	.syn_timeout_ms = 30000,
	.idle_timeout_ms = 200000,
	.fin_timeout_ms = 100000,
	.rst_timeout_ms = 10000,
	.hash_key = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 },
};

static inline struct flow_key model_key(unsigned i)
{
	struct flow_key key = { .client_port = (be16)htons((uint16_t)(40000 + i / 8)),
				.service_port = (be16)htons(80 + i / 4 % 2) };

	/* Both families, and keys that differ in one field only. */
	key.client = addr_from_v4(htonl(0xc0000200 + i % 2));
	key.service = addr_from_v4(htonl(0xc6336401));
	if (i % 4 >= 2) {
		/* A second slot that could be taken for a free one, or for a first one. */
		key.client = (struct addr) { .bytes = { [0] = i % 8 == 2 ? 0xfe : 0, [15] = 1 + i % 2 } };
		key.service.bytes[0] = 0x20;
	}
	return key;
}

/* Returns -1 for other keys. */
static inline int model_index(const struct flow_key *key)
{
	bool v6 = !addr_is_v4(&key->client);
	unsigned low = (key->client.bytes[15] ^ v6) % 2, port = ntohs(key->service_port) - 80u;
	unsigned i = (ntohs(key->client_port) - 40000u) * 8 + port * 4 + v6 * 2 + low;
	struct flow_key other;

	if (i >= MODEL_KEYS)
		return -1;
	other = model_key(i);
	return memcmp(key, &other, sizeof(other)) == 0 ? (int)i : -1;
}

static inline size_t model_bytes(const struct flow_table *table)
{
	size_t buckets = flow_table_buckets(table);

	return (FLOW_HEADER_BUCKETS + buckets + 1 + buckets / 512 + 1) * sizeof(struct flow_bucket);
}

#endif
