/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dprd_process.h - whether this node's dprd lives, and since when it does not.
 *
 * dprd says so by its status file (dprd/base/status.h), which is old when dprd stands still. That it ended, its process says
 * at once: peers should hear of it before they have sent it many connections.
 */
#ifndef LOADCAST_DPRD_PROCESS_H
#define LOADCAST_DPRD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/base/status.h"

enum { DPRD_LOOK_MS = 100 };

struct dprd_process {
	int process; /* readable once the process ended (pidfd_open(2)); -1: not to be had, or ended */
	uint32_t pid; /* of the process that wrote the status read last */
	uint64_t ended_ms; /* when a process was found to have ended: what was written before counts no more */
};

void dprd_process_init(struct dprd_process *r);
void dprd_process_close(struct dprd_process *r);

/* Its status, from the run directory. False: it does not live, and *ret is all zero. */
bool dprd_process_read(struct dprd_process *r, const char *run_dir, uint64_t now_ms, struct dprd_status *ret);

/* To be called when its process is readable. */
void dprd_process_ended(struct dprd_process *r, uint64_t now_ms);

#endif
