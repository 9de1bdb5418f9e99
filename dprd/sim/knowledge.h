/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * knowledge.h - the knowledge of each node about the others: announcements under way and heard, and the views made of
 * them.
 *
 * It works as loadcast/core/table.c and dprd/cluster/view.c do: a node counts the connections that it sent to another
 * one since its last announcement. The next announcement clears the count, also of connections that its sender did not
 * know yet. A member is eligible after an announcement not older than dead_periods that echoes one of ours not older
 * than that. A node that comes back after a kill must prove that it is alive.
 *
 * Without loss and failures every node has heard the same, and one table serves all (SHARED). Otherwise each node has
 * its own (OWN). REAL uses loadcast/core/table.c itself, with datagrams, keys and echoes.
 */
#ifndef DPRD_SIM_KNOWLEDGE_H
#define DPRD_SIM_KNOWLEDGE_H

#include "dprd/core/policy/sent.h"
#include "dprd/core/policy/suspicion.h"
#include "dprd/sim/random.h"
#include "dprd/sim/ring.h"

/* The last announcement that one node heard of another one. Times are those of the simulation. */
struct heard {
	double heard_at_s, sent_at_s;
	double echo_sent_at_s; /* when we sent the newest announcement that it echoed */
	uint32_t load, arrivals_per_1000_s;
	uint32_t sequence, epoch;
	uint32_t switched_sequence; /* our newest sequence when this epoch was first taken */
	bool known, echoed; /* of this epoch */
};

/* Connections that one node sent to another one: since it heard the announcement of this sequence, and before. */
struct sent_to {
	uint32_t sequence, count;
	uint64_t heard_ms;
	double before_per_s;
	struct sent lately;
};

/* One announcement under way. */
struct flight {
	double arrives_at_s; /* when nodes see it; with a tick, at one */
	double heard_at_s, sent_at_s;
	uint32_t node, load, arrivals_per_1000_s, sequence, epoch;
};

struct real_tables;

struct knowledge {
	const struct sim_setup *setup;
	enum sim_tables kind; /* never AUTO */
	unsigned nodes;
	uint32_t *node_id; /* member_id() of n1, n2, ... */
	uint32_t *sequence, *epoch; /* of each node's own announcements; a death does not reset sequences */
	bool *alive;
	double dead_s;
	struct heard *heard; /* SHARED: one row; OWN: a row for each node */
	struct sent_to *sent; /* a row for each node */
	struct ring flights;
	struct random_stream losses;
	struct real_tables *real;
	uint64_t announcements;
};

/* All nodes are alive and heard at time 0, with no load and their true rate. False: out of memory. */
bool knowledge_init(struct knowledge *k, const struct sim_setup *setup);
void knowledge_free(struct knowledge *k);

/* A node announces itself. False: out of memory. */
bool knowledge_announce(struct knowledge *k, unsigned node, uint32_t open, uint32_t arrivals_per_1000_s, double now_s);

/*
 * knowledge_next_s(): when the next announcement arrives; INFINITY when none is under way. knowledge_deliver(): it
 * arrives.
 */
double knowledge_next_s(const struct knowledge *k);
void knowledge_deliver(struct knowledge *k);

/* knowledge_kill(): a host dies. knowledge_revive(): it comes back and knows nothing. */
void knowledge_kill(struct knowledge *k, unsigned node);
void knowledge_revive(struct knowledge *k, unsigned node);

/* Forgets the connections that a node sent to others: its dprd starts anew. */
void knowledge_forget_sent(struct knowledge *k, unsigned node);

/*
 * Fills nodes[1 ..] with the peers as self sees them now, in the order of the members; the caller fills nodes[0], self.
 * True when fewer than half of all nodes are in sight.
 */
bool knowledge_view(struct knowledge *k, unsigned self, double now_s, struct view_node *nodes);

/*
 * Adds the loads and the rates of arrivals of the peers, as self knows them now, to the facts. nodes: room for a view,
 * overwritten.
 */
void knowledge_add_others(struct knowledge *k, unsigned self, double now_s, struct view_node *nodes,
			  struct suspicion_facts *facts);

/* Counts one more connection that self sent to peer. */
void knowledge_count_sent(struct knowledge *k, unsigned self, unsigned peer, double now_s);

/* Whole milliseconds, as the daemons count them. */
static inline uint64_t knowledge_ms(double s)
{
	return (uint64_t)(s * 1000);
}

#endif
