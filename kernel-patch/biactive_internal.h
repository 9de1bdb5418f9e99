/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * biactive_internal.h - the structures that the module's files share, and the locks that guard them.
 *
 * A frame comes in: biactive_accept.c decides whether it is this node's. It asks biactive_socket.c (is there a socket
 * for it?) and biactive_nat.c (does NAT here forward it?). Beside it: biactive_neighbour.c (the hardware address that
 * neighbours learn), biactive_router.c (makes snooping switches deliver the frames), biactive_lease.c (the shares and
 * the lease), biactive_netlink.c (the configuration), biactive_setup.c (hooks on interfaces), biactive_main.c (the
 * module, network namespaces).
 *
 * Hooks hold rcu_read_lock() and nothing else. A setup is made and attached under the RTNL lock, a lease is
 * renewed or replaced under lease_mutex; both are freed after a grace period.
 */
#ifndef DPRD_BIACTIVE_INTERNAL_H
#define DPRD_BIACTIVE_INTERNAL_H

#include <linux/bitmap.h>
#include <linux/etherdevice.h>
#include <linux/in6.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/rtnetlink.h>
#include <linux/workqueue.h>
#include <net/net_namespace.h>

#include "biactive.h"
#include "bucket.h"

enum {
	/* Words of memory for refused SYNs: at 6,500 refused SYNs per second none is lost within its time. */
	BIACTIVE_REFUSED_WORDS = 16384,
	BIACTIVE_OPS_MAX = 4,
};

/* An address of either family in 16 bytes; IPv4 is mapped into IPv6. */
union biactive_ip {
	__be32 words[4];
	u64 pairs[2]; /* in memory order, as bucket_hash() needs them */
	struct in6_addr v6;
};

/* One shared address. */
struct biactive_shared {
	union biactive_ip ip;
	u8 mac[ETH_ALEN];
};

/* A configuration. After it is published only dev changes. */
struct biactive_setup {
	struct biactive_net *bn;
	struct net_device __rcu *dev; /* NULL while the interface is away */
	u64 key[2];
	unsigned int v4_count, v6_count;
	struct biactive_shared v4[BIACTIVE_ADDRESSES_MAX];
	struct biactive_shared v6[BIACTIVE_ADDRESSES_MAX];
	struct nf_hook_ops ops[BIACTIVE_OPS_MAX]; /* registered while dev is there */
	unsigned int op_count;
	u8 hook; /* enum biactive_hook */
	bool nat; /* connections may be translated, and have no socket here */
	kuid_t lease_uid;
	int ifindex;
	char name[IFNAMSIZ];
	struct rcu_head rcu;
};

/* A share, and the end of its validity. After it is published only until_ns changes. */
struct biactive_lease {
	u64 until_ns;
	u64 changed_ns;
	struct bucket_share share;
	struct bucket_share former; /* the share in use before */
	struct rcu_head rcu;
	u8 owner[BUCKETS]; /* the place in share of the owner of each bucket, so that members cost nothing per packet */
};

struct biactive_counters {
	u64 value[BIACTIVE_COUNTER_COUNT];
};

/* One network namespace. */
struct biactive_net {
	struct net *net;
	struct biactive_lease __rcu *lease; /* NULL until one is written */
	struct biactive_counters __percpu *counters;
	u64 *refused; /* BIACTIVE_REFUSED_WORDS of bucket_copy_word(); allocated with the first setup, then kept */
	unsigned long cookies_until; /* jiffies: no SYN cookie sent so far is valid after that */
	struct biactive_setup __rcu *setup; /* NULL: not configured */
	struct mutex lease_mutex;
	struct proc_dir_entry *directory;
	struct proc_dir_entry *lease_file;
	struct delayed_work advertise;
	unsigned int advertised; /* advertisements since the interface came; only the work of advertise reads it */
};

static inline void biactive_count(const struct biactive_net *bn, enum biactive_counter counter)
{
	this_cpu_inc(bn->counters->value[counter]);
}

/* biactive_setup.c */

struct notifier_block;

extern unsigned int biactive_net_id; /* of net_generic() */
struct biactive_net *biactive_of(const struct net *net);

/*
 * Publishes a setup that has everything but dev, name and ops, and takes its ownership. -ENODEV: no such interface in
 * this namespace; -EINVAL: not an Ethernet one; or an error of registering hooks. On an error nothing has changed, and
 * the caller still owns the setup.
 */
int biactive_set(struct biactive_net *bn, struct biactive_setup *setup);
void biactive_clear(struct biactive_net *bn);
/* Detaches the setup, and frees it. The lease stays. */
void biactive_drop_setup(struct biactive_net *bn);
/* A netdevice notifier. */
int biactive_device_event(struct notifier_block *block, unsigned long event, void *pointer);

/* biactive_accept.c: hooks, priv is the setup. */

unsigned int biactive_early(void *priv, struct sk_buff *skb, const struct nf_hook_state *state);
unsigned int biactive_late_v4(void *priv, struct sk_buff *skb, const struct nf_hook_state *state);
unsigned int biactive_late_v6(void *priv, struct sk_buff *skb, const struct nf_hook_state *state);

/* Returns the shared address of this setup, or NULL when it has no such address. */
static inline const struct biactive_shared *biactive_find_v4(const struct biactive_setup *setup, __be32 ip)
{
	unsigned int i;

	for (i = 0; i < setup->v4_count; i++) {
		if (setup->v4[i].ip.words[3] == ip)
			return &setup->v4[i];
	}
	return NULL;
}

static inline const struct biactive_shared *biactive_find_v6(const struct biactive_setup *setup,
							     const struct in6_addr *ip)
{
	unsigned int i;

	for (i = 0; i < setup->v6_count; i++) {
		if (!memcmp(&setup->v6[i].ip, ip, sizeof(*ip)))
			return &setup->v6[i];
	}
	return NULL;
}

/* biactive_socket.c */

struct tcphdr;

struct biactive_tuple {
	struct net *net;
	int ifindex; /* where the packet came in */
	bool v6;
	union biactive_ip client, service;
	__be16 client_port, service_port;
};

enum biactive_socket {
	BIACTIVE_SOCKET_NONE,
	BIACTIVE_SOCKET_HALF_OPEN, /* isn_client and isn_service are set */
	BIACTIVE_SOCKET_FULL, /* established, closing, or TIME_WAIT; not a listener */
};

struct biactive_isn {
	u32 client, service;
};

enum biactive_socket biactive_socket_find(const struct biactive_tuple *tuple, struct biactive_isn *isn);

/* True for an ACK with a SYN cookie of this node that its listener would take. */
bool biactive_cookie_valid(const struct biactive_net *bn, const struct biactive_tuple *tuple, const struct tcphdr *tcp);

/*
 * Call for each accepted SYN: when its listener answers with cookies, or will do so soon, later ACKs are checked for
 * cookies.
 */
void biactive_cookie_expect(struct biactive_net *bn, const struct biactive_tuple *tuple);

/* biactive_nat.c: false without connection tracking in the kernel */

/* True when the kernel's NAT forwards this segment to a server. */
bool biactive_nat_takes(const struct biactive_tuple *tuple, const struct tcphdr *tcp);

/* True when NAT forwarded this very SYN and the connection is not yet made. */
bool biactive_nat_has_request(const struct biactive_tuple *tuple, const struct tcphdr *tcp);

/* True when NAT forwards packets of this connection. */
bool biactive_nat_knows(const struct biactive_tuple *tuple);

/* biactive_neighbour.c: hooks, priv is the setup. */

unsigned int biactive_arp_out(void *priv, struct sk_buff *skb, const struct nf_hook_state *state);
unsigned int biactive_nd_out(void *priv, struct sk_buff *skb, const struct nf_hook_state *state);

/* biactive_router.c */

void biactive_advertise(struct work_struct *work);

/* biactive_lease.c */

int biactive_lease_init(struct biactive_net *bn);
void biactive_lease_exit(struct biactive_net *bn);
void biactive_lease_drop(struct biactive_net *bn);
/* The user who may write the lease file beside root; INVALID_UID: none. */
void biactive_lease_owner(struct biactive_net *bn, kuid_t uid);

/* biactive_netlink.c */

int biactive_netlink_init(void);
void biactive_netlink_exit(void);

#endif
