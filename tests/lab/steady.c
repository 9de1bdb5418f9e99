// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * steady - new connections to echoserver.c at a steady rate, however long the former ones take.
 *
 * Each sends a block as soon as it is established, receives the node's name and the block, is held for a random time,
 * has another block echoed, and closes. Every byte is checked. The client speaks first, as a web client does: a server
 * that answered the SYN with a cookie knows the connection only when data arrives.
 *
 * It prints one line for each connection when it has ended; times are of CLOCK_MONOTONIC, read just before connect()
 * and when epoll_wait() has told of the end:
 *
 *   TO START_S HANDSHAKE_MS CONNECT_MS ANSWER_MS SYNS NODE FATE ERROR PORT
 *
 * HANDSHAKE_MS is from the SYN to its SYN-ACK as the kernel saw them, without this program's own wait for a
 * processor; when the SYN was sent again, CONNECT_MS. SYNS is the number of SYNs sent. -1 and "-" stand for values that
 * did not come. FATE is "good", "refused" (never established), "broken" (an error or a premature end), "corrupt" or
 * "stalled" (no answer within --timeout). At the end of the time, or at SIGTERM, it begins no more, and the present
 * ones go on to their end.
 *
 * With --from they come from these addresses of this host in turn, as if from many clients. An address uses no port
 * again before it used all. The kernel's choice of ports starts anew every ten seconds; with 10 connections per second
 * between two addresses, two of a hundred would reuse a port of the last two minutes.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/lab/wakeheap.h"

enum { EVENTS = 256, ADDRESSES_MAX = 64, SLOTS_MAX = 30000, BLOCK_BYTES = 256, NODE_BYTES = 16, LATE_MAX_US = 1000000 };
enum { PORT_FIRST = 1024, PORTS = 65536 - PORT_FIRST, PORT_TRIES = 100 };

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

enum state { FREE, CONNECTING, ANSWERING, HOLDING, ECHOING, ENDING };

struct connection {
	struct wake wake; /* the time-out, or the end of the hold; never when free */
	enum state state;
	int fd;
	uint64_t number;
	unsigned to, node_used, syns;
	bool named;
	unsigned said, heard; /* bytes of the stream */
	char node[NODE_BYTES];
	uint64_t start_us, connected_us, answered_us, handshake_us;
	struct connection *next; /* in the list of free connections */
};

struct addresses {
	unsigned count;
	const char *text[ADDRESSES_MAX];
	union address all[ADDRESSES_MAX];
};

static struct {
	struct addresses to, from;
	unsigned port, per_second;
	double seconds, hold_ms, timeout_s;
	const char *out;
} run = { .port = 8080, .per_second = 100, .seconds = 10, .hold_ms = 200, .timeout_s = 8 };

static struct connection *connections, *free_ones;
static struct wake_heap heap;
static int epoll_fd;
static unsigned under_way;
static uint64_t begun, random_state;
static unsigned first_port; /* where all addresses begin, from PORT_FIRST */
static FILE *out;
static volatile sig_atomic_t asked_to_end;

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000;
}

static void die(const char *what)
{
	fprintf(stderr, "steady: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double random_unit(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (double)(random_state >> 11) / (double)(1ULL << 53);
}

/* The byte at a position of a connection's stream. */
static uint8_t stream_byte(uint64_t number, unsigned position)
{
	uint64_t z = (position / 8 + 1) * 0x9e3779b97f4a7c15u ^ number * 0xbf58476d1ce4e5b9u;

	z = (z ^ (z >> 30)) * 0x94d049bb133111ebu;
	return (uint8_t)(z >> (8 * (position % 8)));
}

static double span_ms(uint64_t from_us, uint64_t until_us)
{
	return until_us ? (double)(until_us - from_us) / 1000 : -1;
}

/* The client's port; 0: it has none. It is at the same place in both forms of address. */
static unsigned port_of(int fd)
{
	union address own = { .any.sa_family = AF_UNSPEC };
	socklen_t bytes = sizeof(own);

	return fd < 0 || getsockname(fd, &own.any, &bytes) ? 0 : ntohs(own.v4.sin_port);
}

static void over(struct connection *c, const char *fate, int error)
{
	char name[48] = "-";

	if (error)
		snprintf(name, sizeof(name), "%s", strerrorname_np(error));
	fprintf(out, "%s %.6f %.3f %.3f %.3f %u %s %s %s %u\n", run.to.text[c->to], (double)c->start_us / 1e6,
		span_ms(0, c->handshake_us), span_ms(c->start_us, c->connected_us),
		span_ms(c->start_us, c->answered_us), c->syns, c->named ? c->node : "-", fate, name, port_of(c->fd));
	if (c->fd >= 0)
		close(c->fd);
	c->state = FREE;
	c->next = free_ones;
	free_ones = c;
	under_way--;
	wake_at(&heap, &c->wake, UINT64_MAX);
}

static void failed(struct connection *c, int error)
{
	over(c, c->state == CONNECTING ? "refused" : "broken", error);
}

/* Sends one block, which always fits into the socket's empty buffer. */
static void say(struct connection *c, uint64_t now)
{
	uint8_t block[BLOCK_BYTES];
	unsigned i;

	for (i = 0; i < BLOCK_BYTES; i++)
		block[i] = stream_byte(c->number, c->said + i);
	wake_at(&heap, &c->wake, now + (uint64_t)(run.timeout_s * 1e6));
	if (send(c->fd, block, sizeof(block), MSG_NOSIGNAL) != sizeof(block))
		failed(c, errno);
	else
		c->said += BLOCK_BYTES;
}

static void stands(struct connection *c)
{
	struct tcp_info info = { 0 };
	socklen_t bytes = sizeof(int);
	uint64_t now = now_us();
	int error = 0;

	getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
	bytes = sizeof(info);
	if (!getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes))
		c->syns = 1 + info.tcpi_total_retrans;
	if (error) {
		failed(c, error);
		return;
	}
	c->connected_us = now;
	/* Nothing but the SYN was acknowledged yet. */
	c->handshake_us = c->syns == 1 && info.tcpi_rtt ? info.tcpi_rtt : now - c->start_us;
	c->state = ANSWERING;
	say(c, now);
}

/* A block was echoed. */
static void block_over(struct connection *c)
{
	uint64_t now = now_us();

	if (c->state == ANSWERING) {
		c->answered_us = now;
		c->state = HOLDING;
		wake_at(&heap, &c->wake, now + (uint64_t)(2 * run.hold_ms * 1000 * random_unit()));
	} else {
		c->state = ENDING;
		shutdown(c->fd, SHUT_WR);
	}
}

static bool take_byte(struct connection *c, uint8_t byte)
{
	if (!c->named) {
		c->named = byte == '\n';
		if (!c->named && c->node_used < NODE_BYTES - 1)
			c->node[c->node_used++] = (char)byte;
		return true;
	}
	if ((c->state != ANSWERING && c->state != ECHOING) || byte != stream_byte(c->number, c->heard))
		return false;
	c->heard++;
	if (c->heard == c->said)
		block_over(c);
	return true;
}

static void hear(struct connection *c)
{
	uint8_t bytes[1024];
	ssize_t count, i;

	while (c->state != FREE) {
		count = recv(c->fd, bytes, sizeof(bytes), 0);
		if (count < 0 && errno == EAGAIN)
			return;
		if (count < 0)
			failed(c, errno);
		else if (count == 0 && c->state == ENDING)
			over(c, "good", 0);
		else if (count == 0)
			failed(c, 0);
		for (i = 0; i < count; i++) {
			if (!take_byte(c, bytes[i])) {
				over(c, "corrupt", 0);
				break;
			}
		}
	}
}

static void on_event(struct connection *c, uint32_t events)
{
	if (c->state == CONNECTING && events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
		stands(c);
	if (c->state > CONNECTING)
		hear(c);
}

static void on_wake(struct connection *c, uint64_t now)
{
	if (c->state == HOLDING) {
		c->state = ECHOING;
		say(c, now);
	} else {
		over(c, "stalled", 0);
	}
}

/* The next port of this address: no port comes again before all were used. */
static int bind_port(int fd, union address from, unsigned *used)
{
	for (unsigned tries = 0; tries < PORT_TRIES; tries++) {
		uint16_t port = htons((uint16_t)(PORT_FIRST + (first_port + (*used)++) % PORTS));

		if (from.any.sa_family == AF_INET6)
			from.v6.sin6_port = port;
		else
			from.v4.sin_port = port;
		if (!bind(fd, &from.any, sizeof(from)))
			return 0;
		if (errno != EADDRINUSE)
			return -1;
	}
	return -1;
}

/* The next address of this family. */
static int bind_next(int fd, const union address *to)
{
	static unsigned next, used[ADDRESSES_MAX];

	for (unsigned i = 0; i < run.from.count; i++) {
		unsigned at = next++ % run.from.count;

		if (run.from.all[at].any.sa_family == to->any.sa_family)
			return bind_port(fd, run.from.all[at], &used[at]);
	}
	return 0;
}

static void begin(void)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
	struct connection *c = free_ones;
	const union address *to;

	if (!c) {
		fprintf(stderr, "steady: too many connections at one time\n");
		exit(1);
	}
	free_ones = c->next;
	*c = (struct connection) {
		.wake = c->wake, .state = CONNECTING, .number = begun, .to = (unsigned)(begun % run.to.count)
	};
	begun++;
	under_way++;
	to = &run.to.all[c->to];
	event.data.ptr = c;
	c->fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	c->start_us = now_us();
	wake_at(&heap, &c->wake, c->start_us + (uint64_t)(run.timeout_s * 1e6));
	if (c->fd < 0 || bind_next(c->fd, to) || (connect(c->fd, &to->any, sizeof(*to)) && errno != EINPROGRESS) ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event))
		failed(c, errno);
}

static void loop(void)
{
	uint64_t interval_us = 1000000 / run.per_second, now = now_us(), due = now;
	uint64_t end = now + (uint64_t)(run.seconds * 1e6);
	struct epoll_event events[EVENTS];
	bool ending = false;
	int count, i;

	while (!ending || under_way) {
		uint64_t next = heap.all[0]->at_us;

		if (!ending && due < next)
			next = due;
		count = epoll_wait(epoll_fd, events, EVENTS, next > now ? (int)((next - now + 999) / 1000) : 0);
		for (i = 0; i < count; i++)
			on_event(events[i].data.ptr, events[i].events);
		now = now_us();
		while (heap.all[0]->at_us <= now)
			on_wake((struct connection *)heap.all[0], now);
		ending = asked_to_end || now >= end;
		for (; !ending && due <= now; due += interval_us)
			begin();
		/* After a standstill the missed connections are not all made at once. */
		if (due + LATE_MAX_US < now)
			due = now;
	}
}

static bool addresses_read(struct addresses *read, char *list)
{
	for (char *text = strtok(list, ","); text; text = strtok(NULL, ",")) {
		union address *address = &read->all[read->count];

		if (read->count == ADDRESSES_MAX)
			return false;
		read->text[read->count++] = text;
		if (inet_pton(AF_INET, text, &address->v4.sin_addr) == 1)
			address->any.sa_family = AF_INET;
		else if (inet_pton(AF_INET6, text, &address->v6.sin6_addr) == 1)
			address->any.sa_family = AF_INET6;
		else
			return false;
	}
	return read->count > 0;
}

static bool option_read(int option, char *value)
{
	switch (option) {
	case 't':
		return addresses_read(&run.to, value);
	case 'f':
		return addresses_read(&run.from, value);
	case 'p':
		run.port = (unsigned)atoi(value);
		return run.port >= 1 && run.port <= 65535;
	case 'r':
		run.per_second = (unsigned)atoi(value);
		return run.per_second >= 1 && run.per_second <= 20000;
	case 's':
		run.seconds = atof(value);
		return run.seconds > 0;
	case 'h':
		run.hold_ms = atof(value);
		return run.hold_ms >= 0;
	case 'w':
		run.timeout_s = atof(value);
		return run.timeout_s > 0;
	case 'o':
		run.out = value;
		return true;
	default:
		return false;
	}
}

static bool options_read(int argc, char **argv)
{
	static const struct option options[] = {
		{ "to", 1, NULL, 't' },      { "port", 1, NULL, 'p' },    { "per-second", 1, NULL, 'r' },
		{ "seconds", 1, NULL, 's' }, { "hold-ms", 1, NULL, 'h' }, { "timeout", 1, NULL, 'w' },
		{ "out", 1, NULL, 'o' },     { "from", 1, NULL, 'f' },    { NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (option == '?' || !option_read(option, optarg))
			return false;
	/* The port is at the same place in both forms of address. */
	for (unsigned i = 0; i < run.to.count; i++)
		run.to.all[i].v4.sin_port = htons((uint16_t)run.port);
	return optind == argc && run.to.count > 0;
}

static void on_signal(int number)
{
	(void)number;
	asked_to_end = 1;
}

int main(int argc, char **argv)
{
	struct rlimit files = { SLOTS_MAX + 64, SLOTS_MAX + 64 };

	if (!options_read(argc, argv)) {
		fprintf(stderr,
			"usage: steady --to ADDRESS[,ADDRESS..] [--port 8080] [--per-second 100] [--seconds 10]\n"
			"       [--hold-ms 200] [--timeout 8] [--from ADDRESS[,ADDRESS..]] [--out FILE]\n");
		return 2;
	}
	setrlimit(RLIMIT_NOFILE, &files);
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	random_state = now_us() | 1;
	first_port = (unsigned)(now_us() % PORTS);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	connections = calloc(SLOTS_MAX, sizeof(*connections));
	heap.all = calloc(SLOTS_MAX, sizeof(struct wake *));
	out = run.out ? fopen(run.out, "we") : stdout;
	if (epoll_fd < 0 || !connections || !heap.all || !out)
		die("start");
	for (unsigned i = 0; i < SLOTS_MAX; i++) {
		connections[i].wake.at_us = UINT64_MAX;
		connections[i].next = free_ones;
		free_ones = &connections[i];
		wake_add(&heap, &connections[i].wake);
	}
	loop();
	if (fclose(out))
		die("result");
	return 0;
}
