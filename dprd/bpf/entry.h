/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * entry.h - the entry node's part: packets of clients to this node's own service addresses. Packets of forwarded flows
 * leave encapsulated; new connections go to dprd.
 */
#ifndef DPRD_BPF_ENTRY_H
#define DPRD_BPF_ENTRY_H

#include "dprd/bpf/answered.h"
#include "dprd/bpf/decision.h"
#include "dprd/bpf/direct.h"
#include "dprd/bpf/known.h"
#include "dprd/bpf/maps.h"
#include "dprd/bpf/shared.h"
#include "dprd/bpf/socket.h"
#include "dprd/bpf/too_big.h"
#include "dprd/core/packet/encap.h"

/* The verdict on a packet to one of the service addresses; entry() carries it out. */
enum entry_kind {
	ENTRY_PASS, /* to the stack */
	ENTRY_DROP,
	ENTRY_QUEUE, /* a SYN: dprd decides */
	ENTRY_FORWARD, /* to the node of its flow */
};

struct entry_verdict {
	enum entry_kind kind;
	enum reason reason; /* ENTRY_FORWARD */
	uint8_t alternative; /* ENTRY_FORWARD, REASON_CHOSEN: decide_alternative_code() of the best other choice */
};

INLINE struct entry_verdict entry_verdict(enum entry_kind kind)
{
	return (struct entry_verdict) { .kind = kind };
}

INLINE struct entry_verdict entry_forward(enum reason reason)
{
	return (struct entry_verdict) { .kind = ENTRY_FORWARD, .reason = reason };
}

/* A packet that leaves for a node. */
struct leaving {
	const struct fastpath_way *way;
	enum reason reason;
	uint32_t tick; /* now */
	uint32_t outer_id; /* of the outer header, encap_outer_id() */
	bool fixed_gso; /* the segments fit as they are */
};

INLINE struct flow_bucket *bucket_get(uint32_t bucket)
{
	uint32_t index = FLOW_HEADER_BUCKETS + bucket;

	return bpf_map_lookup_elem(&flows, &index);
}

/* The word with the bits of a bucket. */
INLINE uint64_t *occupied_get(uint32_t bucket)
{
	uint32_t index = FLOW_HEADER_BUCKETS + flow_buckets + 1 + flow_occupied_room(bucket);
	struct flow_occupied *room = bpf_map_lookup_elem(&flows, &index);

	return room ? flow_occupied_word(room, bucket) : NULL;
}

/*
 * The flow's slot in this bucket, or NULL. The verifier does not go through the slots one by one: it sees any of them.
 */
INLINE struct flow_slot *bucket_find(struct flow_bucket *bucket, const struct flow_search *s)
{
	struct flow_search here = *s;
	int place;

	/* Without this the compiler reads the key from the stack again for each slot. */
	asm volatile("" : "+r"(here.slot.key));
	place = flow_bucket_place(bucket, &here);
	if (place < 0)
		return NULL;
	return &bucket->slot[any_number(bucket, (uint32_t)place) & (FLOW_BUCKET_SLOTS - 1)];
}

INLINE struct flow_slot *flow_get(const struct flow_search *s)
{
	const uint64_t *occupied = occupied_get(s->bucket);
	struct flow_bucket *bucket;
	struct flow_slot *slot;

	if (!occupied || !flow_is_occupied(occupied, s->bucket))
		return NULL;
	bucket = bucket_get(s->bucket);
	if (!bucket)
		return NULL;
	slot = bucket_find(bucket, s);
	if (slot || !flow_bucket_overflows(bucket))
		return slot;
	bucket = bucket_get(s->bucket + 1);
	return bucket ? bucket_find(bucket, s) : NULL;
}

/*
 * Makes a half-open flow to this node. NULL: its two buckets are full. This is a separate function, because it is long
 * and is called from several places.
 */
static __attribute__((noinline)) struct flow_slot *flow_make(const struct flow_search *s, uint32_t sequence,
							     uint32_t node)
{
	struct flow_bucket *home = bucket_get(s->bucket), *next = bucket_get(s->bucket + 1);
	uint64_t *occupied = occupied_get(s->bucket);

	if (!home || !next || !occupied)
		return NULL;
	return flow_slot_insert(home, next, occupied, s, sequence << FLOW_SEQUENCE_SHIFT | node,
				tick_of(now_ns()) << FLOW_TIME_SHIFT | SLOT_HALF_OPEN);
}

/* Prefetches the bucket of a flow that will be made: it is in no cache, and arrives while the socket is looked up. */
INLINE void flow_expect(const struct flow_search *s)
{
	struct flow_bucket *bucket = bucket_get(s->bucket);

	if (bucket)
		(void)*(volatile uint64_t *)&bucket->slot[0].key;
}

/*
 * True when the packet fits the tunnel; leaving->fixed_gso says how. The kernel cuts a GSO packet a little finer when
 * its segments are too long by the outer header at most.
 */
INLINE bool fits(const struct __sk_buff *skb, const struct packet *p, bool v6, struct leaving *leaving)
{
	uint32_t segment = p->total_bytes, outer = encap_bytes(v6);

	if (p->total_bytes + IPV4_HEADER_BYTES > UINT16_MAX)
		return false;
	if (skb->gso_size)
		segment = p->header_bytes + (uint32_t)p->tcp_header_bytes + skb->gso_size;
	leaving->fixed_gso = segment <= leaving->way->mtu;
	return leaving->fixed_gso || (skb->gso_size && segment <= leaving->way->mtu + outer);
}

INLINE int redirect(const struct fastpath_way *way, uint32_t tick)
{
	if (way->flags & WAY_ETHERNET && !knows_hardware(way, tick))
		return (int)bpf_redirect_neigh(way->interface, NULL, 0, 0);
	return (int)bpf_redirect(way->interface, 0);
}

INLINE int encapsulate(struct __sk_buff *skb, const struct packet *p, bool v6, const struct leaving *leaving)
{
	uint32_t outer = encap_bytes(v6);
	uint64_t flags = BPF_F_ADJ_ROOM_NO_CSUM_RESET | (leaving->fixed_gso ? BPF_F_ADJ_ROOM_FIXED_GSO : 0) |
			 (v6 ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV6 : BPF_F_ADJ_ROOM_ENCAP_L3_IPV4);
	struct fastpath_counters *c = counters_get();
	uint8_t *data, *end;

	if (bpf_skb_adjust_room(skb, (int)outer, BPF_ADJ_ROOM_MAC, flags))
		return drop(REASON_NO_TUNNEL);
	data = packet_data(skb);
	end = packet_end(skb);
	if (data + ETHERNET_BYTES + (v6 ? ENCAP_V6_BYTES : ENCAP_V4_BYTES) > end)
		return drop(REASON_NO_TUNNEL);
	store_u32(data, load_u32(leaving->way->hardware));
	store_u32(data + 4, load_u32(leaving->way->hardware + 4));
	store_u32(data + 8, load_u32(leaving->way->hardware + 8));
	encap_write_family(data + ETHERNET_BYTES, v6, p, &leaving->way->source, &leaving->way->destination,
			   leaving->outer_id);
	if (c) {
		count_in(c, leaving->reason);
		c->forward_bytes += p->total_bytes;
	}
	return redirect(leaving->way, leaving->tick);
}

/*
 * Only the SYN of a connection that was just forwarded because of the loads may come back: not a copy of it, and not a
 * later packet. A SYN to a shared address may be a copy.
 */
INLINE uint16_t may_return(const struct fastpath_address *to, const struct entry_verdict *verdict)
{
	if (!decide_in_kernel || verdict->reason != REASON_CHOSEN || to->roles & ROLE_SHARED)
		return 0;
	return control.second_look & LOOK_OFFER ? ENCAP_MAY_RETURN | verdict->alternative : 0;
}

/*
 * True when the packet can go to the hardware address of the node, which also has the shared address and is on this
 * network.
 */
INLINE bool is_for_fellow(const struct __sk_buff *skb, bool v6, const struct fastpath_tables *t,
			  const struct fastpath_address *to, const struct fastpath_way *way)
{
	return way->flags & WAY_FELLOW && to->roles & ROLE_SHARED && skb->ifindex == t->shared_interface[v6];
}

/* Moves the flow on by a packet of its client. */
INLINE void flow_moves(struct flow_slot *slot, const struct packet *p, bool v6, uint32_t tick)
{
	uint32_t index = 2 * (slot->target & FLOW_NODE_MASK) + v6;
	uint32_t before = flow_slot_touch(slot, p->tcp_flags, tick);

	if (!flow_is_confirmed_by((enum flow_slot_state)before, p->tcp_flags))
		return;
	/* The compiler sees that the index is in bounds, and would drop the mask that the verifier needs. */
	asm volatile("" : "+r"(index));
	__sync_fetch_and_add(&confirmed[index & (FASTPATH_WAYS - 1)], 1);
}

/* A packet of a forwarded flow. */
INLINE int forward(struct __sk_buff *skb, const struct packet *p, bool v6, const struct fastpath_tables *t,
		   const struct fastpath_address *to, struct flow_slot *slot, const struct entry_verdict *verdict)
{
	enum reason reason = verdict->reason;
	uint32_t node = slot->target & FLOW_NODE_MASK;
	struct leaving leaving = { .way = way_get(node, v6),
				   .reason = reason,
				   .tick = tick_of(now_ns()),
				   .outer_id = encap_outer_id(p, v6, may_return(to, verdict)) };

	if (reason == REASON_FLOW)
		flow_moves(slot, p, v6, leaving.tick);
	/* A flow of an adopted table may lead to this node. */
	if (leaving.way->flags & WAY_SELF)
		return TC_ACT_UNSPEC;
	if (is_for_fellow(skb, v6, t, to, leaving.way))
		return hand_over(skb, p, v6, t, leaving.way, reason);
	if (!(leaving.way->flags & WAY_USABLE))
		return drop(REASON_NO_TUNNEL);
	if (leaving.way->flags & WAY_NAT)
		return leave_to_nat(skb, p, leaving.way, reason);
	if (leaving.way->flags & WAY_DIRECT) {
		if (fits_direct(skb, p, leaving.way))
			return send_direct(skb, p, v6, leaving.way, reason, leaving.tick);
	} else if (!p->ttl) {
		/* RFC 2003 3.1 */
		return drop(REASON_NO_TUNNEL);
	} else if (fits(skb, p, v6, &leaving)) {
		return encapsulate(skb, p, v6, &leaving);
	}
	if (p->kind != PACKET_TCP)
		return drop(REASON_NO_TUNNEL);
	return too_big(skb, p, leaving.way->mtu, leaving.tick);
}

/* True when this node has a socket for the tuple: dprd must not take the connection away from it. */
INLINE bool has_socket(struct __sk_buff *skb, const struct packet *p, bool v6)
{
	int state = socket_state(skb, &p->key, v6);

	return state >= 0 && state != BPF_TCP_LISTEN && state != BPF_TCP_TIME_WAIT;
}

/*
 * While dprd does not work, copies and flows keep their node. ENTRY_PASS: the client uses its port again, and the flow
 * leads to this node from now on.
 */
INLINE struct entry_verdict syn_alone(const struct packet *p, struct flow_slot *slot, uint8_t self)
{
	uint32_t target = *(volatile uint32_t *)&slot->target;
	enum flow_syn syn = flow_slot_syn(target, slot->state, p->tcp_sequence);

	if (!flow_syn_is_new(syn))
		return entry_forward(syn == FLOW_SYN_SAME_FLOW ? REASON_SAME_FLOW : REASON_SAME_SYN);
	/*
	 * Unless a real server gets the SYN, later packets are for the socket here. If this fails, the flow has ended.
	 */
	__sync_val_compare_and_swap(&slot->target, target, p->tcp_sequence << FLOW_SEQUENCE_SHIFT | self);
	return entry_verdict(ENTRY_PASS);
}

/* The client uses its port again: the new flow takes the place of the old one. False: the old flow has ended. */
INLINE bool flow_renew(struct flow_slot *slot, const struct flow_search *search, uint32_t sequence, uint32_t node)
{
	return flow_slot_renew(slot, search->slot.key, sequence << FLOW_SEQUENCE_SHIFT | node,
			       tick_of(now_ns()) << FLOW_TIME_SHIFT | SLOT_HALF_OPEN);
}

/* *ret: an old flow of this key, or NULL. After the call: the new flow, or NULL when there is no place. */
INLINE void flow_begin(const struct flow_search *search, uint32_t sequence, uint32_t node, struct flow_slot **ret)
{
	if (!*ret || !flow_renew(*ret, search, sequence, node))
		*ret = flow_make(search, sequence, node);
}

/*
 * For a connection without a flow, or with an old one, while dprd does not work: real servers behind this node still
 * get their share, by weight. A SYN that the kernel module may still drop is left to the rules, which know only the
 * servers with NAT.
 */
INLINE struct entry_verdict new_alone(struct __sk_buff *skb, const struct packet *p, bool v6,
				      const struct fastpath_tables *t, const struct flow_search *search,
				      struct flow_slot **ret)
{
	uint32_t at = bpf_get_prandom_u32() & (FASTPATH_CHOICES - 1), node;
	const struct fastpath_way *way;

	if (is_unjudged(skb))
		return entry_verdict(ENTRY_PASS);
	if (v6)
		at += FASTPATH_CHOICES;
	/* The compiler knows that it is in bounds; the verifier needs the check. */
	asm volatile("" : "+r"(at));
	node = t->choice[at & (2 * FASTPATH_CHOICES - 1)];
	if (node == t->self_node)
		mark_set(skb, skb->mark | BACKEND_MARK_MASK);
	way = way_get(node, v6);
	if (!node || node == t->self_node || !(way->flags & WAY_USABLE))
		return entry_verdict(ENTRY_PASS);
	flow_begin(search, p->tcp_sequence, node, ret);
	return *ret ? entry_forward(REASON_BACKEND) : entry_verdict(ENTRY_PASS);
}

/*
 * This node serves the SYN. slot: an ended flow of this key, or NULL. With real servers behind this node, the choice
 * was among them and the node, and the mark says that the node was chosen. When the node itself does not serve, dprd
 * chooses.
 */
INLINE struct entry_verdict serve(struct __sk_buff *skb, const struct packet *p, const struct fastpath_tables *t,
				  const struct flow_search *search, struct flow_slot *slot, uint32_t reason)
{
	struct fastpath_counters *c = counters_get();

	if (t->choices == CHOICES && reason != REASON_NO_BACKEND)
		return entry_verdict(ENTRY_QUEUE);
	if (!c)
		return entry_verdict(ENTRY_PASS);
	c->syns++;
	count_in(c, reason);
	remember(p, (uint8_t)reason, 0);
	if (reason == REASON_NO_BACKEND)
		return entry_verdict(ENTRY_DROP);
	if (slot)
		flow_renew(slot, search, p->tcp_sequence, t->self_node);
	served_note(search->slot.key, p->tcp_sequence);
	if (t->choices)
		mark_set(skb, skb->mark | BACKEND_MARK_MASK);
	return entry_verdict(ENTRY_PASS);
}

/* The verdict of the schedule, as next_verdict() says. */
INLINE int draw(const struct packet *p, bool v6, const struct fastpath_tables *t)
{
	/* These clients may only go to real servers: they use no verdict of the schedule. */
	if (known_client(t, &p->source))
		return t->choices ? -1 : (int)REASON_CLUSTER_CLIENT;
	if (t->choices && inside_has(&t->inside, &p->source))
		return -1;
	return next_verdict(v6);
}

/*
 * True for a verdict by which the stack gets the SYN in any case: looking for a socket would double the cost of a
 * flood.
 */
INLINE bool is_served_anyway(const struct fastpath_tables *t, int verdict)
{
	return verdict >= 0 && verdict <= 0xff && verdict != REASON_NO_BACKEND && t->choices != CHOICES;
}

/*
 * Carries out the verdict of the schedule. There is no flow of this key, or an ended one, which the new flow replaces.
 */
INLINE struct entry_verdict entry_decide(struct __sk_buff *skb, const struct packet *p, int verdict, bool v6,
					 const struct fastpath_tables *t, const struct flow_search *search,
					 struct flow_slot **ret)
{
	struct fastpath_counters *c = counters_get();
	const struct fastpath_way *way;
	struct entry_verdict forwarded;
	uint32_t node, reason;

	if (!c)
		return entry_verdict(ENTRY_PASS);
	if (verdict < 0)
		return entry_verdict(ENTRY_QUEUE);
	node = (uint32_t)verdict >> 8 & FLOW_NODE_MASK;
	reason = (uint32_t)verdict & 0xff;
	if (!node || reason >= REASONS)
		return serve(skb, p, t, search, *ret, reason);
	way = way_get(node, v6);
	/*
	 * A SYN cannot be cut: one with more data than the tunnel takes is served here, before it has a flow. So is one
	 * without a hop left.
	 */
	if (!(way->flags & WAY_USABLE) || (!(way->flags & WAY_NAT) && (p->total_bytes > way->mtu || !p->ttl)))
		return serve(skb, p, t, search, *ret, REASON_FORWARD_FAILED);
	if (!has_room())
		return serve(skb, p, t, search, *ret, control.room_reason);
	flow_begin(search, p->tcp_sequence, node, ret);
	if (!*ret)
		return serve(skb, p, t, search, NULL, REASON_TABLE_FULL);
	c->syns++;
	c->flows_made++;
	if (search->bucket < control.swept)
		__sync_fetch_and_add(&control.made_behind, 1);
	remember(p, (uint8_t)reason, (uint8_t)node);
	forwarded = entry_forward((enum reason)reason);
	forwarded.alternative = (uint8_t)((uint32_t)verdict >> 16);
	return forwarded;
}

/*
 * True for a client on a network of this node alone. With real servers behind this node dprd decides. A mark for the
 * queue would stay on the packet: when a bridge applied the rules at its port already, they are not applied again.
 */
INLINE bool is_served_inside(const struct __sk_buff *skb, const struct packet *p, const struct fastpath_tables *t)
{
	return !t->choices && !is_unjudged(skb) && inside_has(&t->inside, &p->source);
}

/* The flow was made for another connection of this port, or by the schedule; this node serves the present one. */
INLINE bool leads_here(const struct flow_slot *slot, const struct fastpath_tables *t)
{
	return slot && (slot->target & FLOW_NODE_MASK) == t->self_node;
}

INLINE struct entry_verdict entry_syn(struct __sk_buff *skb, const struct packet *p, bool v6,
				      const struct fastpath_tables *t, const struct flow_search *search,
				      struct flow_slot **slot, bool present)
{
	bool works = daemon_works(), is_new, decides, draws;
	struct entry_verdict known = entry_verdict(ENTRY_PASS);
	int verdict;

	if (!works && *slot)
		known = syn_alone(p, *slot, (uint8_t)t->self_node);
	/* dprd is late, but it may yet forward the SYN whose copy this is. */
	if (!works && !*slot && was_queued(search->slot.key, p->tcp_sequence, false))
		return entry_verdict(ENTRY_QUEUE);
	if (known.kind == ENTRY_FORWARD || (!works && (!t->choices || !present)))
		return known;
	is_new = !*slot || is_over(p, *slot, t->self_node);
	if (works && is_new && is_served_inside(skb, p, t))
		return serve(skb, p, t, search, *slot, REASON_INSIDE_CLIENT);
	/* The kernel module may still drop the SYN: dprd decides about those that it lets through. */
	decides = works && decide_in_kernel && !is_unjudged(skb);
	/* A new connection to a port that is no service any more is none of the schedule's. */
	draws = decides && is_new && present;
	verdict = draws ? draw(p, v6, t) : -1;
	if (verdict > 0xff)
		flow_expect(search);
	if (!is_served_anyway(t, verdict) &&
	    (has_socket(skb, p, v6) ||
	     ((is_new || leads_here(*slot, t)) && was_answered(search->slot.key, p->tcp_sequence)))) {
		count(REASON_LOCAL_SOCKET);
		remember(p, REASON_LOCAL_SOCKET, 0);
		return entry_verdict(ENTRY_PASS);
	}
	if (!works)
		return new_alone(skb, p, v6, t, search, slot);
	if (draws)
		return entry_decide(skb, p, verdict, v6, t, search, slot);
	return decides && !is_new && is_clear_copy(p, *slot) ? entry_forward(REASON_SAME_SYN)
							     : entry_verdict(ENTRY_QUEUE);
}

INLINE struct entry_verdict entry_judge(struct __sk_buff *skb, const struct packet *p, bool v6,
					const struct fastpath_tables *t, const struct flow_search *search,
					struct flow_slot **slot, bool present)
{
	if (packet_is_syn(p))
		return entry_syn(skb, p, v6, t, search, slot, present);
	if (!*slot)
		return entry_verdict(ENTRY_PASS);
	return entry_forward(p->kind == PACKET_ICMP_ERROR ? REASON_ICMP_RELAY : REASON_FLOW);
}

/*
 * Hands a SYN to dprd. When the table has a flow of its key, a full queue must not let the SYN pass: later packets
 * would follow the flow to another node. When the rule of the queue is gone, this node serves the SYN. So a flow that
 * dprd would forget leads to this node until dprd decides. A full queue must not let a copy pass, either, while its SYN
 * waits there: then two nodes would answer.
 */
INLINE int queue_syn(struct __sk_buff *skb, const struct packet *p, const struct flow_search *search,
		     struct flow_slot *slot, uint8_t self)
{
	uint32_t target;

	if (!slot)
		return queue_to_daemon(skb, was_queued(search->slot.key, p->tcp_sequence, true) ? MARK_FORWARD
												: MARK_DECIDE);
	target = *(volatile uint32_t *)&slot->target;
	if (flow_syn_is_new(flow_slot_syn(target, slot->state, p->tcp_sequence)))
		__sync_val_compare_and_swap(&slot->target, target, (target & ~FLOW_NODE_MASK) | self);
	return queue_to_daemon(skb, MARK_FORWARD);
}

/*
 * A packet to one of the node's own service addresses: TCP, and ICMP errors about TCP. shared: entry() must first
 * decide for which node the frame is, whatever it carries.
 */
INLINE int entry(struct __sk_buff *skb, const struct packet *p, bool v6, const struct fastpath_tables *t,
		 const struct fastpath_address *to, bool shared)
{
	bool of_tcp = p->kind == PACKET_TCP || p->kind == PACKET_ICMP_ERROR;
	/* 0: not to one of the ports */
	uint32_t port = any_number(t, of_tcp ? (uint32_t)known_port(t, p->key.service_port) + 1 : 0);
	uint32_t service = to->service & (FASTPATH_SERVICES + FASTPATH_SHARED - 1);
	struct flow_slot *slot = NULL;
	struct entry_verdict verdict;
	struct flow_search search;
	bool present;

	if (port) {
		search_make(&search, p, v6, t->own_service[service][(port - 1) & (FASTPATH_PORTS - 1)]);
		slot = flow_get(&search);
	}
	if (shared && !shared_accepts(skb, p, slot))
		return TC_ACT_SHOT;
	present = port <= t->present_ports && !(to->roles & ROLE_FORMER);
	/* To an address or port that is no longer a service, only packets of flows are forwarded. */
	if (!port || (!present && !slot))
		return TC_ACT_UNSPEC;
	verdict = entry_judge(skb, p, v6, t, &search, &slot, present);
	switch (verdict.kind) {
	case ENTRY_DROP:
		return TC_ACT_SHOT;
	case ENTRY_QUEUE:
		return queue_syn(skb, p, &search, slot, (uint8_t)t->self_node);
	case ENTRY_FORWARD:
		return slot ? forward(skb, p, v6, t, to, slot, &verdict) : TC_ACT_UNSPEC;
	case ENTRY_PASS:
		break;
	}
	return TC_ACT_UNSPEC;
}

#endif
