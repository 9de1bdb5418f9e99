/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * wakeup.h - whether a worker of the queues takes the processor as soon as a packet is queued, or waits for its turn. Pure.
 *
 * A thread that is woken preempts who runs: mostly the program whose system call has just made the packet. Where packets
 * come fast that is two switches of context for nearly every packet, and the worker finds one at a time. Without wake-up
 * preemption (SCHED_BATCH, sched(7)) it runs when a processor has nothing else to do or it is its turn, and finds several.
 * The price: where programs compute without a pause, its turn comes a time slice later, which is milliseconds. So a timer
 * tells how late the worker gets the processor, and when that is too late it preempts again.
 */
#ifndef DPRD_WAKEUP_H
#define DPRD_WAKEUP_H

#include <stdbool.h>
#include <stdint.h>

enum {
	WAKEUP_WINDOW_MS = 100, /* packets are counted for so long */
	WAKEUP_WINDOW_PACKETS = 200, /* fewer: it preempts */
	WAKEUP_TIMER_MS = 10, /* how often the timer asks */
	WAKEUP_LATE_US = 1000, /* later than processors that are merely busy make it */
	WAKEUP_LATE_TIMES = 6, /* so many times more than not */
	WAKEUP_RETRY_MS = 5000, /* after that; each time twice as long, up to: */
	WAKEUP_RETRY_MOST_MS = 80000,
};

/*
 * The state of one worker. All zero: it preempts, and nothing has come yet. Times are in ms of any clock that does not
 * step.
 */
struct wakeup {
	uint64_t window_ms; /* when it began */
	uint64_t since_ms; /* without preemption */
	uint64_t retry_ms; /* not before */
	unsigned retry_after_ms;
	unsigned late; /* times, less those that it was not */
	unsigned packets; /* in this window */
	bool waits; /* for its turn */
};

/* So many packets were taken off the queues, perhaps none. */
void wakeup_packets(struct wakeup *w, uint64_t now_ms, unsigned packets);

/* The timer woke it, so late. */
void wakeup_timer(struct wakeup *w, uint64_t now_ms, uint64_t late_us);

#endif
