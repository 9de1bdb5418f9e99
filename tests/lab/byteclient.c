// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * byteclient - long connections to echoserver.c that notice every lost, changed or invented byte.
 *
 * Opens N flows to the given addresses in turn, at the rate of --per-second. Each sends a block of bytes that depend only on
 * flow and position, waits for all of its echo, pauses, and sends the next. Prints "ready N" once N flows have received
 * their node's name (or when the others have failed). With --spread the first pause of each flow is shortened by
 * another part, so that they do not all send at the same time ever after. At the end of the time, or at SIGTERM, each
 * flow closes its half and waits for the server's end; then the result is printed.
 *
 * A flow ends as one of: "good"; "refused" (it never heard a node's name); "broken" (an error or a
 * premature end); "corrupt"; "stalled" (no answer at the end, though --finish seconds were given).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <netinet/in.h>
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

enum { EVENTS = 256, ADDRESSES_MAX = 64, FLOWS_MAX = 60000, BLOCK_MAX = 65536, NODE_BYTES = 16 };

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

enum state { CONNECTING, NAMING, PAUSING, ECHOING, ENDING, OVER };
enum fate { PENDING, GOOD, REFUSED, BROKEN, CORRUPT, STALLED, FATES };
static const char *const fate_names[FATES] = { "pending", "good", "refused", "broken", "corrupt", "stalled" };

struct flow {
	struct wake wake; /* when the next block is due; never while waiting */
	enum state state;
	enum fate fate;
	int fd, error;
	unsigned number, port;
	const char *to;
	char node[NODE_BYTES];
	unsigned node_used;
	uint64_t position; /* position of the block in the stream */
	unsigned sent, received; /* bytes of the block */
	uint64_t since_us; /* when the block (or the connection) began */
	uint64_t longest_us, longest_since_us; /* longest time of a block, and when that block began */
	uint64_t over_us;
};

static struct {
	unsigned flows, block_bytes, address_count, port, per_second;
	double seconds, pause_ms, finish_s;
	bool spread;
	const char *json, *text[ADDRESSES_MAX];
	union address addresses[ADDRESSES_MAX];
} run = { .flows = 10,
	  .block_bytes = 1024,
	  .port = 8080,
	  .seconds = 10,
	  .pause_ms = 100,
	  .finish_s = 5,
	  .per_second = 5000 };

static struct flow *flows;
static struct wake_heap heap;
static int epoll_fd;
static unsigned named, over;
static bool finishing;
static volatile sig_atomic_t asked_to_end;

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000;
}

static void die(const char *what)
{
	fprintf(stderr, "byteclient: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Returns the byte at a position of a flow's stream. */
static uint8_t stream_byte(unsigned flow, uint64_t position)
{
	uint64_t z = (position / 8 + 1) * 0x9e3779b97f4a7c15u ^ flow * 0xbf58476d1ce4e5b9u;

	z = (z ^ (z >> 30)) * 0x94d049bb133111ebu;
	return (uint8_t)(z >> (8 * (position % 8)));
}

static void flow_end(struct flow *flow, enum fate fate, int error)
{
	if (flow->fd >= 0)
		close(flow->fd);
	flow->fd = -1;
	if (fate == BROKEN && flow->state <= NAMING)
		fate = REFUSED;
	flow->state = OVER;
	flow->fate = fate;
	flow->error = error;
	flow->over_us = now_us();
	wake_at(&heap, &flow->wake, UINT64_MAX);
	over++;
}

static void flow_send(struct flow *flow)
{
	uint8_t bytes[BLOCK_MAX];
	unsigned left = run.block_bytes - flow->sent;
	ssize_t count;

	for (unsigned i = 0; i < left; i++)
		bytes[i] = stream_byte(flow->number, flow->position + flow->sent + i);
	count = send(flow->fd, bytes, left, MSG_NOSIGNAL);
	if (count > 0)
		flow->sent += (unsigned)count;
	else if (count < 0 && errno != EAGAIN)
		flow_end(flow, BROKEN, errno);
}

/* Pauses between two blocks; at the end it closes instead. */
static void flow_pause(struct flow *flow, uint64_t now)
{
	double part = run.spread && flow->state == NAMING ? (flow->number + 1.0) / run.flows : 1;

	flow->state = finishing ? ENDING : PAUSING;
	flow->sent = flow->received = 0;
	wake_at(&heap, &flow->wake, finishing ? UINT64_MAX : now + (uint64_t)(run.pause_ms * 1000 * part));
	if (finishing)
		shutdown(flow->fd, SHUT_WR);
}

/* Reads the node's name, up to the end of its line; returns the number of bytes that belonged to it. */
static size_t take_name(struct flow *flow, const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (bytes[i] == '\n') {
			named++;
			flow_pause(flow, now_us());
			return i + 1;
		}
		if (flow->node_used < NODE_BYTES - 1)
			flow->node[flow->node_used++] = (char)bytes[i];
	}
	return count;
}

static void take_bytes(struct flow *flow, const uint8_t *bytes, size_t count)
{
	size_t used = flow->state == NAMING ? take_name(flow, bytes, count) : 0;
	uint64_t now;

	for (; used < count; used++) {
		if (flow->state != ECHOING || flow->received == flow->sent ||
		    bytes[used] != stream_byte(flow->number, flow->position + flow->received)) {
			flow_end(flow, CORRUPT, 0);
			return;
		}
		flow->received++;
	}
	if (flow->state != ECHOING || flow->received < run.block_bytes)
		return;
	now = now_us();
	if (now - flow->since_us > flow->longest_us) {
		flow->longest_us = now - flow->since_us;
		flow->longest_since_us = flow->since_us;
	}
	flow->position += run.block_bytes;
	flow_pause(flow, now);
}

static void flow_receive(struct flow *flow)
{
	static uint8_t bytes[BLOCK_MAX];

	while (flow->state != OVER) {
		ssize_t count = recv(flow->fd, bytes, sizeof(bytes), 0);

		if (count < 0 && errno == EAGAIN)
			return;
		if (count < 0)
			flow_end(flow, BROKEN, errno);
		else if (count == 0)
			flow_end(flow, flow->state == ENDING ? GOOD : BROKEN, 0);
		else
			take_bytes(flow, bytes, (size_t)count);
	}
}

static void flow_event(struct flow *flow)
{
	socklen_t length = sizeof(flow->error);
	int error = 0;

	if (flow->state == OVER)
		return;
	if (flow->state == CONNECTING) {
		getsockopt(flow->fd, SOL_SOCKET, SO_ERROR, &error, &length);
		if (error) {
			flow_end(flow, REFUSED, error);
			return;
		}
		flow->state = NAMING;
	}
	if (flow->state == ECHOING && flow->sent < run.block_bytes)
		flow_send(flow);
	flow_receive(flow);
}

static void flow_start(struct flow *flow, uint64_t now)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = flow };
	unsigned which = flow->number % run.address_count;
	union address own = { 0 }, *to = &run.addresses[which];
	socklen_t length = to->any.sa_family == AF_INET ? sizeof(to->v4) : sizeof(to->v6);

	flow->to = run.text[which];
	flow->since_us = now;
	wake_at(&heap, &flow->wake, UINT64_MAX);
	flow->fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (flow->fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, flow->fd, &event) ||
	    (connect(flow->fd, &to->any, length) && errno != EINPROGRESS)) {
		flow_end(flow, REFUSED, errno);
		return;
	}
	length = sizeof(own);
	if (!getsockname(flow->fd, &own.any, &length))
		flow->port = ntohs(own.v4.sin_port);
}

static void flow_wake(struct flow *flow, uint64_t now)
{
	if (flow->fd < 0) {
		flow_start(flow, now);
		return;
	}
	flow->state = ECHOING;
	flow->since_us = now;
	wake_at(&heap, &flow->wake, UINT64_MAX);
	flow_send(flow);
}

static void loop_until(uint64_t end_us)
{
	struct epoll_event events[EVENTS];
	bool said = finishing;
	uint64_t now = now_us();

	while (now < end_us && over < run.flows && (finishing || !asked_to_end)) {
		uint64_t next = heap.all[0]->at_us < end_us ? heap.all[0]->at_us : end_us;
		uint64_t wait_ms = next > now ? (next - now + 999) / 1000 : 0;
		int count = epoll_wait(epoll_fd, events, EVENTS, wait_ms < 1000 ? (int)wait_ms : 1000);

		for (int i = 0; i < count; i++)
			flow_event(events[i].data.ptr);
		now = now_us();
		while (heap.all[0]->at_us <= now)
			flow_wake((struct flow *)heap.all[0], now);
		if (!said && named + over >= run.flows) {
			printf("ready %u\n", named);
			fflush(stdout);
			said = true;
		}
	}
}

/* Flows that pause close at once; flows in the middle of a block get --finish seconds to end it. */
static void flows_finish(void)
{
	finishing = true;
	for (unsigned i = 0; i < run.flows; i++)
		if (flows[i].state == PAUSING)
			flow_pause(&flows[i], now_us());
	loop_until(now_us() + (uint64_t)(run.finish_s * 1e6));
	for (unsigned i = 0; i < run.flows; i++)
		if (flows[i].state != OVER)
			flow_end(&flows[i], flows[i].state <= NAMING ? REFUSED : STALLED, 0);
}

static json_t *result_json(void)
{
	unsigned fates[FATES] = { 0 };
	json_t *each = json_array(), *result = json_object();
	uint64_t bytes = 0;

	for (unsigned i = 0; i < run.flows; i++) {
		const struct flow *f = &flows[i];

		fates[f->fate]++;
		bytes += f->position;
		json_array_append_new(
			each, json_pack("{s:s, s:I, s:s, s:s, s:s, s:I, s:f, s:f, s:f}", "to", f->to, "port",
					(json_int_t)f->port, "node", f->node, "fate", fate_names[f->fate], "error",
					f->error ? strerror(f->error) : "", "bytes", (json_int_t)f->position,
					"longest_ms", (double)f->longest_us / 1000, "longest_since",
					(double)f->longest_since_us / 1e6, "over", (double)f->over_us / 1e6));
	}
	json_object_set_new(result, "flows", json_integer(run.flows));
	for (unsigned i = GOOD; i < FATES; i++)
		json_object_set_new(result, fate_names[i], json_integer(fates[i]));
	json_object_set_new(result, "bytes", json_integer((json_int_t)bytes));
	json_object_set_new(result, "each", each);
	return result;
}

static bool addresses_read(char *list)
{
	for (char *text = strtok(list, ","); text; text = strtok(NULL, ",")) {
		union address *address = &run.addresses[run.address_count];

		if (run.address_count == ADDRESSES_MAX)
			return false;
		run.text[run.address_count++] = text;
		if (inet_pton(AF_INET, text, &address->v4.sin_addr) == 1)
			address->any.sa_family = AF_INET;
		else if (inet_pton(AF_INET6, text, &address->v6.sin6_addr) == 1)
			address->any.sa_family = AF_INET6;
		else
			return false;
	}
	return run.address_count > 0;
}

static bool option_read(int option, char *value)
{
	switch (option) {
	case 'n':
		run.flows = (unsigned)atoi(value);
		return run.flows >= 1 && run.flows <= FLOWS_MAX;
	case 'b':
		run.block_bytes = (unsigned)atoi(value);
		return run.block_bytes >= 1 && run.block_bytes <= BLOCK_MAX;
	case 'p':
		run.port = (unsigned)atoi(value);
		return run.port >= 1 && run.port <= 65535;
	case 'r':
		run.per_second = (unsigned)atoi(value);
		return run.per_second >= 1 && run.per_second <= 1000000;
	case 's':
		run.seconds = atof(value);
		return run.seconds > 0;
	case 'e':
		run.pause_ms = atof(value);
		return run.pause_ms >= 0;
	case 'f':
		run.finish_s = atof(value);
		return run.finish_s >= 0;
	case 'd':
		run.spread = true;
		return true;
	case 'j':
		run.json = value;
		return true;
	case 't':
		return addresses_read(value);
	default:
		return false;
	}
}

static bool options_read(int argc, char **argv)
{
	static const struct option options[] = {
		{ "flows", 1, NULL, 'n' },      { "block", 1, NULL, 'b' },    { "port", 1, NULL, 'p' },
		{ "seconds", 1, NULL, 's' },    { "pause-ms", 1, NULL, 'e' }, { "finish", 1, NULL, 'f' },
		{ "json", 1, NULL, 'j' },       { "to", 1, NULL, 't' },       { "spread", 0, NULL, 'd' },
		{ "per-second", 1, NULL, 'r' }, { NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (option == '?' || !option_read(option, optarg))
			return false;
	for (unsigned i = 0; i < run.address_count; i++) {
		if (run.addresses[i].any.sa_family == AF_INET)
			run.addresses[i].v4.sin_port = htons((uint16_t)run.port);
		else
			run.addresses[i].v6.sin6_port = htons((uint16_t)run.port);
	}
	return optind == argc && run.address_count > 0;
}

static void on_signal(int number)
{
	(void)number;
	asked_to_end = 1;
}

int main(int argc, char **argv)
{
	struct rlimit files = { FLOWS_MAX + 64, FLOWS_MAX + 64 };
	json_t *result;

	if (!options_read(argc, argv)) {
		fprintf(stderr, "usage: byteclient --to ADDRESS[,ADDRESS..] [--port 8080] [--flows 10] [--seconds 10]\n"
				"       [--per-second 5000] [--block 1024] [--pause-ms 100] [--spread] [--finish 5] "
				"[--json OUT]\n");
		return 2;
	}
	setrlimit(RLIMIT_NOFILE, &files);
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	flows = calloc(run.flows, sizeof(*flows));
	heap.all = calloc(run.flows, sizeof(*heap.all));
	if (epoll_fd < 0 || !flows || !heap.all)
		die("start");
	for (unsigned i = 0; i < run.flows; i++) {
		flows[i].number = i;
		flows[i].fd = -1;
		flows[i].wake.at_us = now_us() + (uint64_t)i * 1000000 / run.per_second;
		wake_add(&heap, &flows[i].wake);
	}
	loop_until(now_us() + (uint64_t)(run.seconds * 1e6));
	flows_finish();
	result = result_json();
	if (run.json ? json_dump_file(result, run.json, JSON_INDENT(1)) : json_dumpf(result, stdout, JSON_INDENT(1)))
		die("result");
	return 0;
}
