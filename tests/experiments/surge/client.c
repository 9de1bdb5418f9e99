// SPDX-License-Identifier: GPL-2.0-or-later
/* client.c - the next steps of users, and the loop that runs them. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "tests/experiments/surge/client.h"
#include "tests/experiments/surge/report.h"

enum { EVENTS = 256, SPARE_FILES = 64 };

static uint64_t clock_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void lane_wake_at(struct client *client, struct lane *lane, enum lane_wake why, uint64_t at_us)
{
	lane->on_wake = why;
	wake_at(&client->heap, &lane->wake, at_us);
}

void lane_wake_never(struct client *client, struct lane *lane)
{
	wake_at(&client->heap, &lane->wake, UINT64_MAX);
}

static const struct step *step_of(const struct client *client, const struct user *user, uint32_t step)
{
	return &client->plan->of[user->number].steps[step];
}

/* Embedded files begin: one for each lane; pipelined all of them on the first. */
static void begin_embedded(struct client *client, struct user *user, uint64_t at_us)
{
	const bool is_pipelined = client->options->http == MODE_PIPELINED;

	for (unsigned i = 0; i < client->options->lanes && user->taken < user->page_end; i++) {
		struct lane *lane = &user->lanes[i];

		lane->first = user->taken;
		lane->left = is_pipelined ? user->page_end - user->taken : 1;
		user->taken += lane->left;
		lane_wake_at(client, lane, WAKE_FETCH, at_us);
	}
}

/* The inactive OFF time begins; connections that have served enough pages are closed. */
static void end_page(struct client *client, struct user *user)
{
	const unsigned most = client->options->connection_pages;

	for (unsigned i = 0; i < client->options->lanes; i++) {
		struct lane *lane = &user->lanes[i];

		if (lane->connection == OPEN && most && ++lane->pages >= most)
			lane_close(client, lane);
	}
	lane_wake_at(client, &user->lanes[0], WAKE_PAGE,
		     client->now_us + step_of(client, user, user->page_end - 1)->pause_us);
}

void user_lane_done(struct client *client, struct lane *lane)
{
	struct user *user = lane->user;
	const uint64_t at_us = client->now_us + step_of(client, user, lane->first - 1)->pause_us;

	if (user->finished == user->page_end - user->page) {
		end_page(client, user);
	} else if (user->finished == 1) {
		begin_embedded(client, user, at_us);
	} else if (user->taken < user->page_end) {
		lane->first = user->taken++;
		lane->left = 1;
		lane_wake_at(client, lane, WAKE_FETCH, at_us);
	}
}

static void begin_page(struct client *client, struct user *user)
{
	const struct user_plan *plan = &client->plan->of[user->number];
	struct lane *lane = &user->lanes[0];

	user->page = user->page_end;
	/* The plan is long enough for a server that answers in no time: this is the end of the run. */
	if (user->page == plan->count) {
		lane_wake_never(client, lane);
		return;
	}
	while (!plan->steps[user->page_end++].is_last_of_page)
		;
	user->taken = user->page + 1;
	user->finished = 0;
	if (client->options->resolve == RESOLVE_OBJECT && lane->name->state == NAME_KNOWN)
		lane->name->state = NAME_UNKNOWN;
	lane->first = user->page;
	lane->left = 1;
	lane_fetch(client, lane);
}

static void wake_lane(struct client *client, struct lane *lane)
{
	const uint64_t due_us = lane->wake.at_us;

	lane_wake_never(client, lane);
	if (lane->on_wake == WAKE_TIMEOUT) {
		lane_timeout(client, lane);
		return;
	}
	measures_woke(&client->measures, due_us, client->now_us);
	if (lane->on_wake == WAKE_PAGE)
		begin_page(client, lane->user);
	else
		lane_fetch(client, lane);
}

static void take_answers(struct client *client)
{
	struct name *name;

	while ((name = resolver_answer(client->resolver)) != NULL) {
		struct lane *lane = name->waiting;

		name->waiting = NULL;
		measures_looked_up(&client->measures, client->now_us - name->asked_us, name->state == NAME_KNOWN,
				   client->now_us);
		while (lane) {
			struct lane *next = lane->next_waiting;

			lane_resolved(client, lane);
			lane = next;
		}
	}
}

/* Names are shared by a group of users and their server, by the lanes of a user, or not at all. */
static bool give_names(struct client *client)
{
	const struct options *options = client->options;
	const unsigned lanes = options->users * options->lanes;
	const unsigned groups = (options->users + options->group - 1) / options->group;

	client->name_count = options->resolve == RESOLVE_ONCE     ? groups * options->server_count
			     : options->resolve == RESOLVE_OBJECT ? options->users
								  : lanes;
	client->names = calloc(client->name_count, sizeof(*client->names));
	for (unsigned i = 0; client->names && i < lanes; i++) {
		const unsigned user = i / options->lanes, which = options->shares[user % options->share_count];
		struct name *name = &client->names[options->resolve == RESOLVE_ONCE
							   ? user / options->group * options->server_count + which
						   : options->resolve == RESOLVE_OBJECT ? user
											: i];

		name->host = options->servers[which].host;
		name->port = options->servers[which].port;
		client->lanes[i].name = name;
	}
	return client->names != NULL;
}

static bool make_users(struct client *client)
{
	const struct options *options = client->options;
	const unsigned lanes = options->users * options->lanes;

	client->users = calloc(options->users, sizeof(*client->users));
	client->lanes = calloc(lanes, sizeof(*client->lanes));
	client->heap.all = calloc(lanes, sizeof(struct wake *));
	client->receive = malloc(RECEIVE_BYTES);
	if (!client->users || !client->lanes || !client->heap.all || !client->receive || !give_names(client))
		return false;
	for (unsigned i = 0; i < lanes; i++) {
		struct lane *lane = &client->lanes[i];
		struct user *user = &client->users[i / options->lanes];
		const double late_s = options->stagger_s * (i / options->lanes % options->group);

		lane->fd = -1;
		lane->user = user;
		lane->on_wake = WAKE_PAGE;
		lane->wake.at_us = UINT64_MAX;
		if (i % options->lanes == 0) {
			user->number = i / options->lanes;
			user->server = &options->servers[options->shares[user->number % options->share_count]];
			user->lanes = lane;
			lane->wake.at_us = client->now_us + (uint64_t)llround(late_s * 1e6);
		}
		wake_add(&client->heap, &lane->wake);
	}
	return true;
}

static bool watch(const struct client *client, int fd, void *who)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = who };

	return fd >= 0 && epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool open_loop(struct client *client)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	client->signal_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
	client->resolver = resolver_new(client->options->family);
	return client->epoll_fd >= 0 && client->resolver && watch(client, client->signal_fd, &client->signal_fd) &&
	       watch(client, resolver_fd(client->resolver), client->resolver);
}

/* Every lane may have a connection. */
static int raise_file_limit(const struct options *options)
{
	const rlim_t wanted = (rlim_t)options->users * options->lanes + SPARE_FILES;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted)
		return 0;
	if (limit.rlim_max < wanted) {
		fprintf(stderr,
			"surge run: %u users need %llu open files, the limit is %llu. Raise it: ulimit -Hn %llu\n",
			options->users, (unsigned long long)wanted, (unsigned long long)limit.rlim_max,
			(unsigned long long)wanted);
		return STATUS_FAILED;
	}
	limit.rlim_cur = wanted;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0) {
		fprintf(stderr, "surge run: cannot raise the limit of open files: %s\n", strerror(errno));
		return STATUS_FAILED;
	}
	return 0;
}

static void run_wakes(struct client *client)
{
	while (client->heap.all[0]->at_us <= client->now_us)
		wake_lane(client, (struct lane *)client->heap.all[0]);
}

static int wait_ms(const struct client *client, uint64_t tick_us)
{
	uint64_t until_us = client->measures.until_us < tick_us ? client->measures.until_us : tick_us;
	const uint64_t now_us = clock_now_us();

	if (client->heap.all[0]->at_us < until_us)
		until_us = client->heap.all[0]->at_us;
	return until_us <= now_us ? 0 : (int)((until_us - now_us + 999) / 1000);
}

static bool one_turn(struct client *client, uint64_t tick_us)
{
	struct epoll_event events[EVENTS];
	const int count = epoll_wait(client->epoll_fd, events, EVENTS, wait_ms(client, tick_us));

	if (count < 0 && errno != EINTR)
		return false;
	client->now_us = clock_now_us();
	/* Answers that came in too late are censored. */
	if (client->now_us >= client->measures.until_us)
		return true;
	for (int i = 0; i < count; i++) {
		void *who = events[i].data.ptr;

		if (who == &client->signal_fd)
			client->asked_to_end = true;
		else if (who == client->resolver)
			take_answers(client);
		else
			lane_event(client, who, events[i].events);
	}
	run_wakes(client);
	return true;
}

static bool loop(struct client *client)
{
	const struct options *options = client->options;
	const bool is_terminal = isatty(STDERR_FILENO), shows = options->progress || is_terminal;
	uint64_t tick_us = client->measures.start_us + 1000000;

	while (client->now_us < client->measures.until_us && !client->asked_to_end) {
		if (!one_turn(client, tick_us)) {
			fprintf(stderr, "surge run: epoll_wait: %s\n", strerror(errno));
			return false;
		}
		for (; tick_us <= client->now_us; tick_us += 1000000)
			if (shows)
				report_progress(&client->measures, options, tick_us, is_terminal);
	}
	if (is_terminal)
		fputc('\n', stderr);
	if (client->now_us > client->measures.until_us)
		client->now_us = client->measures.until_us;
	measures_stop(&client->measures, client->now_us);
	return true;
}

/* Names that the resolver's threads still read are left to the end of the process. */
static void free_all(struct client *client)
{
	for (unsigned i = 0; client->lanes && i < client->options->users * client->options->lanes; i++)
		lane_censor(client, &client->lanes[i]);
	if (!client->resolver || !resolver_under_way(client->resolver))
		free(client->names);
	resolver_free(client->resolver);
	if (client->signal_fd >= 0)
		close(client->signal_fd);
	if (client->epoll_fd >= 0)
		close(client->epoll_fd);
	free(client->receive);
	free((void *)client->heap.all);
	free(client->lanes);
	free(client->users);
}

int client_run(struct client *client, const struct options *options, const struct file_set *set,
	       const struct plan *plan)
{
	int status = raise_file_limit(options);

	memset(client, 0, sizeof(*client));
	client->options = options;
	client->set = set;
	client->plan = plan;
	client->epoll_fd = client->signal_fd = -1;
	client->now_us = clock_now_us();
	if (!status)
		status = measures_open(&client->measures, options, client->now_us);
	if (status)
		return status;
	if (!make_users(client) || !open_loop(client)) {
		fprintf(stderr, "surge run: cannot begin: %s\n", strerror(errno));
		status = STATUS_FAILED;
	} else if (!loop(client)) {
		status = STATUS_FAILED;
	}
	free_all(client);
	if (status)
		measures_close(&client->measures, options);
	return status;
}
