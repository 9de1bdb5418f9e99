// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Calls the periodic work of all modules, every TICK_MS and each second. While a worker stands still, dprd tells
 * nothing to the service manager and loadcast.
 */
#include "dprd/base/clock.h"
#include "dprd/cluster/asks.h"
#include "dprd/cluster/backend.h"
#include "dprd/cluster/probes.h"
#include "dprd/cluster/state.h"
#include "dprd/plane/plane.h"
#include "dprd/queue/queue.h"
#include "dprd/shared/shared.h"
#include "dprd/dprd.h"
#include "dprd/upkeep/expire.h"
#include "dprd/upkeep/keep_rules.h"
#include "dprd/upkeep/presence.h"
#include "dprd/upkeep/upkeep.h"

enum { HEARTBEAT_LATE_MS = 1000 }; /* a worker silent for longer stops the watchdog's pings */

static int on_tick(sd_event_source *source, uint64_t at_us, void *context)
{
	struct dprd *d = context;
	uint64_t now_ms = clock_now_ms(), elapsed_ms = now_ms - d->upkeep->second_ms;
	bool each_second = elapsed_ms >= 1000,
	     alive = clock_is_recent(queue_heartbeat_ms(d), now_ms, HEARTBEAT_LATE_MS);

	(void)at_us;
	asks_refresh(d, now_ms);
	plane_tick(d, alive);
	shared_tick(d, now_ms);
	queue_tick(d, each_second);
	/* The programs and the standby process have told by now what they sent on. */
	outcomes_tick(d, now_ms);
	expire_tick(d, now_ms, each_second);
	keep_rules_flood(d, now_ms);
	mutex_lock(&d->lock);
	backend_refresh(d);
	if (each_second)
		view_count_arrivals(d, elapsed_ms);
	mutex_unlock(&d->lock);
	if (each_second) {
		d->upkeep->second_ms = now_ms;
		ways_refresh(&d->ways, &d->config, &d->lock, &d->rules_changed);
		asks_inside(d);
		plane_update(d);
		presence_second(d, now_ms);
		renew_second(d, now_ms);
		keep_rules_second(d);
	}
	if (probes_tick(d, now_ms))
		presence_hurry(d);
	/* A status file says that this node can decapsulate: not while a worker stands still. */
	if (alive && plane_carries(d))
		presence_tick(d, now_ms);
	keep_rules_tick(d, now_ms);
	if (alive)
		presence_ping(d, now_ms);
	sd_event_source_set_time_relative(source, (uint64_t)TICK_MS * 1000);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

int tick_start(struct dprd *d)
{
	presence_start(d);
	renew_start(d);
	keep_rules_start(d);
	d->upkeep->second_ms = clock_now_ms();
	return sd_event_add_time_relative(d->event, NULL, CLOCK_BOOTTIME, (uint64_t)TICK_MS * 1000, 1000, on_tick, d);
}
