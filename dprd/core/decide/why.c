// SPDX-License-Identifier: GPL-2.0-or-later
/* why.c - remembers decisions, with the facts by which they were made. */
#include "dprd/core/decide/why.h"

#include <stddef.h>

/* Keeps the load per unit of weight, with our own increments, as decide() compared it. */
static struct why_peer peer_of(const struct view_node *node)
{
	return (struct why_peer) {
		.node_id = node->node_id,
		.age_ms = node->age_ms,
		.sent = node->sent + node->reserved,
		.load = (float)policy_load(node),
		.eligible = node->eligible,
	};
}

/* Order of interest: the chosen one, then those that could have been chosen, then by load. */
static bool goes_before(const struct why_peer *a, const struct why_peer *b, uint32_t chosen_id)
{
	if ((a->node_id == chosen_id) != (b->node_id == chosen_id))
		return a->node_id == chosen_id;
	if (a->eligible != b->eligible)
		return a->eligible;
	return a->load < b->load;
}

/* Inserts in order; the last one, which is the least interesting, is dropped when there is no room. */
static void keep_peer(struct why_record *record, struct why_peer peer, uint32_t chosen_id)
{
	unsigned i = record->peer_count < WHY_PEERS ? record->peer_count++ : WHY_PEERS;

	while (i > 0 && goes_before(&peer, &record->peers[i - 1], chosen_id)) {
		if (i < WHY_PEERS)
			record->peers[i] = record->peers[i - 1];
		i--;
	}
	if (i < WHY_PEERS)
		record->peers[i] = peer;
}

void why_note(struct why_record *ret, uint64_t now_ms, const struct packet *packet, const struct verdict *verdict,
	      const struct decide_env *env, double max_load)
{
	uint32_t chosen_id = verdict->kind == VERDICT_FORWARD ? verdict->node_id : 0;

	*ret = (struct why_record) {
		.at_ms = now_ms ? now_ms : 1,
		.key = packet->key,
		.syn_sequence = packet->tcp_sequence,
		.verdict = *verdict,
		.policy = env->policy,
		.own_load = (float)policy_load(&env->view->nodes[0]),
		.max_load = (float)max_load,
		.min_advantage = (float)env->min_advantage,
	};
	for (unsigned i = 1; i < policy_count(env->view); i++)
		keep_peer(ret, peer_of(&env->view->nodes[i]), chosen_id);
}

void why_keep(struct why_ring *ring, const struct why_record *record)
{
	ring->records[ring->next % WHY_RECORDS] = *record;
	ring->next = (ring->next + 1) % WHY_RECORDS;
}

void why_remember(struct why_ring *ring, uint64_t now_ms, const struct packet *packet, const struct verdict *verdict,
		  const struct decide_env *env, double max_load)
{
	struct why_record record;

	why_note(&record, now_ms, packet, verdict, env, max_load);
	why_keep(ring, &record);
}

const struct why_record *why_find(const struct why_ring *ring, const struct addr *client, be16 client_port,
				  unsigned *cursor)
{
	for (unsigned back = *cursor; back < WHY_RECORDS; back++) {
		const struct why_record *record =
			&ring->records[(ring->next + 2 * WHY_RECORDS - 1 - back) % WHY_RECORDS];

		if (record->at_ms == 0)
			return NULL;
		if (!addr_equal(&record->key.client, client))
			continue;
		if (client_port && record->key.client_port != client_port)
			continue;
		*cursor = back + 1;
		return record;
	}
	return NULL;
}
