/* SPDX-License-Identifier: GPL-2.0-or-later */
/* run.h - one run: all its parts, shared by run.c (what happens when) and place.c (who serves). */
#ifndef DPRD_SIM_RUN_H
#define DPRD_SIM_RUN_H

#include "dprd/sim/knowledge.h"
#include "dprd/sim/stats.h"

/* One node's dprd. */
struct node {
	bool alive;
	uint64_t random_state;
	uint64_t syns, syns_at_rate; /* that came from clients */
	uint32_t arrivals_per_1000_s;
	uint64_t hash_key[2]; /* each dprd draws its own */
	struct policy_state *state;
	struct flow_table *flows;
};

/* A forwarded SYN under way. */
struct landing {
	double at_s;
	uint32_t connection;
};

struct run {
	const struct sim_setup *setup;
	struct timers timers;
	struct pool pool;
	struct servers servers;
	struct knowledge knowledge;
	struct stats stats;
	struct node *nodes;
	struct view_node *view_nodes; /* of the decision being made */
	struct policy_state *states;
	void *flow_memory; /* of all tables; of the one that is always empty, when none is wanted */
	uint64_t hash_key[2]; /* of the flow tables */
	struct ring landings;
	struct random_stream arrivals, works, entries, periods;
	struct law law;
	struct alias alias;
	uint32_t first_announcer, rate_timer, begin_timer, failure_timer;
	unsigned failures_done;
	double next_arrival_s, now_s, arrivals_per_s, end_s;
	uint64_t arrivals_left;
	bool out_of_memory;
};

/* place.c. Tables for the flows of all nodes. False: out of memory. */
bool place_init(struct run *run);
void place_free(struct run *run);

/* The entry node's decision about a new connection. The node that it goes to. */
unsigned place_new(struct run *run, uint32_t connection);

/* Where it landed: whether it goes back. And, back at the entry node: the node that it goes to now. */
bool place_returns(struct run *run, uint32_t connection);
unsigned place_again(struct run *run, uint32_t connection);

/* A forwarded connection has ended; the entry node dies, or is born again: its flows are gone. */
void place_ended(struct run *run, uint32_t connection);
void place_forget_all(struct run *run, unsigned node);

/* Each second: flows expire. */
void place_expire(struct run *run);

#endif
