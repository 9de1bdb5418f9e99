/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * asks.h - answers the questions of decide() about this node and its peers, from the view, the load table and the
 * flows.
 */
#ifndef DPRD_ASKS_H
#define DPRD_ASKS_H

#include <stdbool.h>
#include <stdint.h>

struct decide_env;
struct dprd;
struct sampler;

/* The context of the two questions. */
struct asks {
	const struct dprd *d;
	uint64_t now_ms;
	bool v6; /* the family of the SYN */
};

/* Lock held for all of these. */
/* decide_env.node_alive: the flows of this node are worth keeping. context: struct asks. */
bool asks_node_alive(void *context, uint32_t node_id);
/*
 * decide_env.node_eligible: the node is heard at this moment, takes copies of SYNs, and answers connections of this
 * family. context: struct asks.
 */
bool asks_node_takes_copies(void *context, uint32_t node_id);
/* Fills in what is the same for all packets; the caller sets the questions and the packet's part. */
void asks_env(struct dprd *d, struct decide_env *ret);
/* How many more flows may be made in this second, besides those that are made but not committed yet. */
unsigned asks_new_flows_left(struct dprd *d, uint64_t now_ms);
/* True when connections of the service may have no socket of this host: those of real servers, and of containers. */
bool asks_counts_elsewhere(const struct dprd *d);
/* Open connections of the service now, wherever their sockets are. 0 or -errno: then *ret stays. */
int asks_open_connections(struct dprd *d, uint32_t *ret);
/* The own load in the configured metric, read now; also into the view. */
double asks_own_load(struct dprd *d);
/*
 * Takes the policy from the configuration, and a sampler that was made for it. Returns the former sampler, which the
 * caller frees (NULL at start).
 */
struct sampler *asks_reconfigure(struct dprd *d, struct sampler *sampler);

/* Looks for networks of this node alone. Main thread, lock not held. */
void asks_inside(struct dprd *d);

/*
 * Reads the load table's file and the load of this node, and refreshes the view with both. Main thread, lock not held.
 */
void asks_refresh(struct dprd *d, uint64_t now_ms);

#endif
