// SPDX-License-Identifier: GPL-2.0-or-later
#include "loadcast/sample.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "dprd/base/background.h"
#include "dprd/base/mutex.h"
#include "loadcast/core/announce.h"
#include "loadcast/sample_diag.h"

enum {
	PROC_BYTES = 2048, /* of each file; the lines we need stand at the top */
	/* A count takes at most one part in COUNT_PAUSE of a processor's time; fewer are made while nothing changes. */
	COUNT_PERIOD_MS = 500,
	COUNT_PERIOD_MOST_MS = 8000,
	COUNT_PAUSE = 200,
	OTHERS_STEADY = 16, /* fewer more or less are no change */
	COUNT_TRIES = 2, /* at the start: of the others, then of the served connections */
	OTHERS_MANY = 1024, /* fewer are counted, however few the service has */
};

struct sampler {
	int sockstat, sockstat6, stat; /* sockstat6: -1 where IPv6 is off */
	struct diag *diag; /* of the thread that calls sampler_read() */
	_Atomic uint32_t listeners, others; /* others: connections of other ports */
	uint64_t busy, total; /* of the processors, at the last sampler_read() */
	pthread_t counter;
	int stop; /* an eventfd: the counter ends */
	struct mutex count_lock; /* all that follows */
	struct diag *counter_diag;
	bool count_served; /* the next count is one of the served connections */
};

static int read_proc(int fd, char text[PROC_BYTES])
{
	ssize_t size = pread(fd, text, PROC_BYTES - 1, 0);

	if (size < 0)
		return -errno;
	text[size] = '\0';
	return 0;
}

/* Sockets of both families, and of all kinds. */
static int read_sockets(struct sampler *s, uint32_t *ret_tcp, uint32_t *ret_all)
{
	char text[PROC_BYTES];
	uint32_t v4, v6 = 0;
	int error = read_proc(s->sockstat, text);

	if (error)
		return error;
	if (!sample_parse_sockstat(text, "TCP", &v4) || !sample_parse_sockets_used(text, ret_all))
		return -EINVAL;
	if (s->sockstat6 >= 0) {
		error = read_proc(s->sockstat6, text);
		if (error)
			return error;
		if (!sample_parse_sockstat(text, "TCP6", &v6))
			return -EINVAL;
	}
	*ret_tcp = v4 + v6;
	return 0;
}

/*
 * The smaller part of the connections is counted, since each counted socket is copied out of the kernel. When these are
 * the served ones, the others are the difference to the number of sockets, which changes during the dump.
 */
static int count_others(struct sampler *s)
{
	uint32_t counted, tcp, all, listeners = s->listeners, others;
	int error;

	mutex_assert_held(&s->count_lock);
	error = diag_count_connections(s->counter_diag, s->count_served, &counted);
	if (error == -EMSGSIZE)
		s->count_served = !s->count_served;
	if (!error)
		error = read_sockets(s, &tcp, &all);
	if (error)
		return error;
	tcp = tcp > listeners ? tcp - listeners : 0;
	counted = counted < tcp ? counted : tcp;
	others = s->count_served ? tcp - counted : counted;
	s->count_served = others > OTHERS_MANY && others > tcp / 2;
	s->others = others;
	return 0;
}

int sampler_count(struct sampler *s)
{
	struct diag_listeners listeners;
	int error;

	mutex_lock(&s->count_lock);
	error = diag_count_listeners(s->counter_diag, &listeners);
	if (!error) {
		s->listeners = listeners.count;
		error = count_others(s);
	}
	mutex_unlock(&s->count_lock);
	return error;
}

static bool differs(uint32_t former, uint32_t now)
{
	return (former > now ? former - now : now - former) > OTHERS_STEADY + now / 16;
}

/* Until a count succeeds, the former one stays: the program that announces says what cannot be read. */
static void *count_now_and_then(void *context)
{
	struct sampler *s = context;
	struct pollfd stop = { .fd = s->stop, .events = POLLIN };
	uint64_t period_ms = COUNT_PERIOD_MS, pause_ms = period_ms;

	while (poll(&stop, 1, (int)pause_ms) == 0) {
		uint64_t start_us = background_used_us();
		uint32_t former = s->others;

		sampler_count(s);
		if (differs(former, s->others))
			period_ms = COUNT_PERIOD_MS;
		else if (period_ms < COUNT_PERIOD_MOST_MS)
			period_ms *= 2;
		pause_ms = period_ms + (background_used_us() - start_us) * COUNT_PAUSE / 1000;
	}
	return NULL;
}

static int open_sampler(struct sampler *s, const struct config *config)
{
	struct diag_listeners listeners;
	unsigned tries;
	int error;

	s->sockstat = open("/proc/net/sockstat", O_RDONLY | O_CLOEXEC);
	s->sockstat6 = open("/proc/net/sockstat6", O_RDONLY | O_CLOEXEC);
	s->stat = open("/proc/stat", O_RDONLY | O_CLOEXEC);
	s->stop = eventfd(0, EFD_CLOEXEC);
	if (s->sockstat < 0 || s->stat < 0 || s->stop < 0)
		return -errno;
	s->diag = diag_new(config);
	s->counter_diag = s->diag ? diag_new(config) : NULL;
	if (!s->counter_diag)
		return -errno;
	error = diag_count_listeners(s->counter_diag, &listeners);
	if (error)
		return error;
	/* A host with very many connections of others may refuse the first count, or be slow. It is no reason not to start. */
	for (tries = 0; tries < COUNT_TRIES && sampler_count(s); tries++)
		;
	return background_start(&s->counter, "socket-counter", count_now_and_then, s);
}

static void close_files(struct sampler *s)
{
	const int files[] = { s->sockstat, s->sockstat6, s->stat, s->stop };

	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (files[i] >= 0)
			close(files[i]);
	diag_free(s->diag);
	diag_free(s->counter_diag);
	free(s);
}

struct sampler *sampler_new(const struct config *config)
{
	struct sampler *s = calloc(1, sizeof(*s));
	int error;

	if (!s)
		return NULL;
	s->sockstat = s->sockstat6 = s->stat = s->stop = -1;
	s->count_lock = (struct mutex)MUTEX_INITIALIZER;
	error = open_sampler(s, config);
	if (error) {
		close_files(s);
		errno = -error;
		return NULL;
	}
	return s;
}

void sampler_free(struct sampler *sampler)
{
	if (!sampler)
		return;
	eventfd_write(sampler->stop, 1);
	pthread_join(sampler->counter, NULL);
	close_files(sampler);
}

static uint32_t clamp(uint64_t value)
{
	return value < ANNOUNCE_LOAD_MAX ? (uint32_t)value : ANNOUNCE_LOAD_MAX;
}

/* Connections of the service; sockets of all kinds. */
static int read_connections(struct sampler *s, uint32_t *ret_open, uint32_t *ret_all)
{
	uint32_t tcp, not_served = s->listeners + s->others;
	int error = read_sockets(s, &tcp, ret_all);

	if (!error)
		*ret_open = clamp(tcp > not_served ? tcp - not_served : 0);
	return error;
}

int sampler_open_connections(struct sampler *sampler, uint32_t *ret)
{
	uint32_t all;

	return read_connections(sampler, ret, &all);
}

/* Utilisation since the last call; since boot at the first one. */
static int read_cpu(struct sampler *s, uint32_t *ret_permille)
{
	char text[PROC_BYTES];
	uint64_t busy, total;
	int error = read_proc(s->stat, text);

	if (error)
		return error;
	if (!sample_parse_cpu(text, &busy, &total))
		return -EINVAL;
	*ret_permille = 0;
	/* The kernel's idle and iowait may step back a little. */
	if (total > s->total && busy > s->busy)
		*ret_permille = (uint32_t)((double)(busy - s->busy) / (double)(total - s->total) * 1000.0);
	if (*ret_permille > 1000)
		*ret_permille = 1000;
	s->busy = busy;
	s->total = total;
	return 0;
}

int sampler_read(struct sampler *sampler, struct load_sample *ret)
{
	struct load_sample sample = { 0 };
	struct diag_listeners listeners;
	uint32_t others = sampler->others;
	int error = diag_count_listeners(sampler->diag, &listeners);

	if (!error) {
		sampler->listeners = listeners.count;
		error = read_connections(sampler, &sample.open_connections, &sample.active_sockets);
	}
	if (!error)
		error = read_cpu(sampler, &sample.cpu_permille);
	if (error)
		return error;
	sample.active_sockets = clamp(sample.active_sockets > others ? sample.active_sockets - others : 0);
	sample.accept_queue = clamp(listeners.accept_queue);
	*ret = sample;
	return 0;
}
