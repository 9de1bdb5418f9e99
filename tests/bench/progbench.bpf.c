// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The programs with which progbench.c measures dprd's programs, and compares them.
 *
 * A program that forwards changes the packet, and BPF_PROG_TEST_RUN gives the next run the changed one. So every
 * program here first brings the packet back (takes an outer header off, or puts one on) and makes it a packet of a
 * random flow; then comes all of dprd's own code. The measured time includes bringing the packet back.
 *
 * One thing differs from the attached programs: a packet that the kernel took for encapsulated once stays so, and could
 * not be encapsulated a second time.
 */
#include <linux/bpf.h>
#define BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 0
#include "dprd/bpf/dprd.bpf.c"

enum {
	OUTER_BYTES = 20,
	SOURCES = 0xc6120000, /* 198.18.0.0/15: no network of the world uses it (RFC 2544) */
	SOURCE_BITS = 17,
	PORTS = 1024, /* the first one */
};

/* Set by progbench.c. */
uint32_t flow_count, service;
uint8_t outer_header[OUTER_BYTES] __attribute__((aligned(4)));
uint64_t random_state;

/* Addresses and ports of a packet, from its IPv4 header on. */
struct headers {
	uint8_t ip[12];
	uint32_t source, destination;
	uint16_t source_port, destination_port;
} __attribute__((packed));

INLINE uint32_t random_flow(void)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((random_state >> 32) * flow_count >> 32);
}

/* Neither checksum follows: no program looks at them, and nothing is sent. */
INLINE bool become_flow(struct __sk_buff *skb)
{
	struct headers *h = (void *)(long)skb->data + ETHERNET_BYTES;
	uint32_t flow = random_flow();

	if ((void *)(h + 1) > (void *)(long)skb->data_end)
		return false;
	h->source = to_be32(SOURCES | (flow & ((1 << SOURCE_BITS) - 1)));
	h->source_port = to_be16((uint16_t)(PORTS + (flow >> SOURCE_BITS)));
	return true;
}

INLINE bool is_tunnelled(const struct __sk_buff *skb)
{
	const uint8_t *data = (void *)(long)skb->data;

	return data + ETHERNET_BYTES + OUTER_BYTES <= (const uint8_t *)(long)skb->data_end &&
	       data[ETHERNET_BYTES + 9] == PROTO_IPIP;
}

INLINE long outer_off(struct __sk_buff *skb)
{
	return bpf_skb_adjust_room(skb, -OUTER_BYTES, BPF_ADJ_ROOM_MAC,
				   BPF_F_ADJ_ROOM_NO_CSUM_RESET | BPF_F_ADJ_ROOM_FIXED_GSO);
}

INLINE long outer_room(struct __sk_buff *skb)
{
	return bpf_skb_adjust_room(skb, OUTER_BYTES, BPF_ADJ_ROOM_MAC,
				   BPF_F_ADJ_ROOM_NO_CSUM_RESET | BPF_F_ADJ_ROOM_FIXED_GSO);
}

/* Word by word: the processor cannot read a word at once from bytes that were just written one by one. */
INLINE bool outer_write(struct __sk_buff *skb)
{
	uint8_t *data = (void *)(long)skb->data;
	int i;

	if (data + ETHERNET_BYTES + OUTER_BYTES > (uint8_t *)(long)skb->data_end)
		return false;
#pragma clang loop unroll(full)
	for (i = 0; i < OUTER_BYTES; i += 4)
		store_u32(data + ETHERNET_BYTES + i, load_u32(outer_header + i));
	return true;
}

SEC("tc")
int bench_empty(struct __sk_buff *skb)
{
	(void)skb;
	return TC_ACT_UNSPEC;
}

SEC("tc")
int bench_rewrite(struct __sk_buff *skb)
{
	return become_flow(skb) ? TC_ACT_UNSPEC : TC_ACT_SHOT;
}

/* The wrapper alone: an outer header on and off. */
SEC("tc")
int bench_undo(struct __sk_buff *skb)
{
	return become_flow(skb) && !outer_room(skb) && !outer_off(skb) ? TC_ACT_UNSPEC : TC_ACT_SHOT;
}

/* The limit: it reads no packet, flow or counter; it only adds a header and sends the packet. */
SEC("tc")
int bench_mutate(struct __sk_buff *skb)
{
	if ((is_tunnelled(skb) && outer_off(skb)) || !become_flow(skb) || outer_room(skb) || !outer_write(skb))
		return TC_ACT_SHOT;
	return (int)bpf_redirect(skb->ifindex, 0);
}

SEC("tc")
int bench_encapsulate(struct __sk_buff *skb)
{
	if ((is_tunnelled(skb) && outer_off(skb)) || !become_flow(skb))
		return TC_ACT_SHOT;
	return ingress(skb, false);
}

SEC("tc")
int bench_decapsulate(struct __sk_buff *skb)
{
	if (is_tunnelled(skb) || !become_flow(skb) || outer_room(skb) || !outer_write(skb))
		return TC_ACT_SHOT;
	return ingress(skb, false);
}

/*
 * Makes a flow's key without a packet, and looks it up in dprd's table with dprd's own function. The next key depends
 * on the result: otherwise the processor would look up several at once.
 */
INLINE void make_key(struct packet *p)
{
	uint32_t flow = random_flow();

	__builtin_memset(p, 0, sizeof(*p));
	p->key.client.words[3] = to_be32(SOURCES | (flow & ((1 << SOURCE_BITS) - 1)));
	p->key.client_port = to_be16((uint16_t)(PORTS + (flow >> SOURCE_BITS)));
}

SEC("tc")
int bench_key(struct __sk_buff *skb)
{
	struct packet p;

	(void)skb;
	make_key(&p);
	random_state += p.key.client.words[3] ^ p.key.client_port;
	return TC_ACT_UNSPEC;
}

SEC("tc")
int bench_lookup(struct __sk_buff *skb)
{
	const struct flow_slot *slot;
	struct flow_search search;
	struct packet p;

	(void)skb;
	make_key(&p);
	search_make(&search, &p, false, (uint8_t)service);
	slot = flow_get(&search);
	if (slot)
		random_state += slot->target;
	return TC_ACT_UNSPEC;
}

/* The limit of a look-up: one line of the table, at random, and nothing is compared. */
SEC("tc")
int bench_line(struct __sk_buff *skb)
{
	const struct flow_bucket *bucket;
	struct packet p;

	(void)skb;
	make_key(&p);
	bucket = bucket_get((uint32_t)((random_state >> 32) * flow_buckets >> 32));
	if (bucket)
		random_state += bucket->slot[0].target + p.key.client_port;
	return TC_ACT_UNSPEC;
}
