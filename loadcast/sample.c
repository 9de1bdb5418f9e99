// SPDX-License-Identifier: GPL-2.0-or-later
#include "loadcast/sample.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "loadcast/core/announce.h"
#include "loadcast/sample_diag.h"

enum {
	PROC_BYTES = 2048, /* of each file; the lines we need stand at the top */
	/* A count takes at most one part in COUNT_PAUSE of a processor's time. */
	COUNT_PERIOD_MS = 250,
	COUNT_PAUSE = 200,
	OTHERS_MANY = 1024, /* fewer are counted, however few the service has */
};

struct sampler {
	int sockstat, sockstat6, stat; /* sockstat6: -1 where IPv6 is off */
	struct diag *diag;
	uint64_t due_ms; /* of the next count */
	struct diag_listeners listeners;
	uint32_t others; /* connections of other ports */
	bool count_served; /* the next count is one of the served connections */
	_Atomic uint32_t not_served; /* listeners and others: what other threads read */
	uint64_t busy, total; /* of the processors, at the last sampler_read() */
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

static void set_listeners(struct sampler *s, const struct diag_listeners *listeners)
{
	s->listeners = *listeners;
	atomic_store_explicit(&s->not_served, s->listeners.count + s->others, memory_order_relaxed);
}

/*
 * The smaller part of the connections is counted, since each counted socket is copied out of the kernel. When these are
 * the served ones, the others are the difference to the number of sockets, which changes during the dump.
 */
static int count_others(struct sampler *s)
{
	uint32_t counted, tcp, all;
	int error = diag_count_connections(s->diag, s->count_served, &counted);

	if (error == -EMSGSIZE)
		s->count_served = !s->count_served;
	if (!error)
		error = read_sockets(s, &tcp, &all);
	if (error)
		return error;
	tcp = tcp > s->listeners.count ? tcp - s->listeners.count : 0;
	counted = counted < tcp ? counted : tcp;
	s->others = s->count_served ? tcp - counted : counted;
	s->count_served = s->others > OTHERS_MANY && s->others > tcp / 2;
	set_listeners(s, &s->listeners);
	return 0;
}

/* The processor time of this thread. On a busy host a count waits for the processor far longer than it takes. */
static uint64_t processor_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

int sampler_refresh(struct sampler *s, uint64_t now_ms)
{
	uint64_t start_us;
	struct diag_listeners listeners;
	int error;

	if (now_ms < s->due_ms)
		return 0;
	start_us = processor_us();
	error = diag_count_listeners(s->diag, &listeners);
	if (!error) {
		set_listeners(s, &listeners);
		error = count_others(s);
	}
	s->due_ms = now_ms + COUNT_PERIOD_MS + (processor_us() - start_us) * COUNT_PAUSE / 1000;
	return error;
}

struct sampler *sampler_new(const struct config *config)
{
	struct sampler *s = calloc(1, sizeof(*s));
	int error;

	if (!s)
		return NULL;
	s->sockstat = open("/proc/net/sockstat", O_RDONLY | O_CLOEXEC);
	s->sockstat6 = open("/proc/net/sockstat6", O_RDONLY | O_CLOEXEC);
	s->stat = open("/proc/stat", O_RDONLY | O_CLOEXEC);
	s->diag = diag_new(config);
	error = s->sockstat < 0 || s->stat < 0 || !s->diag ? errno : -sampler_refresh(s, clock_now_ms());
	if (error) {
		sampler_free(s);
		errno = error;
		return NULL;
	}
	return s;
}

void sampler_free(struct sampler *sampler)
{
	if (!sampler)
		return;
	diag_free(sampler->diag);
	if (sampler->stat >= 0)
		close(sampler->stat);
	if (sampler->sockstat6 >= 0)
		close(sampler->sockstat6);
	if (sampler->sockstat >= 0)
		close(sampler->sockstat);
	free(sampler);
}

static uint32_t clamp(uint64_t value)
{
	return value < ANNOUNCE_LOAD_MAX ? (uint32_t)value : ANNOUNCE_LOAD_MAX;
}

/* Connections of the service; sockets of all kinds. */
static int read_connections(struct sampler *s, uint32_t *ret_open, uint32_t *ret_all)
{
	uint32_t tcp, not_served = atomic_load_explicit(&s->not_served, memory_order_relaxed);
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

int sampler_read(struct sampler *sampler, uint64_t now_ms, struct load_sample *ret)
{
	struct load_sample sample = { 0 };
	struct diag_listeners listeners;
	int error = sampler_refresh(sampler, now_ms);

	/* The accept queue is of this moment. */
	if (!error)
		error = diag_count_listeners(sampler->diag, &listeners);
	if (!error) {
		set_listeners(sampler, &listeners);
		error = read_connections(sampler, &sample.open_connections, &sample.active_sockets);
	}
	if (!error)
		error = read_cpu(sampler, &sample.cpu_permille);
	if (error)
		return error;
	sample.active_sockets =
		clamp(sample.active_sockets > sampler->others ? sample.active_sockets - sampler->others : 0);
	sample.accept_queue = clamp(sampler->listeners.accept_queue);
	*ret = sample;
	return 0;
}
