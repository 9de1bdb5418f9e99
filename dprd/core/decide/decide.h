/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decide.h - decides about one packet. Pure: looks at the packet, the flow table, the view and the policy, and
 * returns a verdict and its reason. The caller (queue/path.c) acts.
 */
#ifndef DPRD_DECIDE_H
#define DPRD_DECIDE_H

#include "dprd/core/flow/flow.h"
#include "dprd/core/packet/packet.h"
#include "dprd/core/policy/policy.h"

enum verdict_kind {
	VERDICT_SERVE, /* this node's stack gets it as it is */
	VERDICT_FORWARD, /* to a member or a real server */
	VERDICT_PASS, /* does not concern dprd: this node's stack gets it */
	VERDICT_DROP,
	VERDICT_DECAPSULATE, /* from a member: this node's stack gets the inner packet */
	VERDICT_RETURNED, /* a SYN that a peer sent back: decide_returned() decides about it */
};

/* X(NAME, kind, text): the list of reasons, from which the enum, the counters and dprctl's texts are made. */
#define DECIDE_REASONS(X)                                                                    \
	X(LOCAL_POLICY, SERVE, "the policy chose this node")                                 \
	X(BELOW_MAX_LOAD, SERVE, "the load of this node is below MaxLoad")                   \
	X(LOWEST_LOAD, SERVE, "the load of this node is the lowest")                         \
	X(MIN_ADVANTAGE, SERVE, "the best peer's advantage is below MinAdvantage")           \
	X(NO_PEER, SERVE, "no peer may take it")                                             \
	X(MINORITY, SERVE, "fewer than half of the nodes look alive")                        \
	X(STALE_SYN, SERVE, "the SYN may have waited too long in the queue")                 \
	X(LOCAL_SOCKET, SERVE, "this node has a socket for it, or has served a copy")        \
	X(RATE_GUARD, SERVE, "too many flows per second are being made")                     \
	X(TABLE_FULL, SERVE, "the flow table is full")                                       \
	X(CLUSTER_CLIENT, SERVE, "the client is a node of the cluster")                      \
	X(INSIDE_CLIENT, SERVE, "the client is on a network of this node alone")             \
	X(FORWARD_FAILED, SERVE, "forwarding failed")                                        \
	X(CHOSEN, FORWARD, "the policy chose a peer")                                        \
	X(DRAINING, FORWARD, "this node drains")                                             \
	X(UNHEALTHY, FORWARD, "the web server of this node fails its health check")          \
	X(SAME_SYN, FORWARD, "a copy of a SYN that was forwarded")                           \
	X(SAME_FLOW, FORWARD, "a new SYN of a forwarded flow that is alive")                 \
	X(CHOSEN_AGAIN, FORWARD, "a peer sent it back, and the policy chose another one")    \
	X(SENT_BACK, FORWARD, "a peer's SYN that another node should serve: sent back")      \
	X(BACKEND, FORWARD, "to a real server behind this node")                             \
	X(FLOW, FORWARD, "a packet of a forwarded flow")                                     \
	X(ICMP_RELAY, FORWARD, "an ICMP error about a forwarded flow")                       \
	X(NO_FLOW, PASS, "no forwarded flow")                                                \
	X(FRAGMENT, PASS, "a fragment")                                                      \
	X(OPTIONS, PASS, "IP options or extension headers")                                  \
	X(OTHER, PASS, "neither TCP nor an ICMP error about TCP")                            \
	X(BAD_PACKET, PASS, "truncated or malformed")                                        \
	X(FROM_PEER, DECAPSULATE, "tunnelled by a living peer")                              \
	X(PROBE, DECAPSULATE, "a living peer's probe of the way")                            \
	X(NOT_PEER, DROP, "tunnelled by a host that is no living peer")                      \
	X(NOT_TO_US, DROP, "tunnel packet to an address that is not our cluster address")    \
	X(INNER_FOREIGN, DROP, "tunnelled packet to an address that is no service")          \
	X(INNER_NOT_SENDERS, DROP, "tunnelled packet to an address its sender does not own") \
	X(INNER_SOURCE, DROP, "tunnelled packet from an address of the cluster")             \
	X(INNER_NESTED, DROP, "a tunnel within the tunnel")                                  \
	X(INNER_BAD, DROP, "tunnelled packet with options, cut, damaged, or with TTL 0")     \
	X(RETURNED_LATE, DROP, "a SYN that a peer sent back, but too late")                  \
	X(STALE_TUNNEL_SYN, DROP, "a tunnelled SYN may have waited too long in the queue")   \
	X(LATE_SYN, DROP, "dprd was too slow with the SYN; its copy may have been answered") \
	X(SEEN_THERE, DROP, "a frame of a fellow node's connection; that node gets it, too") \
	X(NO_BACKEND, DROP, "no real server may take it; this node itself serves none")      \
	X(NO_TUNNEL, DROP, "a forwarded packet that cannot be sent to its node")             \
	X(QUEUE_UNPARSED, PASS, "the kernel's queue message had no packet")

enum reason {
#define X(name, kind, text) REASON_##name,
	DECIDE_REASONS(X)
#undef X
		REASONS,
};

struct verdict {
	enum verdict_kind kind;
	enum reason reason;
	unsigned view_index; /* FORWARD by the policy: index into the view */
	uint32_t node_id; /* FORWARD: the target; DECAPSULATE, RETURNED: the sender */
	bool old_flow; /* decide(): the tuple has a flow, to any node */
	uint8_t alternative; /* FORWARD by the policy: decide_alternative_code() of the best other choice */
};

/* Name and text of a reason, and the kind of its verdict. */
const char *reason_name(enum reason reason); /* "below_max_load" */
const char *reason_text(enum reason reason);
enum verdict_kind reason_kind(enum reason reason);
const char *verdict_kind_name(enum verdict_kind kind);

/* Everything that decide() may look at. */
struct decide_env {
	struct flow_table *flows; /* read only */
	const struct load_view *view;
	const struct policy *policy;
	struct policy_state *policy_state;
	const uint64_t *hash_key; /* two words, secret */
	bool max_load_auto;
	double max_load, min_advantage;
	bool draining, unhealthy; /* this node */
	bool minority; /* fewer than half of the members are heard */
	bool rate_limited; /* no new flows now: too many were made in this second */
	bool table_full; /* no new flows now: no room to confirm one */
	bool from_cluster; /* the client is a node of the cluster: a peer would refuse its packets */
	bool from_inside; /* the client is on a network of this node alone: a peer could not answer it (inside.h) */
	bool maybe_stale; /* the packet may have waited longer than STALE_MS in the queue */
	uint64_t random;
	uint64_t now_ms; /* of the flow table's clock */
	/* True while a flow to this node is useful: its host is not known to be gone. */
	bool (*node_alive)(void *context, uint32_t node_id);
	/* True when this node may get a copy of a SYN. */
	bool (*node_eligible)(void *context, uint32_t node_id);
	void *context;
};

enum {
	STALE_MS = 500,
	/*
	 * dprd acts on a SYN within this time after it read the SYN, or not at all. Together with STALE_MS this is less
	 * than 1 s, after which a client sends a copy.
	 */
	IN_HAND_MS = 400,
};

/*
 * The verdict on a packet to a service address of this node: a SYN, a packet of a forwarded flow, or an ICMP error.
 * Changes only *policy_state. When a SYN has an old flow and the verdict is SERVE or another target, the caller removes
 * or overwrites the flow.
 */
struct verdict decide(const struct decide_env *env, const struct packet *packet);

/*
 * The part of decide() for a SYN that belongs to no flow: chooses the serving node. packet may be NULL: then the
 * verdict is on a SYN of any client (a stateless policy draws instead of hashing).
 */
struct verdict decide_new(const struct decide_env *env, const struct packet *packet);

/*
 * The second look. A peer tunnelled a SYN here because of an older load of this node; this node knows its load exactly.
 * If this node would not serve a client's SYN now, and would not forward it to that peer either, the SYN goes back
 * (SENT_BACK) and the peer decides again without this node. Otherwise it stays (FROM_PEER). So a connection is decided
 * at most twice. Only its entry node keeps a flow.
 *
 * It also stays while the load of this node is not above the peer's best other choice. In a burst this node knows its
 * own load of this moment and old loads of all others, so it would seem to be the only busy node; the peer counts the
 * connections that it sends.
 */
struct verdict decide_landed(const struct decide_env *env, const struct packet *packet, uint32_t entry_id,
			     uint8_t alternative);

/*
 * A load per unit of weight in 8 bits, 8 codes for each doubling of 1 + load; decide_alternative_load() is never below
 * the encoded load (up to a load of 3.9e9), so that rounding keeps a connection where it is.
 */
uint8_t decide_alternative_code(double load);
double decide_alternative_load(uint8_t code);

/*
 * The number of further connections, of connection_load each, after which decide_landed() may send one back. Until then
 * it need not be called. UINT_MAX: it never sends one back.
 */
unsigned decide_room(const struct decide_env *env, double connection_load);

/*
 * The second decision, about a SYN that node from_id sent back: any other node (CHOSEN_AGAIN), or this one (with the
 * reason of decide_new()). decide_returned() first checks that it may decide again: the SYN must be the one that made
 * the flow to that node, and so young that its client has not sent a copy. Otherwise a copy may be on its way to that
 * node, which would answer it (I3). So the SYN is dropped (RETURNED_LATE), and the copy is served.
 */
struct verdict decide_again(const struct decide_env *env, const struct packet *packet, uint32_t from_id);
struct verdict decide_returned(const struct decide_env *env, const struct packet *packet, uint32_t from_id);

/* MaxLoad as it is now, per unit of weight. */
double decide_max_load(const struct decide_env *env);

/* The owner of a shared address: any node may have been the entry node. */
enum { DECAP_OWNER_ALL = 1 << 20 };

/* The questions of decide_decapsulation() about addresses. */
struct decap_env {
	/*
	 * Index of the member that owns this service address, DECAP_OWNER_ALL, or -1: there is none, or the port is no
	 * service of the present or a former configuration. Port 0: any port.
	 */
	int (*service_owner)(void *context, const struct addr *service, be16 port);
	/* Index of the living peer whose cluster address this is, or -1. */
	int (*living_peer)(void *context, const struct addr *cluster);
	/* True for a service address, a cluster address or an alias. */
	bool (*is_cluster_address)(void *context, const struct addr *address);
	bool (*is_own_cluster_address)(void *context, const struct addr *address);
	uint32_t (*member_node_id)(void *context, int member);
	void *context;
	int self; /* the own index */
	bool maybe_stale;
};

/*
 * The verdict on a tunnel packet. For DECAPSULATE and RETURNED, *ret_inner is the parsed inner packet. A packet is
 * taken out only when its outer source is a living peer, its outer destination is this node, and it holds TCP to a
 * service of that peer (or an ICMP error about it) without options, fragments or a further tunnel.
 */
struct verdict decide_decapsulation(const struct decap_env *env, const struct packet *outer, struct packet *ret_inner);

#endif
