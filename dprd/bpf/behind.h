/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * behind.h - packets to an own service address in which TCP lies behind IP options, extension headers or a fragment
 * header. If they belong to a forwarded flow, dprd gets them: it knows all headers, and the kernel puts fragments
 * together in front of the queue (rules/rules.c). A reassembled packet has the mark of its first fragment, so later
 * fragments need none.
 */
#ifndef DPRD_BPF_BEHIND_H
#define DPRD_BPF_BEHIND_H

#include "dprd/bpf/entry.h"

_Static_assert((int)PACKET_OPTIONS == (int)PACKET_FRAGMENT + 1, "is_behind() compares both at once");

/* True for a fragment, or a packet with options. Two comparisons would take more of the stack, which is full. */
INLINE bool is_behind(const struct fastpath_tables *t, const struct packet *p)
{
	return any_number(t, p->kind) - PACKET_FRAGMENT <= 1;
}

INLINE bool behind_load(const void *datagram, uint32_t at, uint8_t *to, uint32_t bytes)
{
	return !bpf_skb_load_bytes(datagram, ETHERNET_BYTES + at, to, bytes);
}

/* Finds the flow of the packet. NULL: it has none, or no TCP header begins in the packet. */
INLINE struct flow_slot *behind_flow(struct __sk_buff *skb, bool v6, bool *ret_fragment)
{
	uint32_t at = packet_tcp_place(behind_load, skb, v6, ret_fragment);
	const struct fastpath_tables *t = tables_get();
	const struct fastpath_address *to;
	struct flow_search search;
	struct addr destination;
	struct packet p;
	be16 ports[2];
	int port;

	if (!at || bpf_skb_load_bytes(skb, ETHERNET_BYTES + at, ports, sizeof(ports)) || !packet_read(skb, v6, &p))
		return NULL;
	p.key.client = p.source;
	p.key.client_port = ports[0];
	destination = v6 ? p.destination : addr_from_v4(p.destination.words[3]);
	to = known_own(t, &destination);
	port = known_port(t, ports[1]);
	if (!to || port < 0)
		return NULL;
	search_make(&search, &p, v6,
		    t->own_service[to->service & (FASTPATH_SERVICES - 1)][port & (FASTPATH_PORTS - 1)]);
	return flow_get(&search);
}

/*
 * While dprd is away such a packet waits for the client to send it again: the stack here would reset the connection. No
 * packet counts as waiting in the queue before the last fragment is there, and that may never come.
 */
INLINE int behind(struct __sk_buff *skb, bool v6)
{
	const struct fastpath_way *way;
	struct flow_slot *slot;
	bool fragment;

	slot = behind_flow(skb, v6, &fragment);
	if (!slot)
		return TC_ACT_UNSPEC;
	way = way_get(slot->target & FLOW_NODE_MASK, v6);
	if (way->flags & (WAY_SELF | WAY_NAT))
		return TC_ACT_UNSPEC;
	if (!daemon_works())
		return drop(REASON_NO_TUNNEL);
	if (!fragment)
		return queue_to_daemon(skb, MARK_FORWARD);
	mark_set(skb, skb->mark | MARK_FORWARD);
	return TC_ACT_UNSPEC;
}

static __attribute__((noinline)) int behind_v4(struct __sk_buff *skb)
{
	return behind(skb, false);
}

static __attribute__((noinline)) int behind_v6(struct __sk_buff *skb)
{
	return behind(skb, true);
}

#endif
