/* SPDX-License-Identifier: GPL-2.0-or-later */
/* maps.h - the maps (layout.h), and the functions that all programs need. */
#ifndef DPRD_BPF_MAPS_H
#define DPRD_BPF_MAPS_H

#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#include "dprd/base/inline.h"
#include "dprd/bpf/layout.h"
#include "dprd/core/packet/packet.h"

enum { ETHERNET_BYTES = 14, VLAN_ID_MASK = 0xfff };

/* The longest headers that matter: a tunnelled SYN with all TCP options. A tunnelled ICMP error needs fewer. */
enum {
	HEADERS_BYTES_MAX = ETHERNET_BYTES + 2 * IPV6_HEADER_BYTES + TCP_HEADER_BYTES_MAX,
	HEADERS_BYTES_ERROR = ETHERNET_BYTES + 3 * IPV6_HEADER_BYTES + ICMP_HEADER_BYTES + ICMP_QUOTED_TCP_BYTES,
};

_Static_assert((int)HEADERS_BYTES_MAX >= (int)HEADERS_BYTES_ERROR, "all that the parser reads");

enum { FAMILY_V4 = 2, FAMILY_V6 = 10 }; /* AF_INET, AF_INET6 */
/* skb->pkt_type (linux/if_packet.h) */
enum { FRAME_TO_HOST = 0, FRAME_MULTICAST = 2, FRAME_TO_OTHER = 3 };

/* Set before the programs are loaded, from the flow table's header. */
const volatile uint64_t flow_secret[2];
const volatile uint32_t flow_buckets;
const volatile bool decide_in_kernel;
const volatile uint64_t jiffy_ns;

/* dprd writes these. The programs know their addresses, and need no look-up. */
struct fastpath_control control __attribute__((aligned(FASTPATH_LINE_BYTES)));
struct fastpath_tables tables[2] __attribute__((aligned(FASTPATH_LINE_BYTES)));
struct fastpath_way ways[FASTPATH_WAYS] __attribute__((aligned(FASTPATH_LINE_BYTES)));

/* Connections of each way that clients confirmed; dprd only reads it. */
uint32_t confirmed[FASTPATH_WAYS] __attribute__((aligned(FASTPATH_LINE_BYTES)));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct flow_bucket);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FASTPATH_SCHEDULES);
	__type(key, uint32_t);
	__type(value, struct fastpath_schedule);
} schedules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct fastpath_recent);
} recent SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct fastpath_counters);
} counters SEC(".maps");

INLINE const struct fastpath_tables *tables_get(void)
{
	const struct fastpath_tables *t = &tables[control.active & 1];

	/* Without this the compiler computes the address again for each field. */
	asm volatile("" : "+r"(t));
	return t;
}

INLINE struct fastpath_counters *counters_get(void)
{
	uint32_t zero = 0;

	return bpf_map_lookup_elem(&counters, &zero);
}

/*
 * Returns the same number, but the verifier no longer knows its range. Otherwise the verifier would go through the
 * following code once for each value that the number may have, which is most of the time of loading. base: a pointer
 * into a map; to the verifier a difference of pointers is any number.
 */
INLINE uint32_t any_number(const void *base, uint32_t number)
{
	uint64_t at = (uint64_t)base + number;

	asm volatile("" : "+r"(at));
	return (uint32_t)(at - (uint64_t)base);
}

/*
 * Counts a packet by its reason. The value that is checked must be the one that is used: when the compiler reads it
 * from the stack again, the verifier of Linux 6.1 has forgotten its bound.
 */
INLINE void count_in(struct fastpath_counters *c, uint32_t reason)
{
	asm volatile("" : "+r"(reason));
	if (reason < REASONS)
		c->reason[reason]++;
}

INLINE void count(enum reason reason)
{
	struct fastpath_counters *c = counters_get();

	if (c)
		count_in(c, reason);
}

INLINE int drop(enum reason reason)
{
	count(reason);
	return TC_ACT_SHOT;
}

/* Where the packet begins and ends. This is in assembler, or else the compiler makes of skb + offset a pointer that the
 * verifier does not know. */
INLINE uint8_t *packet_data(const struct __sk_buff *skb)
{
	long data;

	asm volatile("%[data] = *(u32 *)(%[skb] + %[offset])"
		     : [data] "=r"(data)
		     : [skb] "r"(skb), [offset] "i"(__builtin_offsetof(struct __sk_buff, data)));
	return (uint8_t *)data;
}

INLINE uint8_t *packet_end(const struct __sk_buff *skb)
{
	long end;

	asm volatile("%[end] = *(u32 *)(%[skb] + %[offset])"
		     : [end] "=r"(end)
		     : [skb] "r"(skb), [offset] "i"(__builtin_offsetof(struct __sk_buff, data_end)));
	return (uint8_t *)end;
}

/*
 * The clock of the programs: CLOCK_MONOTONIC, at most two jiffies behind (dprd_clock()). It counts by jiffies, because
 * that is a load and no call: bpf_ktime_get_coarse_ns() is as coarse, and took a tenth of the cost of a SYN.
 */
INLINE uint64_t now_ns(void)
{
	return bpf_jiffies64() * jiffy_ns + control.jiffies_start_ns;
}

INLINE uint32_t tick_of(uint64_t ns)
{
	return (uint32_t)(ns >> FLOW_TICK_SHIFT);
}

/* The search for the flow of a packet's connection; service: its index in the flow table. */
INLINE void search_make(struct flow_search *s, const struct packet *p, bool v6, uint8_t service)
{
	const uint64_t secret[2] = { flow_secret[0], flow_secret[1] };
	const uint32_t *a = p->key.client.words;

	if (v6)
		flow_search_v6(s, secret, flow_buckets, service, load_u64(a), load_u64(a + 2), p->key.client_port);
	else
		flow_search_v4(s, secret, flow_buckets, service, a[3], p->key.client_port);
}

/* True while dprd works: it takes the packets that are queued. */
INLINE bool daemon_works(void)
{
	uint64_t now = now_ns(), waiting = control.waiting_ns;

	/* Signed: dprd may have written the heartbeat after this processor read the clock. */
	if ((int64_t)(now - control.heartbeat_ns) >= (int64_t)FASTPATH_LATE_MS * 1000000)
		return false;
	return !waiting || (int64_t)(now - waiting) < (int64_t)FASTPATH_WAIT_MS * 1000000;
}

/*
 * This is in assembler: the compiler would join this store with a store into a flow's slot, through a pointer that may
 * point to either. The verifier refuses that.
 */
INLINE void mark_set(struct __sk_buff *skb, uint32_t mark)
{
	asm volatile("*(u32 *)(%[skb] + %[offset]) = %[mark]"
		     :
		     : [skb] "r"(skb), [mark] "r"(mark), [offset] "i"(__builtin_offsetof(struct __sk_buff, mark))
		     : "memory");
}

/* This is in assembler: the compiler would keep the address of the field, and the verifier forbids to read by it. */
INLINE uint32_t frame_type(const struct __sk_buff *skb)
{
	uint32_t type;

	asm volatile("%[type] = *(u32 *)(%[skb] + %[offset])"
		     : [type] "=r"(type)
		     : [skb] "r"(skb), [offset] "i"(__builtin_offsetof(struct __sk_buff, pkt_type)));
	return type;
}

/* True when the kernel module, which comes next, may still drop the packet. */
INLINE bool is_unjudged(const struct __sk_buff *skb)
{
	return frame_type(skb) == FRAME_MULTICAST && tables_get()->shared_by_module;
}

/* Hands the packet to dprd by the queue that the mark selects. */
INLINE int queue_to_daemon(struct __sk_buff *skb, uint32_t mark)
{
	if (!control.waiting_ns && !is_unjudged(skb))
		control.waiting_ns = now_ns();
	mark_set(skb, skb->mark | mark);
	return TC_ACT_UNSPEC;
}

INLINE const struct fastpath_way *way_get(uint32_t node, bool v6)
{
	uint32_t index = 2 * node + v6;
	const struct fastpath_way *way;

	/* The compiler sees that the index is in bounds, and would drop the mask that the verifier needs. */
	asm volatile("" : "+r"(index));
	way = &ways[index & (FASTPATH_WAYS - 1)];
	asm volatile("" : "+r"(way));
	return way;
}

/* True when dprd knew the hardware address lately. Signed: dprd's clock may be ahead of that of the programs. */
INLINE bool knows_hardware(const struct fastpath_way *way, uint32_t tick)
{
	uint32_t known = way->hardware_tick;

	/* 0 means never, and not the start of the host. */
	return known && (int32_t)(tick - known) <= FASTPATH_MAC_TICKS;
}

/*
 * True for addresses that no IPv6 header may have. The tables hold IPv4 addresses as mapped ones, so such a packet
 * would look like IPv4. No client has a multicast address, either (flow/slot.h). The stack drops both.
 */
INLINE bool is_forbidden(const struct packet *p)
{
	return addr_is_v4(&p->source) || addr_is_v4(&p->destination) || p->source.bytes[0] == 0xff;
}

/* The IP header, without options. NULL: it is not all there. */
INLINE const uint8_t *header_read(struct __sk_buff *skb, bool v6)
{
	uint32_t bytes = ETHERNET_BYTES + (v6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES);
	const uint8_t *data;

	if (packet_data(skb) + bytes > packet_end(skb) && bpf_skb_pull_data(skb, bytes))
		return NULL;
	data = packet_data(skb);
	return data + bytes <= packet_end(skb) ? data + ETHERNET_BYTES : NULL;
}

/* Pulls the headers together, so that they can be read at once. False: that failed. */
INLINE bool headers_pull(struct __sk_buff *skb)
{
	return !bpf_skb_pull_data(skb, skb->len < HEADERS_BYTES_MAX ? skb->len : HEADERS_BYTES_MAX);
}

/* Parses the packet, and pulls its headers together where that is needed. False: it is of no interest here. */
INLINE bool packet_read(struct __sk_buff *skb, bool v6, struct packet *p)
{
	int attempt;

	/* The loop has the parser's code only once: twice it would be too long to be inlined here. */
#pragma clang loop unroll(disable)
	for (attempt = 0; attempt < 2; attempt++) {
		struct packet_bytes b = { .bytes = packet_data(skb) + ETHERNET_BYTES,
					  .end = packet_end(skb),
					  .length = skb->len - ETHERNET_BYTES };

		if (packet_has(&b, 0, 1) && b.bytes[0] >> 4 != (v6 ? 6 : 4))
			return false;
		if (packet_parse_family(&b, v6, p) != PACKET_TRUNCATED)
			return p->total_bytes <= b.length && !(v6 && is_forbidden(p));
		if (attempt || !headers_pull(skb))
			return false;
	}
	return false;
}

#endif
