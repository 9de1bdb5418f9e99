/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * knowledge.h - what each node knows of the others: announcements under way and heard, and the views
 * made of them.
 *
 * As loadcast/core/table.c and dprd/cluster/view.c have it: a node counts what it sent to another since it heard
 * of that; the next announcement heard clears the count, also of what its sender did not know yet.
 * An announcement heard from each member not longer ago than dead_periods, which echoes one of ours
 * not older than that, makes it eligible; a node that is born again must prove that it is alive.
 *
 * Without loss and failures every node has heard the same, and one table serves all (SHARED). Else
 * each has its own (OWN). REAL asks loadcast/core/table.c itself, with datagrams, keys and echoes.
 */
#ifndef DPRD_SIM_KNOWLEDGE_H
#define DPRD_SIM_KNOWLEDGE_H

#include "loadcast/load.h"
#include "dprd/sim/random.h"
#include "dprd/sim/ring.h"

/* What one node heard last of another one. Times are those of the simulation. */
struct heard {
	double heard_at_s, sent_at_s;
	double echo_sent_at_s; /* when we sent the newest of ours that it echoed */
	uint32_t load, arrivals_per_1000_s;
	uint32_t sequence, epoch;
	uint32_t switched_sequence; /* our newest sequence when that epoch was first taken */
	bool known, echoed; /* of that epoch */
};

/* Connections that one node sent another one since it heard the announcement of that sequence, and before. */
struct sent {
	uint32_t sequence, count;
	uint64_t heard_ms;
	double before_per_s;
};

/* One announcement under way. */
struct flight {
	double arrives_at_s; /* when nodes see it: with a tick, at one */
	double heard_at_s, sent_at_s;
	uint32_t node, load, arrivals_per_1000_s, sequence, epoch;
};

struct real_tables;

struct knowledge {
	const struct sim_setup *setup;
	enum sim_tables kind; /* never AUTO */
	unsigned nodes;
	uint32_t *node_id; /* member_id() of n1, n2, ... */
	uint32_t *sequence, *epoch; /* of each node's own announcements; sequences go on over a death */
	bool *alive;
	double dead_s;
	struct heard *heard; /* SHARED: one row; OWN: a row for each node */
	struct sent *sent; /* a row for each node */
	struct ring flights;
	struct random_stream losses;
	struct real_tables *real;
	uint64_t announcements;
};

/* All nodes alive, and all of them heard at time 0, with no load and their true rate. False: no memory. */
bool knowledge_init(struct knowledge *k, const struct sim_setup *setup);
void knowledge_free(struct knowledge *k);

/* A node announces itself. False: out of memory. */
bool knowledge_announce(struct knowledge *k, unsigned node, uint32_t open, uint32_t arrivals_per_1000_s, double now_s);

/* When the next announcement arrives: INFINITY when none is under way. And: it arrives. */
double knowledge_next_s(const struct knowledge *k);
void knowledge_deliver(struct knowledge *k);

/* A host dies; it comes back and knows nothing. */
void knowledge_kill(struct knowledge *k, unsigned node);
void knowledge_revive(struct knowledge *k, unsigned node);

/*
 * The peers as self sees them now into nodes[1 ..], in the order of the members; nodes[0], which
 * stands for self, is the caller's. True when fewer than half of all nodes are in sight.
 */
bool knowledge_view(struct knowledge *k, unsigned self, double now_s, struct view_node *nodes);

/* One connection more that self sent to peer. */
void knowledge_count_sent(struct knowledge *k, unsigned self, unsigned peer);

/* Whole milliseconds, as the daemons count them. */
static inline uint64_t knowledge_ms(double s)
{
	return (uint64_t)(s * 1000);
}

#endif
