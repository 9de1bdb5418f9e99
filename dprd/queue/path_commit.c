// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * path_commit.c - the end of a batch: its verdicts are final, and are remembered and counted. No other file does that,
 * so that "dprctl why", the counters and the loads say only what happened.
 */
#include "dprd/base/clock.h"
#include "dprd/cluster/state.h"
#include "dprd/plane/plane.h"
#include "dprd/queue/path_batch.h"

static void commit_one(struct path *p, const struct queued *q)
{
	struct counters *counters = &p->d->counters;

	counters->reason[q->verdict.reason]++;
	counters->flows_evicted += q->evict;
	if (q->verdict.kind == VERDICT_DECAPSULATE && q->verdict.reason != REASON_PROBE) {
		counters->decapsulated_bytes += q->packet.total_bytes;
		counters->syns_taken += packet_is_syn(&q->packet);
		p->d->last_decapsulated_ms = p->now_ms;
	}
	/* A late SYN is dropped, and its flow stays for the copies. */
	if (q->fresh_flow)
		path_commit_flow(p, q);
	if (q->noted) {
		struct why_record *note = &p->batch->notes[q - p->batch->packets];

		note->verdict = q->verdict;
		why_keep(p->d->why, note);
	}
}

void path_commit(struct path *p)
{
	struct counters *counters = &p->d->counters;
	uint64_t took_us = clock_now_us() - p->now_us;
	unsigned i;

	mutex_lock(&p->d->lock);
	counters->batches++;
	counters->seen += p->batch->count;
	counters->syns += p->syns;
	decision_times_add(&p->d->decision_times, took_us, p->syns);
	counters->stale_batches += p->batch->maybe_stale;
	counters->forward_bytes += p->forward_bytes;
	counters->segmented += p->segmented;
	counters->too_big_sent += p->too_big_sent;
	counters->tunnel_errors += p->tunnel_errors;
	for (i = 0; i < p->batch->count; i++)
		commit_one(p, &p->batch->packets[i]);
	/* Counts SYNs that should have been forwarded and are now served here. */
	plane_served(p->d, p->served);
	mutex_unlock(&p->d->lock);
}
