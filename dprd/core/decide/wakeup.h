/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * wakeup.h - decides whether a worker takes the processor as soon as a packet is queued, or waits for its turn. Pure.
 *
 * A thread that wakes up preempts the running one: mostly the program whose system call has just made the packet. When
 * packets come fast, that costs two context switches for nearly every packet, and the worker finds one packet at a
 * time. Without wake-up preemption (SCHED_BATCH, sched(7)) the worker runs when a processor is idle or when its turn
 * comes, and finds several packets. The price: when programs compute without a pause, the turn of the worker comes a
 * time slice later, which is milliseconds. So a timer measures how late the worker gets the processor. When that is too
 * late, it preempts again.
 */
#ifndef DPRD_WAKEUP_H
#define DPRD_WAKEUP_H

#include <stdbool.h>
#include <stdint.h>

enum {
	WAKEUP_WINDOW_MS = 100, /* packets are counted for this long */
	WAKEUP_WINDOW_PACKETS = 200, /* fewer: it preempts */
	WAKEUP_TIMER_MS = 10, /* how often the timer asks */
	WAKEUP_LATE_US = 1000, /* later than on processors that are only busy */
	WAKEUP_LATE_TIMES = 6, /* times it was late minus times it was not, after which it preempts */
	WAKEUP_RETRY_MS = 5000, /* then it waits this long before it tries again; twice as long each time, up to: */
	WAKEUP_RETRY_MOST_MS = 80000,
};

/* State of one worker. All zero: it preempts, and no packet has come. Times are in ms of a clock that does not step. */
struct wakeup {
	uint64_t window_ms; /* when it began */
	uint64_t since_ms; /* without preemption since then */
	uint64_t retry_ms; /* it does not try again before */
	unsigned retry_after_ms;
	unsigned late; /* late times minus times in time */
	unsigned packets; /* in this window */
	bool waits; /* for its turn */
};

/* The worker took these packets off its queues, perhaps none. */
void wakeup_packets(struct wakeup *w, uint64_t now_ms, unsigned packets);

/* The timer woke the worker, this late. */
void wakeup_timer(struct wakeup *w, uint64_t now_ms, uint64_t late_us);

#endif
