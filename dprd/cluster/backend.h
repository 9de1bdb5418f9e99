/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backend.h - chooses one of the real servers behind this node, or the node itself, for a connection that decide() left
 * to this node. It does the same as Linux Virtual Server (IPVS: NAT, DR, TUN; rr, wrr, lc, wlc), as a second stage.
 *
 * A connection to a real server has a flow, like one to a peer: so copies of its SYN follow it (I4), and the flow table
 * tells how many connections each server has. The form of the real server says how packets reach it:
 *
 *   nat      dprd marks the SYN, a rule of rules/backend.c translates its destination, and the kernel's connection
 *            tracking does the rest without dprd. Answers must come back through this node.
 *   direct   the packet goes as it is to the server's hardware address; the server has the service address, too
 *   tunnel   the packet goes IP in IP; the server has the service address, too
 */
#ifndef DPRD_BACKEND_H
#define DPRD_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/config/config.h"
#include "dprd/bpf/layout.h"
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
	unsigned counted[OWN_BACKENDS_MAX]; /* by the running count, so far */
	unsigned connections[OWN_BACKENDS_MAX]; /* by the last whole count, plus those made since */
	double served_here; /* connections that the node itself has */
	uint64_t told; /* the servers that the rules know as usable (backend_refresh()) */
};

/* State of an own real server. */
struct backend_status {
	const char *why_not; /* why it gets no new connections (static text); NULL: it may */
	unsigned connections; /* open; ends are seen within two seconds */
	uint64_t chosen; /* new connections since dprd started */
	unsigned mtu[2]; /* of the way to it, by family (0: IPv4); 0: none. Not for BACKEND_NAT */
};

/* All of these: lock held. */

/* After a change of the configuration. from: the former one, NULL at start. Servers that stay keep their state. */
void backend_reconfigure(struct dprd *d, const struct config *from);
/* Each tick: reads the health of all servers, for the rules too, and goes on counting connections. */
void backend_refresh(struct dprd *d);
/*
 * Chooses the own real server for a new connection of this family. -1: the node itself; also when no server may get the
 * connection.
 */
int backend_choose(struct dprd *d, bool v6, uint64_t random);
/* True when a real server may serve in place of this node, after a verdict SERVE with this reason. */
bool backend_may_serve(enum reason reason);

/* Decide=kernel: the targets of the next connections, chosen ahead. */
struct backend_ahead {
	struct view_node nodes[1 + OWN_BACKENDS_MAX]; /* as they were at the choice */
	uint64_t seed;
	uint32_t node_id[FASTPATH_SCHEDULE_MAX]; /* a real server or this node; 0: a peer serves the connection */
};

/* Chooses for all entries of a schedule. Does not change the state of the policy. */
void backend_ahead_make(struct dprd *d, bool v6, uint64_t seed, const struct schedule_entry *entries, unsigned count,
			struct backend_ahead *ret);
/* Counts the first entries: they were used. */
void backend_ahead_count(struct dprd *d, bool v6, const struct backend_ahead *ahead, unsigned used);
/* Counts a connection whose flow is in the table, or takes it back, before its flow is removed. */
void backend_reserve(struct dprd *d, unsigned own, const struct flow_key *key, bool reserved);
void backend_status(const struct dprd *d, unsigned own, struct backend_status *ret);
/* The number of connections at all own real servers. */
unsigned backend_connections(const struct dprd *d);
/* True when the own real server gets new connections of this family. */
bool backend_takes(const struct dprd *d, unsigned own, bool v6);
/* True when the node's web server gets new connections: ServeHere=yes, and it is healthy. */
bool backend_serves_here(const struct dprd *d);

/*
 * The targets of new connections of this family while dprd is away. ret[]: the flow table's index of a node in each of
 * count places, as often as its weight says; 0: none. False: this node has no real servers.
 */
bool backend_choices(struct dprd *d, bool v6, uint8_t *ret, unsigned count);

#endif
