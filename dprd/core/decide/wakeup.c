// SPDX-License-Identifier: GPL-2.0-or-later
/* wakeup.c - decides when a worker preempts and when it waits for its turn. */
#include "dprd/core/decide/wakeup.h"

void wakeup_packets(struct wakeup *w, uint64_t now_ms, unsigned packets)
{
	uint64_t window_ms = now_ms - w->window_ms;
	bool fast;

	w->packets += packets;
	if (window_ms < WAKEUP_WINDOW_MS)
		return;
	/* A window that took much longer gives no rate: the worker was idle or stood still. */
	fast = w->packets >= WAKEUP_WINDOW_PACKETS && window_ms < 2 * WAKEUP_WINDOW_MS;
	w->window_ms = now_ms;
	w->packets = 0;
	if (fast && !w->waits && now_ms >= w->retry_ms) {
		w->waits = true;
		w->since_ms = now_ms;
		w->late = 0;
	} else if (!fast) {
		w->waits = false;
	}
}

void wakeup_timer(struct wakeup *w, uint64_t now_ms, uint64_t late_us)
{
	if (!w->waits)
		return;
	if (late_us > WAKEUP_LATE_US)
		w->late++;
	else if (w->late)
		w->late--;
	if (w->late < WAKEUP_LATE_TIMES)
		return;
	if (!w->retry_after_ms || now_ms - w->since_ms >= WAKEUP_RETRY_MOST_MS)
		w->retry_after_ms = WAKEUP_RETRY_MS;
	else if (w->retry_after_ms < WAKEUP_RETRY_MOST_MS)
		w->retry_after_ms *= 2;
	w->retry_ms = now_ms + w->retry_after_ms;
	w->waits = false;
}
