// SPDX-License-Identifier: GPL-2.0-or-later
/* queue_standby.c - what dprd tells its standby process, and hears of it. */
#include "dprd/base/clock.h"
#include "dprd/dprd.h"
#include "dprd/encap.h"
#include "dprd/standby.h"
#include "dprd/standby_forward.h"

static void tell_standby(struct dprd *d, uint64_t living)
{
	static struct standby_members members; /* main thread only */
	unsigned member, v6;

	members.config = d->config;
	members.living = living;
	for (member = 0; member < MEMBERS_MAX; member++) {
		for (v6 = 0; v6 < 2; v6++) {
			unsigned mtu = d->tunnel_mtu[member][v6];

			mtu = mtu < TUNNEL_MTU_LEAST ? 0 : mtu - encap_bytes(v6);
			members.inner_mtu[member][v6] = (uint16_t)(mtu > UINT16_MAX ? UINT16_MAX : mtu);
		}
	}
	standby_know(d->standby, &members);
}

void queue_tick(struct dprd *d, bool each_second)
{
	struct standby_counts counts;
	uint64_t living;

	if (!d->standby)
		return;
	if (each_second)
		standby_tick(d->standby);
	pthread_mutex_lock(&d->lock);
	/* A peer that comes to life forwards at once. */
	living = view_living(d, clock_now_ms());
	if (each_second || living != d->living_told_standby)
		tell_standby(d, living);
	d->living_told_standby = living;
	counts = standby_count(d->standby);
	d->counters.standby_served = counts.served;
	d->counters.standby_tunnelled = counts.tunnelled;
	d->counters.standby_forwarded = counts.forwarded;
	pthread_mutex_unlock(&d->lock);
}
