/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * policy.h - which node should serve a new connection. Pure.
 *
 * One policy, one file, one struct. A policy only picks an index into the view; the threshold rule
 * in front (serve locally while own load is below MaxLoad or the lowest) and the hysteresis behind
 * (MinAdvantage) are decide.c's and the same for all.
 */
#ifndef DPRD_POLICY_H
#define DPRD_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* One node as a policy sees it. */
struct view_node {
	uint32_t node_id; /* member_id() of it */
	uint16_t member; /* index into the configuration */
	bool eligible; /* may get a new connection: active, healthy, two-way, its dprd runs */
	uint32_t age_ms; /* of its load; 0 for self */
	uint32_t sent; /* forwarded there by us since that load was announced */
	double sent_before_per_s; /* the same in the time before that, as a rate */
	double sent_open; /* by how much our own connections changed its load since; policy_count_sent() sets it */
	uint64_t heard_ms; /* the caller's: when that load was announced */
	double load; /* in the configured metric; exact for self */
	double weight; /* > 0 when eligible */
	double arrivals_per_s; /* new connections reaching it */
};

/* What this node knows. nodes[0] is self and always present. The nodes are the owner's. */
struct load_view {
	unsigned count;
	struct view_node *nodes;
};

/* State of the policies that have one (round robin); the caller keeps it between decisions. */
struct policy_state {
	uint32_t next; /* rr: member served last; wrr: position; li: where in (0, 2^32) the last draw was */
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

/* All of them, NULL at the end, default first. */
extern const struct policy *const policies[];

/* NULL when there is no policy of that name. */
const struct policy *policy_find(const char *name);

/*
 * Sets sent_open of all nodes: by how much our own connections have changed its load since it was
 * announced. Those that we sent since and that are open, less those that we sent before and that have
 * ended: as long as we send as many as before, that is nothing. How many of them are open follows from
 * how long connections last on average (by Little's law: all loads / all arrivals), or the own increments
 * of a long period would pile up into loads that no longer exist. No load gets below 0 by it.
 *
 * Policies that follow the lowest load (counts_all_sent) count all that was sent since, open or not.
 * What the other entry nodes send there, who heard the same, nobody knows; this is their only brake.
 */
void policy_count_sent(const struct policy *policy, const struct load_view *view);

/* Estimated load of a node now: the announced one with sent_open, per unit of weight. */
double policy_load(const struct view_node *node);

/*
 * MaxLoad = auto: the weighted mean of the loads of self and of the eligible peers as announced, but at
 * least 2 per unit of weight, below which a queue is too short to be worth a tunnel.
 */
double policy_max_load_auto(const struct load_view *view);

/* Its weight when it may get a new connection, else 0. */
double policy_weight(const struct view_node *node);

/* Nodes that a policy looks at: all of the view, but never more than POLICY_NODES_MAX. */
unsigned policy_count(const struct load_view *view);

/* An index drawn with a probability in proportion to weight[]; 0 when no weight is above 0. */
unsigned policy_draw(const double *weight, unsigned count, uint64_t random);

/*
 * The lowest score among the nodes that may get a connection, from index first on. Ties go to self,
 * else they are drawn. 0 when there is no such node.
 */
unsigned policy_lowest(const struct policy_input *input, unsigned first, double (*score)(const struct view_node *node));

/* Uniform in [0, 1) from 64 random bits; and a further independent 64 bits from the same seed (splitmix64). */
double policy_uniform(uint64_t random);
uint64_t policy_mix(uint64_t seed);

#endif
