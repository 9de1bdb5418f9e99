// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sequence.c - plans the pages and pauses of all users.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/experiments/surge/dist.h"
#include "tests/experiments/surge/locality.h"
#include "tests/experiments/surge/sequence.h"
#include "tests/experiments/surge/streams.h"
#include "tests/lab/wakeheap.h"

/* On the mean 1.37 files every 3 s. */
static const double steps_per_s = 0.46;

struct planner {
	struct wake wake; /* first, so that a wake is its planner; the time of the next page */
	unsigned user;
	struct prng files, active, inactive;
};

static uint32_t pause_us(double seconds)
{
	return seconds * 1e6 >= UINT32_MAX ? UINT32_MAX : (uint32_t)llround(seconds * 1e6);
}

static bool grow(void **array, size_t *room, size_t count, size_t size)
{
	const size_t wanted = *room ? *room * 2 : 64;
	void *larger;

	if (count <= *room)
		return true;
	larger = reallocarray(*array, wanted > count ? wanted : count, size);
	if (!larger)
		return false;
	*array = larger;
	*room = wanted > count ? wanted : count;
	return true;
}

static bool make_room(struct plan *plan, struct user_plan *user, unsigned files)
{
	size_t room = user->room;
	bool good = grow((void **)&user->steps, &room, (size_t)user->count + files, sizeof(*user->steps));

	user->room = (uint32_t)room;
	if (good && plan->order)
		good = grow((void **)&plan->order, &plan->order_room, plan->order_count + files, sizeof(*plan->order));
	return good;
}

/* Plans one page; the time of the next is in the wake then. */
static bool plan_page(struct plan *plan, struct planner *planner, struct locality *locality)
{
	struct user_plan *user = &plan->of[planner->user];
	const unsigned files = page_files_quantile(prng_unit(&planner->files));

	if (!make_room(plan, user, files))
		return false;
	for (unsigned i = 1; i <= files; i++) {
		struct step *step = &user->steps[user->count++];

		step->file = locality_next(locality) & 0x7fffffff;
		step->is_last_of_page = i == files;
		step->pause_us = i == files
					 ? pause_us(pareto_quantile(prng_unit(&planner->inactive), MODEL_INACTIVE_K_S,
								    MODEL_INACTIVE_ALPHA, INFINITY))
					 : pause_us(weibull_quantile(prng_unit(&planner->active), MODEL_ACTIVE_SHAPE,
								     MODEL_ACTIVE_SCALE_S));
		if (plan->order)
			plan->order[plan->order_count++] = step->file;
	}
	/* Active OFF times do not count: users with several connections wait for them side by side. */
	planner->wake.at_us += user->steps[user->count - 1].pause_us;
	return true;
}

static int plan_all(struct plan *plan, struct locality *locality, struct planner *planners, struct wake_heap *heap,
		    double seconds, uint64_t seed)
{
	const uint64_t end_us = (uint64_t)(seconds * 1e6);

	for (unsigned i = 0; i < plan->users; i++) {
		planners[i].user = i;
		planners[i].files = prng_new(seed, STREAM_PAGE_FILES, i);
		planners[i].active = prng_new(seed, STREAM_ACTIVE_OFF, i);
		planners[i].inactive = prng_new(seed, STREAM_INACTIVE_OFF, i);
		wake_add(heap, &planners[i].wake);
	}
	while (heap->all[0]->at_us <= end_us) {
		struct planner *planner = (struct planner *)heap->all[0];

		if (!plan_page(plan, planner, locality))
			return -ENOMEM;
		wake_restore(heap, planner->wake.place);
	}
	return 0;
}

int plan_make(struct plan *plan, const struct file_set *set, unsigned users, double seconds, uint64_t seed,
	      bool keep_order)
{
	struct locality *locality;
	struct planner *planners;
	struct wake_heap heap = { 0, NULL };
	int error = -ENOMEM;

	memset(plan, 0, sizeof(*plan));
	if (users * (seconds * steps_per_s + 2) > STEPS_MAX)
		return -E2BIG;
	locality = locality_new(set, seed);
	planners = calloc(users, sizeof(*planners));
	heap.all = calloc(users, sizeof(struct wake *));
	plan->users = users;
	plan->of = calloc(users, sizeof(*plan->of));
	if (keep_order)
		plan->order = calloc(plan->order_room = 64, sizeof(*plan->order));
	if (locality && planners && heap.all && plan->of && (plan->order || !keep_order))
		error = plan_all(plan, locality, planners, &heap, seconds, seed);
	free((void *)heap.all);
	free(planners);
	locality_free(locality);
	if (error)
		plan_free(plan);
	return error;
}

void plan_free(struct plan *plan)
{
	for (unsigned i = 0; plan->of && i < plan->users; i++)
		free(plan->of[i].steps);
	free(plan->of);
	free(plan->order);
	memset(plan, 0, sizeof(*plan));
}
