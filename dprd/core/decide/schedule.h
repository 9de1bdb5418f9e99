/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * schedule.h - the verdicts on the next connections, decided ahead (Decide=kernel). Pure.
 *
 * They are those of decide_new() itself, one after the other: each counts what the ones before it
 * send or keep, as if these connections had come. So every policy works, and none is written twice.
 */
#ifndef DPRD_SCHEDULE_H
#define DPRD_SCHEDULE_H

#include "dprd/core/decide/decide.h"

struct schedule_entry {
	uint8_t reason; /* enum reason */
	uint8_t alternative; /* as in struct verdict */
	uint16_t view_index; /* of the node; 0: served here */
};

/*
 * Fills entries[]. env->view's nodes and env->policy_state are the caller's copies and are changed:
 * they end as they would be after all these connections. connection_load: what one more connection
 * adds to the own load. seed: the same one gives the same draws.
 */
void schedule_make(const struct decide_env *env, double connection_load, uint64_t seed, struct schedule_entry *entries,
		   unsigned count);

/* Decide=auto: by whom new connections are decided. All zero: by dprd, and nothing has come yet. */
struct schedule_pace {
	uint64_t since_ms, fast_ms; /* CLOCK_MONOTONIC: what came was counted, and came fast, for the last time */
	uint64_t syns;
	bool fast;
};

/*
 * True when SYNs come so fast that the programs should decide: from 1,000 per second on, until for a second there were
 * fewer than 500. syns: the number so far. The answer stays the same for 20 ms.
 */
bool schedule_pace_fast(struct schedule_pace *pace, uint64_t now_ms, uint64_t syns);

#endif
