/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dprd_process.h - tells whether this node's dprd runs, and when it ended.
 *
 * dprd renews its status file (dprd/base/status.h); an old file means that dprd stands still. A pidfd tells at once
 * when dprd ended, so that peers hear of it before they have sent many connections.
 */
#ifndef LOADCAST_DPRD_PROCESS_H
#define LOADCAST_DPRD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/base/status.h"

enum { DPRD_LOOK_MS = 100 };

struct dprd_process {
	int process; /* readable once the process ended (pidfd_open(2)); -1: none, or it ended */
	uint32_t pid; /* of the process that wrote the status read last */
	uint64_t ended_ms; /* when the end of a process was seen: a status written before that does not count */
};

void dprd_process_init(struct dprd_process *r);
void dprd_process_close(struct dprd_process *r);

/* Reads the status from the run directory. False: dprd does not run, and *ret is all zero. */
bool dprd_process_read(struct dprd_process *r, const char *run_dir, uint64_t now_ms, struct dprd_status *ret);

/* Call it when the process is readable. */
void dprd_process_ended(struct dprd_process *r, uint64_t now_ms);

#endif
