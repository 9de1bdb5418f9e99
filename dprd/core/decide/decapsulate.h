/* SPDX-License-Identifier: GPL-2.0-or-later */
/* decapsulate.h - decides which tunnelled packets are decapsulated, for every plane. Pure, header only. */
#ifndef DPRD_DECAPSULATE_H
#define DPRD_DECAPSULATE_H

#include "dprd/core/decide/decide.h"
#include "dprd/core/packet/probe.h"

/* True for an address that no client can have: zero, loopback, multicast, broadcast, reserved. */
static inline bool is_impossible_source(const struct packet *packet)
{
	const struct addr v6_loopback = { .bytes = { [15] = 1 } };
	const uint8_t *bytes = packet->source.bytes;

	if (!packet->v6)
		return bytes[12] == 0 || bytes[12] == 127 || bytes[12] >= 224;
	/* A v4-mapped address in an IPv6 header would be taken for the IPv4 address. */
	return addr_is_zero(&packet->source) || addr_equal(&packet->source, &v6_loopback) || bytes[0] == 0xff ||
	       addr_is_v4(&packet->source);
}

/* True when the datagram within goes on: a connection's, or a probe. */
static inline bool decapsulate_takes(enum reason reason)
{
	return reason == REASON_FROM_PEER || reason == REASON_PROBE;
}

/*
 * REASON_FROM_PEER or REASON_PROBE, or why the datagram within is dropped. *ret_owner: the member that its service
 * address belongs to.
 */
static inline enum reason decapsulate_check(const struct decap_env *env, const struct packet *outer,
					    const struct packet *inner, int peer, int *ret_owner)
{
	bool probe = packet_is_probe(inner);
	bool of_syn = inner->kind == PACKET_TCP && inner->tcp_flags & TCP_SYN && !probe;
	int owner;

	if (inner->kind == PACKET_TUNNEL)
		return REASON_INNER_NESTED;
	if (inner->kind != PACKET_TCP && inner->kind != PACKET_ICMP_ERROR)
		return inner->kind == PACKET_OTHER ? REASON_INNER_FOREIGN : REASON_INNER_BAD;
	/* No node sends a packet with options, or without a hop left (RFC 2003 3.1). */
	if (inner->v6 != outer->v6 || inner->total_bytes != outer->inner_bytes || packet_has_options(inner) ||
	    !inner->ttl)
		return REASON_INNER_BAD;
	/* The client of an ICMP error is another host than its sender: neither may be a node of the cluster. */
	if (is_impossible_source(inner) || (!probe && env->is_cluster_address(env->context, &inner->source)) ||
	    (inner->kind == PACKET_ICMP_ERROR && env->is_cluster_address(env->context, &inner->key.client)))
		return REASON_INNER_SOURCE;
	if (inner->v6 && addr_is_v4(&inner->destination))
		return REASON_INNER_FOREIGN;
	/*
	 * The entry node's file may have other ports. A packet of a connection goes to its socket; a port that is not a
	 * service has no socket, because no SYN to it is decapsulated.
	 */
	owner = env->service_owner(env->context, &inner->key.service, of_syn ? inner->key.service_port : 0);
	if (owner < 0 || !inner->key.service_port)
		return REASON_INNER_FOREIGN;
	if (probe) {
		*ret_owner = owner;
		return owner == peer ? REASON_PROBE : REASON_INNER_NOT_SENDERS;
	}
	/* A SYN to a shared address is never sent back. */
	if (owner == DECAP_OWNER_ALL)
		owner = peer;
	if (owner != peer && !(owner == env->self && packet_is_syn(inner)))
		return REASON_INNER_NOT_SENDERS;
	if (env->maybe_stale && packet_is_syn(inner))
		return REASON_STALE_TUNNEL_SYN;
	*ret_owner = owner;
	return REASON_FROM_PEER;
}

/*
 * The verdict on the inner datagram of a tunnel packet of this peer: DECAPSULATE, DROP, or RETURNED for a SYN of this
 * node's own clients, which the peer sent back. The caller then asks decide_returned(), or drops the SYN for
 * *ret_reason.
 */
static inline enum verdict_kind decapsulate_judge(const struct decap_env *env, const struct packet *outer,
						  const struct packet *inner, int peer, enum reason *ret_reason)
{
	int owner;

	*ret_reason = decapsulate_check(env, outer, inner, peer, &owner);
	if (!decapsulate_takes(*ret_reason))
		return VERDICT_DROP;
	if (owner == peer)
		return VERDICT_DECAPSULATE;
	*ret_reason = REASON_RETURNED_LATE;
	return VERDICT_RETURNED;
}

#endif
