// SPDX-License-Identifier: GPL-2.0-or-later
/* knowledge.c - announcements on their way, tables of simulated nodes, views. */
#include "dprd/sim/knowledge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dprd/sim/knowledge_real.h"
#include "loadcast/load.h"

enum { STREAM_LOSSES = 100, EPOCH_FIRST = 1 };

static struct heard *row_of(const struct knowledge *k, unsigned node)
{
	return k->heard + (k->kind == SIM_TABLES_OWN ? (size_t)node * k->nodes : 0);
}

static struct sent_to *sent_by(const struct knowledge *k, unsigned node)
{
	return k->sent + (size_t)node * k->nodes;
}

static uint32_t true_rate(const struct sim_setup *setup, unsigned node)
{
	return (uint32_t)(1000 * setup->share[node] * sim_arrivals_per_s(setup));
}

static enum sim_tables kind_of(const struct sim_setup *setup)
{
	if (setup->tables != SIM_TABLES_AUTO)
		return setup->tables;
	return setup->loss > 0 || setup->failure_count ? SIM_TABLES_OWN : SIM_TABLES_SHARED;
}

static bool start_real(struct knowledge *k)
{
	uint32_t rates[SIM_NODES_MAX];

	for (unsigned i = 0; i < k->nodes; i++)
		rates[i] = true_rate(k->setup, i);
	k->real = real_tables_new(k->setup, rates);
	return k->real;
}

static void start_rows(struct knowledge *k, size_t rows)
{
	for (size_t i = 0; i < rows * k->nodes; i++)
		k->heard[i] = (struct heard) {
			.arrivals_per_1000_s = true_rate(k->setup, (unsigned)(i % k->nodes)),
			.epoch = EPOCH_FIRST,
			.known = true,
			.echoed = true,
		};
}

bool knowledge_init(struct knowledge *k, const struct sim_setup *setup)
{
	size_t nodes = setup->nodes, rows = kind_of(setup) == SIM_TABLES_OWN ? nodes : 1;

	*k = (struct knowledge) {
		.setup = setup,
		.kind = kind_of(setup),
		.nodes = setup->nodes,
		.dead_s = setup->dead_periods * setup->period_s,
		.node_id = calloc(nodes, sizeof(*k->node_id)),
		.sequence = calloc(nodes, sizeof(*k->sequence)),
		.epoch = calloc(nodes, sizeof(*k->epoch)),
		.alive = calloc(nodes, sizeof(*k->alive)),
		.heard = calloc(rows * nodes, sizeof(*k->heard)),
		.sent = calloc(nodes * nodes, sizeof(*k->sent)),
		.flights = { .element_bytes = sizeof(struct flight) },
	};
	if (!k->node_id || !k->sequence || !k->epoch || !k->alive || !k->heard || !k->sent ||
	    (k->kind == SIM_TABLES_REAL && !start_real(k))) {
		knowledge_free(k);
		return false;
	}
	random_start(&k->losses, setup->seed, STREAM_LOSSES);
	start_rows(k, rows);
	for (unsigned i = 0; i < k->nodes; i++) {
		char name[NAME_BYTES];

		snprintf(name, sizeof(name), "n%u", i + 1);
		k->node_id[i] = member_id(name);
		k->epoch[i] = EPOCH_FIRST;
		k->alive[i] = true;
	}
	return true;
}

void knowledge_free(struct knowledge *k)
{
	real_tables_free(k->real);
	ring_free(&k->flights);
	free(k->node_id);
	free(k->sequence);
	free(k->epoch);
	free(k->alive);
	free(k->heard);
	free(k->sent);
	*k = (struct knowledge) { 0 };
}

/* Returns the tick at which a node first sees an announcement that came at this time. */
static double seen_at_s(const struct sim_setup *setup, double at_s)
{
	return setup->tick_s > 0 ? ceil(at_s / setup->tick_s) * setup->tick_s : at_s;
}

bool knowledge_announce(struct knowledge *k, unsigned node, uint32_t open, uint32_t arrivals_per_1000_s, double now_s)
{
	struct flight *flight = ring_push(&k->flights);
	double heard_at_s = now_s + k->setup->delay_s;

	if (!flight)
		return false;
	*flight = (struct flight) {
		.arrives_at_s = seen_at_s(k->setup, heard_at_s),
		.heard_at_s = heard_at_s,
		.sent_at_s = now_s,
		.node = node,
		.load = open,
		.arrivals_per_1000_s = arrivals_per_1000_s,
		.sequence = ++k->sequence[node],
		.epoch = k->epoch[node],
	};
	k->announcements++;
	return k->kind != SIM_TABLES_REAL || real_tables_announce(k->real, node, open, arrivals_per_1000_s, now_s);
}

double knowledge_next_s(const struct knowledge *k)
{
	const struct flight *flight = ring_first(&k->flights);

	return flight ? flight->arrives_at_s : INFINITY;
}

/* The echo in an announcement for one node, as find_proof() of table.c reads it. */
struct proof {
	bool echoed, recent;
	double sent_at_s;
	uint32_t sequence;
};

static struct proof find_proof(const struct knowledge *k, const struct flight *flight, unsigned to)
{
	const struct heard *of_us = row_of(k, flight->node) + to;
	struct proof proof = { 0 };

	/* A node that was silent for long is not echoed, nor is a former life of a node. */
	if (flight->epoch != k->epoch[flight->node] || !of_us->known || of_us->epoch != k->epoch[to] ||
	    flight->sent_at_s - of_us->heard_at_s > k->dead_s)
		return proof;
	proof.echoed = true;
	proof.sent_at_s = of_us->sent_at_s;
	proof.sequence = of_us->sequence;
	proof.recent = flight->heard_at_s - of_us->sent_at_s <= k->dead_s;
	return proof;
}

/*
 * table.c's judge_epoch(): a node that comes back must prove that it is alive while its former life still counts as
 * alive.
 */
static bool takes_epoch(const struct knowledge *k, struct heard *m, const struct flight *flight, unsigned to,
			const struct proof *proof)
{
	bool proven = proof->recent && proof->sequence > m->switched_sequence;
	bool silent = flight->heard_at_s - m->heard_at_s > k->dead_s;

	if (m->known && !proven && !(silent && flight->epoch > m->epoch))
		return false;
	*m = (struct heard) { .switched_sequence = k->sequence[to] };
	return true;
}

static void hear(struct knowledge *k, const struct flight *flight, unsigned to)
{
	struct heard *m = row_of(k, to) + flight->node;
	struct proof proof = find_proof(k, flight, to);

	if ((!m->known || m->epoch != flight->epoch) && !takes_epoch(k, m, flight, to, &proof))
		return;
	if (proof.echoed) {
		m->echoed = true;
		m->echo_sent_at_s = proof.sent_at_s;
	}
	m->known = true;
	m->epoch = flight->epoch;
	m->sequence = flight->sequence;
	m->heard_at_s = flight->heard_at_s;
	m->sent_at_s = flight->sent_at_s;
	m->load = flight->load;
	m->arrivals_per_1000_s = flight->arrivals_per_1000_s;
}

void knowledge_deliver(struct knowledge *k)
{
	const struct flight *flight = ring_first(&k->flights);
	bool lossy = k->setup->loss > 0;

	if (k->kind == SIM_TABLES_SHARED) {
		struct heard *m = &k->heard[flight->node];

		m->sequence = flight->sequence;
		m->heard_at_s = flight->heard_at_s;
		m->load = flight->load;
		m->arrivals_per_1000_s = flight->arrivals_per_1000_s;
		ring_pop(&k->flights);
		return;
	}
	for (unsigned to = 0; to < k->nodes; to++) {
		if (to == flight->node || (lossy && random_uniform(&k->losses) < k->setup->loss) || !k->alive[to])
			continue;
		if (k->kind == SIM_TABLES_REAL)
			real_tables_hear(k->real, to, flight->heard_at_s);
		else
			hear(k, flight, to);
	}
	if (k->kind == SIM_TABLES_REAL)
		real_tables_arrived(k->real);
	ring_pop(&k->flights);
}

void knowledge_kill(struct knowledge *k, unsigned node)
{
	k->alive[node] = false;
}

void knowledge_revive(struct knowledge *k, unsigned node)
{
	k->alive[node] = true;
	k->epoch[node]++;
	if (k->kind == SIM_TABLES_OWN)
		memset(row_of(k, node), 0, k->nodes * sizeof(struct heard));
	if (k->kind == SIM_TABLES_REAL)
		real_tables_revive(k->real, node);
}

void knowledge_forget_sent(struct knowledge *k, unsigned node)
{
	memset(sent_by(k, node), 0, k->nodes * sizeof(struct sent_to));
}
