// SPDX-License-Identifier: GPL-2.0-or-later
/* Forwards all packets to one address in a tunnel, and takes them out of it again (bare.c). */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <stdint.h>

#include <bpf/bpf_helpers.h>

#include "tests/bench/bare.h"

enum { TCP_FLAGS_AT = BARE_TCP + 13, SYN = 0x02, ACK = 0x10, DECAP_L3_IPV4 = 1 << 7 };

/* Set by bare.c. */
const volatile uint32_t service, tunnel_end, out_interface;
const volatile bool leave_syns;
const volatile bool looks;
uint8_t outer[BARE_OUTER_BYTES]; /* Ethernet and IPv4 header, with a length of 0 */
uint32_t outer_sum; /* sum of the outer header, not folded */

/* A line corresponds to a bucket of dprd's flow table. */
struct line {
	uint64_t flow[8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BARE_LINES);
	__type(key, uint32_t);
	__type(value, struct line);
} flows SEC(".maps");

/* True when this host has a socket to which a SYN must go. */
static __always_inline bool has_socket(struct __sk_buff *skb, const uint8_t *data)
{
	struct bpf_sock_tuple tuple = { 0 };
	struct bpf_sock *sk;
	bool found;

	tuple.ipv4.saddr = *(const uint32_t *)(data + BARE_SOURCE);
	tuple.ipv4.daddr = *(const uint32_t *)(data + BARE_DESTINATION);
	tuple.ipv4.sport = *(const uint16_t *)(data + BARE_TCP);
	tuple.ipv4.dport = *(const uint16_t *)(data + BARE_TCP + 2);
	sk = bpf_skc_lookup_tcp(skb, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
	found = sk && sk->state != BPF_TCP_LISTEN && sk->state != BPF_TCP_TIME_WAIT;
	if (sk)
		bpf_sk_release(sk);
	return found;
}

/* The smallest memory: a SYN is stored where its connection's other packets find it. False: not forwarded. */
static __always_inline bool look(struct __sk_buff *skb, const uint8_t *data)
{
	uint64_t port = *(const uint16_t *)(data + BARE_TCP);
	uint64_t key = *(const uint32_t *)(data + BARE_SOURCE) | port << 32;
	uint64_t hash = (key + 1) * 0x9e3779b97f4a7c15;
	uint32_t index = (uint32_t)(hash >> 32) & (BARE_LINES - 1);
	struct line *line = bpf_map_lookup_elem(&flows, &index);
	uint64_t *flow;

	if (!line)
		return false;
	flow = &line->flow[hash >> 61];
	if ((data[TCP_FLAGS_AT] & (SYN | ACK)) != SYN)
		return *(volatile uint64_t *)flow;
	if (has_socket(skb, data))
		return false;
	*(volatile uint64_t *)flow = key + 1;
	return true;
}

SEC("tc")
int bare_entry(struct __sk_buff *skb)
{
	const uint8_t *data = (void *)(long)skb->data;
	uint32_t length, sum;
	uint8_t *at;

	if (skb->protocol != __builtin_bswap16(BARE_IPV4_ETHERTYPE) ||
	    data + TCP_FLAGS_AT + 1 > (const uint8_t *)(long)skb->data_end ||
	    *(const uint32_t *)(data + BARE_DESTINATION) != service)
		return TC_ACT_UNSPEC;
	if (leave_syns && (data[TCP_FLAGS_AT] & (SYN | ACK)) == SYN)
		return TC_ACT_UNSPEC;
	if (looks && !look(skb, data))
		return TC_ACT_UNSPEC;
	length = BARE_IP_BYTES + (uint32_t)(data[BARE_IP + 2] << 8 | data[BARE_IP + 3]);
	if (bpf_skb_adjust_room(skb, BARE_IP_BYTES, BPF_ADJ_ROOM_MAC,
				BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 | BPF_F_ADJ_ROOM_NO_CSUM_RESET | BPF_F_ADJ_ROOM_FIXED_GSO))
		return TC_ACT_SHOT;
	at = (void *)(long)skb->data;
	if (at + BARE_OUTER_BYTES > (uint8_t *)(long)skb->data_end)
		return TC_ACT_SHOT;
	__builtin_memcpy(at, outer, BARE_OUTER_BYTES);
	at[BARE_IP + 2] = (uint8_t)(length >> 8);
	at[BARE_IP + 3] = (uint8_t)length;
	sum = outer_sum + length;
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16));
	at[BARE_IP_SUM] = (uint8_t)(sum >> 8);
	at[BARE_IP_SUM + 1] = (uint8_t)sum;
	return (int)bpf_redirect(out_interface, 0);
}

SEC("tc")
int bare_serving(struct __sk_buff *skb)
{
	const uint8_t *data = (void *)(long)skb->data;

	if (skb->protocol != __builtin_bswap16(BARE_IPV4_ETHERTYPE) ||
	    data + BARE_TCP > (const uint8_t *)(long)skb->data_end || data[BARE_PROTOCOL] != BARE_PROTOCOL_IPIP ||
	    *(const uint32_t *)(data + BARE_DESTINATION) != tunnel_end)
		return TC_ACT_UNSPEC;
	if (bpf_skb_adjust_room(skb, -BARE_IP_BYTES, BPF_ADJ_ROOM_MAC,
				DECAP_L3_IPV4 | BPF_F_ADJ_ROOM_NO_CSUM_RESET | BPF_F_ADJ_ROOM_FIXED_GSO))
		return TC_ACT_SHOT;
	return TC_ACT_UNSPEC;
}

/* An empty program that reads packets which leave, for its cost. */
SEC("tc")
int bare_leaving(struct __sk_buff *skb)
{
	return skb->len ? TC_ACT_UNSPEC : TC_ACT_SHOT;
}

char _license[] SEC("license") = "GPL";
