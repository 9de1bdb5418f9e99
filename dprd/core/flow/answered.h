/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flow/answered.h - remembers SYNs that this node has answered or served lately. A copy stays here then, although no
 * socket shows that the SYN was answered: the listener sends SYN cookies, or the server is in a container behind DNAT.
 * Pure, header only.
 *
 * It is a table of words. A SYN and its copies have one place, which keeps the newest SYN. So a flood of SYNs takes no
 * more memory; copies of the SYNs that it pushes out are decided anew.
 */
#ifndef DPRD_FLOW_ANSWERED_H
#define DPRD_FLOW_ANSWERED_H

#include "dprd/core/flow/slot.h"

enum {
	ANSWERED_PLACES = 65536,
	ANSWERED_MS = 8000, /* clients send copies after 1, 3 and 7 s (RFC 6298 2), or sooner */
	ANSWERED_TICKS = ANSWERED_MS * 1000000ll >> FLOW_TICK_SHIFT,
	/*
	 * A copy that comes so soon after its SYN is none of the client's, but of the network. The SYN may not have reached
	 * the stack yet, so there may be no socket.
	 */
	SERVED_SOON_MS = 200,
	SERVED_SOON_TICKS = SERVED_SOON_MS * 1000000ll >> FLOW_TICK_SHIFT,
	ANSWERED_TICK_MASK = 0xffff,
	ANSWERED_AHEAD_TICKS = 2, /* the clock of another processor may be ahead */
};

/* The place of a SYN, by a keyed hash of its connection and its sequence number. */
static inline uint32_t answered_place(uint64_t hash)
{
	return (uint32_t)(hash >> 48);
}

/* The hash under which a SYN is remembered that waits for a decision. */
static inline uint64_t answered_queued(uint64_t hash)
{
	return ~hash;
}

/* The word of a SYN that was answered at this tick: the rest of the hash, and the tick. */
static inline uint64_t answered_word(uint64_t hash, uint32_t tick)
{
	return hash << 16 | (tick & ANSWERED_TICK_MASK);
}

/* True for the word of this SYN if it is at most so many ticks old. */
static inline bool answered_has(uint64_t word, uint64_t hash, uint32_t tick, uint32_t ticks)
{
	uint32_t age = (tick - (uint32_t)word + ANSWERED_AHEAD_TICKS) & ANSWERED_TICK_MASK;

	return (word ^ hash << 16) <= ANSWERED_TICK_MASK && age <= ticks + ANSWERED_AHEAD_TICKS;
}

#endif
