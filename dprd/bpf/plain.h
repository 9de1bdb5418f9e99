/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plain.h - a shorter way through the same steps for nearly all packets: whole TCP packets without IP options, not
 * SYNs, of an established connection. All other packets take the general way (INGRESS_GENERAL).
 *
 * It is shorter because nothing here needs the whole struct packet: the compiler keeps a few fields in registers, and
 * does not compute the others.
 */
#ifndef DPRD_BPF_PLAIN_H
#define DPRD_BPF_PLAIN_H

#include "dprd/bpf/entry.h"
#include "dprd/bpf/serving.h"

/* The result is an action of tc (TC_ACT_*), or the way that the packet must take instead: */
enum ingress_way {
	INGRESS_GENERAL = 0x100, /* it is not plain, and nothing was done to it yet */
	INGRESS_TUNNEL, /* the same, and it is tunnelled to this node */
	INGRESS_BEHIND, /* it is to a service, and TCP is behind options, extension headers or a fragment header */
};

_Static_assert((int)INGRESS_GENERAL > (int)TC_ACT_VALUE_MAX, "no action of tc is a way");

enum { PLAIN_V4 = 0x45 }; /* the first byte of a header without options */

/* The datagram that begins at this offset from the IP header, in the form that the parser needs. */
INLINE struct packet_bytes bytes_from(const struct __sk_buff *skb, uint32_t offset)
{
	return (struct packet_bytes) { .bytes = packet_data(skb) + ETHERNET_BYTES + offset,
				       .end = packet_end(skb),
				       .length = skb->len - ETHERNET_BYTES - offset };
}

/* A plain packet has at least two headers of these sizes: its own and TCP's, or the outer one and more. */
INLINE uint32_t plain_bytes(bool v6)
{
	return (v6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES) + TCP_HEADER_BYTES;
}

/* True when these headers can be read. The compiler knows it from then on, and leaves out the checks of the parser. */
INLINE bool plain_reach(struct packet_bytes *b, bool v6)
{
	uint32_t bytes = plain_bytes(v6);

	if (!packet_has(b, 0, bytes))
		return false;
	b->end = b->bytes + bytes;
	/* The bytes that can be read are never more than those of the packet. */
	__builtin_assume(b->length >= bytes);
	return true;
}

/* Parses the IP header alone, which can be read. False: the header is not plain, or part of the packet is missing. */
INLINE bool plain_header(const struct packet_bytes *b, bool v6, struct packet *p)
{
	if (v6 ? b->bytes[0] >> 4 != 6 : b->bytes[0] != PLAIN_V4)
		return false;
	if (read_be16(b->bytes + (v6 ? 4 : 2)) < (v6 ? (uint32_t)TCP_HEADER_BYTES : plain_bytes(false)))
		return false;
	*p = (struct packet) { 0 };
	return !(v6 ? packet_parse_v6(b, p) : packet_parse_v4(b, p)) && p->total_bytes <= b->length &&
	       !(v6 && is_forbidden(p));
}

INLINE uint8_t plain_protocol(const struct packet_bytes *b, bool v6)
{
	return b->bytes[v6 ? 6 : 9];
}

/* Parses the IP header and TCP behind it. False: it is not plain, or a SYN, or has no hop left. */
INLINE bool plain_tcp(const struct packet_bytes *b, bool v6, struct packet *p)
{
	uint32_t header_bytes = v6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES;
	struct packet_bytes payload = { .bytes = b->bytes + header_bytes, .end = b->end };

	if (plain_protocol(b, v6) != PROTO_TCP || !plain_header(b, v6, p))
		return false;
	payload.length = p->total_bytes - header_bytes;
	p->kind = packet_parse_tcp(&payload, header_bytes, p);
	return p->kind == PACKET_TCP && !(p->tcp_flags & TCP_SYN) && p->ttl;
}

/* From a client: entry() and forward(). to: the service address. */
INLINE int plain_entry(struct __sk_buff *skb, const struct packet *p, bool v6, const struct fastpath_tables *t,
		       const struct fastpath_address *to)
{
	int port = known_port(t, p->key.service_port);
	struct leaving leaving = { .reason = REASON_FLOW, .outer_id = encap_outer_id(p, v6, 0) };
	struct flow_search search;
	struct flow_slot *slot;

	if (port < 0)
		return TC_ACT_UNSPEC;
	search_make(&search, p, v6, t->own_service[to->service & (FASTPATH_SERVICES - 1)][port & (FASTPATH_PORTS - 1)]);
	slot = flow_get(&search);
	if (!slot)
		return TC_ACT_UNSPEC;
	leaving.way = way_get(slot->target & FLOW_NODE_MASK, v6);
	leaving.tick = tick_of(now_ns());
	if ((leaving.way->flags & (WAY_USABLE | WAY_SELF | WAY_NAT)) != WAY_USABLE)
		return INGRESS_GENERAL;
	if (leaving.way->flags & WAY_DIRECT) {
		if (!fits_direct(skb, p, leaving.way))
			return INGRESS_GENERAL;
		flow_moves(slot, p, v6, leaving.tick);
		return send_direct(skb, p, v6, leaving.way, REASON_FLOW, leaving.tick);
	}
	if (!fits(skb, p, v6, &leaving))
		return INGRESS_GENERAL;
	flow_moves(slot, p, v6, leaving.tick);
	return encapsulate(skb, p, v6, &leaving);
}

/* From a peer: decapsulate(). own: the cluster address. */
INLINE int plain_decapsulate(struct __sk_buff *skb, struct packet *outer, const struct fastpath_tables *t,
			     const struct fastpath_address *own, bool v6)
{
	struct packet_bytes b = bytes_from(skb, v6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES);
	struct serving s = { .tables = t, .self = own->member };
	const struct fastpath_address *peer;
	struct packet inner;
	enum reason reason;

	outer->inner_bytes = outer->total_bytes - outer->header_bytes;
	if (!plain_reach(&b, v6) || !plain_tcp(&b, v6, &inner))
		return INGRESS_TUNNEL;
	peer = living_peer(t, outer);
	if (!peer || judge_inner(&s, outer, &inner, peer, &reason) != VERDICT_DECAPSULATE)
		return INGRESS_TUNNEL;
	return take_out(skb, &s, outer, &inner, REASON_FROM_PEER, v6);
}

/*
 * Reads the header, and finds the entry of the destination: *ret. 0: go on; otherwise this is the result for the
 * packet.
 */
INLINE int plain_destination(const struct packet_bytes *b, bool v6, const struct fastpath_tables *t, struct packet *p,
			     const struct fastpath_address **ret)
{
	struct addr destination;

	if (!plain_header(b, v6, p))
		return INGRESS_GENERAL;
	destination = v6 ? p->destination : addr_from_v4(p->destination.words[3]);
	*ret = known_own(t, &destination);
	return *ret ? 0 : TC_ACT_UNSPEC;
}

INLINE int plain_of_tcp(struct __sk_buff *skb, const struct packet_bytes *b, bool v6)
{
	const struct fastpath_tables *t = tables_get();
	const struct fastpath_address *to;
	struct packet p;
	int end = plain_destination(b, v6, t, &p, &to);

	if (end)
		return end;
	if ((to->roles & (ROLE_OWN_SERVICE | ROLE_SHARED | ROLE_ALIAS)) != ROLE_OWN_SERVICE || !plain_tcp(b, v6, &p))
		return INGRESS_GENERAL;
	return plain_entry(skb, &p, v6, t, to);
}

/* Packets of a tunnel, and packets to addresses that are not the cluster's. */
INLINE int plain_of_others(struct __sk_buff *skb, const struct packet_bytes *b, bool v6)
{
	const struct fastpath_tables *t = tables_get();
	const struct fastpath_address *to;
	struct packet p;
	int end = plain_destination(b, v6, t, &p, &to);

	if (end)
		return end;
	if (p.protocol != (v6 ? PROTO_IPV6 : PROTO_IPIP) || !(to->roles & ROLE_OWN_CLUSTER))
		return INGRESS_GENERAL;
	return plain_decapsulate(skb, &p, t, to, v6);
}

/*
 * True when the SYN flag is set at its usual place. Such packets go the general way at once: a flood consists of them.
 */
INLINE bool is_plainly_syn(const struct packet_bytes *b, bool v6)
{
	return b->bytes[(v6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES) + 13] & TCP_SYN;
}

INLINE int plain_family(struct __sk_buff *skb, bool v6)
{
	struct packet_bytes b = bytes_from(skb, 0);

	if (!plain_reach(&b, v6))
		return INGRESS_GENERAL;
	if (plain_protocol(&b, v6) != PROTO_TCP)
		return plain_of_others(skb, &b, v6);
	return is_plainly_syn(&b, v6) ? INGRESS_GENERAL : plain_of_tcp(skb, &b, v6);
}

static __attribute__((noinline)) int plain_v6(struct __sk_buff *skb)
{
	return plain_family(skb, true);
}

#endif
