/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * standby_page.h - the part that dprd and its standby process share: the numbers of the process's files, and a page of
 * memory.
 */
#ifndef DPRD_STANDBY_PAGE_H
#define DPRD_STANDBY_PAGE_H

#include "dprd/queue/standby.h"
#include "dprd/queue/standby_forward.h"
#include "dprd/queue/standby_noted.h"

/* The files of the process. */
enum {
	STANDBY_PIPE_FD = 3, /* closes when dprd ends */
	STANDBY_PAGE_FD, /* the page */
	STANDBY_QUEUE_FD, /* the sockets of the queues, one behind the other */
	STANDBY_ABOVE_FD = STANDBY_QUEUE_FD + STANDBY_QUEUES_MAX,
};

struct standby_page {
	uint64_t stamp_ms[STANDBY_QUEUES_MAX]; /* of each worker: when it last looked at its queues */
	struct standby_counts counts;
	uint32_t dprd_pid;
	uint32_t stops; /* dprd ends in good order */
	uint32_t drains; /* the process reads a queue: it may have a packet in hand */
	struct standby_noted noted; /* SYNs that the process lets pass, noted before it does */
	uint32_t count;
	struct standby_queue queues[STANDBY_QUEUES_MAX];
	/*
	 * dprd writes the entry that is not in use. It has not been in use for at least 50 ms, and no reader takes that
	 * long.
	 */
	struct standby_members members[2];
	uint32_t current; /* the one in use */
};

#endif
