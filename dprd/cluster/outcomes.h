/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * outcomes.h - the outcome of connections that this node forwards, by member and family (core/decide/outcome.h).
 */
#ifndef DPRD_OUTCOMES_H
#define DPRD_OUTCOMES_H

#include "dprd/config/config.h"
#include "dprd/core/decide/outcome.h"

struct dprd;

struct outcomes {
	struct outcome member[MEMBERS_MAX][2]; /* by family (0: IPv4) */
	struct outcome_history history;
	uint64_t window_ms; /* when the running window began; 0: never */
	uint64_t standby_forwarded; /* that counter, at that time */
	uint64_t forwarded[MEMBERS_MAX][2]; /* by family: all connections that went to a member since it is one */
};

/* Lock held for all of these, except outcomes_tick(). Nodes that are not members do not count. */
void outcomes_made(struct dprd *d, uint32_t node_id, bool v6, unsigned connections, uint64_t now_ms);
void outcomes_confirmed(struct dprd *d, uint32_t node_id, bool v6, unsigned connections, uint64_t now_ms);
void outcomes_returned(struct dprd *d, uint32_t node_id, bool v6); /* a SYN came back from there */

/* True when connections of this family to the member get no answer: it may get one at a time, as a trial. */
bool outcomes_rests(const struct dprd *d, unsigned member, bool v6);

/* The way to the member was lost, and probes arrive again: its rest is over, unless it is wrong once more. */
void outcomes_proven(struct dprd *d, unsigned member, bool v6);

/* True when connections of this family to the member come about, as far as is known, or it is to be tried. */
bool outcomes_allow(const struct dprd *d, unsigned member, bool v6, uint64_t now_ms);

/* After a change of the configuration; members that stay keep their outcome. */
void outcomes_reconfigure(struct dprd *d, const struct config *former);

/* Every TICK_MS: finds and logs the members that do not answer connections. Main thread, lock not held. */
void outcomes_tick(struct dprd *d, uint64_t now_ms);

#endif
