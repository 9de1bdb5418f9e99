// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/core/decide/schedule.h"

enum { FAST_PER_S = 1000, SLOW_PER_S = 500, FAST_STAYS_MS = 1000, PACE_LEAST_MS = 20 };

static struct schedule_entry next_entry(const struct decide_env *env, uint64_t seed)
{
	struct decide_env each = *env;
	struct schedule_entry entry;
	struct verdict verdict;

	each.random = policy_mix(seed);
	verdict = decide_new(&each, NULL);
	entry = (struct schedule_entry) { .reason = (uint8_t)verdict.reason };
	if (verdict.kind == VERDICT_FORWARD) {
		entry.view_index = (uint16_t)verdict.view_index;
		entry.alternative = verdict.alternative;
	}
	return entry;
}

/* The next verdict takes this connection into account. */
static void count_entry(const struct load_view *view, const struct schedule_entry *entry, double connection_load)
{
	if (entry->view_index)
		view->nodes[entry->view_index].sent++;
	else
		view->nodes[0].load += connection_load;
}

void schedule_make(const struct decide_env *env, double connection_load, uint64_t seed, struct schedule_entry *entries,
		   unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		/*
		 * Each number is policy_mix() of a counter, not of the last number, because policies take more bits
		 * from policy_mix(random).
		 */
		entries[i] = next_entry(env, seed + i);
		count_entry(env->view, &entries[i], connection_load);
	}
}

/* The family that is behind its part of the connections; the other one when it is complete. */
static unsigned next_family(const struct schedule_family family[2], const unsigned made[2])
{
	if (made[0] == family[0].count || made[1] == family[1].count)
		return made[0] == family[0].count;
	return (made[0] + 1ULL) * family[1].expected > (made[1] + 1ULL) * family[0].expected;
}

void schedule_make_both(const struct schedule_family family[2], double connection_load)
{
	unsigned made[2] = { 0 };

	while (made[0] < family[0].count || made[1] < family[1].count) {
		unsigned f = next_family(family, made), i = made[f]++;
		struct schedule_entry *entry = &family[f].entries[i];

		*entry = next_entry(family[f].env, family[f].seed + i);
		count_entry(family[0].env->view, entry, connection_load);
		count_entry(family[1].env->view, entry, connection_load);
	}
}

void schedule_ages_add(struct schedule_ages *ages, int32_t age)
{
	ages->all++;
	ages->count[age < 0 ? 0 : age < SCHEDULE_AGES ? age : SCHEDULE_AGES - 1]++;
}

/* The part of some connections that has an age or a higher one. */
static unsigned not_younger(const struct schedule_ages *ages, unsigned connections, unsigned age)
{
	uint64_t older = 0;

	for (unsigned i = age; i < SCHEDULE_AGES; i++)
		older += ages->count[i];
	return ages->all ? (unsigned)(older * connections / ages->all) : age ? 0 : connections;
}

unsigned schedule_ages_part(const struct schedule_ages *ages, unsigned connections, unsigned age)
{
	return not_younger(ages, connections, age) - not_younger(ages, connections, age + 1);
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
