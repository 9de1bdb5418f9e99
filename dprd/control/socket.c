// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * control/socket.c - the socket run_dir/control: reads requests and writes answers, and never blocks the loop.
 *
 * It reads a client's next request when the last answer has been sent; a listing makes its next lines when
 * the last ones have been sent. So a client costs one line of input and one bounded piece of output. A
 * client that neither asks nor reads is closed after CONTROL_IDLE_MS.
 */
#define _GNU_SOURCE
#include "dprd/control/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/base/log.h"
#include "dprd/rules/rules.h"
#include "dprd/control/socket.h"

enum { CONTROL_TICK_MS = 1000, CONTROL_BACKLOG = 8, CONTROL_DEAF_MS = 1000, CONTROL_LOG_MS = 10000 };

struct client {
	struct control *control;
	sd_event_source *source; /* owns fd; NULL: the slot is free */
	int fd;
	bool may_change;
	bool closing; /* close the client as soon as the output is sent */
	uint64_t active_ms; /* the time of its last request, or when it last took output */
	char in[CONTROL_REQUEST_BYTES + 1]; /* a line with its end */
	size_t in_bytes;
	char *out;
	size_t out_bytes, out_sent;
	struct control_listing listing;
};

struct control {
	struct dprd *d;
	char path[PATH_BYTES + 16];
	sd_event_source *listener, *timer;
	int spare_fd; /* closed for a moment when there is no descriptor for a client; -1: it is closed */
	struct log_limit full_log;
	struct control_recent recent;
	uint64_t overruns[CONTROL_RECENT_S]; /* the counter at each of the last seconds */
	int64_t strangers_before; /* a minute ago; -1: not known */
	unsigned seconds;
	struct client clients[CONTROL_CLIENTS_MAX];
};

static void client_close(struct client *c)
{
	c->source = sd_event_source_disable_unref(c->source);
	free(c->out);
	c->out = NULL;
	c->out_bytes = c->out_sent = c->in_bytes = 0;
	c->listing.active = false;
}

/* Appends one line to the output; false: it does not fit, or there is no memory. */
static bool client_put(struct client *c, const json_t *line)
{
	char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL, *more;
	size_t bytes = text ? strlen(text) : 0;

	more = text && c->out_bytes + bytes < CONTROL_ANSWER_BYTES ? realloc(c->out, c->out_bytes + bytes + 1) : NULL;
	if (more) {
		memcpy(more + c->out_bytes, text, bytes + 1);
		more[c->out_bytes + bytes] = '\n';
		c->out = more;
		c->out_bytes += bytes + 1;
	}
	free(text);
	return more;
}

/* Appends a whole answer; when it cannot be made, appends an error and ends the connection. */
static void client_answer(struct client *c, json_t *line)
{
	json_t *error;

	if (!client_put(c, line)) {
		error = control_error("out of memory, or the answer is too long");
		c->closing = !client_put(c, error);
		json_decref(error);
	}
	json_decref(line);
}

/* Answers the first whole line of the input, if there is one. */
static bool client_request(struct client *c)
{
	char *end = memchr(c->in, '\n', c->in_bytes);
	struct control_answer answer;
	size_t bytes;

	if (!end) {
		if (c->in_bytes <= CONTROL_REQUEST_BYTES)
			return false;
		client_answer(c, control_error("the request is longer than %d bytes", CONTROL_REQUEST_BYTES));
		c->closing = true;
		return true;
	}
	bytes = (size_t)(end - c->in);
	c->active_ms = clock_now_ms();
	control_request(c->control->d, &c->control->recent, c->in, bytes, c->may_change, &answer);
	c->listing = answer.listing;
	if (!answer.listing.active)
		client_answer(c, answer.line);
	c->in_bytes -= bytes + 1;
	memmove(c->in, end + 1, c->in_bytes);
	return true;
}

static void client_list(struct client *c)
{
	json_t *lines = control_listing_next(c->control->d, &c->listing), *line;
	size_t i;

	if (!lines)
		c->listing.active = false, c->closing = true;
	json_array_foreach(lines, i, line) c->closing = !client_put(c, line) || c->closing;
	json_decref(lines);
}

/* Sends as much as the socket takes. False: the client is gone. */
static bool client_flush(struct client *c)
{
	while (c->out_sent < c->out_bytes) {
		ssize_t sent =
			send(c->fd, c->out + c->out_sent, c->out_bytes - c->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN;
		c->out_sent += (size_t)sent;
		c->active_ms = clock_now_ms();
	}
	free(c->out);
	c->out = NULL;
	c->out_bytes = c->out_sent = 0;
	return !c->closing;
}

/* False: the client is gone. */
static bool client_read(struct client *c)
{
	ssize_t got = recv(c->fd, c->in + c->in_bytes, sizeof(c->in) - c->in_bytes, MSG_DONTWAIT);

	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	c->in_bytes += (size_t)got;
	return got > 0;
}

/* One step: at most one request or one piece of a listing, so that all clients get their turn. */
static bool client_step(struct client *c, uint32_t events)
{
	if (c->out_bytes)
		return client_flush(c);
	if (c->listing.active) {
		client_list(c);
		return client_flush(c);
	}
	/* A line may have come together with the last one. */
	if (!client_request(c)) {
		if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
			return true;
		if (!client_read(c))
			return false;
		client_request(c);
	}
	return client_flush(c);
}

static bool client_has_more(const struct client *c)
{
	return c->out_bytes || c->listing.active || memchr(c->in, '\n', c->in_bytes);
}

static int on_client(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct client *c = context;

	(void)fd;
	if (!client_step(c, events) ||
	    sd_event_source_set_io_events(source, client_has_more(c) ? EPOLLOUT : EPOLLIN) < 0)
		client_close(c);
	return 0;
}

static void refuse(int fd, const char *text)
{
	char line[200];
	int bytes = snprintf(line, sizeof(line), "{\"error\":\"%s\"}\n", text);
	ssize_t sent = send(fd, line, (size_t)bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

	(void)sent; /* the client is closed either way */
	close(fd);
}

/*
 * This process has no descriptor for a client that waits. The spare descriptor serves to tell the client; without it,
 * the listener rests until the next tick, because the loop would run without a pause.
 */
static void refuse_without_descriptor(struct control *control, int listen_fd, int error)
{
	uint64_t held_back;
	int fd = -1;

	if (log_allowed(&control->full_log, clock_now_ms(), CONTROL_LOG_MS, &held_back))
		log_warning("cannot accept a client of the control socket: %s (raise LimitNOFILE= in dprd's unit)",
			    strerror(error));
	if (control->spare_fd >= 0) {
		close(control->spare_fd);
		fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	}
	if (fd >= 0)
		refuse(fd, "dprd has no file descriptor left (raise LimitNOFILE= in its unit)");
	control->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		sd_event_source_set_enabled(control->listener, SD_EVENT_OFF);
}

/*
 * A free place for a client. When all are taken, the client that has been silent for longest makes room, so that idle
 * ones never keep an operator out. NULL: all clients are waiting for an answer.
 */
static struct client *client_place(struct control *control)
{
	uint64_t now_ms = clock_now_ms();
	struct client *oldest = NULL;
	unsigned i;

	for (i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		struct client *c = &control->clients[i];

		if (!c->source)
			return c;
		if (client_has_more(c) && now_ms - c->active_ms < CONTROL_DEAF_MS)
			continue;
		if (!oldest || c->active_ms < oldest->active_ms)
			oldest = c;
	}
	if (oldest)
		client_close(oldest);
	return oldest;
}

static int on_connect(sd_event_source *source, int listen_fd, uint32_t events, void *context)
{
	struct control *control = context;
	int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t bytes = sizeof(peer);
	struct client *c;

	(void)source;
	(void)events;
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			refuse_without_descriptor(control, listen_fd, errno);
		return 0;
	}
	c = client_place(control);
	if (!c) {
		refuse(fd, "too many clients");
		return 0;
	}
	*c = (struct client) { .control = control, .fd = fd, .active_ms = clock_now_ms() };
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0)
		c->may_change = peer.uid == 0 || peer.uid == geteuid();
	if (sd_event_add_io(control->d->event, &c->source, fd, EPOLLIN, on_client, c) < 0) {
		close(fd);
		return 0;
	}
	sd_event_source_set_io_fd_own(c->source, true);
	return 0;
}

static void watch_firewall(struct control *control, bool minute)
{
	struct control_recent *recent = &control->recent;
	struct rules_counts counts;
	bool known = control_outside_counts(control->d, &counts) == 0;

	if (!known)
		counts = (struct rules_counts) { .strangers = -1, .undecided = -1 };
	if (minute) {
		recent->strangers_recent =
			known && control->strangers_before >= 0 ? counts.strangers - control->strangers_before : 0;
		control->strangers_before = counts.strangers;
	}
	recent->strangers = counts.strangers;
	recent->undecided = counts.undecided;
	if (counts.undecided >= 0)
		flood_passed(&control->d->flood, (uint64_t)counts.undecided, control->d->config.max_new_flows_per_s,
			     clock_now_ms());
}

static void watch_counters(struct control *control)
{
	struct dprd *d = control->d;
	uint64_t *slot = &control->overruns[control->seconds % CONTROL_RECENT_S], now;
	bool minute = control->seconds % CONTROL_FIREWALL_S == 0;

	mutex_lock(&d->lock);
	now = d->counters.queue_overruns;
	mutex_unlock(&d->lock);
	control->recent.overruns = now - *slot;
	*slot = now;
	if (minute || (control_passes_flood(d) && control->seconds % CONTROL_FLOOD_S == 0))
		watch_firewall(control, minute);
	control->seconds++;
}

static int on_timer(sd_event_source *source, uint64_t at_us, void *context)
{
	struct control *control = context;
	uint64_t now_ms = clock_now_ms();
	unsigned i;

	(void)at_us;
	for (i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		struct client *c = &control->clients[i];

		if (c->source && now_ms - c->active_ms >= CONTROL_IDLE_MS)
			client_close(c);
	}
	/* It rests while there is no descriptor for a client. */
	sd_event_source_set_enabled(control->listener, SD_EVENT_ON);
	watch_counters(control);
	sd_event_source_set_time_relative(source, (uint64_t)CONTROL_TICK_MS * 1000);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* Sets the mode before listen(2), so that no client gets in by the default mode. */
static int open_socket(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(address.sun_path)) {
		log_err("%s: the path is too long for a socket; shorten [Run] Directory=", path);
		return -ENAMETOOLONG;
	}
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && (unlink(path) == 0 || errno == ENOENT) &&
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && chmod(path, 0660) == 0 &&
	    listen(fd, CONTROL_BACKLOG) == 0)
		return fd;
	log_err("%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -EIO;
}

int control_open(struct dprd *d, struct control **ret)
{
	struct control *control = calloc(1, sizeof(*control));
	unsigned i;
	int fd, error;

	if (!control)
		return -ENOMEM;
	control->d = d;
	control->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	control->recent.strangers = control->recent.undecided = control->strangers_before = -1;
	for (i = 0; i < CONTROL_RECENT_S; i++)
		control->overruns[i] = d->counters.queue_overruns;
	snprintf(control->path, sizeof(control->path), "%s/control", d->config.run_dir);
	fd = open_socket(control->path);
	if (fd < 0) {
		if (control->spare_fd >= 0)
			close(control->spare_fd);
		free(control);
		return fd;
	}
	error = sd_event_add_io(d->event, &control->listener, fd, EPOLLIN, on_connect, control);
	if (error >= 0)
		error = sd_event_source_set_io_fd_own(control->listener, true);
	else
		close(fd);
	if (error >= 0)
		error = sd_event_add_time_relative(d->event, &control->timer, CLOCK_BOOTTIME,
						   (uint64_t)CONTROL_TICK_MS * 1000, 0, on_timer, control);
	if (error < 0) {
		log_err("%s: %s", control->path, strerror(-error));
		control_close(control);
		return error;
	}
	*ret = control;
	return 0;
}

void control_close(struct control *control)
{
	unsigned i;

	if (!control)
		return;
	for (i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		if (control->clients[i].source)
			client_close(&control->clients[i]);
	}
	unlink(control->path);
	sd_event_source_disable_unref(control->timer);
	sd_event_source_disable_unref(control->listener);
	if (control->spare_fd >= 0)
		close(control->spare_fd);
	free(control);
}
