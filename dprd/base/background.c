// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "dprd/base/background.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

enum {
	NICENESS = 19,
	STACK_BYTES = 256 * 1024,
};

struct work {
	const char *name;
	void *(*run)(void *context);
	void *context;
};

static void *run_work(void *argument)
{
	struct work work = *(struct work *)argument;

	free(argument);
	prctl(PR_SET_NAME, work.name);
	setpriority(PRIO_PROCESS, 0, NICENESS);
	return work.run(work.context);
}

int background_start(pthread_t *ret, const char *name, void *(*run)(void *context), void *context)
{
	struct work *work = malloc(sizeof(*work));
	pthread_attr_t attributes;
	sigset_t all, former;
	int error;

	if (!work)
		return -ENOMEM;
	*work = (struct work) { .name = name, .run = run, .context = context };
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &former);
	error = pthread_create(ret, &attributes, run_work, work);
	pthread_sigmask(SIG_SETMASK, &former, NULL);
	pthread_attr_destroy(&attributes);
	if (error)
		free(work);
	return -error;
}

uint64_t background_used_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}
