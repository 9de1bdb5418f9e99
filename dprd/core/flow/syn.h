/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flow/syn.h - tells what a SYN is that finds a flow of its key: a copy, part of the flow, or a new connection. Pure,
 * header only.
 *
 *   flow \ SYN      the same sequence number      another one
 *   half-open       FLOW_SYN_EARLY_COPY           FLOW_SYN_GIVEN_UP
 *   confirmed       FLOW_SYN_LATE_COPY            FLOW_SYN_SAME_FLOW
 *   closing, reset  FLOW_SYN_LATE_COPY            FLOW_SYN_OVER
 *
 * This table is the only one. The effect of the answer depends on the caller, and on its knowledge of the node to which
 * the flow leads:
 *
 *                        an early copy        a late copy   same flow     given up       over
 *   dprd (decide.c)      same node if young   same node     same node     new decision   new decision
 *                        or eligible
 *   standby process      same node            same node     same node     served here    served here
 *   BPF, dprd away       same node            same node     same node     served here    served here
 *   BPF, decides itself  same node if young,  dprd decides  dprd decides  dprd decides   new decision
 *                        else dprd decides
 *
 * "Same node" of dprd and of the standby process holds while the node is alive; otherwise it is a new connection.
 */
#ifndef DPRD_FLOW_SYN_H
#define DPRD_FLOW_SYN_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/core/flow/slot.h"

enum {
	/*
	 * For this time the copies of a SYN go where the SYN went, even when the node looks dead: longer than until the
	 * first copy (1 s, RFC 6298 2), shorter than until the second one (3 s).
	 */
	COPY_PATIENCE_MS = 2500,
	COPY_PATIENCE_TICKS = COPY_PATIENCE_MS * 1000000ll >> FLOW_TICK_SHIFT,
};

enum flow_syn {
	/* Nothing is lost yet: the node may have answered the first copy, or never got it. */
	FLOW_SYN_EARLY_COPY,
	/* The client has already answered the node. */
	FLOW_SYN_LATE_COPY,
	/* The node has the socket and answers by RFC 9293 and 5961. So a forged SYN cannot break the connection. */
	FLOW_SYN_SAME_FLOW,
	/* The client gave up its first SYN. */
	FLOW_SYN_GIVEN_UP,
	/* The client uses its port again. */
	FLOW_SYN_OVER,
};

static inline enum flow_syn flow_syn(enum flow_slot_state state, bool same_sequence)
{
	if (same_sequence)
		return state == SLOT_HALF_OPEN ? FLOW_SYN_EARLY_COPY : FLOW_SYN_LATE_COPY;
	if (state == SLOT_CONFIRMED)
		return FLOW_SYN_SAME_FLOW;
	return state == SLOT_HALF_OPEN ? FLOW_SYN_GIVEN_UP : FLOW_SYN_OVER;
}

static inline bool flow_syn_is_copy(enum flow_syn syn)
{
	return syn == FLOW_SYN_EARLY_COPY || syn == FLOW_SYN_LATE_COPY;
}

/* The SYN begins a new connection, in place of the flow. */
static inline bool flow_syn_is_new(enum flow_syn syn)
{
	return syn == FLOW_SYN_GIVEN_UP || syn == FLOW_SYN_OVER;
}

/* The same question about the words of a slot (flow/slot.h). */
static inline bool flow_target_has_sequence(uint32_t target, uint32_t sequence)
{
	return target >> FLOW_SEQUENCE_SHIFT == (sequence & FLOW_SEQUENCE_MASK);
}

static inline enum flow_syn flow_slot_syn(uint32_t target, uint32_t state_word, uint32_t sequence)
{
	return flow_syn((enum flow_slot_state)(state_word & FLOW_STATE_MASK),
			flow_target_has_sequence(target, sequence));
}

/* True while the first SYN of a half-open flow is younger than COPY_PATIENCE_MS. */
static inline bool flow_word_is_young(uint32_t state_word, uint32_t tick)
{
	return ((tick - (state_word >> FLOW_TIME_SHIFT)) & (UINT32_MAX >> FLOW_TIME_SHIFT)) < COPY_PATIENCE_TICKS;
}

#endif
