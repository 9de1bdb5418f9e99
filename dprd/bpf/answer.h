/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * answer.h - ARP and neighbour discovery for an address that all nodes share: replaces this node's own hardware address
 * in its packets by the hardware address of frames to all nodes.
 */
#ifndef DPRD_BPF_ANSWER_H
#define DPRD_BPF_ANSWER_H

#include "dprd/bpf/known.h"
#include "dprd/bpf/maps.h"
#include "kernel-patch/biactive.h"

enum {
	ARP_SENDER_HARDWARE = 8,
	ARP_SENDER_ADDRESS = 14,
	ND_SOLICITATION = 135,
	ND_ADVERTISEMENT = 136,
	ND_OPTIONS = 24, /* where the options of a solicitation or an advertisement begin */
	ND_OPTIONS_MAX = 4,
	ND_OPTION_SOURCE = 1,
	ND_OPTION_TARGET = 2,
};

INLINE void answer_count(enum biactive_counter what)
{
	struct fastpath_counters *c = counters_get();

	if (c)
		c->shared[what]++;
}

/* The hardware address of a shared address. NULL: the address is not shared. */
INLINE const uint8_t *answer_hardware(const struct fastpath_tables *t, const struct addr *address)
{
	const struct fastpath_address *found = known_own(t, address);

	if (!found || !(found->roles & ROLE_SHARED))
		return NULL;
	return t->shared_hardware[found->service & (FASTPATH_SHARED - 1)];
}

INLINE int answer_arp(struct __sk_buff *skb)
{
	/* Ethernet and IPv4 */
	const uint8_t kind[6] = { 0, 1, 8, 0, 6, 4 };
	const struct fastpath_tables *t = tables_get();
	const uint8_t *hardware;
	uint8_t head[6], mac[6];
	struct addr sender;
	be32 v4;
	int i;

	if (!t->shared_count || bpf_skb_load_bytes(skb, ETHERNET_BYTES, head, sizeof(head)) ||
	    bpf_skb_load_bytes(skb, ETHERNET_BYTES + ARP_SENDER_ADDRESS, &v4, sizeof(v4)))
		return TC_ACT_UNSPEC;
	for (i = 0; i < 6; i++) {
		if (head[i] != kind[i])
			return TC_ACT_UNSPEC;
	}
	sender = addr_from_v4(v4);
	hardware = answer_hardware(t, &sender);
	if (!hardware)
		return TC_ACT_UNSPEC;
	__builtin_memcpy(mac, hardware, sizeof(mac));
	if (bpf_skb_store_bytes(skb, ETHERNET_BYTES + ARP_SENDER_HARDWARE, mac, sizeof(mac), BPF_F_RECOMPUTE_CSUM))
		return TC_ACT_SHOT;
	answer_count(BIACTIVE_ARP_REWRITTEN);
	return TC_ACT_UNSPEC;
}

/* Puts the hardware address into the first option of this type, and adapts the checksum. */
INLINE int answer_option(struct __sk_buff *skb, uint32_t icmp, uint8_t type, const uint8_t *hardware)
{
	uint32_t at = icmp + ND_OPTIONS;
	union {
		uint8_t bytes[8];
		uint32_t words[2];
	} option, fresh;
	int i;

	for (i = 0; i < ND_OPTIONS_MAX; i++) {
		if (bpf_skb_load_bytes(skb, at, option.bytes, sizeof(option)) || !option.bytes[1])
			return TC_ACT_UNSPEC;
		if (option.bytes[0] == type && option.bytes[1] == 1) {
			fresh.bytes[0] = type;
			fresh.bytes[1] = 1;
			__builtin_memcpy(fresh.bytes + 2, hardware, 6);
			if (bpf_l4_csum_replace(skb, icmp + 2, 0,
						(uint64_t)bpf_csum_diff(option.words, 8, fresh.words, 8, 0), 0) ||
			    bpf_skb_store_bytes(skb, at, fresh.bytes, sizeof(fresh), 0))
				return TC_ACT_SHOT;
			answer_count(BIACTIVE_ND_REWRITTEN);
			return TC_ACT_UNSPEC;
		}
		at += 8u * option.bytes[1];
	}
	return TC_ACT_UNSPEC;
}

/* An advertisement carries the hardware address of its target; a solicitation that of its sender. */
INLINE int answer_nd(struct __sk_buff *skb, const struct packet *p, const struct fastpath_tables *t)
{
	uint32_t icmp = ETHERNET_BYTES + IPV6_HEADER_BYTES;
	const uint8_t *hardware;
	struct addr target;
	uint8_t type;

	if (!t->shared_count || bpf_skb_load_bytes(skb, icmp, &type, 1))
		return TC_ACT_UNSPEC;
	if (type == ND_ADVERTISEMENT) {
		if (bpf_skb_load_bytes(skb, icmp + 8, &target, sizeof(target)))
			return TC_ACT_UNSPEC;
		hardware = answer_hardware(t, &target);
		return hardware ? answer_option(skb, icmp, ND_OPTION_TARGET, hardware) : TC_ACT_UNSPEC;
	}
	if (type != ND_SOLICITATION)
		return TC_ACT_UNSPEC;
	hardware = answer_hardware(t, &p->source);
	return hardware ? answer_option(skb, icmp, ND_OPTION_SOURCE, hardware) : TC_ACT_UNSPEC;
}

#endif
