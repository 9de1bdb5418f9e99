/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * too_big.h - a packet that does not fit the tunnel (D7). dprd cuts it into smaller segments and tells the client.
 * While dprd is away, the programs turn the packet itself into the message to the client.
 */
#ifndef DPRD_BPF_TOO_BIG_H
#define DPRD_BPF_TOO_BIG_H

#include "dprd/bpf/maps.h"
#include "dprd/core/packet/encap.h"

enum {
	TOO_BIG_WINDOW_TICKS = 60, /* a second */
	TOO_BIG_PER_WINDOW = 100, /* messages of each processor */
};

INLINE bool too_big_allowed(struct fastpath_counters *c, uint32_t tick)
{
	if (tick - (uint32_t)c->too_big_tick >= TOO_BIG_WINDOW_TICKS) {
		c->too_big_tick = tick;
		c->too_big_count = 0;
	}
	return c->too_big_count++ < TOO_BIG_PER_WINDOW;
}

/*
 * Cuts the packet to its headers, puts the headers of the message in front, and sends it back to where it came from.
 * The quoted headers are taken out and put in again: otherwise the device may complete a checksum within the quote,
 * which the checksum of the message covers already.
 */
INLINE int too_big_answer(struct __sk_buff *skb, const struct packet *p, uint32_t mtu, uint32_t header_bytes)
{
	uint32_t quoted = header_bytes + TCP_HEADER_BYTES, front = header_bytes + ICMP_HEADER_BYTES;
	uint32_t rest = IPV6_HEADER_BYTES; /* the kernel does not allow to take out everything */
	const struct fastpath_tables *t = tables_get();
	uint8_t hardware[12], quote[IPV6_HEADER_BYTES + TCP_HEADER_BYTES];
	uint8_t *data, *end;

	if (bpf_skb_load_bytes(skb, ETHERNET_BYTES, quote, quoted) ||
	    bpf_skb_change_tail(skb, ETHERNET_BYTES + quoted + rest, 0) ||
	    bpf_skb_adjust_room(skb, -(int)quoted, BPF_ADJ_ROOM_MAC, 0) ||
	    bpf_skb_adjust_room(skb, (int)(front + quoted - rest), BPF_ADJ_ROOM_MAC, 0))
		return TC_ACT_SHOT;
	data = packet_data(skb);
	end = packet_end(skb);
	if (data + ETHERNET_BYTES + front + quoted > end)
		return TC_ACT_SHOT;
	__builtin_memcpy(hardware, data, 12);
	__builtin_memcpy(data, hardware + 6, 6);
	/* The frame went to all nodes: the answer carries the address of this one. */
	if (hardware[0] & 1 && t->shared_count)
		__builtin_memcpy(hardware, t->interface_hardware, 6);
	__builtin_memcpy(data + 6, hardware, 6);
	__builtin_memcpy(data + ETHERNET_BYTES + front, quote, quoted);
	encap_too_big_header(data + ETHERNET_BYTES, p, quoted, checksum_add(0, quote, quoted), mtu);
	return (int)bpf_redirect(skb->ifindex, 0);
}

/* This is a separate function, because it is long, rarely needed, and called from several places. tick: now. */
static __attribute__((noinline)) int too_big(struct __sk_buff *skb, const struct packet *p, uint32_t mtu, uint32_t tick)
{
	struct fastpath_counters *c = counters_get();

	if (daemon_works())
		return queue_to_daemon(skb, MARK_FORWARD);
	if (!c)
		return TC_ACT_SHOT;
	c->reason[REASON_NO_TUNNEL]++;
	if (!too_big_allowed(c, tick))
		return TC_ACT_SHOT;
	c->too_big_sent++;
	return p->v6 ? too_big_answer(skb, p, mtu, IPV6_HEADER_BYTES) : too_big_answer(skb, p, mtu, IPV4_HEADER_BYTES);
}

#endif
