// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * path_late.c - drops SYNs that dprd has held for so long that their clients have sent copies. dprd may be frozen
 * between any two instructions, and the standby process serves meanwhile (standby.h).
 *
 * From the moment when the kernel knows a flow, all copies follow it, and its first SYN may leave at any time. So the
 * clock is read after that moment. If the batch is not late, no copy came before. If it is late, a copy may have been
 * served here (its connection may be over, so the absence of a socket proves nothing), or it may have followed the
 * flow. In both cases the copy is the client's connection, and the held SYN must not be sent.
 */
#include "dprd/base/clock.h"
#include "dprd/cluster/state.h"
#include "dprd/queue/path_batch.h"

_Static_assert((int)STALE_MS + (int)IN_HAND_MS < 1000, "less than the time until a client's first copy, RFC 6298 2");

bool path_is_late(const struct path *p)
{
	return clock_now_ms() - p->batch->received_ms > IN_HAND_MS;
}

void path_drop_late(struct path *p, struct queued *q, enum reason reason)
{
	mutex_assert_held(&p->d->lock);
	q->verdict = (struct verdict) { .kind = VERDICT_DROP, .reason = reason };
	path_note_why(p, q);
}

void path_drop_late_flows(struct path *p)
{
	unsigned i;

	if (!path_is_late(p))
		return;
	mutex_lock(&p->d->lock);
	for (i = 0; i < p->batch->count; i++) {
		if (!p->batch->packets[i].fresh_flow)
			continue;
		path_drop_late(p, &p->batch->packets[i], REASON_LATE_SYN);
		path_copies_follow(p, &p->batch->packets[i]);
	}
	mutex_unlock(&p->d->lock);
}

void path_drop_late_tunnelled(struct path *p)
{
	unsigned i;

	if (!path_is_late(p))
		return;
	mutex_lock(&p->d->lock);
	for (i = 0; i < p->batch->count; i++) {
		struct queued *q = &p->batch->packets[i];

		if (q->verdict.kind != VERDICT_DECAPSULATE || !packet_is_syn(&q->packet))
			continue;
		path_drop_late(p, q, REASON_STALE_TUNNEL_SYN);
	}
	mutex_unlock(&p->d->lock);
}
