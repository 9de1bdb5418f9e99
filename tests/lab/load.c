// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * load - a closed loop of users who ask a cluster for files and check every byte.
 *
 * A user thinks (exponential), asks for a file over a connection of its own (HTTP/1.0, read to the end), compares
 * length and CRC-32 with the list, and thinks again. Delay: from before connect() to the end of the answer. Each user
 * draws from its own stream, so users of the same number request the same files after the same thoughts, whatever the
 * cluster does.
 *
 * Users come in groups that resolve the name once (as behind a caching resolver) and stay with the
 * first address; or, with --resolve per-connection, each connection asks the resolver.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <netdb.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/lab/fileset.h"
#include "tests/lab/loadstats.h"
#include "tests/lab/wakeheap.h"

enum { EVENTS = 512, HEAD_BYTES = 1024, NODE_BYTES = 16, USERS_MAX = 200000, RESOLVE_TRIES = 8 };

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct group {
	unsigned share; /* its share of the users */
	unsigned users;
	union address address;
	char text[INET6_ADDRSTRLEN];
	struct tally tally;
};

enum phase { THINKING, CONNECTING, READING, RETIRED };

struct user {
	struct wake wake; /* end of the thought, or the time-out of the request */
	enum phase phase;
	int fd;
	uint64_t random;
	unsigned group;
	const struct file *file;
	union address to;
	uint64_t start_us;
	uint64_t received; /* bytes of the body */
	uint32_t crc;
	unsigned head_used;
	bool head_done;
	char head[HEAD_BYTES];
};

static struct {
	unsigned users, group_count;
	uint64_t seed;
	double seconds, warmup_s, think_ms, timeout_s, drain_s;
	const char *name, *port, *path, *json, *log;
	int family;
	bool per_connection, progress;
	struct fileset set;
	struct group groups[GROUPS_MAX];
} run = { .users = 100,
	  .group_count = 1,
	  .seed = 1,
	  .seconds = 10,
	  .think_ms = 2000,
	  .timeout_s = 60,
	  .name = "www.example.test",
	  .port = "80",
	  .family = AF_UNSPEC,
	  .groups = { { .share = 1 } } };

static struct user *users;
static struct wake_heap heap; /* of all users */
static struct tally all, second; /* second: of the progress line */
static int epoll_fd;
static unsigned in_flight;
static bool measuring, stopping;
static FILE *log_file;
static volatile sig_atomic_t asked_to_end;

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000;
}

static void die(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void user_think(struct user *user, uint64_t now)
{
	user->phase = stopping ? RETIRED : THINKING;
	wake_at(&heap, &user->wake,
		stopping ? UINT64_MAX : now + (uint64_t)(-log(1 - random_unit(&user->random)) * run.think_ms * 1000));
}

/* ---- addresses ---- */

static void address_text(const union address *address, char text[INET6_ADDRSTRLEN])
{
	const void *bytes = address->any.sa_family == AF_INET ? (const void *)&address->v4.sin_addr
							      : (const void *)&address->v6.sin6_addr;

	if (!inet_ntop(address->any.sa_family, bytes, text, INET6_ADDRSTRLEN))
		snprintf(text, INET6_ADDRSTRLEN, "-");
}

static bool resolve(union address *ret)
{
	struct addrinfo hints = { .ai_family = run.family, .ai_socktype = SOCK_STREAM }, *list = NULL;
	int error = getaddrinfo(run.name, run.port, &hints, &list);

	if (error) {
		fprintf(stderr, "load: %s: %s\n", run.name, gai_strerror(error));
		return false;
	}
	memcpy(ret, list->ai_addr, list->ai_addrlen);
	freeaddrinfo(list);
	return true;
}

/* Asks the resolver once more when another group already has this answer: groups stand for different resolvers. */
static bool group_resolve(unsigned number)
{
	struct group *group = &run.groups[number];
	bool taken = true;

	for (int i = 0; i < RESOLVE_TRIES && taken; i++) {
		if (!resolve(&group->address))
			return false;
		address_text(&group->address, group->text);
		taken = false;
		for (unsigned j = 0; j < number; j++)
			taken |= strcmp(run.groups[j].text, group->text) == 0;
	}
	return true;
}

/* ---- one request ---- */

static const char *header_value(const struct user *user, const char *name)
{
	const char *at = strcasestr(user->head, name);

	return at ? at + strlen(name) + strspn(at + strlen(name), ": ") : NULL;
}

static void log_request(const struct user *user, uint64_t now, enum outcome outcome)
{
	union address from = { 0 };
	socklen_t length = sizeof(from);
	char to_text[INET6_ADDRSTRLEN] = "-", from_text[INET6_ADDRSTRLEN] = "-", node[NODE_BYTES] = "-";
	const char *value = header_value(user, "\nX-Node");

	address_text(&user->to, to_text);
	if (user->fd >= 0 && !getsockname(user->fd, &from.any, &length))
		address_text(&from, from_text);
	if (value)
		snprintf(node, sizeof(node), "%.*s", (int)strcspn(value, "\r\n"), value);
	fprintf(log_file, "%.6f %.6f %lu %s %s %s %u %s %s\n", (double)user->start_us / 1e6, (double)now / 1e6,
		user->received, outcome_names[outcome], to_text, from_text, ntohs(from.v4.sin_port), node,
		user->file->path);
}

static void request_end(struct user *user, enum outcome outcome)
{
	struct tally *group = &run.groups[user->group].tally;
	uint64_t now = now_us();
	double delay_ms = (double)(now - user->start_us) / 1000;

	if (log_file)
		log_request(user, now, outcome);
	if (user->fd >= 0)
		close(user->fd);
	user->fd = -1;
	in_flight--;
	if (outcome == DONE) {
		tally_done(&second, delay_ms, user->received);
		if (measuring) {
			tally_done(&all, delay_ms, user->received);
			tally_done(group, delay_ms, user->received);
		}
	} else {
		all.errors[outcome]++;
		group->errors[outcome]++;
	}
	user_think(user, now);
}

static enum outcome outcome_of(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return REFUSED;
	case ECONNRESET:
	case EPIPE:
	case ECONNABORTED:
		return RESET;
	case EHOSTUNREACH:
	case ENETUNREACH:
		return UNREACHABLE;
	case ETIMEDOUT:
		return TIMEOUT;
	default:
		return OTHER;
	}
}

static void request_start(struct user *user, uint64_t now)
{
	struct epoll_event event = { .events = EPOLLOUT | EPOLLIN | EPOLLET, .data.ptr = user };

	user->file = run.path ? &run.set.files[0] : fileset_draw(&run.set, random_unit(&user->random));
	user->received = user->crc = user->head_used = 0;
	user->head_done = false;
	user->head[0] = '\0';
	user->fd = -1;
	user->phase = CONNECTING;
	user->to = run.groups[user->group].address;
	in_flight++;
	user->start_us = now_us();
	if (run.per_connection) {
		if (!resolve(&user->to)) {
			request_end(user, RESOLVE);
			return;
		}
		user->start_us = now_us();
	}
	wake_at(&heap, &user->wake, now + (uint64_t)(run.timeout_s * 1e6));
	user->fd = socket(user->to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (user->fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, user->fd, &event))
		request_end(user, OTHER);
	else if (connect(user->fd, &user->to.any,
			 user->to.any.sa_family == AF_INET ? sizeof(user->to.v4) : sizeof(user->to.v6)) &&
		 errno != EINPROGRESS)
		request_end(user, outcome_of(errno));
}

static void request_send(struct user *user)
{
	char text[FILE_PATH_BYTES + 300];
	int length =
		snprintf(text, sizeof(text), "GET %s HTTP/1.0\r\nHost: %.200s\r\n\r\n", user->file->path, run.name);
	ssize_t bytes = send(user->fd, text, (size_t)length, MSG_NOSIGNAL);

	if (bytes == length)
		user->phase = READING;
	else
		request_end(user, bytes < 0 ? outcome_of(errno) : OTHER);
}

static enum outcome request_judge(const struct user *user)
{
	const char *length = header_value(user, "\nContent-Length");

	if (!user->head_done)
		return SHORT;
	if (strncmp(user->head, "HTTP/1.", 7) != 0 || strncmp(user->head + 8, " 200", 4) != 0)
		return STATUS;
	if (run.path)
		return length && strtoull(length, NULL, 10) > user->received ? SHORT : DONE;
	if (user->received < user->file->size_bytes)
		return SHORT;
	return user->received == user->file->size_bytes && user->crc == user->file->crc ? DONE : CORRUPT;
}

static void take_body(struct user *user, const char *bytes, size_t count)
{
	user->received += count;
	user->crc = crc32_add(user->crc, bytes, count);
}

/* Collects the head in user->head; the bytes behind it are body. False: the answer is not HTTP. */
static bool take_head(struct user *user, const char *bytes, size_t count)
{
	unsigned before = user->head_used;
	size_t taken = count < HEAD_BYTES - 1 - before ? count : HEAD_BYTES - 1 - before;
	const char *end;

	memcpy(user->head + before, bytes, taken);
	user->head_used += (unsigned)taken;
	user->head[user->head_used] = '\0';
	end = strstr(user->head, "\r\n\r\n");
	if (!end)
		return user->head_used < HEAD_BYTES - 1;
	user->head_done = true;
	taken = (size_t)(end + 4 - user->head) - before;
	user->head[end + 2 - user->head] = '\0';
	take_body(user, bytes + taken, count - taken);
	return true;
}

static void request_read(struct user *user)
{
	static char bytes[65536];

	for (;;) {
		ssize_t count = recv(user->fd, bytes, sizeof(bytes), 0);

		if (count < 0) {
			if (errno != EAGAIN)
				request_end(user, outcome_of(errno));
			return;
		}
		if (count == 0) {
			request_end(user, request_judge(user));
			return;
		}
		if (user->head_done) {
			take_body(user, bytes, (size_t)count);
		} else if (!take_head(user, bytes, (size_t)count)) {
			request_end(user, CORRUPT);
			return;
		}
	}
}

static void user_event(struct user *user, uint32_t events)
{
	int error = 0;
	socklen_t length = sizeof(error);

	if (user->phase == CONNECTING && events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) {
		getsockopt(user->fd, SOL_SOCKET, SO_ERROR, &error, &length);
		if (error) {
			request_end(user, outcome_of(error));
			return;
		}
		request_send(user);
	}
	if (user->phase == READING)
		request_read(user);
}

static void user_wake(struct user *user, uint64_t now)
{
	if (user->phase == THINKING && stopping)
		user_think(user, now);
	else if (user->phase == THINKING)
		request_start(user, now);
	else if (user->phase != RETIRED)
		request_end(user, TIMEOUT);
}

/* ---- the whole ---- */

static void print_progress(double elapsed_s)
{
	printf("{\"second\": %.0f, \"completed\": %lu, \"mean_ms\": %.1f, \"in_flight\": %u, \"errors\": %lu}\n",
	       elapsed_s, second.completed, second.completed ? second.delay_sum_ms / (double)second.completed : 0.0,
	       in_flight, tally_errors(&all));
	fflush(stdout);
	free(second.delays_ms);
	memset(&second, 0, sizeof(second));
}

/* Serves events and wakes users until this time or, when no user may start any more, until all have ended. */
static void loop_until(uint64_t begin_us, uint64_t end_us)
{
	struct epoll_event events[EVENTS];
	uint64_t now = now_us(), tick_us = begin_us + ((now - begin_us) / 1000000 + 1) * 1000000;

	while (now < end_us && !asked_to_end && !(stopping && !in_flight)) {
		uint64_t next = heap.all[0]->at_us < end_us ? heap.all[0]->at_us : end_us;
		int count;

		next = next < tick_us ? next : tick_us;
		count = epoll_wait(epoll_fd, events, EVENTS, next > now ? (int)((next - now + 999) / 1000) : 0);
		for (int i = 0; i < count; i++)
			user_event(events[i].data.ptr, events[i].events);
		now = now_us();
		while (heap.all[0]->at_us <= now)
			user_wake((struct user *)heap.all[0], now);
		if (now >= tick_us) {
			if (run.progress)
				print_progress((double)(tick_us - begin_us) / 1e6);
			tick_us += 1000000;
		}
	}
}

static void users_make(void)
{
	unsigned shares = 0, first = 0, sum = 0;

	users = calloc(run.users, sizeof(*users));
	heap.all = calloc(run.users, sizeof(*heap.all));
	if (!users || !heap.all)
		die("memory");
	for (unsigned g = 0; g < run.group_count; g++)
		shares += run.groups[g].share;
	for (unsigned g = 0; g < run.group_count; g++) {
		sum += run.groups[g].share;
		for (; first < (uint64_t)run.users * sum / shares; first++)
			users[first].group = g, run.groups[g].users++;
	}
	for (unsigned i = 0; i < run.users; i++) {
		users[i].fd = -1;
		users[i].random = run.seed * 0x100000001b3u + i;
		random_next(&users[i].random);
		users[i].random = random_next(&users[i].random);
		wake_add(&heap, &users[i].wake);
		user_think(&users[i], now_us());
	}
}

static json_t *result_json(double seconds, unsigned in_flight_at_end)
{
	json_t *result = tally_json(&all, seconds), *groups = json_array();

	for (unsigned g = 0; g < run.group_count; g++) {
		json_t *group = tally_json(&run.groups[g].tally, seconds);

		json_object_set_new(group, "address", json_string(run.per_connection ? "" : run.groups[g].text));
		json_object_set_new(group, "users", json_integer(run.groups[g].users));
		json_array_append_new(groups, group);
	}
	json_object_set_new(result, "users", json_integer(run.users));
	json_object_set_new(result, "seconds", json_real(seconds));
	json_object_set_new(result, "in_flight_at_end", json_integer(in_flight_at_end));
	json_object_set_new(result, "unfinished", json_integer(in_flight));
	json_object_set_new(result, "groups", groups);
	return result;
}

static void on_signal(int number)
{
	(void)number;
	asked_to_end = 1;
}

#include "tests/lab/loadoptions.h"

int main(int argc, char **argv)
{
	struct rlimit files = { USERS_MAX + 64, USERS_MAX + 64 };
	uint64_t begin, from, until;
	unsigned in_flight_at_end;
	json_t *result;

	if (!options_read(argc, argv))
		return 2;
	setrlimit(RLIMIT_NOFILE, &files);
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	for (unsigned g = 0; g < run.group_count && !run.per_connection; g++)
		if (!group_resolve(g))
			return 1;
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		die("epoll");
	begin = now_us();
	users_make();
	loop_until(begin, begin + (uint64_t)(run.warmup_s * 1e6));
	measuring = true;
	from = now_us();
	loop_until(begin, from + (uint64_t)(run.seconds * 1e6));
	until = now_us();
	measuring = false;
	stopping = true;
	in_flight_at_end = in_flight;
	loop_until(begin, until + (uint64_t)(run.drain_s * 1e6));
	if (log_file && fclose(log_file))
		die(run.log);
	result = result_json((double)(until - from) / 1e6, in_flight_at_end);
	if (!result ||
	    (run.json ? json_dump_file(result, run.json, JSON_INDENT(1)) : json_dumpf(result, stdout, JSON_INDENT(1))))
		die("result");
	return 0;
}
