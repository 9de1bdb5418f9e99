// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * connclient - new connections, one after the other in each of some slots, for a while.
 *
 *   connclient ADDRESS PORT connect|request IN_FLIGHT SECONDS
 *
 * "connect" measures until the connection stands and then resets it, so that no ports are used up;
 * "request" sends one GET, reads to the end, and checks that the answer is a 200. Prints one line:
 *
 *   {"connections":N,"errors":N,"seconds":S,"p50_us":..,"p99_us":..,"cpu_seconds":..}
 *
 * The delays are those of connecting. What the server did not finish in time counts as an error.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	SLOTS_MAX = 1024,
	SAMPLES_MAX = 4 * 1000 * 1000,
	SECONDS_MAX = 60,
	LAST_WAIT_MS = 3000, /* for what is under way at the end */
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
static uint64_t connections, errors, sample_count;
static float *samples_us;

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

static void slot_end(struct slot *slot, bool good)
{
	close(slot->fd);
	slot->fd = -1;
	active--;
	connections += good;
	errors += !good;
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
		slot_end(slot, false);
}

static void on_connected(struct slot *slot)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = slot };
	socklen_t size = sizeof(int);
	int error = 0;

	getsockopt(slot->fd, SOL_SOCKET, SO_ERROR, &error, &size);
	if (error) {
		slot_end(slot, false);
		return;
	}
	slot->connected = true;
	if (sample_count < SAMPLES_MAX)
		samples_us[sample_count++] = (float)(clock_ns() - slot->started_ns) / 1000;
	if (!requests)
		slot_end(slot, true);
	else if (send(slot->fd, request_text, sizeof(request_text) - 1, MSG_NOSIGNAL) < 0 ||
		 epoll_ctl(epoll_fd, EPOLL_CTL_MOD, slot->fd, &event))
		slot_end(slot, false);
}

static void on_readable(struct slot *slot)
{
	char buffer[4096];
	ssize_t bytes = recv(slot->fd, buffer, sizeof(buffer), 0);

	if (bytes < 0 && errno == EAGAIN)
		return;
	if (bytes <= 0) {
		slot_end(slot,
			 bytes == 0 && slot->got == STATUS_BYTES && !memcmp(slot->status + STATUS_BYTES - 3, "200", 3));
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
		over = over || clock_ns() >= end;
		/* Also those that failed at once: they must not spin without a look at the clock. */
		for (i = 0; !over && i < in_flight; i++) {
			if (slots[i].fd < 0)
				slot_start(&slots[i]);
		}
	}
	errors += active;
}

static int compare(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return x < y ? -1 : x > y;
}

static double quantile_us(double q)
{
	return sample_count ? (double)samples_us[(uint64_t)(q * (double)(sample_count - 1))] : 0;
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

int main(int argc, char **argv)
{
	int port = argc == 6 ? atoi(argv[2]) : 0, in_flight = argc == 6 ? atoi(argv[4]) : 0;
	double seconds = argc == 6 ? atof(argv[5]) : 0, cpu;
	struct rusage usage;
	uint64_t start;

	if (port < 1 || port > 65535 || in_flight < 1 || in_flight > SLOTS_MAX || !(seconds > 0) ||
	    seconds > SECONDS_MAX || !parse_address(argv[1], port)) {
		fputs("usage: connclient ADDRESS PORT connect|request IN_FLIGHT SECONDS\n", stderr);
		return 2;
	}
	requests = !strcmp(argv[3], "request");
	samples_us = calloc(SAMPLES_MAX, sizeof(*samples_us));
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!samples_us || epoll_fd < 0)
		die("start");
	start = clock_ns();
	run((unsigned)in_flight, seconds);
	seconds = (double)(clock_ns() - start) / 1e9;
	getrusage(RUSAGE_SELF, &usage);
	cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	      (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
	qsort(samples_us, sample_count, sizeof(*samples_us), compare);
	printf("{\"connections\":%llu,\"errors\":%llu,\"seconds\":%.6f,\"p50_us\":%.2f,\"p99_us\":%.2f,"
	       "\"cpu_seconds\":%.6f}\n",
	       (unsigned long long)connections, (unsigned long long)errors, seconds, quantile_us(0.5),
	       quantile_us(0.99), cpu);
	return 0;
}
