/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * shared.h - decides whether a frame to an address that all nodes share is for this node (docs/biactive.md). Every node
 * gets every frame and decides for itself; a node that says no keeps silent.
 *
 * The judgement is made by global functions: the kernel verifies each of them once, and not for each path that leads to
 * it. They run one after the other, because the stack has no room for all at once. Their input is copied into memory of
 * this processor.
 */
#ifndef DPRD_BPF_SHARED_H
#define DPRD_BPF_SHARED_H

#include "dprd/bpf/maps.h"
#include "dprd/bpf/socket.h"
#include "dprd/core/flow/syn.h"
#include "kernel-patch/biactive.h"
#include "kernel-patch/bucket.h"

enum { PROTO_UDP = 17, ND_FIRST = 133, ND_LAST = 137 };

/* The kernel's struct of a half-open connection; only these members are needed. */
struct tcp_request_sock {
	uint32_t rcv_isn;
	uint32_t snt_isn;
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct bucket_lease_cell);
} lease SEC(".maps");

/* Refused SYNs; see bucket_copy_word(). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SHARED_REFUSED_WORDS);
	__type(key, uint32_t);
	__type(value, uint64_t);
} refused SEC(".maps");

/* A frame, and its flow. */
struct shared_frame {
	struct flow_key key; /* of a packet that is neither TCP nor an error about it: addresses without ports */
	uint32_t sequence, kind;
	uint16_t header_bytes;
	uint8_t protocol, tcp_flags;
	bool v6;
	uint32_t flow_target; /* of the connection's flow; 0: there is none */
	/* For frames that the buckets decide: */
	bool is_syn;
	bool has_request; /* see struct bucket_syn */
	be16 ports[2]; /* of client and service */
	uint32_t active; /* index of the share in use */
	uint32_t owner, former_owner;
	bool moved; /* buckets moved so lately that copies of SYNs may come */
	uint64_t hash, now_ns, until_ns, changed_ns;
	/* shared_owner() */
	uint32_t search_in, best_id, best_weight;
	uint64_t best_cost;
	uint8_t ip[IPV6_HEADER_BYTES], tcp[TCP_HEADER_BYTES]; /* read when the segment may have a cookie */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct shared_frame);
} shared_frames SEC(".maps");

INLINE const struct bucket_lease_cell *lease_get(void)
{
	uint32_t zero = 0;

	return bpf_map_lookup_elem(&lease, &zero);
}

INLINE struct shared_frame *shared_frame_get(void)
{
	uint32_t zero = 0;

	return bpf_map_lookup_elem(&shared_frames, &zero);
}

/* Computes the hash of the tuple, and reads the lease. */
__attribute__((noinline)) int shared_look(void)
{
	const struct fastpath_tables *t = tables_get();
	const struct bucket_lease_cell *cell = lease_get();
	struct shared_frame *f = shared_frame_get();
	uint64_t key[2], client[2], service[2];

	if (!f || !cell)
		return 0;
	key[0] = t->bucket_key[0];
	key[1] = t->bucket_key[1];
	client[0] = load_u64(f->key.client.words);
	client[1] = load_u64(f->key.client.words + 2);
	service[0] = load_u64(f->key.service.words);
	service[1] = load_u64(f->key.service.words + 2);
	f->hash = bucket_hash(key, client, service, f->ports[0], f->ports[1]);
	f->active = *(volatile const uint32_t *)&cell->active & 1;
	/* This is the exact clock: at the end of the lease a tick of the coarse clock would matter. */
	f->now_ns = bpf_ktime_get_ns();
	f->until_ns = *(volatile const uint64_t *)&cell->until_ns;
	f->changed_ns = *(volatile const uint64_t *)&cell->changed_ns;
	f->moved = f->now_ns < f->changed_ns + BUCKET_COPY_PATIENCE_NS;
	return 0;
}

/* One turn of the loop of bucket_owner(). */
static long shared_try(uint32_t i, void *context)
{
	const struct bucket_lease_cell *cell = lease_get();
	struct shared_frame *f = shared_frame_get();
	const struct bucket_share *share;
	const struct bucket_member *m;
	uint64_t cost, here, best;

	(void)context;
	if (!cell || !f)
		return 1;
	share = &cell->share[f->search_in & 1];
	if (i >= BUCKET_MEMBERS_MAX || i >= share->count)
		return 1;
	m = &share->member[i];
	cost = bucket_cost((uint32_t)(bucket_mix((uint64_t)m->id << 16 | bucket_of(f->hash)) >> 32));
	here = cost * f->best_weight;
	best = f->best_cost * m->weight;
	if (f->best_id && (here > best || (here == best && m->id > f->best_id)))
		return 0;
	f->best_cost = cost;
	f->best_weight = m->weight;
	f->best_id = m->id;
	return 0;
}

/*
 * bucket_owner() of the hash by one of the two shares. bpf_loop() runs it turn by turn: Linux 6.1 refuses to verify a
 * loop over BUCKET_MEMBERS_MAX members. tests/bpf/test_shared.c compares the two.
 */
__attribute__((noinline)) int shared_owner(uint32_t which)
{
	struct shared_frame *f = shared_frame_get();

	if (!f)
		return 0;
	f->search_in = which;
	f->best_id = 0;
	f->best_weight = 0;
	f->best_cost = 0;
	bpf_loop(BUCKET_MEMBERS_MAX, shared_try, NULL, 0);
	return (int)f->best_id;
}

/* The verdict by the hash and its owners: enum biactive_counter. */
__attribute__((noinline)) int shared_by_bucket(void)
{
	const struct bucket_lease_cell *cell = lease_get();
	const struct shared_frame *f = shared_frame_get();
	uint64_t copy_hash = f ? bucket_copy_hash(f->hash, f->sequence) : 0;
	uint32_t place = (uint32_t)copy_hash & (SHARED_REFUSED_WORDS - 1);
	uint64_t *word = bpf_map_lookup_elem(&refused, &place);
	struct bucket_syn syn = { 0 };

	if (!f || !cell || !word)
		return BIACTIVE_REFUSE_NO_LEASE;
	syn.now_ns = f->now_ns;
	syn.until_ns = f->until_ns;
	syn.changed_ns = f->changed_ns;
	syn.has_request = f->has_request;
	if (f->is_syn)
		bucket_copy_recall(*word, copy_hash, &syn);
	switch (bucket_judge_owned(&cell->share[f->active & 1], f->owner, f->former_owner, &syn)) {
	case BUCKET_ACCEPT:
		return f->is_syn ? BIACTIVE_ACCEPT_SYN : BIACTIVE_ACCEPT_OTHER;
	case BUCKET_ACCEPT_COPY:
		return BIACTIVE_ACCEPT_COPY;
	case BUCKET_REFUSE_FOREIGN:
		if (!f->is_syn)
			return BIACTIVE_REFUSE_OTHER;
		*word = bucket_copy_word(copy_hash, bucket_tag(f->owner), f->now_ns);
		return BIACTIVE_REFUSE_SYN;
	case BUCKET_REFUSE_COPY:
		*word = bucket_copy_waits(*word, copy_hash, &syn, f->former_owner == f->owner);
		return BIACTIVE_REFUSE_COPY;
	case BUCKET_REFUSE_NO_LEASE:
		break;
	}
	return BIACTIVE_REFUSE_NO_LEASE;
}

/*
 * True when the segment belongs to this half-open connection. When it answers the SYN-ACK of another node, the stack
 * here would reset a connection that lives there. The stack never answers a segment without an ACK with a reset.
 */
INLINE bool shared_is_answer(struct __sk_buff *skb, const struct shared_frame *f, struct bpf_sock *sk)
{
	struct tcp_request_sock *request;
	be32 acknowledged;

	if (!(f->tcp_flags & TCP_ACK))
		return true;
	request = bpf_skc_to_tcp_request_sock(sk);
	return request && !bpf_skb_load_bytes(skb, (uint32_t)ETHERNET_BYTES + f->header_bytes + 8, &acknowledged, 4) &&
	       to_be32(acknowledged) == request->snt_isn + 1;
}

/*
 * The verdict on a segment to a half-open connection. The stack gets this connection with the segment, and does not look
 * for it again: while another processor makes a full socket out of the half-open one, Linux up to 6.18 may find neither
 * for a moment, and its listener would reset the connection. If the helper fails, the stack looks for the socket itself.
 */
INLINE enum biactive_counter shared_half_open(struct __sk_buff *skb, const struct shared_frame *f, struct bpf_sock *sk)
{
	if (!shared_is_answer(skb, f, sk))
		return BIACTIVE_REFUSE_HALF_OPEN;
	bpf_sk_assign(skb, sk, 0);
	return BIACTIVE_ACCEPT_SOCKET;
}

/* True when this node forwards the connection. A flow that leads to this node does not count. */
INLINE bool shared_has_flow(const struct shared_frame *f)
{
	return f->flow_target && (f->flow_target & FLOW_NODE_MASK) != tables_get()->self_node;
}

/* True when the flow began with this very SYN. */
INLINE bool shared_began_so(const struct shared_frame *f)
{
	return flow_target_has_sequence(f->flow_target, f->sequence);
}

/* True when a half-open connection of this node began with this very SYN. */
INLINE bool shared_has_request(struct __sk_buff *skb, const struct shared_frame *f)
{
	struct bpf_sock *sk = socket_find(skb, &f->key, f->v6);
	struct tcp_request_sock *request;
	bool found;

	if (!sk)
		return false;
	request = sk->state == BPF_TCP_NEW_SYN_RECV ? bpf_skc_to_tcp_request_sock(sk) : NULL;
	found = request && request->rcv_isn == f->sequence;
	bpf_sk_release(sk);
	return found;
}

/*
 * True when the segment has a valid SYN cookie. The kernel itself checks that the listener sent cookies shortly before.
 */
INLINE bool shared_is_cookie(struct __sk_buff *skb, struct shared_frame *f, struct bpf_sock *listener)
{
	struct tcphdr *tcp = (struct tcphdr *)(void *)f->tcp;

	if (f->v6)
		return !bpf_skb_load_bytes(skb, ETHERNET_BYTES, f->ip, IPV6_HEADER_BYTES) &&
		       !bpf_skb_load_bytes(skb, ETHERNET_BYTES + IPV6_HEADER_BYTES, f->tcp, TCP_HEADER_BYTES) &&
		       !bpf_tcp_check_syncookie(listener, f->ip, IPV6_HEADER_BYTES, tcp, TCP_HEADER_BYTES);
	return !bpf_skb_load_bytes(skb, ETHERNET_BYTES, f->ip, IPV4_HEADER_BYTES) &&
	       !bpf_skb_load_bytes(skb, ETHERNET_BYTES + IPV4_HEADER_BYTES, f->tcp, TCP_HEADER_BYTES) &&
	       !bpf_tcp_check_syncookie(listener, f->ip, IPV4_HEADER_BYTES, tcp, TCP_HEADER_BYTES);
}

/* The verdict on a TCP segment that is not a SYN. It needs no lease: a node keeps its connections. */
INLINE enum biactive_counter shared_segment(struct __sk_buff *skb, struct shared_frame *f)
{
	enum biactive_counter verdict = BIACTIVE_REFUSE_SOCKET;
	struct bpf_sock *sk = socket_find(skb, &f->key, f->v6);

	if (!sk)
		return verdict;
	if (sk->state == BPF_TCP_NEW_SYN_RECV)
		verdict = shared_half_open(skb, f, sk);
	else if (sk->state != BPF_TCP_LISTEN)
		verdict = BIACTIVE_ACCEPT_SOCKET;
	else if ((f->tcp_flags & (TCP_ACK | TCP_SYN | TCP_RST)) == TCP_ACK && shared_is_cookie(skb, f, sk))
		verdict = BIACTIVE_ACCEPT_COOKIE;
	bpf_sk_release(sk);
	return verdict;
}

INLINE bool shared_is_neighbour(struct __sk_buff *skb, const struct shared_frame *f)
{
	uint8_t type;

	return f->v6 && f->protocol == PROTO_ICMPV6 &&
	       !bpf_skb_load_bytes(skb, ETHERNET_BYTES + IPV6_HEADER_BYTES, &type, 1) && type >= ND_FIRST &&
	       type <= ND_LAST;
}

enum { SHARED_ASK_BUCKETS = -1 };

/* The verdict on a TCP segment or an ICMP error: enum biactive_counter. The buckets are not needed. */
INLINE int shared_by_socket(struct __sk_buff *skb, struct shared_frame *f)
{
	int state;

	if (shared_has_flow(f))
		return BIACTIVE_ACCEPT_FORWARD;
	if (f->kind == PACKET_TCP)
		return (int)shared_segment(skb, f);
	state = socket_state(skb, &f->key, f->v6);
	return state >= 0 && state != BPF_TCP_LISTEN ? BIACTIVE_ACCEPT_ERROR : BIACTIVE_REFUSE_ERROR;
}

/* The verdict by the packet alone: enum biactive_counter, or SHARED_ASK_BUCKETS. The order of the questions matters. */
__attribute__((noinline)) int shared_by_packet(struct __sk_buff *skb)
{
	struct shared_frame *f = shared_frame_get();
	bool is_tcp, is_syn;

	if (!f)
		return BIACTIVE_REFUSE_MALFORMED;
	is_tcp = f->kind == PACKET_TCP;
	is_syn = is_tcp && (f->tcp_flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN)) == TCP_SYN;
	if (!is_syn && (is_tcp || f->kind == PACKET_ICMP_ERROR))
		return shared_by_socket(skb, f);
	if (f->kind == PACKET_FRAGMENT)
		return BIACTIVE_REFUSE_FRAGMENT;
	if (!is_tcp && f->kind != PACKET_OTHER && f->kind != PACKET_TUNNEL)
		return BIACTIVE_REFUSE_MALFORMED;
	if (shared_is_neighbour(skb, f))
		return BIACTIVE_PASS_NEIGHBOUR;
	f->ports[0] = f->key.client_port;
	f->ports[1] = f->key.service_port;
	if (f->protocol == PROTO_UDP &&
	    bpf_skb_load_bytes(skb, (uint32_t)ETHERNET_BYTES + f->header_bytes, f->ports, sizeof(f->ports)))
		return BIACTIVE_REFUSE_MALFORMED;
	f->is_syn = is_syn;
	f->has_request = is_syn && (shared_has_flow(f) ? shared_began_so(f) : shared_has_request(skb, f));
	return SHARED_ASK_BUCKETS;
}

/*
 * True when the frame is for this node; then it goes on like a frame to this node alone. slot: the packet's flow, or
 * NULL.
 */
INLINE bool shared_accepts(struct __sk_buff *skb, const struct packet *p, const struct flow_slot *slot)
{
	struct fastpath_counters *c = counters_get();
	struct shared_frame *f = shared_frame_get();
	int verdict;

	if (!f || !c)
		return false;
	f->kind = p->kind;
	f->key = p->key;
	if (p->kind != PACKET_TCP && p->kind != PACKET_ICMP_ERROR) {
		f->key.client = p->source;
		f->key.service = p->destination;
	}
	f->sequence = p->tcp_sequence;
	f->header_bytes = p->header_bytes;
	f->protocol = p->protocol;
	f->tcp_flags = p->tcp_flags;
	f->v6 = p->v6;
	f->flow_target = slot ? slot->target : 0;
	verdict = shared_by_packet(skb);
	if (verdict == SHARED_ASK_BUCKETS) {
		shared_look();
		f->owner = (uint32_t)shared_owner(f->active);
		f->former_owner = f->moved ? (uint32_t)shared_owner(!f->active) : 0;
		verdict = shared_by_bucket();
	}
	asm volatile("" : "+r"(verdict));
	if (verdict >= 0 && verdict < BIACTIVE_COUNTER_COUNT)
		c->shared[verdict]++;
	return biactive_is_taken((enum biactive_counter)verdict) && !bpf_skb_change_type(skb, FRAME_TO_HOST);
}

#endif
