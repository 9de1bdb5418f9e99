// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "loadcast/health.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	REQUEST_BYTES = 512,
	ANSWER_BYTES = 16, /* "HTTP/1.1 200 " is all that is read */
	REASON_BYTES = 128,
};

enum step { STEP_IDLE, STEP_CONNECT, STEP_SEND, STEP_ANSWER };

struct health {
	const struct config *config;
	struct addr address;
	uint16_t port;
	enum step step;
	int socket;
	uint64_t next_ms; /* idle: start of the next probe; else: when this one is late */
	uint64_t started_ms;
	bool known, good;
	unsigned streak; /* results in a row that contradict "good" */
	size_t sent, received;
	char request[REQUEST_BYTES];
	size_t request_bytes;
	char answer[ANSWER_BYTES];
	char reason[REASON_BYTES];
};

struct health *health_new(const struct config *config, const struct addr *address, uint16_t port)
{
	struct health *h = calloc(1, sizeof(*h));
	char text[ADDR_TEXT_BYTES];
	bool v4 = addr_is_v4(address);

	if (!h)
		return NULL;
	h->config = config;
	h->address = *address;
	h->port = port;
	h->socket = -1;
	h->good = true;
	addr_format(address, text);
	h->request_bytes = (size_t)snprintf(h->request, sizeof(h->request),
					    "GET %s HTTP/1.1\r\nHost: %s%s%s\r\nUser-Agent: loadcast\r\n"
					    "Connection: close\r\n\r\n",
					    config->health_path, v4 ? "" : "[", text, v4 ? "" : "]");
	return h;
}

void health_free(struct health *health)
{
	if (!health)
		return;
	if (health->socket >= 0)
		close(health->socket);
	free(health);
}

static bool same_question(const struct health *a, const struct health *b)
{
	return a->port == b->port && addr_equal(&a->address, &b->address) && a->config->health == b->config->health &&
	       strcmp(a->config->health_path, b->config->health_path) == 0;
}

void health_inherit(struct health *health, struct health *former)
{
	const struct config *config = health->config;

	if (config->health == HEALTH_NONE)
		return;
	health->good = former->good;
	if (!same_question(health, former))
		return;
	*health = *former;
	health->config = config;
	former->socket = -1;
	former->step = STEP_IDLE;
	if (health->step == STEP_IDLE)
		health->next_ms = health->started_ms + config->health_interval_ms;
}

bool health_parse_status(const char *answer, size_t size, unsigned *ret_status)
{
	static const char start[] = "HTTP/1.";
	const size_t digits = sizeof(start) - 1 + 2; /* the minor version and a blank */
	unsigned i, status = 0;

	if (size < digits + 3 || memcmp(answer, start, sizeof(start) - 1) != 0 || answer[digits - 1] != ' ')
		return false;
	for (i = 0; i < 3; i++) {
		char c = answer[digits + i];

		if (c < '0' || c > '9')
			return false;
		status = status * 10 + (unsigned)(c - '0');
	}
	*ret_status = status;
	return true;
}

/* A probe is over. Every result but the first must repeat itself before it counts. */
static void finish(struct health *h, bool success)
{
	unsigned needed = success ? h->config->health_rise : h->config->health_fall;

	if (h->socket >= 0)
		close(h->socket);
	h->socket = -1;
	h->step = STEP_IDLE;
	h->next_ms = h->started_ms + h->config->health_interval_ms;
	h->streak = success == h->good ? 0 : h->streak + 1;
	if (h->streak && (!h->known || h->streak >= needed)) {
		h->good = success;
		h->streak = 0;
	}
	h->known = true;
}

static void fail(struct health *h, const char *what, int error)
{
	snprintf(h->reason, sizeof(h->reason), "%s%s%s", what, error ? ": " : "", error ? strerror(error) : "");
	finish(h, false);
}

static void start(struct health *h, uint64_t now_ms)
{
	const struct addr *to = &h->address;
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(h->port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(h->port) };
	bool is_v4 = addr_is_v4(to);
	int connected;

	h->started_ms = now_ms;
	h->next_ms = now_ms + h->config->health_timeout_ms;
	h->sent = h->received = 0;
	h->step = STEP_CONNECT;
	h->socket = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (h->socket < 0) {
		fail(h, "socket", errno);
		return;
	}
	if (is_v4) {
		v4.sin_addr.s_addr = addr_v4(to);
		connected = connect(h->socket, (struct sockaddr *)&v4, sizeof(v4));
	} else {
		memcpy(&v6.sin6_addr, to->bytes, 16);
		connected = connect(h->socket, (struct sockaddr *)&v6, sizeof(v6));
	}
	if (connected < 0 && errno != EINPROGRESS)
		fail(h, "connect", errno);
}

uint64_t health_tick(struct health *health, uint64_t now_ms)
{
	if (health->config->health == HEALTH_NONE)
		return UINT64_MAX;
	if (health->step != STEP_IDLE && now_ms >= health->next_ms)
		fail(health, health->step == STEP_CONNECT ? "connect: no answer in time" : "no HTTP answer in time", 0);
	if (health->step == STEP_IDLE && now_ms >= health->next_ms)
		start(health, now_ms);
	return health->next_ms;
}

int health_socket(const struct health *health, short *ret_events)
{
	*ret_events = health->step == STEP_ANSWER ? POLLIN : POLLOUT;
	return health->socket;
}

static void check_connected(struct health *h)
{
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(h->socket, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		error = errno;
	if (error)
		fail(h, "connect", error);
	else if (h->config->health == HEALTH_TCP)
		finish(h, true);
	else
		h->step = STEP_SEND;
}

static void send_request(struct health *h)
{
	ssize_t size = send(h->socket, h->request + h->sent, h->request_bytes - h->sent, MSG_NOSIGNAL);

	if (size >= 0)
		h->sent += (size_t)size;
	else if (errno != EAGAIN && errno != EINTR)
		fail(h, "send", errno);
	if (h->step == STEP_SEND && h->sent == h->request_bytes)
		h->step = STEP_ANSWER;
}

static void read_answer(struct health *h)
{
	ssize_t size = recv(h->socket, h->answer + h->received, sizeof(h->answer) - h->received, 0);
	unsigned status;
	char what[REASON_BYTES];

	if (size < 0) {
		if (errno != EAGAIN && errno != EINTR)
			fail(h, "receive", errno);
		return;
	}
	h->received += (size_t)size;
	if (health_parse_status(h->answer, h->received, &status)) {
		if (status >= h->config->health_status_low && status <= h->config->health_status_high) {
			finish(h, true);
			return;
		}
		snprintf(what, sizeof(what), "HTTP status %u for %.80s", status, h->config->health_path);
		fail(h, what, 0);
	} else if (!size || h->received == sizeof(h->answer)) {
		fail(h, size ? "the answer is not HTTP" : "the server closed without an answer", 0);
	}
}

void health_ready(struct health *health, uint64_t now_ms)
{
	if (health->step == STEP_CONNECT)
		check_connected(health);
	else if (health->step == STEP_ANSWER)
		read_answer(health);
	if (health->step == STEP_SEND)
		send_request(health);
	if (health->step == STEP_IDLE && health->next_ms < now_ms)
		health->next_ms = now_ms;
}

bool health_is_good(const struct health *health)
{
	return health->good;
}

const char *health_reason(const struct health *health)
{
	return health->reason;
}
