// SPDX-License-Identifier: GPL-2.0-or-later
/* queue/standby_tell.c - dprd tells its standby process about the members, and reads its counters. */
#include "dprd/base/clock.h"
#include "dprd/cluster/state.h"
#include "dprd/cluster/view.h"
#include "dprd/queue/private.h"
#include "dprd/queue/queue.h"
#include "dprd/queue/standby.h"
#include "dprd/queue/standby_forward.h"

const struct standby_members *queue_members(struct dprd *d)
{
	static struct standby_members members;
	unsigned member, v6;

	mutex_assert_held(&d->lock);
	members.config = d->config;
	members.living = d->queue->living_told = view_living(d, clock_now_ms());
	for (member = 0; member < MEMBERS_MAX; member++) {
		for (v6 = 0; v6 < 2; v6++)
			members.inner_mtu[member][v6] = d->ways.member[member][v6].tunnel_mtu;
	}
	return &members;
}

void queue_tick(struct dprd *d, bool each_second)
{
	struct standby_counts counts;

	if (each_second && !d->fastpath)
		queue_read_answers(d);
	if (!d->queue->standby)
		return;
	if (each_second)
		standby_tick(d->queue->standby);
	mutex_lock(&d->lock);
	/* At once, since a peer that comes to life forwards at once. */
	if (each_second || view_living(d, clock_now_ms()) != d->queue->living_told)
		standby_know(d->queue->standby, queue_members(d));
	counts = standby_count(d->queue->standby);
	d->counters.standby_served = counts.served;
	d->counters.standby_tunnelled = counts.tunnelled;
	d->counters.standby_forwarded = counts.forwarded;
	mutex_unlock(&d->lock);
}
