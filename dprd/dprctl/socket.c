// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/socket.c - one request to dprd, and its answer line by line. */
#define _GNU_SOURCE
#include "dprd/dprctl/dprctl.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "dprd/base/clock.h"

/* Bytes that were read and not yet handed out. */
struct reader {
	int fd;
	char *bytes;
	size_t used, room;
};

static int connect_to(const char *run_dir)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd, length = snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", run_dir);

	if (length >= (int)sizeof(address.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	/* EAGAIN: dprd accepts no client, and the backlog is full. */
	length = errno == EAGAIN ? -ETIMEDOUT : -errno;
	close(fd);
	return length;
}

static int wait_for(int fd, short events, uint64_t until_ms)
{
	struct pollfd poller = { .fd = fd, .events = events };
	uint64_t now_ms = clock_now_ms();
	int ready = now_ms < until_ms ? poll(&poller, 1, (int)(until_ms - now_ms)) : 0;

	if (ready < 0)
		return errno == EINTR ? 0 : -errno;
	return ready ? 0 : -ETIMEDOUT;
}

static int send_request(int fd, json_t *request, unsigned answer_ms)
{
	char *text = json_dumps(request, JSON_COMPACT), *line;
	uint64_t until_ms = clock_now_ms() + answer_ms;
	size_t bytes = text ? strlen(text) : 0, sent = 0;
	int error = 0;

	line = text ? realloc(text, bytes + 2) : NULL;
	if (!line) {
		free(text);
		return -ENOMEM;
	}
	line[bytes++] = '\n';
	while (!error && sent < bytes) {
		ssize_t part = send(fd, line + sent, bytes - sent, MSG_NOSIGNAL);

		if (part >= 0)
			sent += (size_t)part;
		else
			error = errno == EAGAIN ? wait_for(fd, POLLOUT, until_ms) : errno == EINTR ? 0 : -errno;
	}
	free(line);
	/* A dprd that refuses sends its answer and closes: read that answer. */
	return error == -EPIPE ? 0 : error;
}

/* Reads more bytes; each of them proves that dprd lives. */
static int read_more(struct reader *r, unsigned answer_ms)
{
	uint64_t until_ms = clock_now_ms() + answer_ms;
	ssize_t got;
	int error;

	if (r->used == r->room) {
		size_t room = r->room ? r->room * 2 : 16384;
		char *bytes = room <= DPRCTL_LINE_BYTES_MAX ? realloc(r->bytes, room) : NULL;

		if (!bytes)
			return -EPROTO;
		r->bytes = bytes;
		r->room = room;
	}
	for (;;) {
		got = recv(r->fd, r->bytes + r->used, r->room - r->used, 0);
		if (got > 0)
			break;
		if (got == 0 || (errno != EAGAIN && errno != EINTR))
			return got == 0 || errno == ECONNRESET ? -EPROTO : -errno;
		error = wait_for(r->fd, POLLIN, until_ms);
		if (error)
			return error;
	}
	r->used += (size_t)got;
	return 0;
}

/* Hands out the whole lines. Returns 1 after the last one, or when the caller wants no more. */
static int take_lines(struct reader *r, answer_fn *take, void *context)
{
	char *start = r->bytes, *end;
	int done = 0;

	while (!done && (end = memchr(start, '\n', r->used - (size_t)(start - r->bytes)))) {
		json_t *line = json_loadb(start, (size_t)(end - start), 0, NULL);

		if (!json_is_object(line)) {
			json_decref(line);
			return -EPROTO;
		}
		done = !take(context, line) || json_object_get(line, "schema") || json_object_get(line, "error");
		json_decref(line);
		start = end + 1;
	}
	r->used -= (size_t)(start - r->bytes);
	memmove(r->bytes, start, r->used);
	return done;
}

int dprctl_ask(const char *run_dir, json_t *request, unsigned answer_ms, answer_fn *line, void *context)
{
	struct reader r = { .fd = connect_to(run_dir) };
	int error = r.fd < 0 ? r.fd : send_request(r.fd, request, answer_ms);

	while (!error) {
		error = read_more(&r, answer_ms);
		if (!error)
			error = take_lines(&r, line, context);
	}
	json_decref(request);
	free(r.bytes);
	if (r.fd >= 0)
		close(r.fd);
	return error > 0 ? 0 : error;
}

static bool keep_line(void *context, const json_t *line)
{
	json_t **kept = context;

	*kept = json_deep_copy(line);
	return false;
}

int dprctl_ask_one(const char *run_dir, json_t *request, unsigned answer_ms, json_t **ret)
{
	int error;

	*ret = NULL;
	error = dprctl_ask(run_dir, request, answer_ms, keep_line, ret);
	return !error && !*ret ? -ENOMEM : error;
}
