/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * connections.h - ends connections that bring a byte now and then, but no request.
 *
 * The HTTP server closes silent connections by itself. One that is never silent would keep its place for ever, and with
 * all places taken so nobody could look.
 */
#ifndef DPRD_WEB_CONNECTIONS_H
#define DPRD_WEB_CONNECTIONS_H

#include <pthread.h>
#include <stdint.h>

enum { CONNECTIONS_MAX = 128, CONNECTION_REQUEST_MS = 20000 };

struct connection_slot {
	int fd; /* -1: free */
	uint64_t since_ms; /* when it began, or brought its last request */
};

struct connections {
	pthread_mutex_t lock;
	struct connection_slot slot[CONNECTIONS_MAX];
};

void connections_init(struct connections *all);
/* NULL when there is no place. connection_end() comes before the descriptor is closed. */
struct connection_slot *connection_begin(struct connections *all, int fd, uint64_t now_ms);
void connection_asked(struct connections *all, struct connection_slot *slot, uint64_t now_ms);
void connection_end(struct connections *all, struct connection_slot *slot);
/* Shuts down those that brought no request for CONNECTION_REQUEST_MS; returns their number. */
unsigned connections_sweep(struct connections *all, uint64_t now_ms);

#endif
