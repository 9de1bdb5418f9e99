/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clock.h - the clocks that decisions use.
 *
 * CLOCK_BOOTTIME never steps, and it goes on through suspend. All processes of a host share it, so dprd can use a time
 * that loadcast wrote into a file.
 *
 * Only flows have another clock, CLOCK_MONOTONIC, because the BPF programs read that one.
 */
#ifndef DPRD_BASE_CLOCK_H
#define DPRD_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { TICK_MS = 50 }; /* the main thread does its work this often (tick.c) */

static inline uint64_t clock_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static inline uint64_t clock_now_ms(void)
{
	return clock_now_us() / 1000;
}

/*
 * True when at_ms was less than within_ms ago. Another thread or process may note a time after this thread read the
 * clock, so a time less than within_ms ahead counts, too. A time further ahead comes from a former boot.
 */
static inline bool clock_is_recent(uint64_t at_ms, uint64_t now_ms, uint64_t within_ms)
{
	return (at_ms > now_ms ? at_ms - now_ms : now_ms - at_ms) < within_ms;
}

/* The flow table's clock: the one that BPF programs can read at little cost. */
static inline uint64_t clock_flow_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The step of that clock, which is the kernel's tick: a jiffy. */
static inline uint64_t clock_jiffy_ns(void)
{
	struct timespec t;

	clock_getres(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_flow_ms(void)
{
	return clock_flow_ns() / 1000000;
}

#endif
