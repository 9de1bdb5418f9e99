// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The fast path: what belongs to a forwarded flow never wakes dprd. Two programs on every interface,
 * which go on when dprd does not.
 *
 *   dprd_ingress   to an own service address: entry.h       to the cluster address: serving.h
 *                  to an address that all nodes share: shared.h, then entry.h
 *                  what nearly all packets are goes a shorter way: plain.h
 *   dprd_egress    from an address that this node serves for a peer: serving.h
 *                  ARP and neighbour discovery for an address that all nodes share: answer.h
 */
#include "dprd/bpf/answer.h"
#include "dprd/bpf/entry.h"
#include "dprd/bpf/plain.h"
#include "dprd/bpf/serving.h"

INLINE bool is_tunnel(const struct packet *p, bool v6)
{
	return p->protocol == (v6 ? PROTO_IPV6 : PROTO_IPIP);
}

/* What the programs do about a frame to an own service address. */
enum frame_part {
	FRAME_LEAVE, /* nothing */
	FRAME_TAKE, /* it is for this node, or the kernel module, which comes next, finds that out */
	FRAME_JUDGE, /* entry() has to find out for which node it is */
};

INLINE enum frame_part shared_part(const struct __sk_buff *skb, const struct fastpath_tables *t, bool v6)
{
	uint32_t type = frame_type(skb);

	/* A fellow node has decided and handed the frame over. All that is known here of the connection is older. */
	if (type == FRAME_TO_HOST)
		return FRAME_LEAVE;
	if (t->shared_by_module && type == FRAME_MULTICAST)
		return FRAME_TAKE;
	return type == FRAME_TO_OTHER || skb->ifindex != t->shared_interface[v6] ? FRAME_LEAVE : FRAME_JUDGE;
}

/* v6 is known when this is compiled: each family has a program text of its own, without the other's questions. */
INLINE int general(struct __sk_buff *skb, bool v6)
{
	const struct fastpath_tables *t = tables_get();
	const struct fastpath_address *to;
	struct fastpath_counters *c;
	struct addr destination;
	struct packet p;
	enum frame_part part = FRAME_TAKE;

	if (!packet_read(skb, v6, &p))
		return TC_ACT_UNSPEC;
	destination = v6 ? p.destination : addr_from_v4(p.destination.words[3]);
	to = known_own(t, &destination);
	if (!to)
		return TC_ACT_UNSPEC;
	if (to->roles & ROLE_ALIAS) {
		c = counters_get();
		if (c)
			c->strangers++;
		return TC_ACT_SHOT;
	}
	if (is_tunnel(&p, v6) && to->roles & ROLE_OWN_CLUSTER)
		return INGRESS_TUNNEL;
	if (!(to->roles & ROLE_OWN_SERVICE))
		return TC_ACT_UNSPEC;
	if (to->roles & ROLE_SHARED)
		part = shared_part(skb, t, v6);
	return part == FRAME_LEAVE ? TC_ACT_UNSPEC : entry(skb, &p, v6, t, to, part == FRAME_JUDGE);
}

/*
 * Functions of their own, so that what is on the stack of one way is not on that of the other. All together they may have
 * 512 bytes: the plain way of IPv4 has its place in the program itself, which saves nearly all packets of it a return.
 */
static __attribute__((noinline)) int general_v4(struct __sk_buff *skb)
{
	return general(skb, false);
}

static __attribute__((noinline)) int general_v6(struct __sk_buff *skb)
{
	return general(skb, true);
}

/* The outer header once more: seldom, and so the way of a SYN needs no room for two headers. */
INLINE int tunnel(struct __sk_buff *skb, bool v6)
{
	const struct fastpath_tables *t = tables_get();
	const struct fastpath_address *own;
	struct addr destination;
	struct packet outer;

	if (!packet_read(skb, v6, &outer))
		return TC_ACT_UNSPEC;
	destination = v6 ? outer.destination : addr_from_v4(outer.destination.words[3]);
	own = known_own(t, &destination);
	return own && own->roles & ROLE_OWN_CLUSTER ? decapsulate(skb, &outer, t, own, v6) : TC_ACT_UNSPEC;
}

static __attribute__((noinline)) int tunnel_v4(struct __sk_buff *skb)
{
	return tunnel(skb, false);
}

static __attribute__((noinline)) int tunnel_v6(struct __sk_buff *skb)
{
	return tunnel(skb, true);
}

INLINE int ingress(struct __sk_buff *skb, bool v6)
{
	int action = v6 ? plain_v6(skb) : plain_family(skb, false);

	if (action == INGRESS_GENERAL)
		action = v6 ? general_v6(skb) : general_v4(skb);
	if (action == INGRESS_TUNNEL)
		action = v6 ? tunnel_v6(skb) : tunnel_v4(skb);
	return action;
}

/*
 * A VLAN's frames pass by its own device as well: that one's programs see to them. A tag that says no more than a priority
 * (VLAN 0) is taken off, as the stack would do: what is forwarded must not leave with it.
 */
INLINE bool is_of_vlan(struct __sk_buff *skb)
{
	return skb->vlan_present && (skb->vlan_tci & VLAN_ID_MASK || bpf_skb_vlan_pop(skb));
}

SEC("tc")
int dprd_ingress(struct __sk_buff *skb)
{
	bool v6 = skb->protocol == to_be16(0x86dd);

	if ((!v6 && skb->protocol != to_be16(0x0800)) || is_of_vlan(skb))
		return TC_ACT_UNSPEC;
	return v6 ? ingress(skb, true) : ingress(skb, false);
}

/* Most of what leaves is none of this: of that no more is read than its header, and with aliases its address. */
INLINE int egress(struct __sk_buff *skb, bool v6)
{
	const struct fastpath_tables *t = tables_get();
	const struct fastpath_address *from;
	const uint8_t *ip = header_read(skb, v6);
	struct addr source;
	struct packet p;
	bool answers, as_it_is;

	/* Of what this node forwards that is all, too. */
	if (!ip || (v6 ? ip[6] == PROTO_IPV6 : ip[9] != PROTO_TCP))
		return TC_ACT_UNSPEC;
	as_it_is = leaves_as_it_is(skb, ip, v6);
	if (as_it_is && !t->alias_count)
		return TC_ACT_UNSPEC;
	source = v6 ? addr_from_v6(ip + 8) : addr_from_v4(load_u32(ip + 12));
	from = known_own(t, &source);
	answers = v6 && ip[6] == PROTO_ICMPV6;
	if (!answers && (!is_served_for_peer(from) || (as_it_is && !(from->roles & ROLE_ALIAS))))
		return TC_ACT_UNSPEC;
	if (!packet_read(skb, v6, &p))
		return TC_ACT_UNSPEC;
	if (answers)
		return p.kind == PACKET_OTHER ? answer_nd(skb, &p, t) : TC_ACT_UNSPEC;
	/* It is found, or answers is set: the compiler sees that, Linux 6.1 has to be told. */
	asm volatile("" : "+r"(from));
	return from && p.kind == PACKET_TCP ? leave(skb, &p, t, from, v6) : TC_ACT_UNSPEC;
}

/* A VLAN's frames pass by twice, here and at its own device: the second time there is nothing left to change. */
SEC("tc")
int dprd_egress(struct __sk_buff *skb)
{
	if (skb->protocol == to_be16(0x0800))
		return egress(skb, false);
	if (skb->protocol == to_be16(0x86dd))
		return egress(skb, true);
	return skb->protocol == to_be16(0x0806) ? answer_arp(skb) : TC_ACT_UNSPEC;
}

/*
 * Sets the programs' clock, and returns its tick. dprd runs it before they are attached and with each heartbeat: where a
 * host loses ticks, jiffies fall behind. The clock is never ahead of CLOCK_MONOTONIC, and behind it by two jiffies at
 * most: what is read lies within the jiffy that runs, so the least of what was read is nearest to the truth.
 */
SEC("syscall")
int dprd_clock(void *unused)
{
	uint64_t start_ns = bpf_ktime_get_ns() - (bpf_jiffies64() + 1) * jiffy_ns;
	int64_t later_ns = (int64_t)(start_ns - control.jiffies_start_ns);

	(void)unused;
	if (later_ns < 0 || later_ns > 2 * (int64_t)jiffy_ns)
		control.jiffies_start_ns = start_ns;
	return (int)tick_of(now_ns());
}

char _license[] SEC("license") = "GPL";
