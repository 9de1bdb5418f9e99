// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The load table as a hostile loadcast would write it: any bytes, with a right checksum if the first byte is odd. A
 * table that passes the check must be safe to use.
 */
#include <stdlib.h>

#include "loadcast/core/announce.h"
#include "loadcast/load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool condition)
{
	if (!condition)
		abort();
}

static void check_node(const struct load_table *table, const struct node_load *node)
{
	demand(node->id && node->state < NODE_STATES && node->flags < 1 << 8 && node->weight <= ANNOUNCE_WEIGHT_MAX);
	demand(node->sample.cpu_permille <= 1000 && node->sample.redirected <= ANNOUNCE_LOAD_MAX);
	demand(!(node->hardware[0][0] & 1) && !(node->hardware[1][0] & 1));
	demand(version_is_valid(node->version) && memchr(node->version, 0, VERSION_BYTES));
	demand(node->held_permille <= WEIGHT_HELD_MAX && node->period_ms <= ANNOUNCE_PERIOD_MAX_MS);
	demand(node->rejected < REJECTIONS && node->rejects < REJECTIONS);
	demand(node->shorter_times <= SHORTER_TIMES_MAX);
	demand(node == table->nodes ? node->agent < AGENT_WISHES : !node->agent);
	demand(node->sample.age_ms <= LOAD_COUNT_AGE_MAX_MS);
	demand(load_age_ms(table, node, table->published_ms) == node->age_ms);
	demand(load_age_ms(table, node, table->published_ms + 1) >= node->age_ms);
	demand(load_age_ms(table, node, UINT64_MAX) >= node->age_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t no_hardware[2][HARDWARE_BYTES];
	struct load_table table = { 0 };
	uint32_t i, members = 0;

	if (!size || size - 1 > sizeof(table))
		return 0;
	memcpy(&table, data + 1, size - 1);
	if ((data[0] & 1) && table.count <= LOAD_NODES_MAX)
		table.checksum = load_table_checksum(&table);
	if (load_table_check(&table, (unsigned)(size - 1)))
		return 0;
	demand(table.count >= 1 && table.count <= LOAD_NODES_MAX && load_table_bytes(table.count) == size - 1);
	for (i = 0; i < table.count; i++) {
		const struct node_load *node = &table.nodes[i];

		check_node(&table, node);
		demand(i == 0 || !(node->flags & (NODE_SERVER_DOWN | NODE_AGENT_SILENT)));
		/* Members come first, and real servers have nothing of a member. */
		if (node->flags & NODE_BACKEND)
			demand(i && node->flags == NODE_BACKEND && node->state != NODE_DRAINING && !node->age_ms &&
			       memcmp(node->hardware, no_hardware, sizeof(no_hardware)) == 0);
		else
			demand(i == members++);
	}
	demand(members <= MEMBERS_MAX && table.count - members <= OWN_BACKENDS_MAX);
	return 0;
}
