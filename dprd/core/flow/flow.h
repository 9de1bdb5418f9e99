/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flow.h - remembers the node that serves a connection already decided. Pure.
 *
 * One table for both planes, in memory that the caller gives: a file on tmpfs, or a BPF map's memory, where the BPF
 * programs look flows up, move them on and may make them, too (flow/slot.h has the layout and the rules of writing).
 * The next dprd adopts either kind.
 *
 * Two pools: a new flow is half-open until a non-SYN packet of the client confirms it. Half-open flows are limited in
 * number, and old ones make room. A confirmed flow is never pushed out, so a SYN flood cannot cost an established
 * connection. Confirmed flows are limited, too; half-open ones that may become confirmed count as well.
 *
 * Lifetimes follow IPVS, as far as they can be known from one direction. Times come in as now_ms of the clock that the
 * BPF programs read (CLOCK_MONOTONIC). The table keeps them in ticks of 16.8 ms, and refreshes a flow's time only when
 * it is 16 ticks old.
 */
#ifndef DPRD_FLOW_H
#define DPRD_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dprd/core/flow/slot.h"
#include "dprd/core/flow/syn.h"
#include "dprd/core/packet/packet.h"

/* The states of a slot, and none. */
enum flow_state {
	FLOW_FREE,
	FLOW_HALF_OPEN = 1 + SLOT_HALF_OPEN, /* SYN forwarded, nothing else seen */
	FLOW_CONFIRMED = 1 + SLOT_CONFIRMED, /* a non-SYN packet of the client came */
	FLOW_CLOSING = 1 + SLOT_CLOSING, /* the client sent FIN */
	FLOW_RESET = 1 + SLOT_RESET, /* the client sent RST, genuine or not; after a later packet: confirmed */
};

/* The state of a flow by its slot's state word; and back, for any state except FLOW_FREE. */
static inline enum flow_state flow_state_of(uint32_t state_word)
{
	return (enum flow_state)(1 + (state_word & FLOW_STATE_MASK));
}

static inline enum flow_slot_state flow_slot_state_of(enum flow_state state)
{
	return (enum flow_slot_state)(state - 1);
}

enum {
	FLOW_SERVICES_MAX = 250, /* pairs of service address and port that a table can name */
	FLOW_NODES_MAX = 255, /* index 0 is none */
	FLOW_HEADER_BUCKETS = 64, /* the table's header takes the room of this many buckets */
	HALF_OPEN_GRACE_MS = 1000, /* a client has had time to answer the SYN-ACK */
};

/* A copy of a flow in the table. */
struct flow {
	struct flow_key key;
	uint32_t node_id; /* member_id() of the serving node */
	uint32_t syn_sequence; /* ISN of the SYN that made it, the low 24 bits (flow_same_sequence()) */
	uint64_t last_seen_ms; /* of a half-open flow: when its first SYN came */
	uint8_t state; /* enum flow_state */
	uint32_t slot; /* its place; internal */
};

struct flow_limits {
	unsigned max_confirmed; /* limit of all flows, so that half-open ones find room when they are confirmed */
	unsigned max_half_open;
	unsigned syn_timeout_ms, idle_timeout_ms, fin_timeout_ms, rst_timeout_ms;
	uint64_t hash_key[2]; /* secret, because an attacker can choose flow keys */
};

/* Counted by the last whole round of flow_expire(), and changed by flow_* since. */
struct flow_counts {
	unsigned half_open, confirmed; /* confirmed: all except half-open */
	unsigned closing; /* of the confirmed ones: closing or reset */
};

struct flow_table;

/* Bytes that the table needs for these limits: a multiple of sizeof(struct flow_bucket). */
size_t flow_table_bytes(const struct flow_limits *limits);

/* Makes an empty table in memory of flow_table_bytes(), aligned to sizeof(struct flow_bucket). */
struct flow_table *flow_table_init(void *memory, const struct flow_limits *limits);

/*
 * Opens the table that a former process left in memory (size bytes) for use with these limits. NULL when it is not a
 * table of this version, not sound, or its sizes do not fit the limits; then make a new one and adopt the old. Its hash
 * key stays, and is copied to limits->hash_key.
 */
struct flow_table *flow_table_open(void *memory, size_t size, struct flow_limits *limits);

/*
 * Opens a table in memory (size bytes) that another process uses, too; NULL: not a table of this version. Only for
 * flow_find(), flow_touch() and flow_remove(); the counts may be wrong for up to two rounds of the other process's
 * flow_expire().
 */
struct flow_table *flow_table_share(void *memory, size_t size);

/*
 * Takes over the flows of the table of any size that a former process left in old (size bytes); this table's limits and
 * hash key stay. Every flow is checked and only sound ones are taken, so that a process killed while it wrote loses at
 * most that flow. A flow that is there already gets the later state and time of both, so that adopting a second time
 * takes over later changes in old. Returns the number of flows taken, or -EINVAL when old is not a table of this
 * version. old must not be table's own memory.
 */
int flow_table_adopt(struct flow_table *table, const void *old, size_t size);

/* Sets the timeouts of limits; the sizes and the hash key stay. */
void flow_table_set_timeouts(struct flow_table *table, const struct flow_limits *limits);

/* The BPF programs must know these facts of a table; its buckets begin at FLOW_HEADER_BUCKETS. */
uint32_t flow_table_buckets(const struct flow_table *table);
const uint64_t *flow_table_hash_key(const struct flow_table *table); /* two words */

/*
 * The index by which flows name a service or a node. With make it is created; it stays while flows use it. -1: it does
 * not exist, or there is no room.
 */
int flow_table_service(struct flow_table *table, const struct addr *service, be16 port, bool make);
int flow_table_node(struct flow_table *table, uint32_t node_id, bool make);
uint32_t flow_table_node_id(const struct flow_table *table, unsigned node); /* 0: none */

/* Copies the flow of this key to *ret; false: there is none. ret may be NULL. */
bool flow_find(const struct flow_table *table, const struct flow_key *key, struct flow *ret);

/*
 * Prefetches the place of this key, so that a look-up soon after does not wait for memory. made: a flow may soon be
 * made there; otherwise places without a flow are not prefetched.
 */
void flow_prefetch(const struct flow_table *table, const struct flow_key *key, bool made);

/* True when a SYN's sequence number is that of the SYN that made the flow. */
static inline bool flow_same_sequence(const struct flow *flow, uint32_t sequence)
{
	return flow->syn_sequence == (sequence & FLOW_SEQUENCE_MASK);
}

/* Compares a SYN with this sequence number to the flow (flow/syn.h). */
static inline enum flow_syn flow_syn_of(const struct flow *flow, uint32_t sequence)
{
	return flow_syn(flow_slot_state_of((enum flow_state)flow->state), flow_same_sequence(flow, sequence));
}

/* True while the first SYN of a half-open flow is younger than COPY_PATIENCE_MS. */
static inline bool flow_is_young(const struct flow *flow, uint64_t now_ms)
{
	return now_ms < flow->last_seen_ms + COPY_PATIENCE_MS;
}

/* True for a closing or reset flow that has been silent for its own timeout: it stays only while there is room. */
static inline bool flow_is_over(const struct flow *flow, const struct flow_limits *limits, uint64_t now_ms)
{
	unsigned timeout_ms = flow->state == FLOW_CLOSING ? limits->fin_timeout_ms : limits->rst_timeout_ms;

	return flow->state >= FLOW_CLOSING && now_ms >= flow->last_seen_ms + timeout_ms;
}

/*
 * Remembers a forwarded SYN as half-open, in place of any flow of the same key. False: there was no room, or the
 * client's address is multicast; only a flow of the same key is then gone. When the half-open pool or the flow's own
 * places are full, a half-open flow older than HALF_OPEN_GRACE_MS makes room and is copied to *ret_evicted (otherwise
 * its state is FLOW_FREE). The caller must forget it, too, also after false: a BPF program may have taken the room.
 */
bool flow_add(struct flow_table *table, const struct flow_key *key, uint32_t node_id, uint32_t syn_sequence,
	      uint64_t now_ms, struct flow *ret_evicted);

/* Removes one half-open flow older than HALF_OPEN_GRACE_MS. False: it found none near the place where it searched. */
bool flow_evict_old(struct flow_table *table, uint64_t now_ms);

/* Buckets that the running round of flow_expire() has passed. */
uint32_t flow_swept_buckets(const struct flow_table *table);

/* Counts the half-open flows that BPF programs made since the last call; behind: those in swept buckets. */
void flow_count_made(struct flow_table *table, unsigned made, unsigned behind);

/*
 * True when the pools have room for one more flow: a free place, or a half-open flow so old that its client has had
 * time to answer. Pushing out a younger one would break a connection that is being made. flow_add() may still find its
 * own places full: rarely with IPv4 (1 of 10,000 in a full table); with IPv6 alone, which takes two slots, 1 of 200 in
 * a table half full and 1 of 5 in a full one.
 */
bool flow_has_room(struct flow_table *table, uint64_t now_ms);

/*
 * Handles a packet of the flow: refreshes the flow and moves it on by the TCP flags (flow_state_after()). flow is as
 * found; its state and time are updated.
 */
void flow_touch(struct flow_table *table, struct flow *flow, uint8_t tcp_flags, uint64_t now_ms);

/* Removes a flow as found. Does nothing when its place has another flow by now. */
void flow_remove(struct flow_table *table, const struct flow *flow);

/*
 * Goes through the next slots, up to steps: removes the expired flows and counts the others. Calls gone() for each flow
 * before it is removed. Call it often with few steps.
 */
typedef void flow_gone_fn(void *context, const struct flow *flow);
void flow_expire(struct flow_table *table, unsigned steps, uint64_t now_ms, flow_gone_fn *gone, void *context);

/* Slots of the table: the steps of a whole round. */
unsigned flow_slots(const struct flow_table *table);

/*
 * Removes all flows to a node whose host is gone; returns their number. It is cheap for a node without flows. For that
 * reason it may miss flows that BPF programs made within the first round in which the node has any.
 */
unsigned flow_remove_node(struct flow_table *table, uint32_t node_id, flow_gone_fn *gone, void *context);

/* Calls visit for every flow until it returns false. */
typedef bool flow_visit_fn(void *context, const struct flow *flow);
void flow_each(const struct flow_table *table, flow_visit_fn *visit, void *context);

/*
 * The same in parts: goes on at *cursor (begin with 0) for at most steps slots, and sets *cursor to the next one; 0:
 * all were seen. A flow that comes or goes meanwhile may be seen or not.
 */
void flow_walk(const struct flow_table *table, uint32_t *cursor, unsigned steps, flow_visit_fn *visit, void *context);

struct flow_counts flow_counts(const struct flow_table *table);

/* SipHash-2-4 of the key: the keyed hash of the stateless policy. */
uint64_t flow_hash(const uint64_t hash_key[2], const struct flow_key *key);

/*
 * The time that a flow in this state lives without a packet. used: the flows in its pool, by counts.
 *
 * The entry node sees neither the server's half of a connection nor the sequence numbers that a socket expects: after a
 * FIN the other half may stay open, and an RST may be forged. So closing and reset flows live as long as confirmed ones
 * while less than an eighth of the pool is in use, an eighth of that time up to a quarter, and for their own timeouts
 * beyond it. Above half of the pool, these and half-open flows go sooner still, the oldest first: then a FIN or RST says
 * more than the clock, and a SYN that was not confirmed for long was probably forged. A half-open flow always lives
 * HALF_OPEN_GRACE_MS.
 */
unsigned flow_lifetime_ms(const struct flow_limits *limits, uint8_t state, const struct flow_counts *used);

#endif
