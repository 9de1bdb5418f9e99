/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * biactive.h - the interface between user space and the module dprd_biactive: generic netlink, and the lease file.
 *
 * All state belongs to the network namespace of the socket, or of the process that opened the lease file. SET replaces
 * the whole configuration or, when it fails, changes nothing. No command blocks on traffic.
 */
#ifndef DPRD_BIACTIVE_H
#define DPRD_BIACTIVE_H

#ifdef __KERNEL__
#include <linux/string.h>
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#endif

#define BIACTIVE_FAMILY "dprd_biactive"
#define BIACTIVE_FAMILY_VERSION 1
#define BIACTIVE_ADDRESSES_MAX 8
#define BIACTIVE_KEY_BYTES 16
/* Takes exactly one struct bucket_lease for each write(2); other sizes and bad contents are EINVAL. */
#define BIACTIVE_LEASE_DIRECTORY "dprd_biactive"
#define BIACTIVE_LEASE_FILE "lease"
#define BIACTIVE_LEASE_PATH "/proc/net/" BIACTIVE_LEASE_DIRECTORY "/" BIACTIVE_LEASE_FILE
/* The late hook lets packets with this bit in their mark through: dprd forwards them. */
#define BIACTIVE_MARK_FORWARD 0x40000000u
/* The late hook runs after dprd's chain and before other chains in the raw tables. */
#define BIACTIVE_LATE_PRIORITY (-301)

/* All three need CAP_NET_ADMIN in the user namespace that owns the network namespace. */
enum biactive_command {
	BIACTIVE_CMD_UNSPEC,
	BIACTIVE_CMD_SET, /* IFINDEX, HOOK, KEY, LEASE_UID, ADDRESSES; all are required; NAT is optional */
	BIACTIVE_CMD_GET, /* answers the present state; an unconfigured namespace has only COUNTERS and the lease */
	BIACTIVE_CMD_CLEAR, /* the state after loading: no hooks, no lease, the lease file belongs to root */
	BIACTIVE_CMD_COUNT
};

enum biactive_attribute {
	BIACTIVE_A_UNSPEC,
	BIACTIVE_A_PAD,
	BIACTIVE_A_IFINDEX, /* u32; in answers 0 while the interface is away */
	BIACTIVE_A_IFNAME, /* string, answers only: an interface of this name is taken up again when it comes back */
	BIACTIVE_A_HOOK, /* u8, enum biactive_hook */
	BIACTIVE_A_KEY, /* 16 bytes: both words of the key of bucket_hash(), little endian; never answered */
	BIACTIVE_A_LEASE_UID, /* u32: the user who may write the lease file, in the sender's user namespace */
	BIACTIVE_A_ADDRESSES, /* 1..BIACTIVE_ADDRESSES_MAX of struct biactive_address */
	BIACTIVE_A_LEASE_UNTIL, /* u64, ns on CLOCK_MONOTONIC; missing when no lease was ever written */
	BIACTIVE_A_SHARE_CHANGED, /* u64, ns on CLOCK_MONOTONIC */
	BIACTIVE_A_SHARE, /* struct bucket_share, up to its last member */
	BIACTIVE_A_COUNTERS, /* nested: u64 of type 1 + enum biactive_counter */
	/*
	 * u8; 1: connections that the kernel's NAT forwards to other servers also count as this node's; -EOPNOTSUPP
	 * without connection tracking in the kernel. A missing attribute counts as 0.
	 */
	BIACTIVE_A_NAT,
	BIACTIVE_A_COUNT
};

enum biactive_hook {
	BIACTIVE_HOOK_EARLY, /* ingress of the interface: refuses frames at the least cost */
	BIACTIVE_HOOK_LATE, /* prerouting, for a dprd that takes packets from a queue */
	BIACTIVE_HOOK_COUNT
};

struct biactive_address {
	uint8_t ip[16]; /* IPv4 mapped into IPv6; unicast */
	uint8_t mac[6]; /* the address that neighbours learn; multicast */
	uint8_t reserved[2]; /* 0 */
};

/*
 * One counter for each verdict, then other counters. Every frame to a shared address that was not sent to this node's
 * own hardware address is counted exactly once in the first two lists.
 */
#define BIACTIVE_ACCEPTS(X)                                                                         \
	X(ACCEPT_SOCKET, accept_socket) /* TCP: a local socket, or the answer to a half-open one */ \
	X(ACCEPT_COOKIE, accept_cookie) /* TCP: carries a SYN cookie of this node */                \
	X(ACCEPT_SYN, accept_syn) /* the bucket is mine */                                          \
	X(ACCEPT_COPY, accept_copy) /* the bucket was mine when the first copy of the SYN came */   \
	X(ACCEPT_ERROR, accept_error) /* an ICMP error about a packet of this node */               \
	X(ACCEPT_OTHER, accept_other) /* echo request, UDP and so on: the bucket is mine */         \
	X(ACCEPT_FORWARD, accept_forward) /* dprd or the kernel's NAT forwards it */                \
	X(PASS_NEIGHBOUR, pass_neighbour) /* neighbour discovery concerns all nodes */
#define BIACTIVE_REFUSALS(X)                                                                                     \
	X(REFUSE_SOCKET, refuse_socket) /* TCP: neither a local socket nor NAT */                                \
	X(REFUSE_HALF_OPEN, refuse_half_open) /* TCP: does not acknowledge the half-open socket's SYN-ACK */     \
	X(REFUSE_SYN, refuse_syn) /* another node's bucket */                                                    \
	X(REFUSE_COPY, refuse_copy) /* the bucket is mine now, but another node got the first copy of the SYN */ \
	X(REFUSE_ERROR, refuse_error) /* an ICMP error about another node's packet */                            \
	X(REFUSE_OTHER, refuse_other) /* echo request, UDP and so on: another node's bucket */                   \
	X(REFUSE_NO_LEASE, refuse_no_lease) /* it needs a lease, and there is none */                            \
	X(REFUSE_FRAGMENT, refuse_fragment)                                                                      \
	X(REFUSE_MALFORMED, refuse_malformed)
#define BIACTIVE_EVENTS(X)                                                                     \
	X(ARP_REWRITTEN, arp_rewritten) /* ARP packets that got the shared hardware address */ \
	X(ND_REWRITTEN, nd_rewritten) /* neighbour discovery packets that got it */            \
	X(ADVERTISED, advertised) /* Multicast Router Advertisements (RFC 4286) sent */        \
	X(LEASES, leases) /* leases written */                                                 \
	X(LEASES_REFUSED, leases_refused) /* writes to the lease file that changed nothing */
#define BIACTIVE_COUNTERS(X) BIACTIVE_ACCEPTS(X) BIACTIVE_REFUSALS(X) BIACTIVE_EVENTS(X)

#define BIACTIVE_COUNTER_ENTRY(upper, lower) BIACTIVE_##upper,
enum biactive_counter { BIACTIVE_COUNTERS(BIACTIVE_COUNTER_ENTRY) BIACTIVE_COUNTER_COUNT };
#undef BIACTIVE_COUNTER_ENTRY

/* True when a frame with this verdict goes on into the stack of this node; false: the node drops it. */
static inline bool biactive_is_taken(enum biactive_counter verdict)
{
	switch (verdict) {
#define BIACTIVE_CASE(upper, lower) case BIACTIVE_##upper:
		BIACTIVE_ACCEPTS(BIACTIVE_CASE)
#undef BIACTIVE_CASE
		return true;
	default:
		return false;
	}
}

/* The default hardware address of a shared address (16 bytes) (RFC 1112 6.4, RFC 2464 7). */
static inline void biactive_default_mac(const uint8_t ip[16], uint8_t mac[6])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (memcmp(ip, mapped, 12) == 0) {
		mac[0] = 0x01;
		mac[1] = 0x00;
		mac[2] = 0x5e;
		mac[3] = ip[13] & 0x7f;
	} else {
		mac[0] = mac[1] = 0x33;
		mac[2] = ip[12];
		mac[3] = ip[13];
	}
	mac[4] = ip[14];
	mac[5] = ip[15];
}

#endif
