/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * answered.h - SYN-ACKs that leave this node show which SYNs it has answered, also by SYN cookies and also from a
 * container behind DNAT. Copies of these SYNs stay here (flow/answered.h).
 */
#ifndef DPRD_BPF_ANSWERED_H
#define DPRD_BPF_ANSWERED_H

#include "dprd/bpf/decision.h"
#include "dprd/bpf/known.h"
#include "dprd/bpf/maps.h"
#include "dprd/core/flow/answered.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ANSWERED_PLACES);
	__type(key, uint32_t);
	__type(value, uint64_t);
} answered SEC(".maps");

/*
 * The SYNs that the schedule let this node serve: the kernel may run the programs on several packets before its stack.
 * Also those that were handed to dprd, under another hash.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ANSWERED_PLACES);
	__type(key, uint32_t);
	__type(value, uint64_t);
} served SEC(".maps");

/* The hash of a SYN: key is the key of its connection's flow (flow/slot.h), which for IPv6 has a hash of the address. */
INLINE uint64_t answered_hash(uint64_t key, uint32_t sequence)
{
	return flow_slot_mix(flow_slot_mix(key ^ flow_secret[1]) ^ sequence);
}

/*
 * True when this node has answered the SYN lately, or serves it. A function of its own: the caller's stack is full.
 */
static __attribute__((noinline)) bool was_answered(uint64_t key, uint32_t sequence)
{
	uint64_t hash = answered_hash(key, sequence);
	uint32_t place = answered_place(hash), tick = tick_of(now_ns());
	const uint64_t *word = bpf_map_lookup_elem(&answered, &place);
	const uint64_t *soon = bpf_map_lookup_elem(&served, &place);

	return (word && answered_has(*word, hash, tick, ANSWERED_TICKS)) ||
	       (soon && answered_has(*soon, hash, tick, SERVED_SOON_TICKS));
}

/* Remembers a SYN that this node serves. Copies need no mark while this node serves all new SYNs anyway. */
static __attribute__((noinline)) int served_note(uint64_t key, uint32_t sequence)
{
	uint64_t hash = answered_hash(key, sequence);
	uint32_t place = answered_place(hash);
	uint64_t *word = is_full() ? NULL : bpf_map_lookup_elem(&served, &place);

	if (word)
		*word = answered_word(hash, tick_of(now_ns()));
	return 0;
}

/* True when a copy of the SYN was handed to dprd a moment ago. With note, the next copy finds this one. */
static __attribute__((noinline)) bool was_queued(uint64_t key, uint32_t sequence, bool note)
{
	uint64_t hash = answered_queued(answered_hash(key, sequence));
	uint32_t place = answered_place(hash), tick = tick_of(now_ns());
	uint64_t *word = bpf_map_lookup_elem(&served, &place);

	if (!word || answered_has(*word, hash, tick, SERVED_SOON_TICKS))
		return word;
	if (note)
		*word = answered_word(hash, tick);
	return false;
}

/* Remembers the SYN that this SYN-ACK answers. In a flood without room for flows this node serves all new SYNs anyway. */
INLINE void answered_note(struct __sk_buff *skb, bool v6)
{
	const struct fastpath_tables *t = tables_get();
	const struct fastpath_address *from;
	struct flow_search search;
	struct packet p;
	be32 acknowledged;
	uint64_t hash, *word;
	uint32_t place;
	int port;

	if ((decide_in_kernel && is_full()) || !packet_read(skb, v6, &p) || p.kind != PACKET_TCP ||
	    (p.tcp_flags & (TCP_SYN | TCP_ACK)) != (TCP_SYN | TCP_ACK))
		return;
	from = known_own(t, &p.source);
	port = known_port(t, p.key.client_port);
	if (!from || port < 0 ||
	    bpf_skb_load_bytes(skb, (uint32_t)ETHERNET_BYTES + (v6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES) + 8,
			       &acknowledged, sizeof(acknowledged)))
		return;
	/* Its sender is the service, and the client is the receiver. */
	p.key.client = p.destination;
	p.key.client_port = p.key.service_port;
	search_make(
		&search, &p, v6,
		t->own_service[from->service & (FASTPATH_SERVICES + FASTPATH_SHARED - 1)][port & (FASTPATH_PORTS - 1)]);
	hash = answered_hash(search.slot.key, to_be32(acknowledged) - 1);
	place = answered_place(hash);
	word = bpf_map_lookup_elem(&answered, &place);
	if (word)
		*word = answered_word(hash, tick_of(now_ns()));
}

/* These are functions of their own, since the stack has no room for one more header. */
static __attribute__((noinline)) int answered_note_v4(struct __sk_buff *skb)
{
	answered_note(skb, false);
	return 0;
}

static __attribute__((noinline)) int answered_note_v6(struct __sk_buff *skb)
{
	answered_note(skb, true);
	return 0;
}

#endif
