// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * echoserver - the laboratory's second web server: sends the node's name, then returns every byte.
 *
 *   echo port: "NAME\n", then every byte as it came, until the client closes its half.
 *   sum port:  takes bytes until the client closes its half, then "NAME COUNT SHA256\n".
 *
 * One wildcard socket for both families per port. One process, one epoll loop.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER_BYTES = 16384, EVENTS = 256, BACKLOG = 4096 };

struct end {
	int fd;
	bool listens, sums;
	bool client_done; /* it closed its half */
	uint32_t waits_for; /* events that epoll watches */
	size_t filled, sent; /* of buffer */
	uint64_t count;
	crypto_hash_sha256_state hash;
	char buffer[]; /* BUFFER_BYTES, not for listeners */
};

static const char *node_name = "unnamed";
static int epoll_fd;

static void die(const char *what)
{
	fprintf(stderr, "echoserver: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void end_close(struct end *end)
{
	close(end->fd);
	free(end);
}

/* Watches for writing while there is something to send, otherwise for reading. */
static bool end_watch(struct end *end)
{
	struct epoll_event event = { .data.ptr = end };

	event.events = end->sent < end->filled ? EPOLLOUT : EPOLLIN;
	if (event.events == end->waits_for)
		return true;
	end->waits_for = event.events;
	return epoll_ctl(epoll_fd, EPOLL_CTL_MOD, end->fd, &event) == 0;
}

static void say_sum(struct end *end)
{
	unsigned char digest[crypto_hash_sha256_BYTES];
	char hex[2 * crypto_hash_sha256_BYTES + 1];

	crypto_hash_sha256_final(&end->hash, digest);
	sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
	end->sent = 0;
	end->filled = (size_t)snprintf(end->buffer, BUFFER_BYTES, "%s %llu %s\n", node_name,
				       (unsigned long long)end->count, hex);
}

/* False: the connection has ended. */
static bool end_read(struct end *end)
{
	ssize_t bytes = read(end->fd, end->buffer, BUFFER_BYTES);

	if (bytes < 0)
		return errno == EAGAIN || errno == EINTR;
	if (bytes == 0) {
		end->client_done = true;
		if (!end->sums)
			return false;
		say_sum(end);
		return true;
	}
	end->count += (uint64_t)bytes;
	if (end->sums) {
		crypto_hash_sha256_update(&end->hash, (unsigned char *)end->buffer, (unsigned long long)bytes);
	} else {
		end->sent = 0;
		end->filled = (size_t)bytes;
	}
	return true;
}

static bool end_write(struct end *end)
{
	ssize_t bytes = send(end->fd, end->buffer + end->sent, end->filled - end->sent, MSG_NOSIGNAL);

	if (bytes < 0)
		return errno == EAGAIN || errno == EINTR;
	end->sent += (size_t)bytes;
	return !(end->client_done && end->sent == end->filled);
}

static void end_serve(struct end *end, uint32_t events)
{
	bool goes_on = true;

	if (end->sent == end->filled && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		goes_on = end_read(end);
	if (goes_on && end->sent < end->filled)
		goes_on = end_write(end);
	if (!goes_on || !end_watch(end))
		end_close(end);
}

static struct end *end_add(int fd, bool listens, bool sums)
{
	struct end *end = calloc(1, sizeof(*end) + (listens ? 0 : BUFFER_BYTES));
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = end };

	if (!end)
		return NULL;
	end->fd = fd;
	end->listens = listens;
	end->sums = sums;
	end->waits_for = EPOLLIN;
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
		free(end);
		return NULL;
	}
	return end;
}

static void end_accept(const struct end *listener)
{
	for (;;) {
		int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct end *end;

		if (fd < 0)
			return;
		end = end_add(fd, false, listener->sums);
		if (!end) {
			close(fd);
			continue;
		}
		crypto_hash_sha256_init(&end->hash);
		if (!listener->sums)
			end->filled = (size_t)snprintf(end->buffer, BUFFER_BYTES, "%s\n", node_name);
		end_serve(end, 0);
	}
}

static void port_open(unsigned port, bool sums)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1, off = 0;

	if (fd < 0)
		die("socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, (struct sockaddr *)&any, sizeof(any)) || listen(fd, BACKLOG) || !end_add(fd, true, sums))
		die("listen");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "name", required_argument, NULL, 'n' },
		{ "echo", required_argument, NULL, 'e' },
		{ "sum", required_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	struct rlimit files = { 65536, 65536 };
	struct epoll_event events[EVENTS];
	int option, count;

	setrlimit(RLIMIT_NOFILE, &files);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0 || sodium_init() < 0)
		die("start");
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'n')
			node_name = optarg;
		else if (option == 'e' || option == 's')
			port_open((unsigned)atoi(optarg), option == 's');
		else
			return 2;
	}
	for (;;) {
		count = epoll_wait(epoll_fd, events, EVENTS, -1);
		for (int i = 0; i < count; i++) {
			struct end *end = events[i].data.ptr;

			if (end->listens)
				end_accept(end);
			else
				end_serve(end, events[i].events);
		}
		if (count < 0 && errno != EINTR)
			die("epoll_wait");
	}
}
