/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decide.h - what to do with one packet. Pure: looks at a packet, the flow table, the view and the
 * policy, and answers with a verdict and its reason. Only the caller (path.c) acts.
 */
#ifndef DPRD_DECIDE_H
#define DPRD_DECIDE_H

#include "dprd/core/flow/flow.h"
#include "dprd/core/packet/packet.h"
#include "dprd/core/policy/policy.h"

enum verdict_kind {
	VERDICT_SERVE, /* the own stack gets it as it is */
	VERDICT_FORWARD, /* encapsulate to member */
	VERDICT_PASS, /* not ours to judge: the own stack gets it */
	VERDICT_DROP,
	VERDICT_DECAPSULATE, /* from member: the inner packet to the own stack */
	VERDICT_RETURNED, /* a SYN that a peer sent back: decide_returned() has the last word */
};

/* X(NAME, kind, text): every reason once; makes the enum, the counters, dprctl and the manual. */
#define DECIDE_REASONS(X)                                                                    \
	X(LOCAL_POLICY, SERVE, "the policy chose this node")                                 \
	X(BELOW_MAX_LOAD, SERVE, "own load is below MaxLoad")                                \
	X(LOWEST_LOAD, SERVE, "own load is the lowest")                                      \
	X(MIN_ADVANTAGE, SERVE, "the best peer's advantage is below MinAdvantage")           \
	X(NO_PEER, SERVE, "no peer may take it")                                             \
	X(MINORITY, SERVE, "fewer than half of the nodes look alive")                        \
	X(STALE_SYN, SERVE, "the SYN may have waited too long in the queue")                 \
	X(LOCAL_SOCKET, SERVE, "this node already has a socket for it")                      \
	X(RATE_GUARD, SERVE, "too many flows per second are being made")                     \
	X(TABLE_FULL, SERVE, "the flow table is full")                                       \
	X(CLUSTER_CLIENT, SERVE, "the client is a node of the cluster")                      \
	X(FORWARD_FAILED, SERVE, "forwarding failed")                                        \
	X(CHOSEN, FORWARD, "the policy chose a peer")                                        \
	X(DRAINING, FORWARD, "this node drains")                                             \
	X(UNHEALTHY, FORWARD, "the own web server fails its health check")                   \
	X(SAME_SYN, FORWARD, "a copy of a SYN that was forwarded")                           \
	X(SAME_FLOW, FORWARD, "a SYN within a living forwarded flow")                        \
	X(CHOSEN_AGAIN, FORWARD, "a peer sent it back, and the policy chose another one")    \
	X(SENT_BACK, FORWARD, "a peer's SYN that others should serve: back to the peer")     \
	X(BACKEND, FORWARD, "to a real server behind this node")                             \
	X(FLOW, FORWARD, "a packet of a forwarded flow")                                     \
	X(ICMP_RELAY, FORWARD, "an ICMP error about a forwarded flow")                       \
	X(NO_FLOW, PASS, "no forwarded flow")                                                \
	X(FRAGMENT, PASS, "a fragment")                                                      \
	X(OPTIONS, PASS, "IP options or extension headers")                                  \
	X(OTHER, PASS, "neither TCP nor an ICMP error about TCP")                            \
	X(BAD_PACKET, PASS, "truncated or malformed")                                        \
	X(FROM_PEER, DECAPSULATE, "tunnelled by a living peer")                              \
	X(NOT_PEER, DROP, "tunnelled by a host that is no living peer")                      \
	X(NOT_TO_US, DROP, "tunnel packet to an address that is not our cluster address")    \
	X(INNER_FOREIGN, DROP, "tunnelled packet to no service of the cluster")              \
	X(INNER_NOT_SENDERS, DROP, "tunnelled packet to an address its sender does not own") \
	X(INNER_SOURCE, DROP, "tunnelled packet from an address of the cluster")             \
	X(INNER_NESTED, DROP, "a tunnel within the tunnel")                                  \
	X(INNER_BAD, DROP, "tunnelled packet with options, fragmented, cut or malformed")    \
	X(RETURNED_LATE, DROP, "a SYN that a peer sent back, but too late")                  \
	X(STALE_TUNNEL_SYN, DROP, "a tunnelled SYN may have waited too long in the queue")   \
	X(LATE_SYN, DROP, "dprd was held up with the SYN; its copy may have been answered")  \
	X(SEEN_THERE, DROP, "of a connection of a fellow node, which gets the frame itself") \
	X(NO_BACKEND, DROP, "no real server may take it, and this node serves nothing")      \
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
	bool old_flow; /* decide(): the key has a flow, wherever it leads */
	uint8_t alternative; /* FORWARD by the policy: decide_alternative_code() of the best other choice */
};

/* Name and text of a reason, and the kind it stands for. */
const char *reason_name(enum reason reason); /* "below_max_load" */
const char *reason_text(enum reason reason);
enum verdict_kind reason_kind(enum reason reason);
const char *verdict_kind_name(enum verdict_kind kind);

/* The facts that decide() may use. */
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
	bool rate_limited; /* no new flows now: too many per second */
	bool table_full; /* no new flows now: no room to confirm one */
	bool from_cluster; /* the client's address is one of the cluster's: a peer would not take it */
	bool maybe_stale; /* the packet may have waited longer than STALE_MS in the queue */
	uint64_t random;
	uint64_t now_ms; /* of the flow table's clock */
	/* True while a flow to this node is worth keeping: its host is not known to be gone. */
	bool (*node_alive)(void *context, uint32_t node_id);
	/* True when this node may get a copy of a SYN. */
	bool (*node_eligible)(void *context, uint32_t node_id);
	void *context;
};

enum {
	STALE_MS = 500,
	/* dprd acts on a SYN within this time after it read the SYN, or not at all. With STALE_MS that is less than
	 * the 1 s after which a client sends a copy. */
	IN_HAND_MS = 400,
};

/*
 * The verdict on a packet sent to one of our own service addresses: a SYN, a packet of a forwarded
 * flow, or an ICMP error. Changes nothing but *policy_state. A SYN that finds an old flow and gets
 * SERVE or another target replaces that flow: the caller removes or overwrites it.
 */
struct verdict decide(const struct decide_env *env, const struct packet *packet);

/*
 * The part of decide() for a SYN that belongs to no flow: who serves? packet may be NULL: then it is
 * the verdict on a SYN of any client (a stateless policy draws instead of hashing).
 */
struct verdict decide_new(const struct decide_env *env, const struct packet *packet);

/*
 * The second look. A peer has tunnelled a SYN here by what it knew of our load; our own load we know. When
 * we would not serve a client's SYN now, and would not give it to that peer either, it goes back (SENT_BACK),
 * and the peer decides once more without us; else it stays (FROM_PEER). So a connection is decided twice
 * at most, and its entry node alone knows where it is: nothing is kept here.
 *
 * It stays, too, while our load is not above the peer's best other choice. In a burst our own load is of now and all
 * others that we know are old, so that each node takes itself for the only busy one; the peer counts what it sends.
 */
struct verdict decide_landed(const struct decide_env *env, const struct packet *packet, uint32_t entry_id,
			     uint8_t alternative);

/*
 * A load per unit of weight in 8 bits, 8 codes for each doubling of 1 + load; decide_alternative_load() is never below
 * what was encoded, so that errors keep a connection where it is, up to a load of 4e9.
 */
uint8_t decide_alternative_code(double load);
double decide_alternative_load(uint8_t code);

/*
 * After how many more connections, of connection_load each, decide_landed() may send one back, whoever sent
 * it: until then nobody need be asked. UINT_MAX: never.
 */
unsigned decide_room(const struct decide_env *env, double connection_load);

/*
 * The second decision: any node but that one (CHOSEN_AGAIN), or this one (as decide_new() says).
 * decide_returned() first asks whether it is still right to make it: the SYN must be the one that made
 * the flow to that node, and so young that its client has not sent it again. Else a copy may be under
 * way to that node, which would answer it (I3), and so it is dropped (RETURNED_LATE): the copy is served.
 */
struct verdict decide_again(const struct decide_env *env, const struct packet *packet, uint32_t from_id);
struct verdict decide_returned(const struct decide_env *env, const struct packet *packet, uint32_t from_id);

/* MaxLoad as it is now, per unit of weight. */
double decide_max_load(const struct decide_env *env);

/* The owner of an address that all nodes share: any of them may have been the entry node. */
enum { DECAP_OWNER_ALL = 1 << 20 };

/* An address of the cluster as decapsulation checks it. */
struct decap_env {
	/* Index of the member that owns this service address and port, DECAP_OWNER_ALL, or -1. */
	int (*service_owner)(void *context, const struct addr *service, be16 port);
	/* Index of the living peer whose cluster address this is, or -1. */
	int (*living_peer)(void *context, const struct addr *cluster);
	/* True when the address is one of the cluster's: service, cluster or alias. */
	bool (*is_cluster_address)(void *context, const struct addr *address);
	bool (*is_own_cluster_address)(void *context, const struct addr *address);
	uint32_t (*member_node_id)(void *context, int member);
	void *context;
	int self; /* the own index */
	bool maybe_stale;
};

/*
 * The verdict on a tunnel packet; *ret_inner is the parsed inner packet when it is DECAPSULATE or
 * RETURNED (a SYN that a peer sent back: the caller asks decide_returned()).
 * Accepts exactly: outer source a living peer, outer destination ours, inner TCP to a service of
 * that peer (or an ICMP error about one), no options, no fragment, one level.
 */
struct verdict decide_decapsulation(const struct decap_env *env, const struct packet *outer, struct packet *ret_inner);

#endif
