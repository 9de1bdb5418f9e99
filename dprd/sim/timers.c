// SPDX-License-Identifier: GPL-2.0-or-later
/* timers.c - moves timers up and down the heap. */
#include "dprd/sim/timers.h"

#include <stdlib.h>

enum { CHILDREN = 4 };

bool timers_init(struct timers *timers, uint32_t capacity)
{
	*timers = (struct timers) {
		.capacity = capacity,
		.heap = calloc(capacity, sizeof(*timers->heap)),
		.place = calloc(capacity, sizeof(*timers->place)),
	};
	if (!timers->heap || !timers->place) {
		timers_free(timers);
		return false;
	}
	for (uint32_t i = 0; i < capacity; i++)
		timers->place[i] = TIMER_OFF;
	return true;
}

void timers_free(struct timers *timers)
{
	free(timers->heap);
	free(timers->place);
	*timers = (struct timers) { 0 };
}

/* At equal times the lower number is first, so that a run does not depend on the heap's history. */
static bool is_before(const struct timer *a, const struct timer *b)
{
	return a->at_s < b->at_s || (a->at_s <= b->at_s && a->timer < b->timer);
}

static void put(struct timers *t, uint32_t place, struct timer timer)
{
	t->heap[place] = timer;
	t->place[timer.timer] = place;
}

static void move_up(struct timers *t, uint32_t place, struct timer timer)
{
	while (place) {
		uint32_t parent = (place - 1) / CHILDREN;

		if (!is_before(&timer, &t->heap[parent]))
			break;
		put(t, place, t->heap[parent]);
		place = parent;
	}
	put(t, place, timer);
}

static void move_down(struct timers *t, uint32_t place, struct timer timer)
{
	for (;;) {
		uint32_t first = place * CHILDREN + 1, best = first;

		if (first >= t->count)
			break;
		for (uint32_t child = first + 1; child < t->count && child < first + CHILDREN; child++)
			if (is_before(&t->heap[child], &t->heap[best]))
				best = child;
		if (!is_before(&t->heap[best], &timer))
			break;
		put(t, place, t->heap[best]);
		place = best;
	}
	put(t, place, timer);
}

void timer_set(struct timers *timers, uint32_t timer, double at_s)
{
	const struct timer set = { .at_s = at_s, .timer = timer };
	uint32_t place = timers->place[timer];

	if (place == TIMER_OFF)
		move_up(timers, timers->count++, set);
	else if (at_s < timers->heap[place].at_s)
		move_up(timers, place, set);
	else
		move_down(timers, place, set);
}

void timer_stop(struct timers *timers, uint32_t timer)
{
	uint32_t place = timers->place[timer];
	struct timer last;

	if (place == TIMER_OFF)
		return;
	timers->place[timer] = TIMER_OFF;
	last = timers->heap[--timers->count];
	if (last.timer == timer)
		return;
	/* The timer from the end moves up or down, but not both. */
	if (place && is_before(&last, &timers->heap[(place - 1) / CHILDREN]))
		move_up(timers, place, last);
	else
		move_down(timers, place, last);
}
