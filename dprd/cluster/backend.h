/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backend.h - the passive real servers behind this node: which of them, or the node itself, serves a
 * connection that decide() left here. Linux Virtual Server's second stage (IPVS: NAT, DR, TUN; rr, wrr, lc, wlc).
 *
 * A connection that goes to a real server is a flow to it, like one that goes to a peer: so copies of its
 * SYN follow it (I4), and the flow table says how many each has. How it gets there is the backend's form:
 *
 *   nat      dprd marks the SYN, a rule of rules/backend.c translates its destination, and the kernel's
 *            connection tracking does the rest: it goes on without dprd. Answers must come back this way.
 *   direct   the packet as it is, to the server's hardware address; the server has the service address, too
 *   tunnel   IP in IP; likewise
 */
#ifndef DPRD_BACKEND_H
#define DPRD_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/core/packet/marks.h"
#include "dprd/config/config.h"
#include "dprd/bpf/layout.h"
#include "dprd/core/flow/flow.h"
#include "dprd/core/policy/policy.h"
#include "dprd/core/decide/schedule.h"

struct dprd;

struct backends {
	const struct policy *policy;
	struct policy_state policy_state[2]; /* by family (0: IPv4) */
	struct load_view view; /* nodes[0] is the node itself, nodes[1 + own] an own backend */
	struct view_node nodes[1 + OWN_BACKENDS_MAX];
	const char *why_not[OWN_BACKENDS_MAX];
	uint64_t chosen[OWN_BACKENDS_MAX];
	uint64_t failed_ms[OWN_BACKENDS_MAX]; /* when it was last seen to fail, by the flow table's clock */
	uint32_t cursor; /* where the running count of connections goes on in the flow table */
	unsigned counted[OWN_BACKENDS_MAX]; /* by it, so far */
	unsigned connections[OWN_BACKENDS_MAX]; /* by the last whole one, and what was made since */
	double served_here; /* connections that the node itself has */
	uint64_t told; /* to the rules: who may get what (backend_refresh()) */
};

/* The state of an own backend. */
struct backend_status {
	const char *why_not; /* why it gets no new connections (static text); NULL: it may */
	unsigned connections; /* open; ends are seen within two seconds */
	uint64_t chosen; /* new connections since dprd started */
	unsigned mtu[2]; /* of the way to it, by family (0: IPv4); 0: none. Not of BACKEND_NAT */
};

/* All of these: lock held. */

/* After a change of the configuration: from (the former one) is NULL at start. What is known of those that stay, stays. */
void backend_reconfigure(struct dprd *d, const struct config *from);
/* Each tick: health of all of them, which the rules may have to learn, and the count of connections. */
void backend_refresh(struct dprd *d);
/*
 * The number of the own backend that should take a new connection of this family, or -1: the node itself, which
 * is also the answer when nobody may.
 */
int backend_choose(struct dprd *d, bool v6, uint64_t random);
/* True when a verdict to serve here still allows a backend to serve. */
bool backend_may_serve(enum reason reason);

/* Decide=kernel: whom the next connections go to, decided ahead. */
struct backend_ahead {
	struct view_node nodes[1 + OWN_BACKENDS_MAX]; /* as they were when it was */
	uint64_t seed;
	uint32_t node_id[FASTPATH_SCHEDULE_MAX]; /* a backend's or the node's own; 0: it goes to a peer */
};

/* For all entries of a schedule; state of the policy: not changed. */
void backend_ahead_make(struct dprd *d, bool v6, uint64_t seed, const struct schedule_entry *entries, unsigned count,
			struct backend_ahead *ret);
/* The first of them were used. */
void backend_ahead_count(struct dprd *d, bool v6, const struct backend_ahead *ahead, unsigned used);
/* Counts a connection whose flow is in the table, or no longer counts it, before the flow goes. */
void backend_reserve(struct dprd *d, unsigned own, const struct flow_key *key, bool reserved);
void backend_status(const struct dprd *d, unsigned own, struct backend_status *ret);
/* Connections at all of them. */
unsigned backend_connections(const struct dprd *d);
/* True when an own backend gets new connections of this family. */
bool backend_takes(const struct dprd *d, unsigned own, bool v6);
/* True when the node's own web server gets some: ServeHere=yes, and it is healthy. */
bool backend_serves_here(const struct dprd *d);

/*
 * Chooses the targets of new connections of this family while dprd is away: count places, each with the flow table's
 * index of a node, as many for each node as its weight gives; 0: none. False: this node has no backends.
 */
bool backend_choices(struct dprd *d, bool v6, uint8_t *ret, unsigned count);

#endif
