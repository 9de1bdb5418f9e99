/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ways.h - how packets get to a node: to another member of the cluster, or to a real server behind this node.
 *
 * There is one struct way for each of them and each family. ways_refresh() fills them once a second; the queue, the BPF
 * programs' table, the standby process, the rules and dprctl read them.
 */
#ifndef DPRD_WAYS_H
#define DPRD_WAYS_H

#include "dprd/base/mutex.h"

#include "dprd/config/config.h"
#include "dprd/host/neighbour.h"

enum {
	WAY_MTU_LEAST = 256, /* a narrower path is not used: it has room for little more than headers */
	WAY_MTU_DEFAULT = 1500, /* used while the MTU of no path is known */
};

enum way_form {
	WAY_FORM_NONE, /* no route, a path that is too narrow, or no address of this family */
	WAY_FORM_SELF, /* the node is this one */
	WAY_FORM_TUNNEL, /* with an outer header */
	WAY_FORM_DIRECT, /* as the packet is, to the node's hardware address */
	WAY_FORM_NAT, /* as the packet is, to the kernel's NAT on this node */
};

struct way {
	enum way_form form;
	struct addr source, destination; /* of the outer header; a direct way has the same addresses */
	struct neighbour next_hop; /* interface 0: unknown, the kernel's routing finds it */
	uint16_t mtu; /* of the path, outer header included; 0: no route */
	uint16_t inner_mtu; /* the largest packet of a client that fits, in this form; 0: no way */
	uint16_t tunnel_mtu; /* the same with an outer header, which a member takes at any time */
	uint16_t mss; /* TCP payload of a packet of inner_mtu bytes, without TCP options */
	uint32_t mark; /* NAT: the number by which the rules know the real server (marks.h), else 0 */
};

/* The path takes less than the kernel knows. */
struct way_limit {
	uint16_t kernel_mtu; /* for which that was found; another one means another path */
	uint16_t mtu; /* 0: no limit */
};

struct ways {
	struct mnl_socket *neighbours; /* NULL: hardware addresses are not known */
	struct way_limit limit[MEMBERS_MAX][2]; /* main thread only */
	int mtu_learner; /* tunnel_learn_mtu() */
	struct way member[MEMBERS_MAX][2]; /* by family (0: IPv4) */
	struct way backend[OWN_BACKENDS_MAX][2]; /* own real servers */
};

/* The kernel's answers about the path to an address. All zero: there is no path. */
struct way_facts {
	unsigned mtu; /* of the path; 0: no route */
	struct addr source; /* for real servers: the kernel's choice; they have the service addresses, too */
	struct neighbour next_hop;
};

/* The way that follows from the configuration and the facts. Pure. */
struct way way_to_member(const struct config *config, unsigned member, bool v6, const struct way_facts *facts);
struct way way_to_backend(const struct config *config, unsigned own, bool v6, const struct way_facts *facts);

/* True when packets can go there. */
static inline bool way_is_usable(const struct way *way)
{
	return way->form > WAY_FORM_SELF && !addr_is_zero(&way->destination);
}

/* True when a new connection can go there: the next hop is there, as far as the kernel knows. */
static inline bool way_takes_new(const struct way *way)
{
	return way_is_usable(way) && !way->next_hop.unanswered;
}

/* Opens the sockets that ask for hardware addresses and learn path MTUs. The ways are as ways_reconfigure() leaves them. */
void ways_open(struct ways *ways, const struct config *config);
void ways_close(struct ways *ways);

/*
 * After a change of the configuration: a node that stays keeps its path MTU, so that it has a way until the next
 * ways_refresh(). former: NULL at start. Lock held.
 */
void ways_reconfigure(struct ways *ways, const struct config *config, const struct config *former);

/*
 * Each second: asks the kernel about all paths and fills the ways. It waits for the answers without the lock, so that
 * SYNs go on, and takes the lock for each way. Sets *changed when a way to a member has another MSS now. Main thread.
 */
void ways_refresh(struct ways *ways, const struct config *config, struct mutex *lock, bool *changed);

/*
 * Full-size packets do not arrive at the member, and no ICMP error said so: from the next ways_refresh() on the way is
 * narrower, by one step of the usual sizes. False: there is no smaller one. Main thread.
 */
bool ways_narrow(struct ways *ways, unsigned member, bool v6);

/* The MSS that fits the narrowest way to a member: the clamp for SYN-ACKs of forwarded connections. Lock held. */
unsigned ways_mss(const struct ways *ways, bool v6);

#endif
