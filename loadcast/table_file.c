// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The load table as a file; load.h is its contract. The reading part runs in dprd, which has rights, on data from a
 * process that talks to the network. So it checks every field and maps nothing.
 */
#include <errno.h>
#include <stddef.h>

#include "dprd/base/smallfile.h"
#include "loadcast/core/announce.h"
#include "loadcast/load.h"

unsigned load_table_bytes(unsigned count)
{
	return (unsigned)(offsetof(struct load_table, nodes) + count * sizeof(struct node_load));
}

/* FNV-1a, 32 bits: it finds torn or foreign files, and is no protection against an attacker. */
static uint32_t fnv1a(uint32_t hash, const void *data, size_t size)
{
	const uint8_t *byte = data;

	while (size--)
		hash = (hash ^ *byte++) * 0x01000193u;
	return hash;
}

uint32_t load_table_checksum(const struct load_table *table)
{
	const size_t behind = offsetof(struct load_table, checksum) + sizeof(table->checksum);
	static const uint32_t zero;
	uint32_t hash = 0x811c9dc5u;

	hash = fnv1a(hash, table, offsetof(struct load_table, checksum));
	hash = fnv1a(hash, &zero, sizeof(zero));
	return fnv1a(hash, (const uint8_t *)table + behind, load_table_bytes(table->count) - behind);
}

static bool sample_ok(const struct load_sample *sample)
{
	return sample->open_connections <= ANNOUNCE_LOAD_MAX && sample->cpu_permille <= 1000 &&
	       sample->redirected <= ANNOUNCE_LOAD_MAX && sample->active_sockets <= ANNOUNCE_LOAD_MAX &&
	       sample->accept_queue <= ANNOUNCE_LOAD_MAX && sample->arrivals_per_1000_s <= ANNOUNCE_LOAD_MAX &&
	       sample->age_ms <= LOAD_COUNT_AGE_MAX_MS;
}

/* True when it is unicast or unknown. */
static bool hardware_ok(const struct node_load *node)
{
	return !(node->hardware[0][0] & 1) && !(node->hardware[1][0] & 1);
}

static bool node_ok(const struct node_load *node)
{
	const uint32_t known = NODE_HEARD | NODE_ECHOES | NODE_DPRD_UP | NODE_CONFLICT | NODE_CONFIG_DIFFERS |
			       NODE_TAKES_PROBES | NODE_UNPROVEN_V4 | NODE_UNPROVEN_V6 | NODE_NARROW_V4 |
			       NODE_NARROW_V6;

	return node->id && node->state < NODE_STATES && !(node->flags & ~known) &&
	       node->weight <= ANNOUNCE_WEIGHT_MAX && sample_ok(&node->sample) && hardware_ok(node) &&
	       node->held_permille <= WEIGHT_HELD_MAX && node->period_ms <= ANNOUNCE_PERIOD_MAX_MS &&
	       node->rejected < REJECTIONS && node->rejects < REJECTIONS && node->ports_down <= UINT16_MAX &&
	       node->shorter_times <= SHORTER_TIMES_MAX && !node->agent && !node->unused &&
	       version_is_valid(node->version);
}

/* A real server's row must hold nothing that would make a reader take it for a peer. */
static bool backend_ok(const struct node_load *node)
{
	const struct node_load only = {
		.id = node->id, .state = node->state, .flags = NODE_BACKEND, .weight = node->weight
	};

	return node->id && (node->state == NODE_ACTIVE || node->state == NODE_UNHEALTHY) &&
	       node->weight <= ANNOUNCE_WEIGHT_MAX && memcmp(node, &only, sizeof(only)) == 0;
}

/* Only this node has these. */
static void take_off_own(struct node_load *node)
{
	node->flags &= ~(uint32_t)(NODE_SERVER_DOWN | NODE_AGENT_SILENT);
	if (node->agent < AGENT_WISHES)
		node->agent = AGENT_WANTS_ALL;
}

/* The order is: this node, the other members, the real servers. */
static bool nodes_ok(const struct load_table *table)
{
	uint32_t i, members;

	for (i = 0; i < table->count && !(table->nodes[i].flags & NODE_BACKEND); i++) {
		struct node_load node = table->nodes[i];

		if (i == 0)
			take_off_own(&node);
		if (!node_ok(&node))
			return false;
	}
	members = i;
	for (; i < table->count; i++) {
		if (!backend_ok(&table->nodes[i]))
			return false;
	}
	return members && members <= MEMBERS_MAX && table->count - members <= OWN_BACKENDS_MAX;
}

static bool ids_differ(const struct load_table *table)
{
	uint32_t i, j;

	for (i = 0; i < table->count; i++) {
		for (j = 0; j < i; j++) {
			if (table->nodes[i].id == table->nodes[j].id)
				return false;
		}
	}
	return true;
}

int load_table_check(const struct load_table *table, unsigned size)
{
	if (size < load_table_bytes(1) || table->magic != LOAD_TABLE_MAGIC || table->version != LOAD_TABLE_VERSION ||
	    !table->count || table->count > LOAD_NODES_MAX || size != load_table_bytes(table->count) ||
	    table->checksum != load_table_checksum(table) || table->period_ms < ANNOUNCE_PERIOD_MIN_MS ||
	    table->period_ms > ANNOUNCE_PERIOD_MAX_MS || table->port_count > PORTS_MAX)
		return -EINVAL;
	return nodes_ok(table) && ids_differ(table) ? 0 : -EINVAL;
}

int load_table_publish(const char *path, struct load_table *table)
{
	table->magic = LOAD_TABLE_MAGIC;
	table->version = LOAD_TABLE_VERSION;
	table->checksum = load_table_checksum(table);
	return smallfile_replace(path, table, load_table_bytes(table->count));
}

static int snapshot(const char *path, struct load_table *ret, struct smallfile_stamp *ret_stamp)
{
	int size = smallfile_read(path, ret, sizeof(*ret), ret_stamp);

	if (size == -EFBIG)
		return -EINVAL;
	return size < 0 ? size : load_table_check(ret, (unsigned)size);
}

int load_table_snapshot(const char *path, struct load_table *ret)
{
	return snapshot(path, ret, NULL);
}

int load_table_snapshot_new(const char *path, struct smallfile_stamp *seen, struct load_table *ret)
{
	int error;

	if (smallfile_is(path, seen))
		return 1;
	error = snapshot(path, ret, seen);
	if (error)
		*seen = (struct smallfile_stamp) { 0 };
	return error;
}

uint32_t load_age_ms(const struct load_table *table, const struct node_load *node, uint64_t now_ms)
{
	uint64_t since_ms = now_ms > table->published_ms ? now_ms - table->published_ms : 0;

	if (node->age_ms == LOAD_AGE_NEVER_MS || since_ms >= LOAD_AGE_NEVER_MS - node->age_ms)
		return LOAD_AGE_NEVER_MS;
	return (uint32_t)(node->age_ms + since_ms);
}
