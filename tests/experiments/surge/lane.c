// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lane.c - the life of a connection: name, address, connect, answers, end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tests/experiments/surge/client.h"

static const struct file *head_file(const struct client *client, const struct lane *lane)
{
	return &client->set->files[client->plan->of[lane->user->number].steps[lane->first].file];
}

void lane_close(struct client *client, struct lane *lane)
{
	(void)client;
	if (lane->fd >= 0)
		close(lane->fd);
	free(lane->unsent);
	lane->unsent = NULL;
	lane->unsent_bytes = lane->unsent_at = 0;
	lane->fd = -1;
	lane->connection = CLOSED;
	lane->answers = lane->pages = 0;
}

/* The first of the fetched files has ended, with success or not. */
static void end_head(struct client *client, struct lane *lane, enum outcome outcome)
{
	const bool is_reached = lane->connection == OPEN || lane->connection == CONNECTING;
	const struct transfer transfer = {
		.user = lane->user->number,
		.step = lane->first,
		.file = head_file(client, lane),
		.start_us = lane->start_us,
		.connected_us = lane->connection == OPEN ? lane->connected_us : 0,
		.first_byte_us = lane->first_byte_us,
		.end_us = client->now_us,
		.received_bytes = lane->answer.body_bytes + lane->excess_bytes,
		.status = lane->answer.status,
		.server = is_reached && lane->address ? &lane->addresses.all[lane->address - 1] : NULL,
		.node = lane->answer.node,
		.outcome = outcome,
	};

	measures_end(&client->measures, &transfer);
	lane->first++;
	lane->left--;
	lane->user->finished++;
	lane->first_byte_us = 0;
	lane->excess_bytes = 0;
	http_begin(&lane->answer, client->options->node_header);
}

static void batch_over(struct client *client, struct lane *lane)
{
	lane->is_fetching = false;
	lane_wake_never(client, lane);
	user_lane_done(client, lane);
}

/* The remaining files cannot be fetched. */
static void fail_all(struct client *client, struct lane *lane, enum outcome outcome)
{
	while (lane->left)
		end_head(client, lane, outcome);
	lane_close(client, lane);
	batch_over(client, lane);
}

static enum outcome outcome_of(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return OUTCOME_REFUSED;
	case ECONNRESET:
	case EPIPE:
		return OUTCOME_RESET;
	case ETIMEDOUT:
		return OUTCOME_TIMEOUT;
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
	case EADDRNOTAVAIL:
	case EADDRINUSE:
		return OUTCOME_LOCAL;
	default:
		return OUTCOME_UNREACHABLE;
	}
}

static int open_socket(const struct client *client, const struct lane *lane, const union address *to)
{
	const struct options *options = client->options;
	const int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
	const union address *from;

	if (fd < 0 || !options->source_count)
		return fd;
	from = &options->sources[lane->user->number % options->source_count];
	if (from->any.sa_family != to->any.sa_family)
		return fd;
	/* Not now: connect() may give one local port to connections to several addresses. */
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (bind(fd, &from->any, address_bytes(from)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* An error number when that could not even begin. */
static int begin_connect(struct client *client, struct lane *lane, const union address *to)
{
	struct epoll_event event = { .events = EPOLLOUT, .data.ptr = lane };

	lane->fd = open_socket(client, lane, to);
	if (lane->fd < 0 || epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, lane->fd, &event) < 0)
		return errno;
	if (connect(lane->fd, &to->any, address_bytes(to)) < 0 && errno != EINPROGRESS)
		return errno;
	return 0;
}

/* Goes through the addresses until one can be begun with; error is that of the address before. */
static void connect_next(struct client *client, struct lane *lane, int error)
{
	while (lane->address < lane->addresses.count) {
		lane_close(client, lane);
		lane->connect_us = client->now_us;
		lane->connection = CONNECTING;
		error = begin_connect(client, lane, &lane->addresses.all[lane->address++]);
		if (!error)
			return;
		client->measures.connect_failures++;
	}
	fail_all(client, lane, outcome_of(error));
}

static void open_addresses(struct client *client, struct lane *lane, const struct addresses *addresses)
{
	lane->addresses = *addresses;
	lane->address = 0;
	/* The published delay begins before connect(), after the lookup; a second try is part of it. */
	if (!lane->has_started)
		lane->start_us = client->now_us;
	lane->has_started = true;
	connect_next(client, lane, EHOSTUNREACH);
}

static void lane_open(struct client *client, struct lane *lane)
{
	struct name *name = lane->name;

	lane_close(client, lane);
	if (lane->user->server->is_literal) {
		open_addresses(client, lane, &lane->user->server->literal);
		return;
	}
	if (client->options->resolve == RESOLVE_CONNECTION && name->state == NAME_KNOWN)
		name->state = NAME_UNKNOWN;
	if (name->state == NAME_KNOWN) {
		open_addresses(client, lane, &name->addresses);
		return;
	}
	lane->connection = RESOLVING;
	lane->next_waiting = name->waiting;
	name->waiting = lane;
	if (name->state == NAME_UNKNOWN) {
		name->asked_us = client->now_us;
		resolver_ask(client->resolver, name);
	}
}

void lane_resolved(struct client *client, struct lane *lane)
{
	if (lane->name->state == NAME_KNOWN)
		open_addresses(client, lane, &lane->name->addresses);
	else
		fail_all(client, lane, OUTCOME_NAME);
}

/* The head failed with its connection; what came behind it in the pipeline gets another one. */
static void fail_head(struct client *client, struct lane *lane, enum outcome outcome)
{
	end_head(client, lane, outcome);
	lane_close(client, lane);
	if (lane->left)
		lane_open(client, lane);
	else
		batch_over(client, lane);
}

static enum outcome judge(const struct client *client, const struct lane *lane)
{
	if (lane->answer.status != 200)
		return OUTCOME_STATUS;
	if (lane->answer.body_bytes + lane->excess_bytes != head_file(client, lane)->size_bytes)
		return OUTCOME_WRONG_LENGTH;
	return OUTCOME_OK;
}

/* An answer is complete. */
static void finish_head(struct client *client, struct lane *lane, bool stays_open)
{
	end_head(client, lane, judge(client, lane));
	lane->answers++;
	if (!stays_open)
		lane_close(client, lane);
	if (!lane->left)
		batch_over(client, lane);
	else if (!stays_open)
		lane_open(client, lane);
}

/* A kept connection that the server closed before it could see the request: that is not an error. */
static bool may_try_again(const struct lane *lane)
{
	return lane->answers && !lane->first_byte_us;
}

static void broken(struct client *client, struct lane *lane, int error)
{
	if (!lane->is_fetching) {
		lane_close(client, lane);
	} else if (may_try_again(lane)) {
		client->measures.reopened++;
		lane_open(client, lane);
	} else {
		fail_head(client, lane, outcome_of(error));
	}
}

static void server_closed(struct client *client, struct lane *lane)
{
	if (!lane->is_fetching) {
		lane_close(client, lane);
	} else if (http_end(&lane->answer)) {
		finish_head(client, lane, false);
	} else if (may_try_again(lane)) {
		client->measures.reopened++;
		lane_open(client, lane);
	} else {
		fail_head(client, lane,
			  lane->answer.state != HTTP_BODY ? OUTCOME_CLOSED
			  : lane->answer.status == 200    ? OUTCOME_WRONG_LENGTH
							  : OUTCOME_STATUS);
	}
}

/* False when the connection was given up or nothing more is wanted from it now. */
static bool take_bytes(struct client *client, struct lane *lane, const char *bytes, size_t count)
{
	while (count) {
		size_t used;

		if (!lane->is_fetching) {
			/* No request asked for this. */
			lane_close(client, lane);
			return false;
		}
		if (!lane->first_byte_us)
			lane->first_byte_us = client->now_us;
		used = http_take(&lane->answer, bytes, count);
		bytes += used;
		count -= used;
		if (lane->answer.state == HTTP_MALFORMED || lane->answer.state == HTTP_CHUNKED) {
			fail_head(client, lane,
				  lane->answer.state == HTTP_CHUNKED ? OUTCOME_CHUNKED : OUTCOME_MALFORMED);
			return false;
		}
		if (lane->answer.state != HTTP_DONE)
			continue;
		if (client->options->http == MODE_HTTP_10 && !lane->answer.keeps_open) {
			/* Over when the server closes, as published. */
			lane->excess_bytes += count;
			return true;
		}
		finish_head(client, lane, lane->answer.keeps_open && client->options->http != MODE_HTTP_10);
		if (lane->connection != OPEN)
			return false;
	}
	return true;
}

static void lane_receive(struct client *client, struct lane *lane)
{
	for (int i = 0; i < READS_AT_ONCE; i++) {
		const ssize_t count = recv(lane->fd, client->receive, RECEIVE_BYTES, 0);

		if (count < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (count < 0) {
			broken(client, lane, errno);
			return;
		}
		if (count == 0) {
			server_closed(client, lane);
			return;
		}
		if (!take_bytes(client, lane, client->receive, (size_t)count))
			return;
		if (count < RECEIVE_BYTES / 2 && client->options->http != MODE_HTTP_10)
			return;
	}
}

static void connected(struct client *client, struct lane *lane)
{
	int error = 0;
	socklen_t bytes = sizeof(error);

	if (getsockopt(lane->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0)
		error = errno;
	if (error) {
		client->measures.connect_failures++;
		connect_next(client, lane, error);
		return;
	}
	lane->connection = OPEN;
	lane->connected_us = client->now_us;
	measures_connected(&client->measures, client->now_us - lane->connect_us, client->now_us);
	if (!lane_send(client, lane))
		broken(client, lane, errno);
}

void lane_event(struct client *client, struct lane *lane, uint32_t events)
{
	if (lane->connection == CONNECTING) {
		connected(client, lane);
		return;
	}
	if (lane->connection != OPEN)
		return;
	if ((events & EPOLLOUT) && lane->unsent && !lane_flush(client, lane)) {
		broken(client, lane, errno);
		return;
	}
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		lane_receive(client, lane);
}

void lane_fetch(struct client *client, struct lane *lane)
{
	lane->is_fetching = true;
	lane->has_started = lane->connection == OPEN;
	lane->start_us = client->now_us;
	lane->first_byte_us = lane->excess_bytes = 0;
	http_begin(&lane->answer, client->options->node_header);
	measures_begin(&client->measures, lane->left, client->now_us);
	lane_wake_at(client, lane, WAKE_TIMEOUT, client->now_us + (uint64_t)(client->options->timeout_s * 1e6));
	if (lane->connection != OPEN) {
		lane_open(client, lane);
		return;
	}
	lane->connected_us = 0;
	if (!lane_send(client, lane))
		broken(client, lane, errno);
}

static void stop_waiting(struct lane *lane)
{
	for (struct lane **at = &lane->name->waiting; lane->connection == RESOLVING && *at; at = &(*at)->next_waiting)
		if (*at == lane) {
			*at = lane->next_waiting;
			return;
		}
}

void lane_timeout(struct client *client, struct lane *lane)
{
	stop_waiting(lane);
	fail_all(client, lane, OUTCOME_TIMEOUT);
}

void lane_censor(struct client *client, struct lane *lane)
{
	while (lane->is_fetching && lane->left)
		end_head(client, lane, OUTCOME_CENSORED);
	lane->is_fetching = false;
	lane_close(client, lane);
}
