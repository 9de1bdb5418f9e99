// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "loadcast/dprd_process.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dprd/config/config.h"

void dprd_process_init(struct dprd_process *r)
{
	*r = (struct dprd_process) { .process = -1 };
}

void dprd_process_close(struct dprd_process *r)
{
	if (r->process >= 0)
		close(r->process);
	r->process = -1;
}

bool dprd_process_read(struct dprd_process *r, const char *run_dir, uint64_t now_ms, struct dprd_status *ret)
{
	char path[PATH_BYTES + 16];

	snprintf(path, sizeof(path), "%s/status", run_dir);
	if (status_read(path, ret) || !status_is_fresh(ret, now_ms) ||
	    (r->ended_ms && ret->written_ms <= r->ended_ms)) {
		*ret = (struct dprd_status) { 0 };
		return false;
	}
	if (ret->pid != r->pid || r->process < 0) {
		dprd_process_close(r);
		r->pid = ret->pid;
		/*
		 * In another PID namespace dprd's number means another process or none. Then only dprd's silence shows
		 * that it ended.
		 */
		r->process = (int)syscall(SYS_pidfd_open, ret->pid, 0);
	}
	return true;
}

void dprd_process_ended(struct dprd_process *r, uint64_t now_ms)
{
	dprd_process_close(r);
	r->ended_ms = now_ms;
}
