/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flow.h - which node serves a connection that has already been decided about. Pure.
 *
 * Fixed size, in memory that the caller gives (a file on tmpfs, so that the next dprd can adopt it).
 * Two pools: half-open flows live in a small one of their own, where the oldest makes room, so that
 * a SYN flood cannot push out a confirmed one; a confirmed flow is never evicted.
 * Lifetimes follow IPVS as far as one direction shows them. Times come in as now_ms.
 */
#ifndef DPRD_FLOW_H
#define DPRD_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dprd/packet.h"

enum flow_state {
	FLOW_FREE,
	FLOW_HALF_OPEN, /* SYN forwarded, nothing else seen */
	FLOW_CONFIRMED, /* a non-SYN packet of the client came */
	FLOW_CLOSING, /* the client sent FIN */
	FLOW_RESET, /* the client sent RST; a later packet belies it: closing, then */
};

struct flow {
	struct flow_key key;
	uint32_t node_id; /* member_id() of the serving node */
	uint32_t syn_sequence; /* ISN of the SYN that made it */
	uint32_t next; /* chain within its bucket, internal */
	uint64_t made_ms; /* when its first SYN came */
	uint64_t last_seen_ms;
	uint64_t packets;
	uint8_t state; /* enum flow_state */
};

struct flow_limits {
	unsigned max_confirmed; /* confirmed, closing and reset flows */
	unsigned max_half_open;
	unsigned syn_timeout_ms, idle_timeout_ms, fin_timeout_ms, rst_timeout_ms;
	uint64_t hash_key[2]; /* secret: the flow key is the attacker's to choose */
};

struct flow_counts {
	unsigned half_open, confirmed; /* confirmed: all but half-open */
	unsigned closing; /* of those: closing or reset */
};

struct flow_table;

/* Bytes the table needs for these limits. */
size_t flow_table_bytes(const struct flow_limits *limits);

/* An empty table in memory of flow_table_bytes(), 8-byte aligned. */
struct flow_table *flow_table_init(void *memory, const struct flow_limits *limits);

/*
 * Takes over the flows of the table that a former process left in old, size bytes, whatever its
 * sizes were; the timeouts and the hash key stay this table's, and the half-open ones' order of age is lost. Every entry is checked and only sound
 * ones are taken, so that a process killed while it wrote loses at most that entry. Returns how many
 * flows, or -EINVAL when old is not a table of this version. old must not be table's own memory.
 */
int flow_table_adopt(struct flow_table *table, const void *old, size_t size);

/* The timeouts of limits from now on; the sizes and the hash key are not touched. */
void flow_table_set_timeouts(struct flow_table *table, const struct flow_limits *limits);

/* The flow of this key, or NULL. Good until the next call that changes the table. */
struct flow *flow_find(struct flow_table *table, const struct flow_key *key);

/*
 * Remembers a forwarded SYN as half-open, in place of any flow of the same key. When the pool is
 * full the least recently seen half-open flow makes room and is copied to *ret_evicted (state
 * FLOW_FREE when none was): the caller forgets it too. Never NULL.
 */
struct flow *flow_add(struct flow_table *table, const struct flow_key *key, uint32_t node_id, uint32_t syn_sequence,
		      uint64_t now_ms, struct flow *ret_evicted);

/*
 * Whether a new flow would find room: a free place, or one of a half-open flow so old that its client
 * has had time to answer. Pushing out a younger one would break a connection that is being made.
 */
bool flow_has_room(const struct flow_table *table, uint64_t now_ms);

/*
 * A packet of the flow: refreshes it, and moves it on by the TCP flags. The first non-SYN packet
 * moves a half-open flow to the confirmed pool. Returns the flow, which may have moved; NULL when
 * the confirmed pool is full: it then stays half-open (*flow still good).
 */
struct flow *flow_touch(struct flow_table *table, struct flow *flow, uint8_t tcp_flags, uint64_t now_ms);

void flow_remove(struct flow_table *table, struct flow *flow);

/*
 * Looks at the next at most steps entries and removes the expired ones; gone() learns of each
 * before it goes. Call it often with few steps.
 */
typedef void flow_gone_fn(void *context, const struct flow *flow);
void flow_expire(struct flow_table *table, unsigned steps, uint64_t now_ms, flow_gone_fn *gone, void *context);

/* Removes all flows to a node whose host is gone. Returns how many. */
unsigned flow_remove_node(struct flow_table *table, uint32_t node_id, flow_gone_fn *gone, void *context);

/* Calls visit for every flow until it returns false. */
typedef bool flow_visit_fn(void *context, const struct flow *flow);
void flow_each(const struct flow_table *table, flow_visit_fn *visit, void *context);

/*
 * The same in parts: goes on at *cursor (start with 0), at most steps entries, and leaves there where
 * to go on; 0: all were seen. A flow that moves meanwhile may be seen twice or not at all.
 */
void flow_walk(const struct flow_table *table, uint32_t *cursor, unsigned steps, flow_visit_fn *visit, void *context);

struct flow_counts flow_counts(const struct flow_table *table);

/* SipHash-2-4 of the key: also the keyed hash of the stateless policy. */
uint64_t flow_hash(const uint64_t hash_key[2], const struct flow_key *key);

/*
 * How long a flow in this state lives without a packet. used: of the confirmed pool. Above half of it
 * the closing ones go sooner: by then a FIN or RST says more than the clock.
 */
unsigned flow_lifetime_ms(const struct flow_limits *limits, uint8_t state, unsigned used);

#endif
