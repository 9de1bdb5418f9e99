// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The load table as a hostile loadcast would write it: any bytes, with a right checksum if the first
 * byte is odd. What passes the check must be safe to use.
 */
#include <stdlib.h>

#include "loadcast/announce.h"
#include "loadcast/load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool condition)
{
	if (!condition)
		abort();
}

static void check_node(const struct load_table *table, const struct node_load *node)
{
	demand(node->id && node->state < NODE_STATES && node->flags < 1 << 5 && node->weight <= ANNOUNCE_WEIGHT_MAX);
	demand(node->sample.cpu_permille <= 1000 && node->sample.redirected <= ANNOUNCE_LOAD_MAX);
	demand(load_age_ms(table, node, table->published_ms) == node->age_ms);
	demand(load_age_ms(table, node, table->published_ms + 1) >= node->age_ms);
	demand(load_age_ms(table, node, UINT64_MAX) >= node->age_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct load_table table = { 0 };
	uint32_t i;

	if (!size || size - 1 > sizeof(table))
		return 0;
	memcpy(&table, data + 1, size - 1);
	if ((data[0] & 1) && table.count <= MEMBERS_MAX)
		table.checksum = load_table_checksum(&table);
	if (load_table_check(&table, (unsigned)(size - 1)))
		return 0;
	demand(table.count >= 1 && table.count <= MEMBERS_MAX && load_table_bytes(table.count) == size - 1);
	for (i = 0; i < table.count; i++)
		check_node(&table, &table.nodes[i]);
	return 0;
}
