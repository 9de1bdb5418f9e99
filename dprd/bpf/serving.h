/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * serving.h - the serving node's part: packets that peers tunnel to it come out and go on into the stack. On the way
 * back SYN-ACKs get a smaller MSS, and an alias becomes the service address again.
 */
#ifndef DPRD_BPF_SERVING_H
#define DPRD_BPF_SERVING_H

#include "dprd/bpf/known.h"
#include "dprd/bpf/maps.h"
#include "dprd/core/decide/decapsulate.h"
#include "dprd/core/packet/encap.h"

/* The context of the judgement. */
struct serving {
	const struct fastpath_tables *tables;
	const struct fastpath_address *service; /* as found by serving_owner() */
	int self; /* member */
};

INLINE int serving_owner(void *context, const struct addr *service, be16 port)
{
	struct serving *s = context;

	s->service = known_own(s->tables, service);
	if (!s->service || !(s->service->roles & (ROLE_OWN_SERVICE | ROLE_PEER_SERVICE)) ||
	    (port && known_port(s->tables, port) < 0))
		return -1;
	return s->service->roles & ROLE_SHARED ? (int)DECAP_OWNER_ALL : s->service->member;
}

INLINE bool serving_is_cluster(void *context, const struct addr *address)
{
	const struct serving *s = context;
	const struct fastpath_address *found = known_client(s->tables, address);

	return found && found->roles & ~(unsigned)ROLE_ALIAS && !(found->roles & ROLE_FORMER);
}

/* Parses the inner packet, also one of the other family: judge() drops that for a reason of its own. */
INLINE enum packet_kind inner_read(const struct __sk_buff *skb, const struct packet *outer, bool v6,
				   struct packet *inner)
{
	struct packet_bytes b = { .bytes = packet_data(skb) + ETHERNET_BYTES +
					   (v6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES),
				  .end = packet_end(skb),
				  .length = outer->inner_bytes };

	if (packet_has(&b, 0, 1) && b.bytes[0] >> 4 == (v6 ? 6 : 4))
		return packet_parse_family(&b, v6, inner);
	return packet_parse_bytes(&b, inner);
}

/* The sender of a tunnel packet. NULL: it is not a living peer, and its packets are dropped. */
INLINE const struct fastpath_address *living_peer(const struct fastpath_tables *t, const struct packet *outer)
{
	const struct fastpath_address *peer = known_own(t, &outer->source);

	return peer && peer->roles & ROLE_PEER_CLUSTER && peer->roles & ROLE_LIVING ? peer : NULL;
}

INLINE enum verdict_kind judge_inner(struct serving *s, const struct packet *outer, const struct packet *inner,
				     const struct fastpath_address *peer, enum reason *ret_reason)
{
	const struct decap_env env = {
		.service_owner = serving_owner, .is_cluster_address = serving_is_cluster, .context = s, .self = s->self
	};

	return decapsulate_judge(&env, outer, inner, peer->member, ret_reason);
}

/* The verdict on a tunnel packet, as decapsulate_judge() gives it. */
INLINE enum verdict_kind judge(struct __sk_buff *skb, const struct packet *outer, struct serving *s, bool v6,
			       struct packet *inner, enum reason *ret_reason)
{
	const struct fastpath_address *peer = living_peer(s->tables, outer);

	*ret_reason = REASON_NOT_PEER;
	if (!peer)
		return VERDICT_DROP;
	*ret_reason = REASON_INNER_BAD;
	if (outer->kind != PACKET_TUNNEL)
		return VERDICT_DROP;
	if (inner_read(skb, outer, v6, inner) == PACKET_TRUNCATED) {
		if (!headers_pull(skb))
			return VERDICT_DROP;
		inner_read(skb, outer, v6, inner);
	}
	return judge_inner(s, outer, inner, peer, ret_reason);
}

/* Sets the inner ECN field by RFC 6040. False: the packet must be dropped. */
INLINE bool mend_ecn(struct __sk_buff *skb, const struct packet *inner, uint8_t outer_tos, bool v6)
{
	uint8_t *ip = packet_data(skb) + ETHERNET_BYTES;
	uint8_t head[2];

	if (!((outer_tos ^ inner->tos) & 3))
		return true;
	if (ip + IPV4_HEADER_BYTES > packet_end(skb))
		return false;
	if (!v6)
		return encap_decapsulate_ecn(ip, inner, outer_tos);
	/* IPv6 has no checksum of its own that hides the change: the device's sum over the packet must follow. */
	store_u16(head, load_u16(ip));
	return encap_decapsulate_ecn(head, inner, outer_tos) &&
	       !bpf_skb_store_bytes(skb, ETHERNET_BYTES, head, 2, BPF_F_RECOMPUTE_CSUM);
}

/* Adapts the checksum of a transport, which covers the address (pseudo header). at: the place of the checksum. */
INLINE int checksum_address(struct __sk_buff *skb, uint32_t at, const struct addr *from, const struct addr *to, bool v6)
{
	if (!v6)
		return (int)bpf_l4_csum_replace(skb, at, from->words[3], to->words[3], BPF_F_PSEUDO_HDR | 4);
	return (int)bpf_l4_csum_replace(
		skb, at, 0, (uint64_t)bpf_csum_diff((uint32_t *)from->words, 16, (uint32_t *)to->words, 16, 0),
		BPF_F_PSEUDO_HDR);
}

/* Replaces the address at a place of the outermost IP header. at: where that header begins. */
INLINE int replace_address(struct __sk_buff *skb, uint32_t at, bool destination, const struct addr *from,
			   const struct addr *to, bool v6)
{
	/*
	 * The checksum of an IPv4 header hides the change from a device's sum over the packet; in IPv6 the sum must
	 * follow.
	 */
	if (v6)
		return (int)bpf_skb_store_bytes(skb, at + (destination ? 24 : 8), to->words, 16, BPF_F_RECOMPUTE_CSUM);
	if (bpf_l3_csum_replace(skb, at + 10, from->words[3], to->words[3], 4))
		return -1;
	return (int)bpf_skb_store_bytes(skb, at + (destination ? 16 : 12), &to->words[3], 4, 0);
}

/*
 * The quoted packet of an ICMP error must have the alias, too: otherwise the stack does not find the socket. The
 * checksum of ICMPv6 covers a pseudo header and the quoted bytes. That of ICMP covers the quoted bytes, and there the
 * checksum of the quoted IPv4 header hides the change of the address.
 */
INLINE int error_to_alias(struct __sk_buff *skb, const struct addr *service, const struct addr *alias, bool v6)
{
	uint32_t icmp = ETHERNET_BYTES + (v6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES);
	uint32_t quoted = icmp + ICMP_HEADER_BYTES;

	if (v6 && (checksum_address(skb, icmp + 2, service, alias, true) ||
		   checksum_address(skb, icmp + 2, service, alias, true)))
		return -1;
	return replace_address(skb, quoted, false, service, alias, v6);
}

INLINE int to_alias(struct __sk_buff *skb, const struct packet *inner, const struct addr *alias, bool v6)
{
	struct addr service = inner->key.service, local = *alias;
	uint32_t payload = ETHERNET_BYTES + (v6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES);
	int failed;

	if (inner->kind == PACKET_TCP)
		failed = checksum_address(skb, payload + 16, &service, &local, v6);
	else
		failed = error_to_alias(skb, &service, &local, v6);
	return failed ? failed : replace_address(skb, ETHERNET_BYTES, true, &service, &local, v6);
}

/* True when dprd takes the second look at this SYN, on either side. The outer header is still there. */
INLINE bool is_for_daemon(const struct __sk_buff *skb, const struct packet *inner, enum verdict_kind kind, bool v6)
{
	uint8_t outer[8];

	if (kind == VERDICT_RETURNED)
		return daemon_works();
	if (kind != VERDICT_DECAPSULATE || !packet_is_syn(inner) || packet_is_probe(inner))
		return false;
	if (control.second_look & LOOK_LANDED && __sync_fetch_and_add(&control.landed, 1) >= control.look_room &&
	    !bpf_skb_load_bytes(skb, ETHERNET_BYTES, outer, sizeof(outer)) && encap_may_return(outer, v6) &&
	    daemon_works())
		return true;
	if (control.second_look & LOOK_STAYED)
		__sync_fetch_and_add(&control.stayed, 1);
	return false;
}

/* The packet within goes on into the stack: the verdict is DECAPSULATE. */
INLINE int take_out(struct __sk_buff *skb, const struct serving *s, const struct packet *outer,
		    const struct packet *inner, enum reason reason, bool v6)
{
	struct fastpath_counters *c = counters_get();
	const struct addr *alias;

	if (!s->service || !c ||
	    bpf_skb_adjust_room(skb, v6 ? -ENCAP_V6_BYTES : -ENCAP_V4_BYTES, BPF_ADJ_ROOM_MAC,
				BPF_F_ADJ_ROOM_NO_CSUM_RESET | BPF_F_ADJ_ROOM_FIXED_GSO) ||
	    !mend_ecn(skb, inner, outer->tos, v6))
		return drop(REASON_INNER_BAD);
	if (s->tables->alias_count) {
		alias = &s->tables->alias[s->service->member & (FASTPATH_MEMBERS - 1)]
					 [s->service->service & (FASTPATH_SERVICES - 1)];
		if (!addr_is_zero(alias) && to_alias(skb, inner, alias, v6))
			return drop(REASON_INNER_BAD);
	}
	count_in(c, reason);
	if (reason != REASON_PROBE) {
		c->syns_taken += packet_is_syn(inner);
		c->decapsulated_bytes += inner->total_bytes;
	}
	return TC_ACT_UNSPEC;
}

/* A tunnel packet to this node's cluster address. */
INLINE int decapsulate(struct __sk_buff *skb, const struct packet *outer, const struct fastpath_tables *t,
		       const struct fastpath_address *own, bool v6)
{
	struct serving s = { .tables = t, .self = own->member };
	struct packet inner;
	enum reason reason;
	enum verdict_kind kind = judge(skb, outer, &s, v6, &inner, &reason);

	if (is_for_daemon(skb, &inner, kind, v6))
		return queue_to_daemon(skb, MARK_FORWARD);
	return kind == VERDICT_DECAPSULATE ? take_out(skb, &s, outer, &inner, reason, v6) : drop(reason);
}

/* --- the way back --- */

/* Lowers the MSS option of a SYN-ACK to what fits the tunnel; never raises it. */
INLINE void lower_mss(struct __sk_buff *skb, uint32_t tcp, uint32_t options_bytes, uint16_t mss)
{
	uint32_t at = tcp + TCP_HEADER_BYTES, end = at + options_bytes;
	int i;

	for (i = 0; i < 12 && at + 4 <= end; i++) {
		uint8_t option[4];
		be16 lower = to_be16(mss);

		if (bpf_skb_load_bytes(skb, at, option, 4) || option[0] == 0)
			return;
		if (option[0] == 1) {
			at++;
			continue;
		}
		if (option[0] == 2 && option[1] == 4) {
			if (read_be16(option + 2) <= mss)
				return;
			/* At an odd place the value lies in two words of the sum. */
			if (at & 1)
				bpf_l4_csum_replace(skb, tcp + 16, __builtin_bswap16(load_u16(option + 2)),
						    __builtin_bswap16(lower), 2);
			else
				bpf_l4_csum_replace(skb, tcp + 16, load_u16(option + 2), lower, 2);
			bpf_skb_store_bytes(skb, at + 2, &lower, 2, 0);
			return;
		}
		if (option[1] < 2)
			return;
		at += option[1];
	}
}

/* True for an address that this node serves for a peer. A shared address counts: any of its packets may be for one. */
INLINE bool is_served_for_peer(const struct fastpath_address *from)
{
	return from && from->roles & (ROLE_ALIAS | ROLE_PEER_SERVICE | ROLE_SHARED);
}

/*
 * True when the packet is not a SYN-ACK: then only an alias is changed in it. The bytes of a fragment may look like TCP
 * flags; such a packet is parsed.
 */
INLINE bool leaves_as_it_is(const struct __sk_buff *skb, const uint8_t *ip, bool v6)
{
	const uint8_t *flags = ip + (v6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES) + 13;

	return flags + 1 <= packet_end(skb) && (v6 || ip[0] == 0x45) && ip[v6 ? 6 : 9] == PROTO_TCP &&
	       !(*flags & TCP_SYN);
}

/* A packet that this node sends from an address that it serves for a peer. */
INLINE int leave(struct __sk_buff *skb, const struct packet *p, const struct fastpath_tables *t,
		 const struct fastpath_address *from, bool v6)
{
	uint32_t header_bytes = v6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES, tcp = ETHERNET_BYTES + header_bytes;
	const struct addr *service, *alias;
	struct addr local, back;

	alias = &t->alias[from->member & (FASTPATH_MEMBERS - 1)][from->service & (FASTPATH_SERVICES - 1)];
	service = &t->service[from->member & (FASTPATH_MEMBERS - 1)][from->service & (FASTPATH_SERVICES - 1)];
	if ((p->tcp_flags & (TCP_SYN | TCP_ACK)) == (TCP_SYN | TCP_ACK))
		lower_mss(skb, tcp, p->tcp_header_bytes - (uint32_t)TCP_HEADER_BYTES, t->mss[v6]);
	if (!(from->roles & ROLE_ALIAS))
		return TC_ACT_UNSPEC;
	local = *alias;
	back = *service;
	if (checksum_address(skb, tcp + 16, &local, &back, v6) ||
	    replace_address(skb, ETHERNET_BYTES, false, &local, &back, v6))
		return TC_ACT_SHOT;
	return TC_ACT_UNSPEC;
}

#endif
