// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * queue/answers.c - on the nfqueue plane dprd does not see answers to SYNs. Counters of the kernel tell if it has
 * answered SYNs without a socket, or dropped SYNs.
 */
#include "dprd/base/clock.h"
#include "dprd/cluster/state.h"
#include "dprd/host/passive_opens.h"
#include "dprd/queue/private.h"

void queue_read_answers(struct dprd *d)
{
	struct syn_counts now;
	uint64_t now_ms = clock_now_ms();

	if (syn_counts_read(&now))
		return;
	mutex_lock(&d->lock);
	if (now.cookies != d->queue->syn_counts.cookies)
		d->queue->cookies_ms = now_ms;
	if (now.drops != d->queue->syn_counts.drops)
		d->queue->drops_ms = now_ms;
	d->queue->syn_counts = now;
	mutex_unlock(&d->lock);
}

bool queue_hides_answers(const struct queue *queue, uint64_t now_ms)
{
	/* The counts may have been read after the caller's clock. */
	bool cookies = queue->cookies_ms && now_ms < queue->cookies_ms + QUEUE_COUNTS_MS;
	bool drops = queue->drops_ms && now_ms < queue->drops_ms + QUEUE_COUNTS_MS;

	return cookies || !drops;
}
