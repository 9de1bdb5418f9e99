// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * bulk - one connection that carries as much data as it can for a while, in one direction.
 *
 *   bulk serve PORT                        serves one connection after the other, until it is told to end
 *   bulk up|down ADDRESS PORT SECONDS      {"bytes":N,"seconds":S}
 *
 * The client's first byte names the direction. "up": it sends, ends its half, and the server answers
 * with the number of bytes that arrived; the time ends with that answer. "down": it reads until the
 * time is over, and hangs up.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK_BYTES = 256 * 1024, SECONDS_MAX = 60, BACKLOG = 16, SILENCE_S = 5 };

static char chunk[CHUNK_BYTES];

static void die(const char *what)
{
	fprintf(stderr, "bulk: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double clock_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Receives until the other side's end and returns the bytes; ends early at the given time, unless that is 0. */
static uint64_t receive_all(int fd, double end)
{
	uint64_t total = 0;
	ssize_t bytes;

	while ((bytes = recv(fd, chunk, sizeof(chunk), 0)) > 0) {
		total += (uint64_t)bytes;
		if (end > 0 && clock_s() >= end)
			break;
	}
	return total;
}

static void serve_one(int fd)
{
	uint64_t total;
	char direction;

	if (recv(fd, &direction, 1, 0) != 1)
		return;
	if (direction == 'u') {
		total = receive_all(fd, 0);
		send(fd, &total, sizeof(total), MSG_NOSIGNAL);
		return;
	}
	while (send(fd, chunk, sizeof(chunk), MSG_NOSIGNAL) > 0)
		;
}

static void serve(const struct sockaddr_in *at)
{
	const struct timeval silence = { .tv_sec = SILENCE_S };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (const struct sockaddr *)at, sizeof(*at)) || listen(fd, BACKLOG))
		die("listen");
	for (;;) {
		int peer = accept(fd, NULL, NULL);

		if (peer < 0)
			die("accept");
		/* A client that has silently gone must not block the next one. */
		setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
		setsockopt(peer, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof(silence));
		serve_one(peer);
		close(peer);
	}
}

static void transfer(const struct sockaddr_in *to, bool up, double seconds)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const struct timeval silence = { .tv_sec = SILENCE_S };
	uint64_t total = 0;
	double start, end;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof(silence));
	if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof(*to)) || send(fd, up ? "u" : "d", 1, 0) != 1)
		die("connect");
	start = clock_s();
	end = start + seconds;
	if (up) {
		while (clock_s() < end) {
			if (send(fd, chunk, sizeof(chunk), MSG_NOSIGNAL) < 0)
				die("send");
		}
		shutdown(fd, SHUT_WR);
		if (recv(fd, &total, sizeof(total), MSG_WAITALL) != sizeof(total))
			die("no answer");
	} else {
		total = receive_all(fd, end);
	}
	printf("{\"bytes\":%llu,\"seconds\":%.6f}\n", (unsigned long long)total, clock_s() - start);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	bool up = argc == 5 && !strcmp(argv[1], "up"), down = argc == 5 && !strcmp(argv[1], "down");
	bool serves = argc == 3 && !strcmp(argv[1], "serve");
	int port = serves ? atoi(argv[2]) : up || down ? atoi(argv[3]) : 0;
	double seconds = up || down ? atof(argv[4]) : 1;

	if (port < 1 || port > 65535 || !(seconds > 0) || seconds > SECONDS_MAX ||
	    ((up || down) && inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)) {
		fputs("usage: bulk serve PORT\n       bulk up|down ADDRESS PORT SECONDS\n", stderr);
		return 2;
	}
	address.sin_port = htons((uint16_t)port);
	if (serves)
		serve(&address);
	transfer(&address, up, seconds);
	return 0;
}
