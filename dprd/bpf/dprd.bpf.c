// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The fast path: what belongs to a forwarded flow never wakes dprd. Two programs on every interface,
 * which go on when dprd does not.
 *
 *   dprd_ingress   to an own service address: entry.h       to the cluster address: serving.h
 *                  to an address that all nodes share: shared.h, then entry.h
 *   dprd_egress    from an address that this node serves for a peer: serving.h
 *                  ARP and neighbour discovery for an address that all nodes share: answer.h
 */
#include "dprd/bpf/answer.h"
#include "dprd/bpf/entry.h"
#include "dprd/bpf/serving.h"

INLINE bool is_tunnel(const struct packet *p)
{
	return p->protocol == (p->v6 ? PROTO_IPV6 : PROTO_IPIP);
}

/* v6 is known when this is compiled: each family has a program text of its own, without the other's questions. */
INLINE int ingress(struct __sk_buff *skb, bool v6)
{
	const struct fastpath_tables *t = tables_get();
	const struct fastpath_address *to;
	struct fastpath_counters *c;
	struct packet p;

	if (!t || !packet_read(skb, v6, &p))
		return TC_ACT_UNSPEC;
	to = fastpath_find(t, &p.destination);
	if (!to)
		return TC_ACT_UNSPEC;
	if (to->roles & ROLE_ALIAS) {
		c = counters_get();
		if (c)
			c->strangers++;
		return TC_ACT_SHOT;
	}
	if (is_tunnel(&p) && to->roles & ROLE_OWN_CLUSTER)
		return decapsulate(skb, &p, t, to, v6);
	if (!(to->roles & ROLE_OWN_SERVICE))
		return TC_ACT_UNSPEC;
	if (!(to->roles & ROLE_SHARED))
		return entry(skb, &p, t, to, false);
	/* A fellow node handed it over, which has decided. Whatever is known of the connection here is older. */
	if (skb->pkt_type == FRAME_TO_HOST)
		return TC_ACT_UNSPEC;
	if (t->shared_by_module && skb->pkt_type == FRAME_MULTICAST)
		return entry(skb, &p, t, to, false);
	if (skb->pkt_type == FRAME_TO_OTHER || skb->ifindex != t->shared_interface[v6])
		return TC_ACT_UNSPEC;
	return entry(skb, &p, t, to, true);
}

SEC("tc")
int dprd_ingress(struct __sk_buff *skb)
{
	if (skb->protocol == to_be16(0x0800))
		return ingress(skb, false);
	return skb->protocol == to_be16(0x86dd) ? ingress(skb, true) : TC_ACT_UNSPEC;
}

INLINE int egress(struct __sk_buff *skb, bool v6)
{
	const struct fastpath_tables *t = tables_get();
	struct packet p;

	if (!t || !packet_read(skb, v6, &p))
		return TC_ACT_UNSPEC;
	if (v6 && p.kind == PACKET_OTHER && p.protocol == PROTO_ICMPV6)
		return answer_nd(skb, &p, t);
	if (p.kind != PACKET_TCP)
		return TC_ACT_UNSPEC;
	return leave(skb, &p, t, v6);
}

SEC("tc")
int dprd_egress(struct __sk_buff *skb)
{
	if (skb->protocol == to_be16(0x0800))
		return egress(skb, false);
	if (skb->protocol == to_be16(0x86dd))
		return egress(skb, true);
	return skb->protocol == to_be16(0x0806) ? answer_arp(skb) : TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "GPL";
