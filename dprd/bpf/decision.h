/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decision.h - decisions in the kernel (Decide=kernel, and auto while SYNs come fast): a new connection gets the next
 * verdict of the schedule that dprd made. Cases that no schedule covers (a port used again, a node that may be gone)
 * are still queued to dprd.
 */
#ifndef DPRD_BPF_DECISION_H
#define DPRD_BPF_DECISION_H

#include "dprd/bpf/maps.h"
#include "dprd/core/flow/syn.h"

/* A copy of the SYN that made the flow, so young that nothing has changed since. */
INLINE bool is_clear_copy(const struct packet *p, const struct flow_slot *slot)
{
	bool young = flow_word_is_young(slot->state, tick_of(now_ns()));

	return flow_slot_syn(slot->target, slot->state, p->tcp_sequence) == FLOW_SYN_EARLY_COPY && young;
}

/* The flow has ended, or it leads to this node: a SYN that is not its copy gets a new decision. */
INLINE bool is_over(const struct packet *p, const struct flow_slot *slot, uint32_t self)
{
	enum flow_syn syn = flow_slot_syn(slot->target, slot->state, p->tcp_sequence);

	return syn == FLOW_SYN_OVER || (!flow_syn_is_copy(syn) && (slot->target & FLOW_NODE_MASK) == self);
}

/*
 * Keeps a decision for "dprctl why". In a flood most are not kept: dprd reads only FASTPATH_UNREAD of them in a tick.
 */
INLINE void remember(const struct packet *p, uint8_t reason, uint8_t node)
{
	uint32_t zero = 0;
	struct fastpath_recent *r = bpf_map_lookup_elem(&recent, &zero);
	struct fastpath_decision *d;

	if (!r || control.decisions - control.decisions_seen >= FASTPATH_UNREAD)
		return;
	d = &r->decision[__sync_fetch_and_add(&control.decisions, 1) & (FASTPATH_RECENT - 1)];
	d->key = p->key;
	d->sequence = p->tcp_sequence;
	d->tick = tick_of(now_ns());
	d->reason = reason;
	d->node = node;
}

/*
 * True when many more connections came than there was room for. dprd knows that already; counting further would slow
 * down every SYN of a flood.
 */
INLINE bool is_full(void)
{
	uint32_t made = control.made, room = control.room;

	return made >= room && made - room >= FASTPATH_OVER_ROOM;
}

/*
 * The next verdict on a new connection: alternative << 16 | node << 8 | reason, see struct verdict; node 0: serve here.
 * -1: dprd must decide.
 */
INLINE int next_verdict(bool v6)
{
	uint32_t which = 2 * (control.schedule & 1) + v6, at;
	struct fastpath_schedule *s = bpf_map_lookup_elem(&schedules, &which);

	if (!s || !s->count)
		return -1;
	if (is_full())
		return (int)control.room_reason;
	at = __sync_fetch_and_add(&control.cursor[which & (FASTPATH_SCHEDULES - 1)], 1);
	return s->entry[fastpath_schedule_at(at, s->count) & (FASTPATH_SCHEDULE_MAX - 1)];
}

/* True when one more flow may be made now; otherwise the reason of the verdict is control.room_reason. */
INLINE bool has_room(void)
{
	return __sync_fetch_and_add(&control.made, 1) < control.room;
}

#endif
