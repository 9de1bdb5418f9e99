// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The fast path: packets of forwarded flows never wake dprd. Every interface has two programs, which also work while
 * dprd does not run.
 *
 *   dprd_ingress   to an own service address: entry.h       to the cluster address: serving.h
 *                  with IP options, or fragments: behind.h
 *                  to an address that all nodes share: shared.h, then entry.h
 *                  nearly all packets take a shorter way: plain.h
 *   dprd_egress    from an address that this node serves for a peer: serving.h
 *                  SYN-ACKs of this node: answered.h
 *                  ARP and neighbour discovery for an address that all nodes share: answer.h
 */
#include "dprd/bpf/answer.h"
#include "dprd/bpf/answered.h"
#include "dprd/bpf/behind.h"
#include "dprd/bpf/entry.h"
#include "dprd/bpf/plain.h"
#include "dprd/bpf/serving.h"

INLINE bool is_tunnel(const struct packet *p, bool v6)
{
	return p->protocol == (v6 ? PROTO_IPV6 : PROTO_IPIP);
}

/* The programs' part in a frame to an own service address. */
enum frame_part {
	FRAME_LEAVE, /* they leave it alone */
	FRAME_TAKE, /* the frame is for this node, or the kernel module, which comes next, decides that */
	FRAME_JUDGE, /* entry() has to find out for which node it is */
};

INLINE enum frame_part shared_part(const struct __sk_buff *skb, const struct fastpath_tables *t, bool v6)
{
	uint32_t type = frame_type(skb);

	/*
	 * A fellow node decided that the frame is for this node, and handed it over. All that this node knows about the
	 * connection is older.
	 */
	if (type == FRAME_TO_HOST)
		return FRAME_LEAVE;
	if (t->shared_by_module && type == FRAME_MULTICAST)
		return FRAME_TAKE;
	return type == FRAME_TO_OTHER || skb->ifindex != t->shared_interface[v6] ? FRAME_LEAVE : FRAME_JUDGE;
}

/* v6 is a constant to the compiler: each family has its own code, without the checks of the other family. */
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
	else if (is_behind(t, &p))
		return INGRESS_BEHIND;
	return part == FRAME_LEAVE ? TC_ACT_UNSPEC : entry(skb, &p, v6, t, to, part == FRAME_JUDGE);
}

/*
 * These are separate functions, so that the ways do not share one stack: all functions of a chain of calls may use 512
 * bytes together. The plain way of IPv4 is part of the program itself, which saves nearly all packets a return.
 */
static __attribute__((noinline)) int general_v4(struct __sk_buff *skb)
{
	return general(skb, false);
}

static __attribute__((noinline)) int general_v6(struct __sk_buff *skb)
{
	return general(skb, true);
}

/* Parses the outer header once more. That is rare, and saves the way of a SYN the room for two headers. */
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
	if (action == INGRESS_BEHIND)
		action = v6 ? behind_v6(skb) : behind_v4(skb);
	return action;
}

/*
 * True for a frame of a VLAN: it also passes the device of the VLAN, and the programs there handle it. A tag that has
 * only a priority (VLAN 0) is removed, as the stack would do: forwarded packets must not leave with it.
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

/* Most packets that leave need no change: for these only the header is read, and with aliases the address. */
INLINE int egress(struct __sk_buff *skb, bool v6)
{
	const struct fastpath_tables *t = tables_get();
	const struct fastpath_address *from;
	const uint8_t *ip = header_read(skb, v6);
	struct addr source;
	struct packet p;
	bool answers, as_it_is;

	/* Forwarded packets of this node end here, too. */
	if (!ip || (v6 ? ip[6] == PROTO_IPV6 : ip[9] != PROTO_TCP))
		return TC_ACT_UNSPEC;
	as_it_is = leaves_as_it_is(skb, ip, v6);
	if (as_it_is && !t->alias_count)
		return TC_ACT_UNSPEC;
	source = v6 ? addr_from_v6(ip + 8) : addr_from_v4(load_u32(ip + 12));
	from = known_own(t, &source);
	answers = v6 && ip[6] == PROTO_ICMPV6;
	if (!answers && !as_it_is && from && from->roles & ROLE_OWN_SERVICE) {
		if (v6)
			answered_note_v6(skb);
		else
			answered_note_v4(skb);
	}
	if (!answers && (!is_served_for_peer(from) || (as_it_is && !(from->roles & ROLE_ALIAS))))
		return TC_ACT_UNSPEC;
	if (!packet_read(skb, v6, &p))
		return TC_ACT_UNSPEC;
	if (answers)
		return p.kind == PACKET_OTHER ? answer_nd(skb, &p, t) : TC_ACT_UNSPEC;
	/* Either from is set, or answers is. The compiler sees that; the verifier of Linux 6.1 does not. */
	asm volatile("" : "+r"(from));
	return from && p.kind == PACKET_TCP ? leave(skb, &p, t, from, v6) : TC_ACT_UNSPEC;
}

/* A frame of a VLAN passes twice, here and at the device of the VLAN. The second time nothing is left to change. */
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
 * Sets the clock of the programs, and returns its tick. dprd runs this program before the others are attached, and with
 * each heartbeat: jiffies fall behind on a host that loses ticks. The clock is never ahead of CLOCK_MONOTONIC, and at
 * most two jiffies behind. A reading lies somewhere within the running jiffy, so the least reading is nearest to the
 * truth.
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
