// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/schedule.h"

void schedule_make(const struct decide_env *env, double connection_load, uint64_t seed, struct schedule_entry *entries,
		   unsigned count)
{
	struct decide_env each = *env;
	unsigned i;

	for (i = 0; i < count; i++) {
		struct verdict verdict;

		/* Not a chain: policies take further bits from policy_mix(random). */
		each.random = policy_mix(seed + i);
		verdict = decide_new(&each, NULL);
		entries[i] = (struct schedule_entry) { .reason = (uint8_t)verdict.reason };
		if (verdict.kind == VERDICT_FORWARD) {
			entries[i].view_index = (uint16_t)verdict.view_index;
			each.view->nodes[verdict.view_index].sent++;
		} else {
			each.view->nodes[0].load += connection_load;
		}
	}
}
