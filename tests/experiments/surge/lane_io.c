// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lane_io.c - writes requests, as many at once as the lane is to fetch.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "tests/experiments/surge/client.h"

static size_t write_request(const struct client *client, const struct lane *lane, uint32_t step, char *text)
{
	const struct options *options = client->options;
	const struct file *file = &client->set->files[client->plan->of[lane->user->number].steps[step].file];
	const int bytes = snprintf(text, REQUEST_BYTES, "GET %s%s HTTP/1.%c\r\nHost: %s\r\nUser-Agent: surge\r\n\r\n",
				   options->prefix, file->name, options->http == MODE_HTTP_10 ? '0' : '1',
				   options->host_header ? options->host_header : lane->user->server->host_header);

	return bytes < REQUEST_BYTES ? (size_t)bytes : REQUEST_BYTES - 1;
}

/* Told of room for more only while there is something to be sent. */
static void watch(const struct client *client, struct lane *lane, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = lane };

	epoll_ctl(client->epoll_fd, EPOLL_CTL_MOD, lane->fd, &event);
}

bool lane_flush(struct client *client, struct lane *lane)
{
	while (lane->unsent_at < lane->unsent_bytes) {
		const ssize_t sent = send(lane->fd, lane->unsent + lane->unsent_at,
					  lane->unsent_bytes - lane->unsent_at, MSG_NOSIGNAL);

		if (sent < 0 && errno == EAGAIN) {
			watch(client, lane, EPOLLIN | EPOLLOUT);
			return true;
		}
		if (sent < 0)
			return false;
		lane->unsent_at += (size_t)sent;
	}
	free(lane->unsent);
	lane->unsent = NULL;
	lane->unsent_bytes = lane->unsent_at = 0;
	watch(client, lane, EPOLLIN);
	return true;
}

bool lane_send(struct client *client, struct lane *lane)
{
	char *text = malloc((size_t)lane->left * REQUEST_BYTES);

	free(lane->unsent);
	lane->unsent = text;
	lane->unsent_bytes = lane->unsent_at = 0;
	if (!text) {
		errno = ENOMEM;
		return false;
	}
	for (uint32_t i = 0; i < lane->left; i++)
		lane->unsent_bytes += write_request(client, lane, lane->first + i, text + lane->unsent_bytes);
	return lane_flush(client, lane);
}
