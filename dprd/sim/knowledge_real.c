// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * knowledge_real.c - N tables of loadcast in one process: each announcement is a signed datagram, and each table
 * decides itself whether to take it.
 */
#include "dprd/sim/knowledge_real.h"

#include <stdio.h>
#include <stdlib.h>

#include "loadcast/core/table.h"

enum {
	/* The tables' clock at time 0, so that announcements heard before have a time, too. */
	CLOCK_START_MS = 1000000,
	ROUNDS_BEFORE = 3, /* rounds of announcements after which all nodes are proven alive */
	EPOCH_FIRST = 1,
};

struct datagram {
	unsigned node;
	size_t bytes;
	uint8_t byte[ANNOUNCE_BYTES_MAX];
};

struct real_tables {
	const struct sim_setup *setup;
	struct config *config; /* one for each node: they differ in self */
	struct table *table;
	uint64_t *epoch;
	struct announce_keys keys;
	struct ring flights; /* of struct datagram */
	struct load_table filled;
};

static uint64_t clock_ms(double at_s)
{
	return CLOCK_START_MS + knowledge_ms(at_s);
}

static void make_config(const struct sim_setup *setup, unsigned self, struct config *ret)
{
	*ret = (struct config) {
		.cluster_name = "simulated",
		.self = self,
		.port_count = 1,
		.port = { 80 },
		.period_ms = (unsigned)knowledge_ms(setup->period_s + 0.0005),
		.dead_periods = setup->dead_periods,
		.member_count = setup->nodes,
	};
	for (unsigned i = 0; i < setup->nodes; i++) {
		struct member *m = &ret->member[i];

		snprintf(m->name, sizeof(m->name), "n%u", i + 1);
		m->id = member_id(m->name);
		m->weight = (unsigned)setup->weight[i];
		m->service_count = 1;
		m->service[0] = addr_from_v4(htonl(0xc0000200 + i)); /* 192.0.2.0/24 */
		m->cluster_v4 = addr_from_v4(htonl(0x0a000000 + i));
	}
	snprintf(ret->node_name, sizeof(ret->node_name), "n%u", self + 1);
}

static void say(struct real_tables *real, unsigned node, uint32_t open, uint32_t arrivals_per_1000_s, double now_s,
		struct datagram *ret)
{
	struct table *table = &real->table[node];

	table->own = (struct table_own) {
		.state = NODE_ACTIVE,
		.dprd_up = true,
		.sample = { .open_connections = open, .arrivals_per_1000_s = arrivals_per_1000_s },
		.sampled_ms = clock_ms(now_s),
	};
	ret->node = node;
	ret->bytes = table_announce(table, &real->keys, clock_ms(now_s), ret->byte);
}

static void hear(struct real_tables *real, const struct datagram *datagram, unsigned to, double at_s)
{
	table_receive(&real->table[to], &real->keys, &real->config[to].member[datagram->node].cluster_v4,
		      datagram->byte, datagram->bytes, clock_ms(at_s));
}

struct real_tables *real_tables_new(const struct sim_setup *setup, uint32_t first_arrivals_per_1000_s[])
{
	struct real_tables *real = calloc(1, sizeof(*real));
	const uint8_t key[32] = { 1 };
	struct datagram datagram;

	if (!real)
		return NULL;
	real->setup = setup;
	real->flights.element_bytes = sizeof(struct datagram);
	real->config = calloc(setup->nodes, sizeof(*real->config));
	real->table = calloc(setup->nodes, sizeof(*real->table));
	real->epoch = calloc(setup->nodes, sizeof(*real->epoch));
	if (!real->config || !real->table || !real->epoch) {
		real_tables_free(real);
		return NULL;
	}
	announce_add_key(&real->keys, "simulated", key);
	for (unsigned i = 0; i < setup->nodes; i++) {
		make_config(setup, i, &real->config[i]);
		real->epoch[i] = EPOCH_FIRST;
		table_init(&real->table[i], &real->config[i], false, real->epoch[i]);
	}
	for (unsigned i = 0; i < ROUNDS_BEFORE * setup->nodes; i++) {
		unsigned from = i % setup->nodes;

		say(real, from, 0, first_arrivals_per_1000_s[from], 0, &datagram);
		for (unsigned to = 0; to < setup->nodes; to++)
			if (to != from)
				hear(real, &datagram, to, 0);
	}
	return real;
}

void real_tables_free(struct real_tables *real)
{
	if (!real)
		return;
	ring_free(&real->flights);
	free(real->config);
	free(real->table);
	free(real->epoch);
	free(real);
}

bool real_tables_announce(struct real_tables *real, unsigned node, uint32_t open, uint32_t arrivals_per_1000_s,
			  double now_s)
{
	struct datagram *datagram = ring_push(&real->flights);

	if (datagram)
		say(real, node, open, arrivals_per_1000_s, now_s, datagram);
	return datagram;
}

void real_tables_hear(struct real_tables *real, unsigned node, double heard_at_s)
{
	hear(real, ring_first(&real->flights), node, heard_at_s);
}

void real_tables_arrived(struct real_tables *real)
{
	ring_pop(&real->flights);
}

void real_tables_revive(struct real_tables *real, unsigned node)
{
	table_init(&real->table[node], &real->config[node], false, ++real->epoch[node]);
}

/* Does as view_member_eligible(), for those conditions that can fail in a simulation. */
static bool is_eligible(const struct config *config, unsigned member, const struct node_load *load, uint32_t age_ms)
{
	unsigned wanted = NODE_HEARD | NODE_ECHOES | NODE_DPRD_UP;

	return load->age_ms != LOAD_AGE_NEVER_MS && (load->flags & (wanted | NODE_CONFLICT)) == wanted &&
	       age_ms <= config->dead_periods * config->period_ms && load->state == NODE_ACTIVE && load->weight &&
	       config->member[member].weight;
}

bool real_tables_view(struct real_tables *real, unsigned self, double now_s, struct view_node *nodes,
		      uint32_t *ret_sequence)
{
	const struct config *config = &real->config[self];
	unsigned in_sight = 1;
	uint64_t now_ms = clock_ms(now_s);

	table_fill(&real->table[self], now_ms, &real->filled);
	for (unsigned i = 1; i < real->filled.count; i++) {
		const struct node_load *load = &real->filled.nodes[i];
		unsigned member = i <= self ? i - 1 : i;
		uint32_t age_ms = load_age_ms(&real->filled, load, now_ms);

		nodes[i] = (struct view_node) {
			.member = (uint16_t)member,
			.node_id = load->id,
			.eligible = is_eligible(config, member, load, age_ms),
			.age_ms = age_ms,
			.load = load->sample.open_connections,
			.weight = config->member[member].weight,
			.arrivals_per_s = load->sample.arrivals_per_1000_s / 1000.0,
		};
		/* Sequences start anew with an epoch: this makes one number of both. */
		ret_sequence[i] = (uint32_t)(load->sequence + (load->epoch << 24));
		in_sight += (load->flags & NODE_HEARD) && age_ms <= config->dead_periods * config->period_ms;
	}
	return 2 * in_sight < config->member_count;
}
