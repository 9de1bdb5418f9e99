/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * schedule.h - the verdicts on the next connections, decided ahead (Decide=kernel). Pure.
 *
 * They are the verdicts of decide_new(), one after the other: each takes into account where the ones before it send or
 * keep their connections. So every policy works here without a second version of it.
 */
#ifndef DPRD_SCHEDULE_H
#define DPRD_SCHEDULE_H

#include "dprd/core/decide/decide.h"

struct schedule_entry {
	uint8_t reason; /* enum reason */
	uint8_t alternative; /* as in struct verdict */
	uint16_t view_index; /* the node; 0: served here */
};

/*
 * Fills entries[]. env->view's nodes and env->policy_state are the caller's copies. They are changed to what they would
 * be after all these connections. connection_load: one connection adds this to the own load. The same seed gives the
 * same draws.
 */
void schedule_make(const struct decide_env *env, double connection_load, uint64_t seed, struct schedule_entry *entries,
		   unsigned count);

/* One family's part of schedule_make_both(). */
struct schedule_family {
	const struct decide_env *env; /* as for schedule_make() */
	uint64_t seed;
	unsigned expected; /* connections of this family, in proportion to the other family's; above 0 */
	unsigned count;
	struct schedule_entry *entries;
};

/*
 * The same for IPv4 and IPv6: each verdict also takes into account the connections of the other family that are expected
 * to come before it. Both views have the same nodes in the same order.
 */
void schedule_make_both(const struct schedule_family family[2], double connection_load);

/*
 * When the connections of the last tick were decided: their number by age, in ticks of the flow table's clock (16.8 ms).
 * All zero: unknown.
 */
enum { SCHEDULE_AGES = 8 };
struct schedule_ages {
	unsigned all, count[SCHEDULE_AGES];
};

/* One was decided this many ticks ago. A negative age counts as 0, a higher one as the highest. */
void schedule_ages_add(struct schedule_ages *ages, int32_t age);

/* The part of some connections that has an age, when they came evenly among all. The parts of all ages sum up. */
unsigned schedule_ages_part(const struct schedule_ages *ages, unsigned connections, unsigned age);

/* Decide=auto: state of the choice between dprd and the programs. All zero: dprd decides, and no SYN has come. */
struct schedule_pace {
	uint64_t since_ms, fast_ms; /* CLOCK_MONOTONIC: when SYNs were last counted, and last came fast */
	uint64_t syns;
	bool fast;
};

/*
 * True while SYNs come so fast that the programs should decide: from 1,000 per second on, until fewer than 500 came for
 * a second. syns: all SYNs so far. Within 20 ms the answer is the same.
 */
bool schedule_pace_fast(struct schedule_pace *pace, uint64_t now_ms, uint64_t syns);

#endif
