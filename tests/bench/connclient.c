// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * connclient - new connections, one after the other in each of some slots, for a while.
 *
 *   connclient ADDRESS PORT connect|request IN_FLIGHT SECONDS [PROCESSES]
 *
 * "connect" measures until the connection is established and then resets it, so that no ports are used up; "request"
 * sends one GET, reads to the end, and checks that the answer is a 200. Prints one line:
 *
 *   {"connections":N,"errors":N,"resets":N,"rate":..,"p50_us":..,"p99_us":..,"cpu_seconds":..}
 *
 * The delays: of connecting, or from before connect() to the end of the answer. rate: those per second that ended
 * within the time. A request that the server has not finished LAST_WAIT_MS later is an error; resets are those errors
 * that were an RST. PROCESSES (1) share the slots, for a server that is faster than one client; each stays on a
 * processor of its own, as long as there are enough.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	PROCESSES_MAX = 8,
	SLOTS_MAX = 1024,
	SAMPLES_MAX = 2 * 1000 * 1000, /* of one process; later connections are counted but have no delay */
	SECONDS_MAX = 60,
	LAST_WAIT_MS = 3000, /* for connections under way at the end */
	STATUS_BYTES = 12, /* "HTTP/1.1 200" */
};

struct slot {
	int fd; /* -1: idle */
	bool connected;
	unsigned got; /* bytes of the answer's status line */
	char status[STATUS_BYTES];
	uint64_t started_ns;
};

static const char request_text[] = "GET /whoami HTTP/1.0\r\n\r\n";
static struct slot slots[SLOTS_MAX];
static union {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
} to;
static socklen_t to_bytes;
static bool requests;
static int epoll_fd;
static unsigned active;

/* The result of one process, in memory that all share. */
struct found {
	uint64_t connections, errors, resets, sample_count;
	double rate, cpu_s;
	float samples_us[SAMPLES_MAX];
};

static struct found *found;

static void die(const char *what)
{
	fprintf(stderr, "connclient: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void take_sample(const struct slot *slot)
{
	if (found->sample_count < SAMPLES_MAX)
		found->samples_us[found->sample_count++] = (float)(clock_ns() - slot->started_ns) / 1000;
}

static void slot_end(struct slot *slot, bool good)
{
	close(slot->fd);
	slot->fd = -1;
	active--;
	found->connections += good;
	found->errors += !good;
}

static void slot_fail(struct slot *slot, int error)
{
	found->resets += error == ECONNRESET || error == ECONNREFUSED || error == EPIPE;
	slot_end(slot, false);
}

static void slot_start(struct slot *slot)
{
	struct epoll_event event = { .events = EPOLLOUT, .data.ptr = slot };
	const struct linger reset = { .l_onoff = 1, .l_linger = 0 };

	*slot = (struct slot) { .started_ns = clock_ns() };
	slot->fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (slot->fd < 0)
		die("socket");
	active++;
	if (!requests)
		setsockopt(slot->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	if ((connect(slot->fd, &to.any, to_bytes) && errno != EINPROGRESS) ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, slot->fd, &event))
		slot_fail(slot, errno);
}

static void on_connected(struct slot *slot)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = slot };
	socklen_t size = sizeof(int);
	int error = 0;

	getsockopt(slot->fd, SOL_SOCKET, SO_ERROR, &error, &size);
	if (error) {
		slot_fail(slot, error);
		return;
	}
	slot->connected = true;
	if (!requests) {
		take_sample(slot);
		slot_end(slot, true);
	} else if (send(slot->fd, request_text, sizeof(request_text) - 1, MSG_NOSIGNAL) < 0 ||
		   epoll_ctl(epoll_fd, EPOLL_CTL_MOD, slot->fd, &event)) {
		slot_fail(slot, errno);
	}
}

static void on_readable(struct slot *slot)
{
	char buffer[4096];
	ssize_t bytes = recv(slot->fd, buffer, sizeof(buffer), 0);

	if (bytes < 0 && errno == EAGAIN)
		return;
	if (bytes < 0) {
		slot_fail(slot, errno);
		return;
	}
	if (bytes == 0) {
		bool good = slot->got == STATUS_BYTES && !memcmp(slot->status + STATUS_BYTES - 3, "200", 3);

		if (good)
			take_sample(slot);
		slot_end(slot, good);
		return;
	}
	if ((unsigned)bytes > STATUS_BYTES - slot->got)
		bytes = STATUS_BYTES - slot->got;
	memcpy(slot->status + slot->got, buffer, (size_t)bytes);
	slot->got += (unsigned)bytes;
}

static void run(unsigned in_flight, double seconds)
{
	uint64_t start = clock_ns(), end = start + (uint64_t)(seconds * 1e9), last = end + LAST_WAIT_MS * 1000000ULL;
	struct epoll_event events[256];
	bool over = false;
	unsigned i;

	for (i = 0; i < in_flight; i++)
		slot_start(&slots[i]);
	while (active && clock_ns() < last) {
		int n, count = epoll_wait(epoll_fd, events, 256, 100);

		for (n = 0; n < count; n++) {
			struct slot *slot = events[n].data.ptr;

			if (slot->connected)
				on_readable(slot);
			else
				on_connected(slot);
		}
		if (!over && clock_ns() >= end) {
			over = true;
			found->rate = (double)found->connections * 1e9 / (double)(clock_ns() - start);
		}
		/* Slots that failed at once are also started here: they must not spin without reading the clock. */
		for (i = 0; !over && i < in_flight; i++) {
			if (slots[i].fd < 0)
				slot_start(&slots[i]);
		}
	}
	found->errors += active;
}

/* Moves this process to the processor of this number among the allowed ones. */
static void stay_on(unsigned number)
{
	cpu_set_t all, one;
	unsigned i;

	if (sched_getaffinity(0, sizeof(all), &all))
		return;
	number %= (unsigned)CPU_COUNT(&all);
	for (i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, &all) || number--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(i, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

/* Starts a process; *into is its place in the shared memory. */
static pid_t start_process(struct found *into, unsigned number, unsigned in_flight, double seconds)
{
	struct rusage usage;
	pid_t pid = fork();

	if (pid)
		return pid;
	found = into;
	stay_on(number);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		die("epoll");
	run(in_flight, seconds);
	getrusage(RUSAGE_SELF, &usage);
	into->cpu_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
		      (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
	_exit(0);
}

static void wait_for(int processes)
{
	int i, status;

	for (i = 0; i < processes; i++) {
		if (wait(&status) < 0 || status) {
			fputs("connclient: a process failed\n", stderr);
			exit(1);
		}
	}
}

static int compare(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return x < y ? -1 : x > y;
}

static double quantile(const float *sorted, uint64_t count, double q)
{
	return count ? (double)sorted[(uint64_t)(q * (double)(count - 1))] : 0;
}

/* Adds all processes' results to those of the first. */
static void merge(struct found *all, int processes)
{
	float *samples;
	int i;

	for (i = 1; i < processes; i++) {
		all->connections += all[i].connections;
		all->errors += all[i].errors;
		all->resets += all[i].resets;
		all->rate += all[i].rate;
		all->cpu_s += all[i].cpu_s;
		samples = all->samples_us + all->sample_count;
		if (all[i].sample_count > SAMPLES_MAX - all->sample_count)
			all[i].sample_count = SAMPLES_MAX - all->sample_count;
		memcpy(samples, all[i].samples_us, all[i].sample_count * sizeof(*samples));
		all->sample_count += all[i].sample_count;
	}
	qsort(all->samples_us, all->sample_count, sizeof(*all->samples_us), compare);
}

static bool parse_address(const char *address, int port)
{
	if (inet_pton(AF_INET, address, &to.v4.sin_addr) == 1) {
		to.v4.sin_family = AF_INET;
		to.v4.sin_port = htons((uint16_t)port);
		to_bytes = sizeof(to.v4);
	} else if (inet_pton(AF_INET6, address, &to.v6.sin6_addr) == 1) {
		to.v6.sin6_family = AF_INET6;
		to.v6.sin6_port = htons((uint16_t)port);
		to_bytes = sizeof(to.v6);
	}
	return to_bytes != 0;
}

static int number(int argc, char **argv, int at, int otherwise)
{
	return at < argc ? atoi(argv[at]) : otherwise;
}

int main(int argc, char **argv)
{
	int port = number(argc, argv, 2, 0), in_flight = number(argc, argv, 4, 0), processes = number(argc, argv, 6, 1);
	double seconds = argc > 5 ? atof(argv[5]) : 0;
	struct found *all;
	int i;

	if (argc < 6 || argc > 7 || port < 1 || port > 65535 || processes < 1 || processes > PROCESSES_MAX ||
	    in_flight < processes || in_flight / processes > SLOTS_MAX || !(seconds > 0) || seconds > SECONDS_MAX ||
	    !parse_address(argv[1], port)) {
		fputs("usage: connclient ADDRESS PORT connect|request IN_FLIGHT SECONDS [PROCESSES]\n", stderr);
		return 2;
	}
	requests = !strcmp(argv[3], "request");
	all = mmap(NULL, (size_t)processes * sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		die("memory");
	for (i = 0; i < processes; i++) {
		if (start_process(&all[i], (unsigned)i, (unsigned)(in_flight / processes), seconds) < 0)
			die("fork");
	}
	wait_for(processes);
	merge(all, processes);
	printf("{\"connections\":%llu,\"errors\":%llu,\"resets\":%llu,\"rate\":%.2f,\"p50_us\":%.2f,"
	       "\"p99_us\":%.2f,\"cpu_seconds\":%.6f}\n",
	       (unsigned long long)all->connections, (unsigned long long)all->errors, (unsigned long long)all->resets,
	       all->rate, quantile(all->samples_us, all->sample_count, 0.5),
	       quantile(all->samples_us, all->sample_count, 0.99), all->cpu_s);
	return 0;
}
