/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nodes.h - three nodes that talk through their tables, without a network:
 *
 *   n1 (10.0.0.1)  n2 (10.0.0.2)  n3 (10.0.0.3), period 200 ms, dead after 5 periods
 */
#ifndef TESTS_UNIT_NODES_H
#define TESTS_UNIT_NODES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "loadcast/core/table.h"

enum { N1, N2, N3, NODES, PERIOD_MS = 200, DEAD_MS = 1000, EPOCH = 1000 };

struct node {
	struct config config;
	struct table table;
	struct announce_keys keys;
	uint8_t datagram[ANNOUNCE_BYTES_MAX]; /* the newest that it made */
	size_t size;
};

static struct node nodes[NODES];
static uint64_t now_ms;

static const char config_text[] = "[Cluster]\nName=lab\nKeyFile=/k\n[Service]\nPort=80\n[Announce]\nPeriod=200ms\n"
				  "[Member \"n1\"]\nService=192.0.2.1\nCluster=10.0.0.1\nWeight=1\n"
				  "[Member \"n2\"]\nService=192.0.2.2\nCluster=10.0.0.2\nWeight=2\n"
				  "[Member \"n3\"]\nService=192.0.2.3\nCluster=10.0.0.3\nCluster=fd00::3\nWeight=3\n";

static const uint8_t key[32] = "the key of the cluster, 32 bytes";

static inline void make_config(const char *text, const char *name, struct config *ret)
{
	static struct config_errors errors;

	memset(&errors, 0, sizeof(errors));
	if (config_parse("test", text, strlen(text), name, ret, &errors) != 0)
		fail_msg("%s", errors.text[0]);
}

static inline void start(unsigned node, uint64_t epoch)
{
	table_init(&nodes[node].table, &nodes[node].config, false, epoch);
}

static inline int setup(void **state)
{
	static const char *const names[NODES] = { "n1", "n2", "n3" };
	unsigned i;

	(void)state;
	now_ms = 1000000;
	memset(nodes, 0, sizeof(nodes));
	for (i = 0; i < NODES; i++) {
		make_config(config_text, names[i], &nodes[i].config);
		announce_add_key(&nodes[i].keys, "lab", key);
		start(i, EPOCH + i);
		nodes[i].table.own.dprd_up = true;
	}
	return 0;
}

static inline void say(unsigned from)
{
	struct node *n = &nodes[from];

	n->size = table_announce(&n->table, &n->keys, now_ms, n->datagram);
	assert_int_not_equal(n->size, 0);
}

static inline enum reject hear_bytes(unsigned at, unsigned from, const uint8_t *datagram, size_t size)
{
	return table_receive(&nodes[at].table, &nodes[at].keys, &nodes[at].config.member[from].cluster_v4, datagram,
			     size, now_ms);
}

static inline enum reject hear(unsigned at, unsigned from)
{
	return hear_bytes(at, from, nodes[from].datagram, nodes[from].size);
}

/* Plays a period in which the given links work, as bits from * NODES + at. */
static inline void period(unsigned links)
{
	unsigned from, at;

	now_ms += PERIOD_MS;
	for (from = 0; from < NODES; from++) {
		say(from);
		for (at = 0; at < NODES; at++) {
			if (at != from && links >> (from * NODES + at) & 1)
				assert_int_equal(hear(at, from), REJECT_NONE);
		}
	}
}

enum { ALL_LINKS = 0x1ff };

static inline unsigned link_of(unsigned from, unsigned at)
{
	return 1u << (from * NODES + at);
}

static inline struct node_load row(unsigned at, unsigned of)
{
	struct load_table t;
	uint32_t i;

	table_fill(&nodes[at].table, now_ms, &t);
	for (i = 0; i < t.count; i++) {
		if (t.nodes[i].id == nodes[of].table.self_id)
			return t.nodes[i];
	}
	fail_msg("node %u is not in the table of %u", of, at);
	return (struct node_load) { 0 };
}

static inline bool has(unsigned at, unsigned of, uint32_t flags)
{
	return (row(at, of).flags & flags) == flags;
}

#endif
