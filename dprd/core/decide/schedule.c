// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/core/decide/schedule.h"

enum { FAST_PER_S = 1000, SLOW_PER_S = 500, FAST_STAYS_MS = 1000, PACE_LEAST_MS = 20 };

void schedule_make(const struct decide_env *env, double connection_load, uint64_t seed, struct schedule_entry *entries,
		   unsigned count)
{
	struct decide_env each = *env;
	unsigned i;

	for (i = 0; i < count; i++) {
		struct verdict verdict;

		/*
		 * Each number is policy_mix() of a counter, not of the last number, because policies take more bits
		 * from policy_mix(random).
		 */
		each.random = policy_mix(seed + i);
		verdict = decide_new(&each, NULL);
		entries[i] = (struct schedule_entry) { .reason = (uint8_t)verdict.reason };
		if (verdict.kind == VERDICT_FORWARD) {
			entries[i].view_index = (uint16_t)verdict.view_index;
			entries[i].alternative = verdict.alternative;
			each.view->nodes[verdict.view_index].sent++;
		} else {
			each.view->nodes[0].load += connection_load;
		}
	}
}

bool schedule_pace_fast(struct schedule_pace *pace, uint64_t now_ms, uint64_t syns)
{
	uint64_t elapsed_ms = now_ms - pace->since_ms, per_s;

	if (elapsed_ms < PACE_LEAST_MS)
		return pace->fast;
	per_s = (syns - pace->syns) * 1000 / elapsed_ms;
	pace->since_ms = now_ms;
	pace->syns = syns;
	if (per_s >= (pace->fast ? SLOW_PER_S : FAST_PER_S)) {
		pace->fast = true;
		pace->fast_ms = now_ms;
	}
	pace->fast = pace->fast && now_ms - pace->fast_ms < FAST_STAYS_MS;
	return pace->fast;
}
