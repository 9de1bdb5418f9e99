/* SPDX-License-Identifier: GPL-2.0-or-later */
/* run.h - one run: all its parts, shared by run.c (events in time) and place.c (placing connections). */
#ifndef DPRD_SIM_RUN_H
#define DPRD_SIM_RUN_H

#include "dprd/core/policy/suspicion.h"
#include "dprd/sim/knowledge.h"
#include "dprd/sim/stats.h"

/* One node's dprd. */
struct node {
	bool alive, fails;
	uint64_t random_state;
	uint64_t accepted; /* connections that its server got */
	struct suspicion suspicion;
	uint64_t syns, syns_at_rate; /* SYNs that came from clients */
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

/* The burst of a setup, as far as it has come. */
struct burst {
	unsigned left; /* have not arrived yet */
	unsigned placing; /* have arrived, and are on their way to a server */
	double next_s; /* the next arrival; INFINITY: none */
	struct ring holds; /* connections that end after hold_s */
};

struct run {
	const struct sim_setup *setup;
	struct timers timers;
	struct pool pool;
	struct servers servers;
	struct knowledge knowledge;
	struct stats stats;
	struct node *nodes;
	struct view_node *view_nodes; /* of the current decision */
	struct policy_state *states;
	void *flow_memory; /* of all tables, or of one that stays empty when no tables are wanted */
	uint64_t hash_key[2]; /* of the flow tables */
	struct ring landings;
	struct random_stream arrivals, works, entries, periods;
	struct law law;
	struct alias alias;
	uint32_t first_announcer, rate_timer, suspicion_timer, begin_timer, failure_timer;
	unsigned failures_done;
	double next_arrival_s, now_s, arrivals_per_s, end_s;
	uint64_t arrivals_left;
	struct burst burst;
	bool out_of_memory;
};

/* burst.c: the burst's next arrival or end of a connection, and when that is due; INFINITY: never. */
void burst_init(struct run *run);
void burst_free(struct run *run);
double burst_next_s(const struct run *run);
/* The connection that arrives now; CONNECTION_NONE: one has ended, or there is no memory. */
uint32_t burst_step(struct run *run);
/* True until all connections of the burst have come to a server or are lost. */
bool burst_under_way(const struct run *run);
/* A connection of the burst has come to its server; it is lost. */
void burst_hold(struct run *run, uint32_t connection);
void burst_lose(struct run *run, uint32_t connection);

/* place.c. Makes the flow tables of all nodes. False: out of memory. */
bool place_init(struct run *run);
void place_free(struct run *run);

/* The node's open connections, as it announces them. */
unsigned place_load(const struct run *run, unsigned node);

/* The entry node decides about a new connection. Returns the node that gets it. */
unsigned place_new(struct run *run, uint32_t connection);

/*
 * place_returns(): true when the node where it landed sends it back. place_again(): back at the entry node; returns the
 * node that gets it now.
 */
bool place_returns(struct run *run, uint32_t connection);
unsigned place_again(struct run *run, uint32_t connection);

/*
 * place_ended(): a forwarded connection has ended. place_forget_all(): the entry node dies or is born again; its flows are
 * gone.
 */
void place_ended(struct run *run, uint32_t connection);
void place_forget_all(struct run *run, unsigned node);

/* Each second: flows expire. */
void place_expire(struct run *run);

#endif
