// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "loadcast/rewriter.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dprd/config/config.h"

void rewriter_init(struct rewriter *r)
{
	*r = (struct rewriter) { .process = -1 };
}

void rewriter_close(struct rewriter *r)
{
	if (r->process >= 0)
		close(r->process);
	r->process = -1;
}

bool rewriter_read(struct rewriter *r, const char *run_dir, uint64_t now_ms, struct rewriter_status *ret)
{
	char path[PATH_BYTES + 16];

	snprintf(path, sizeof(path), "%s/status", run_dir);
	if (status_read(path, ret) || !status_is_fresh(ret, now_ms) ||
	    (r->ended_ms && ret->written_ms <= r->ended_ms)) {
		*ret = (struct rewriter_status) { 0 };
		return false;
	}
	if (ret->pid != r->pid || r->process < 0) {
		rewriter_close(r);
		r->pid = ret->pid;
		/* In a container of its own it has another number here, or none: then its silence alone tells. */
		r->process = (int)syscall(SYS_pidfd_open, ret->pid, 0);
	}
	return true;
}

void rewriter_ended(struct rewriter *r, uint64_t now_ms)
{
	rewriter_close(r);
	r->ended_ms = now_ms;
}
