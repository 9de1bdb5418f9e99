/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * timers.h - finds the next event: one place for each possible event, the earliest on top.
 *
 * A 4-ary heap that knows where each timer lies, so that one can be moved or stopped. Its size is the number of
 * possible events, not of connections: nothing is allocated after the start.
 */
#ifndef DPRD_SIM_TIMERS_H
#define DPRD_SIM_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

struct timer {
	double at_s;
	uint32_t timer;
};

struct timers {
	uint32_t count, capacity;
	struct timer *heap; /* a parent never after its children */
	uint32_t *place; /* by timer: where in heap[]; TIMER_OFF: it is not set */
};

#define TIMER_OFF UINT32_MAX

/* Makes timers 0 .. capacity - 1; none is set. False: out of memory. */
bool timers_init(struct timers *timers, uint32_t capacity);
void timers_free(struct timers *timers);

/* Sets a timer, or moves it. */
void timer_set(struct timers *timers, uint32_t timer, double at_s);

/* Does nothing when the timer is not set. */
void timer_stop(struct timers *timers, uint32_t timer);

/* The earliest timer; among equal times the lowest number; TIMER_OFF: none is set. */
static inline uint32_t timers_next(const struct timers *timers)
{
	return timers->count ? timers->heap[0].timer : TIMER_OFF;
}

/* The time of the earliest timer; call it only when one is set. */
static inline double timers_next_s(const struct timers *timers)
{
	return timers->heap[0].at_s;
}

#endif
