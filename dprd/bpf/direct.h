/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * direct.h - packets that leave without an outer header: to a real server behind this node, to a peer with Form=direct,
 * or to a fellow node that has the shared address, too.
 */
#ifndef DPRD_BPF_DIRECT_H
#define DPRD_BPF_DIRECT_H

#include "dprd/bpf/maps.h"
#include "dprd/bpf/too_big.h"
#include "dprd/core/packet/encap.h"

/* Uses one hop of the packet (TTL, hop limit). False: it has none left. */
INLINE bool use_hop(struct __sk_buff *skb, bool v6)
{
	uint8_t *ip = packet_data(skb) + ETHERNET_BYTES, hops[2];

	if (ip + IPV4_HEADER_BYTES > packet_end(skb))
		return false;
	if (!v6)
		return encap_use_hop(ip, false);
	/* IPv6 has no checksum of its own that hides the change: the device's sum over the packet must follow. */
	store_u16(hops, load_u16(ip + 6));
	if (hops[1] <= 1)
		return false;
	hops[1]--;
	return !bpf_skb_store_bytes(skb, ETHERNET_BYTES + 6, hops, 2, BPF_F_RECOMPUTE_CSUM);
}

/* Gives the packet other hardware addresses, and counts it. False: it has no hop left. */
INLINE bool readdress(struct __sk_buff *skb, const struct packet *p, bool v6, const uint8_t *to, const uint8_t *from,
		      enum reason reason)
{
	struct fastpath_counters *c = counters_get();
	uint8_t *data;

	if (!use_hop(skb, v6))
		return false;
	data = packet_data(skb);
	if (data + ETHERNET_BYTES > packet_end(skb))
		return false;
	store_u32(data, load_u32(to));
	store_u16(data + 4, load_u16(to + 4));
	store_u32(data + 6, load_u32(from));
	store_u16(data + 10, load_u16(from + 4));
	if (c) {
		count_in(c, reason);
		c->forward_bytes += p->total_bytes;
	}
	return true;
}

/* Sends to the next hop by the kernel's neighbour table. */
INLINE int redirect_neighbour(const struct fastpath_way *way, bool v6)
{
	struct bpf_redir_neigh next = { .nh_family = v6 ? FAMILY_V6 : FAMILY_V4 };

	if (v6)
		__builtin_memcpy(next.ipv6_nh, way->destination.words, 16);
	else
		next.ipv4_nh = way->destination.words[3];
	return (int)bpf_redirect_neigh(way->interface, &next, sizeof(next), 0);
}

INLINE bool fits_direct(const struct __sk_buff *skb, const struct packet *p, const struct fastpath_way *way)
{
	if (skb->gso_size)
		return p->header_bytes + (uint32_t)p->tcp_header_bytes + skb->gso_size <= way->mtu;
	return p->total_bytes <= way->mtu;
}

/*
 * Sends the packet as it is to a real server or a peer on one of this node's networks, and uses one hop. The caller
 * knows that it fits (fits_direct()).
 */
INLINE int send_direct(struct __sk_buff *skb, const struct packet *p, bool v6, const struct fastpath_way *way,
		       enum reason reason, uint32_t tick)
{
	if (!readdress(skb, p, v6, way->hardware, way->hardware + 6, reason))
		return drop(REASON_NO_TUNNEL);
	if (knows_hardware(way, tick))
		return (int)bpf_redirect(way->interface, 0);
	return redirect_neighbour(way, v6);
}

/*
 * To a fellow node, on the network from which the frame came, so the frame fits there. A fellow that judges frames
 * itself needs only the SYN: every node there receives the other frames, and the fellow has a socket for them.
 */
INLINE int hand_over(struct __sk_buff *skb, const struct packet *p, bool v6, const struct fastpath_tables *t,
		     const struct fastpath_way *way, enum reason reason)
{
	if (way->flags & WAY_WATCHES && !packet_is_syn(p))
		return drop(REASON_SEEN_THERE);
	if (!readdress(skb, p, v6, way->fellow, t->interface_hardware, reason))
		return drop(REASON_NO_TUNNEL);
	return (int)bpf_redirect(skb->ifindex, 0);
}

/*
 * Leaves the packet to the kernel's NAT, which knows the real server; for a SYN the mark names the server
 * (rules/backend.c). A frame to all nodes becomes a frame to this node.
 */
INLINE int leave_to_nat(struct __sk_buff *skb, const struct packet *p, const struct fastpath_way *way,
			enum reason reason)
{
	if (skb->pkt_type == FRAME_MULTICAST && bpf_skb_change_type(skb, FRAME_TO_HOST))
		return drop(REASON_NO_TUNNEL);
	if (packet_is_syn(p))
		mark_set(skb, (skb->mark & ~(uint32_t)BACKEND_MARK_MASK) | way->mark);
	count(reason);
	return TC_ACT_UNSPEC;
}

#endif
