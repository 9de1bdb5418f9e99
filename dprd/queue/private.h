/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * private.h - the state of the queues, shared by the files of this folder.
 */
#ifndef DPRD_QUEUE_PRIVATE_H
#define DPRD_QUEUE_PRIVATE_H

#include <stdint.h>

#include "dprd/queue/queue.h"

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
};

#endif
