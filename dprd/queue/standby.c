// SPDX-License-Identifier: GPL-2.0-or-later
/* standby.c - dprd's side of the standby process: starts it, gives it its facts, and ends it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dprd/base/log.h"
#include "dprd/queue/standby_page.h"

enum {
	STOP_MS = 1000,
	STOP_TRY_MS = 5,
};

struct standby {
	struct standby_page *page;
	int page_fd, pipe_fd; /* pipe: the end that is never written to */
	pid_t pid; /* 0: none */
	bool complained;
};

/*
 * Starts the process with its files at their numbers. The files are duplicated above these numbers first, so that none
 * is overwritten before it was moved.
 */
static int spawn(struct standby *s, int pipe_end)
{
	char *const arguments[] = { (char *)(uintptr_t) "dprd", (char *)(uintptr_t)STANDBY_OPTION, NULL };
	char *const environment[] = { NULL };
	int high[STANDBY_ABOVE_FD], error = 0, fd;
	posix_spawn_file_actions_t actions;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	for (fd = STANDBY_PIPE_FD; fd < STANDBY_QUEUE_FD + (int)s->page->count; fd++) {
		int from = fd == STANDBY_PIPE_FD   ? pipe_end
			   : fd == STANDBY_PAGE_FD ? s->page_fd
						   : s->page->queues[fd - STANDBY_QUEUE_FD].socket;

		high[fd] = fcntl(from, F_DUPFD_CLOEXEC, STANDBY_ABOVE_FD);
		if (high[fd] < 0)
			error = errno;
		else
			posix_spawn_file_actions_adddup2(&actions, high[fd], fd);
	}
	/* This runs the same program, also when its file was replaced meanwhile. */
	if (!error)
		error = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environment);
	if (!error)
		s->pid = pid;
	while (--fd >= STANDBY_PIPE_FD) {
		if (high[fd] >= 0)
			close(high[fd]);
	}
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

static void start_process(struct standby *s)
{
	int ends[2], error = pipe2(ends, O_CLOEXEC) ? errno : 0;

	if (!error) {
		error = spawn(s, ends[0]);
		close(ends[0]);
		if (error)
			close(ends[1]);
		else
			s->pipe_fd = ends[1];
	}
	if (error && !s->complained)
		log_warning(
			"cannot start the standby process (%s): while dprd stands still, new connections wait for it",
			strerror(error));
	s->complained = error;
}

struct standby *standby_start(const struct standby_queue *queues, unsigned count, const struct standby_members *members)
{
	struct standby *s = calloc(1, sizeof(*s));
	unsigned i;

	if (!s)
		return NULL;
	s->pipe_fd = -1;
	s->page_fd = memfd_create("dprd-standby", MFD_CLOEXEC);
	s->page = s->page_fd < 0 || ftruncate(s->page_fd, sizeof(*s->page))
			  ? MAP_FAILED
			  : mmap(NULL, sizeof(*s->page), PROT_READ | PROT_WRITE, MAP_SHARED, s->page_fd, 0);
	if (s->page == MAP_FAILED) {
		if (s->page_fd >= 0)
			close(s->page_fd);
		free(s);
		return NULL;
	}
	s->page->dprd_pid = (uint32_t)getpid();
	s->page->count = count < STANDBY_QUEUES_MAX ? count : STANDBY_QUEUES_MAX;
	for (i = 0; i < s->page->count; i++)
		s->page->queues[i] = queues[i];
	standby_know(s, members);
	start_process(s);
	return s;
}

uint64_t *standby_stamp(struct standby *standby, unsigned worker)
{
	return &standby->page->stamp_ms[worker];
}

bool standby_drains(const struct standby *standby)
{
	return __atomic_load_n(&standby->page->drains, __ATOMIC_SEQ_CST);
}

bool standby_has_served(const struct standby *standby, const struct packet *syn)
{
	return standby_is_noted(&standby->page->noted, syn);
}

void standby_know(struct standby *standby, const struct standby_members *members)
{
	uint32_t other = !standby->page->current;

	standby->page->members[other] = *members;
	__atomic_store_n(&standby->page->current, other, __ATOMIC_RELEASE);
}

void standby_tick(struct standby *standby)
{
	if (standby->pid && waitpid(standby->pid, NULL, WNOHANG) == 0)
		return;
	if (standby->pid) {
		log_warning("the standby process ended: starting another one");
		close(standby->pipe_fd);
		standby->pid = 0;
		/* The next batch answers the packets that the process had in hand. */
		__atomic_store_n(&standby->page->drains, 0, __ATOMIC_SEQ_CST);
	}
	start_process(standby);
}

struct standby_counts standby_count(const struct standby *standby)
{
	const struct standby_counts *counts = &standby->page->counts;

	return (struct standby_counts) { .served = __atomic_load_n(&counts->served, __ATOMIC_RELAXED),
					 .tunnelled = __atomic_load_n(&counts->tunnelled, __ATOMIC_RELAXED),
					 .forwarded = __atomic_load_n(&counts->forwarded, __ATOMIC_RELAXED) };
}

void standby_stop(struct standby *standby)
{
	int waited_ms;

	if (!standby)
		return;
	if (standby->pid) {
		standby->page->stops = 1;
		close(standby->pipe_fd);
		for (waited_ms = 0; waitpid(standby->pid, NULL, WNOHANG) == 0; waited_ms += STOP_TRY_MS) {
			/* An operator may have stopped the process itself. */
			if (waited_ms == STOP_MS)
				kill(standby->pid, SIGKILL);
			usleep(STOP_TRY_MS * 1000);
		}
	}
	munmap(standby->page, sizeof(*standby->page));
	close(standby->page_fd);
	free(standby);
}
