// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * knowledge_view.c - makes the view of the policies from the announcements that a node heard and the connections it
 * sent.
 */
#include <math.h>

#include "dprd/sim/knowledge_real.h"
#include "loadcast/load.h"

/* The time at which the node last read its table. */
static double looked_at_s(const struct sim_setup *setup, double now_s)
{
	return setup->tick_s > 0 ? floor(now_s / setup->tick_s) * setup->tick_s : now_s;
}

static uint32_t age_ms(double since_s, uint64_t now_ms)
{
	uint64_t since_ms = knowledge_ms(since_s);

	return now_ms > since_ms ? (uint32_t)(now_ms - since_ms) : 0;
}

static bool is_eligible(const struct heard *m, uint64_t now_ms, double dead_ms)
{
	return m->known && m->echoed && age_ms(m->heard_at_s, now_ms) <= dead_ms &&
	       age_ms(m->echo_sent_at_s, now_ms) <= dead_ms;
}

/*
 * As in dprd/cluster/view.c: a new announcement keeps the count of connections that were sent after it was heard; those
 * that were sent before become one half of the rate before.
 */
static void count_from(struct sent_to *sent, uint32_t sequence, uint64_t heard_ms)
{
	double took_s = heard_ms > sent->heard_ms ? (double)(heard_ms - sent->heard_ms) / 1000 : 0;
	unsigned kept;

	if (sent->sequence == sequence)
		return;
	kept = sent_since(&sent->lately, heard_ms);
	if (took_s > 0)
		sent->before_per_s = (sent->before_per_s + (sent->count > kept ? sent->count - kept : 0) / took_s) / 2;
	sent->sequence = sequence;
	sent->count = kept;
	sent->heard_ms = heard_ms;
}

/* All nodes are alive, and all are heard. */
static void view_shared(const struct knowledge *k, unsigned self, uint64_t now_ms, struct view_node *nodes)
{
	struct sent_to *sent = k->sent + (size_t)self * k->nodes;
	struct view_node *node = nodes;

	for (unsigned i = 0; i < k->nodes; i++) {
		const struct heard *m = &k->heard[i];

		if (i == self)
			continue;
		count_from(&sent[i], m->sequence, knowledge_ms(m->heard_at_s));
		*++node = (struct view_node) {
			.member = (uint16_t)i,
			.node_id = k->node_id[i],
			.eligible = k->setup->weight[i] > 0,
			.age_ms = age_ms(m->heard_at_s, now_ms),
			.sent = sent[i].count,
			.sent_before_per_s = sent[i].before_per_s,
			.load = m->load,
			.weight = k->setup->weight[i],
			.arrivals_per_s = m->arrivals_per_1000_s / 1000.0,
		};
	}
}

static bool view_own(const struct knowledge *k, unsigned self, uint64_t now_ms, struct view_node *nodes)
{
	const struct heard *row = k->heard + (k->kind == SIM_TABLES_OWN ? (size_t)self * k->nodes : 0);
	unsigned in_sight = 1;

	for (unsigned i = 0, at = 0; i < k->nodes; i++) {
		const struct heard *m = &row[i];
		struct view_node *node = &nodes[at + 1];

		if (i == self)
			continue;
		at++;
		*node = (struct view_node) {
			.member = (uint16_t)i,
			.node_id = k->node_id[i],
			.eligible = k->setup->weight[i] > 0 && is_eligible(m, now_ms, ceil(1000 * k->dead_s)),
			.age_ms = m->known ? age_ms(m->heard_at_s, now_ms) : LOAD_AGE_NEVER_MS,
			.load = m->load,
			.weight = k->setup->weight[i],
			.arrivals_per_s = m->arrivals_per_1000_s / 1000.0,
		};
		in_sight += m->known && node->age_ms <= ceil(1000 * k->dead_s);
	}
	return 2 * in_sight < k->nodes;
}

bool knowledge_view(struct knowledge *k, unsigned self, double now_s, struct view_node *nodes)
{
	struct sent_to *sent = k->sent + (size_t)self * k->nodes;
	uint64_t now_ms = knowledge_ms(looked_at_s(k->setup, now_s));
	uint32_t sequence[SIM_NODES_MAX];
	bool minority;

	if (k->kind == SIM_TABLES_SHARED) {
		view_shared(k, self, now_ms, nodes);
		return false;
	}
	if (k->kind == SIM_TABLES_OWN)
		minority = view_own(k, self, now_ms, nodes);
	else
		minority = real_tables_view(k->real, self, looked_at_s(k->setup, now_s), nodes, sequence);
	for (unsigned i = 1; i < k->nodes; i++) {
		unsigned peer = nodes[i].member;
		uint32_t newest =
			k->kind == SIM_TABLES_OWN ? k->heard[(size_t)self * k->nodes + peer].sequence : sequence[i];

		/* Cleared once, here: connections counted from now on belong to the newest announcement. */
		count_from(&sent[peer], newest, now_ms - nodes[i].age_ms);
		nodes[i].sent = sent[peer].count;
		nodes[i].sent_before_per_s = sent[peer].before_per_s;
	}
	return minority;
}

void knowledge_add_others(struct knowledge *k, unsigned self, double now_s, struct view_node *nodes,
			  struct suspicion_facts *facts)
{
	uint64_t now_ms = knowledge_ms(looked_at_s(k->setup, now_s));
	uint32_t sequence[SIM_NODES_MAX];

	if (k->kind == SIM_TABLES_REAL)
		real_tables_view(k->real, self, looked_at_s(k->setup, now_s), nodes, sequence);
	else
		view_own(k, self, now_ms, nodes);
	for (unsigned i = 1; i < k->nodes; i++) {
		if (nodes[i].age_ms > ceil(1000 * k->dead_s))
			continue;
		facts->others_open += nodes[i].load;
		facts->arrivals_per_s += nodes[i].arrivals_per_s;
	}
}

void knowledge_count_sent(struct knowledge *k, unsigned self, unsigned peer, double now_s)
{
	struct sent_to *sent = k->sent + (size_t)self * k->nodes + peer;
	const struct heard *row = k->heard + (k->kind == SIM_TABLES_OWN ? (size_t)self * k->nodes : 0);

	/* With real tables making the view has done that. */
	if (k->kind != SIM_TABLES_REAL)
		count_from(sent, row[peer].sequence, knowledge_ms(row[peer].heard_at_s));
	sent->count++;
	sent_count(&sent->lately, knowledge_ms(now_s), 1);
}
