/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * policy.h - chooses the node that serves a new connection. Pure.
 *
 * One policy, one file, one struct. A policy only picks an index into the view; decide.c applies the same threshold
 * before every policy (serve locally while the own load is below MaxLoad or the lowest) and the same hysteresis after
 * it (MinAdvantage).
 */
#ifndef DPRD_POLICY_H
#define DPRD_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* One node as a policy sees it. */
struct view_node {
	uint32_t node_id; /* its member_id() */
	uint16_t member; /* index into the configuration */
	bool eligible; /* may get a new connection: active, healthy, two-way, its dprd runs */
	uint32_t age_ms; /* of its load; 0 for self */
	uint32_t sent; /* connections that we forwarded there since this load was announced */
	uint32_t reserved; /* connections that are about to be sent there, and may yet be served elsewhere */
	double sent_before_per_s; /* connections sent there before that announcement, as a rate */
	double sent_open; /* change of its load by our own connections since then, by policy_count_sent() */
	uint64_t counted_ms; /* when this load was counted; only the caller uses it */
	double load; /* in the configured metric; exact for self */
	double weight; /* > 0 when eligible */
	double arrivals_per_s; /* new connections reaching it */
};

/* The nodes as this node knows them. nodes[0] is self and always present. The caller owns the memory. */
struct load_view {
	unsigned count;
	struct view_node *nodes;
};

/* State of the policies that need one (round robin); the caller keeps it between decisions. */
struct policy_state {
	uint32_t next; /* rr: member served last; wrr: position; li: where in (0, 2^32) the last draw was */
	bool placed; /* rr, wrr: the start was at a random position, so that entry nodes are not in step */
	double current_weight[1024]; /* wrr: smooth weighted round robin, by view index */
};

enum { POLICY_NODES_MAX = 1024 };

/* One SYN's input. */
struct policy_input {
	const struct load_view *view;
	struct policy_state *state;
	uint64_t random; /* fresh 64 random bits */
	uint64_t flow_hash; /* keyed hash of the client's port and address: the same for a retransmit */
};

struct policy {
	const char *name;
	const char *summary; /* one line for dprctl and the manual */
	bool threshold; /* MaxLoad and MinAdvantage apply */
	bool keeps_state; /* a decision changes *policy_input.state */
	bool counts_all_sent; /* see policy_count_sent() */
	/* Index into view->nodes; 0 (self) when nothing better is eligible. Never an ineligible peer. */
	unsigned (*choose)(const struct policy_input *input);
};

extern const struct policy policy_local, policy_random, policy_least, policy_inverse, policy_p2c, policy_li, policy_rr,
	policy_wrr, policy_lc, policy_wlc;

/* All policies; the default is first, NULL ends the list. */
extern const struct policy *const policies[];

/* NULL when there is no policy of that name. */
const struct policy *policy_find(const char *name);

/*
 * Sets sent_open of all nodes: the change of a node's load by our own connections since the load was announced. It is
 * the number of connections that we sent since then and that are open, minus the number that we sent before and that
 * have ended; at a steady rate it is 0. The number of open ones follows from the average life of a connection (by
 * Little's law: all loads / all arrivals). Without this the connections sent in a long period would add up to a load
 * that no longer exists. No load becomes negative.
 *
 * Policies that follow the lowest load (counts_all_sent) count all connections sent since, open or not. The other entry
 * nodes heard the same load, and no node knows how many connections they send there; this count is the only brake.
 */
void policy_count_sent(const struct policy *policy, const struct load_view *view);

/* Estimated load of a node now: the announced one with sent_open, per unit of weight. */
double policy_load(const struct view_node *node);

/*
 * MaxLoad = auto: the weighted mean of the loads of self and of the eligible peers as announced, but at
 * least 2 per unit of weight, below which a queue is too short to be worth a tunnel.
 */
double policy_max_load_auto(const struct load_view *view);

/* The weight of a node that may get a new connection, otherwise 0. */
double policy_weight(const struct view_node *node);

/* Number of nodes that a policy looks at: all of the view, up to POLICY_NODES_MAX. */
unsigned policy_count(const struct load_view *view);

/* Draws an index with a probability in proportion to weight[]; returns 0 when no weight is above 0. */
unsigned policy_draw(const double *weight, unsigned count, uint64_t random);

/*
 * Returns the node with the lowest score among those that may get a connection, from index first on. Self wins a tie,
 * other ties are drawn. 0 when there is no such node.
 */
unsigned policy_lowest(const struct policy_input *input, unsigned first, double (*score)(const struct view_node *node));

/*
 * policy_uniform(): uniform in [0, 1) from 64 random bits. policy_mix(): 64 independent bits from the same seed
 * (splitmix64).
 */
double policy_uniform(uint64_t random);
uint64_t policy_mix(uint64_t seed);

#endif
