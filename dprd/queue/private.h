/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * private.h - the state of the queues, shared by the files of this folder.
 */
#ifndef DPRD_QUEUE_PRIVATE_H
#define DPRD_QUEUE_PRIVATE_H

#include <stdint.h>

#include "dprd/core/flow/answered.h"
#include "dprd/host/passive_opens.h"
#include "dprd/queue/queue.h"

struct dprd;
struct standby;
struct worker;

struct queue {
	struct worker *workers[WORKERS_MAX];
	struct standby *standby; /* shares the workers' queues; NULL: there is none */
	uint64_t living_told; /* members whose tunnel packets the standby process takes */

	/* Under the lock of struct dprd. */
	uint64_t too_big_window_ms; /* start of the second that too_big_count counts */
	unsigned too_big_count; /* ICMP messages to clients */
	uint64_t own_load_ms; /* when a SYN last needed the own load */
	uint64_t served[ANSWERED_PLACES]; /* SYNs that dprd let this node serve: answered_word() */
	struct syn_counts syn_counts; /* as read last */
	uint64_t cookies_ms, drops_ms; /* when each count was last seen to have grown; 0: never */
};

enum { QUEUE_COUNTS_MS = 10000 }; /* for this time after a count has grown, the next SYN may have the same fate */

/* Reads the kernel's counts of SYN cookies and dropped SYNs. Takes the lock. About 30 us. */
void queue_read_answers(struct dprd *d);
/*
 * True when a SYN that this node served, and that has no socket, was probably answered: by a SYN cookie; or in another
 * network namespace, because the stack here has dropped no SYN. Lock held.
 */
bool queue_hides_answers(const struct queue *queue, uint64_t now_ms);

#endif
