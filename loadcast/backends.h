/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backends.h - the web servers that serve for this node, its own and the real servers behind it: each is probed
 * (health.h); what is found goes into the load table, and decides whether the node wants connections.
 *
 * With ServeHere=no nobody asks the own web server, and it counts for nothing. Every change of a server is
 * logged once, here.
 */
#ifndef LOADCAST_BACKENDS_H
#define LOADCAST_BACKENDS_H

#include <poll.h>

#include "loadcast/load.h"

enum { BACKENDS_SOCKETS = 1 + OWN_BACKENDS_MAX };

struct server_probes;

/* All are believed to be good until their first result. The configuration must outlive it. NULL: out of memory. */
struct server_probes *backends_new(const struct config *config);
void backends_free(struct server_probes *probes); /* NULL is fine */

/* After a reload: what is known of servers that stay, by their names. The former one then only waits to be freed. */
void backends_inherit(struct server_probes *probes, struct server_probes *former);

/* Does what is due; *ret_next_ms: when to call again. True: a server came or went, so that the table is out of date. */
bool backends_tick(struct server_probes *probes, uint64_t now_ms, uint64_t *ret_next_ms);

/* What to poll for; an fd is -1 where there is nothing. */
void backends_sockets(const struct server_probes *probes, struct pollfd fds[BACKENDS_SOCKETS]);
/* After the poll. True: a socket was ready, so that backends_tick() is due. */
bool backends_ready(struct server_probes *probes, const struct pollfd fds[BACKENDS_SOCKETS], uint64_t now_ms);

/* Whether a server is there for connections that arrive at this node itself: a good one whose weight is not 0. */
bool backends_serve_clients(const struct server_probes *probes);
/*
 * And for those that peers forward, which never get to a server of the form direct or tunnel. (Of a member with
 * Weight=0, which gets none, this says the same as backends_serve_clients().)
 */
bool backends_serve_peers(const struct server_probes *probes);

/*
 * Appends the real servers to a table with all members, and completes nodes[0]: NODE_SERVER_DOWN, and
 * active or unhealthy by backends_serve_clients(), as dprd wants to know it here.
 */
void backends_fill(const struct server_probes *probes, struct load_table *table);

#endif
