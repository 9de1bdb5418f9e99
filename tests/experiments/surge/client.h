/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * client.h - user equivalents and their connections, driven by one epoll loop.
 *
 * A user takes his pages from the plan, one after another. He has one lane or several; a lane fetches one file
 * (pipelined: several) at a time over a connection of its own. client.c decides the next step of a user, lane.c handles
 * connections. Nothing here calls back from within a call: a wake begins whatever follows an end, so a page of 150
 * refused files makes no deep stack.
 */
#ifndef TESTS_EXPERIMENTS_SURGE_CLIENT_H
#define TESTS_EXPERIMENTS_SURGE_CLIENT_H

#include "tests/experiments/surge/http.h"
#include "tests/experiments/surge/measure.h"
#include "tests/experiments/surge/objects.h"
#include "tests/experiments/surge/options.h"
#include "tests/experiments/surge/resolve.h"
#include "tests/experiments/surge/sequence.h"
#include "tests/lab/wakeheap.h"

enum { RECEIVE_BYTES = 65536, READS_AT_ONCE = 16, REQUEST_BYTES = 1024 };

enum lane_wake { WAKE_PAGE, WAKE_FETCH, WAKE_TIMEOUT };

enum lane_connection { CLOSED, RESOLVING, CONNECTING, OPEN };

struct user {
	unsigned number;
	const struct server *server;
	struct lane *lanes; /* options->lanes of them */
	uint32_t page, page_end; /* steps of the plan */
	uint32_t taken; /* the first step of the page that no lane has */
	uint32_t finished; /* how many of the page */
};

struct lane {
	struct wake wake; /* first, so that a wake is its lane */
	enum lane_wake on_wake;
	struct user *user;
	struct name *name; /* shared with a group, with the user's other lanes, or its own */

	/* The steps of the plan that are being fetched, or will be at the wake. */
	uint32_t first, left;
	bool is_fetching, has_started; /* has_started: start_us is the one to be reported */
	uint64_t start_us, first_byte_us;
	uint64_t excess_bytes; /* beyond the length that the server said */
	struct http_answer answer;

	enum lane_connection connection;
	int fd;
	struct addresses addresses;
	unsigned address; /* the next to be tried; the one in use is the one before */
	unsigned answers, pages; /* of this connection */
	uint64_t connect_us, connected_us; /* connected_us: 0 on a kept connection */
	char *unsent; /* requests that did not fit into the socket */
	size_t unsent_bytes, unsent_at;
	struct lane *next_waiting;
};

struct client {
	const struct options *options;
	const struct file_set *set;
	const struct plan *plan;
	struct measures measures;
	struct resolver *resolver;
	int epoll_fd, signal_fd;
	struct user *users;
	struct lane *lanes;
	struct name *names;
	unsigned name_count;
	struct wake_heap heap;
	uint64_t now_us;
	bool asked_to_end;
	char *receive; /* RECEIVE_BYTES */
};

/* client.c */

/*
 * Runs the users. Returns 0 with complete measures, which belong to the caller (measures_close()); or a status after a
 * message.
 */
int client_run(struct client *client, const struct options *options, const struct file_set *set,
	       const struct plan *plan);
void lane_wake_at(struct client *client, struct lane *lane, enum lane_wake why, uint64_t at_us);
void lane_wake_never(struct client *client, struct lane *lane);
/* A lane has nothing left to fetch: begins the user's next step. */
void user_lane_done(struct client *client, struct lane *lane);

/* lane.c */

/* Fetches the lane's steps: over the connection if there is one. */
void lane_fetch(struct client *client, struct lane *lane);
void lane_event(struct client *client, struct lane *lane, uint32_t events);
void lane_timeout(struct client *client, struct lane *lane);
/* The lane's name is known, or cannot be found. */
void lane_resolved(struct client *client, struct lane *lane);
void lane_close(struct client *client, struct lane *lane);
/* The run is over: transfers under way are logged as censored. */
void lane_censor(struct client *client, struct lane *lane);

/* lane_io.c */

/* Sends the requests of all remaining steps. False when the connection is broken. */
bool lane_send(struct client *client, struct lane *lane);
/* Goes on with the bytes that did not fit. */
bool lane_flush(struct client *client, struct lane *lane);

#endif
