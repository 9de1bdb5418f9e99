/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backends.h - the web servers that serve for this node: its own and the real servers behind it. Each is probed
 * (health.h). The result goes into the load table and decides whether the node wants connections.
 *
 * With ServeHere=no the own web server is not probed and does not count. This file logs each change of a server once.
 */
#ifndef LOADCAST_BACKENDS_H
#define LOADCAST_BACKENDS_H

#include <poll.h>

#include "loadcast/load.h"

enum { BACKENDS_SOCKETS = PORTS_MAX + 1 + OWN_BACKENDS_MAX };

struct server_probes;

/* All are believed to be good until their first result. The configuration must outlive it. NULL: out of memory. */
struct server_probes *backends_new(const struct config *config);
void backends_free(struct server_probes *probes); /* NULL is fine */

/*
 * After a reload: takes over the state of servers that stay, by their names. The former object may only be freed then.
 */
void backends_inherit(struct server_probes *probes, struct server_probes *former);

/*
 * Runs the probes that are due. *ret_next_ms: when to call again. True: a server came or went, so the table is out of
 * date.
 */
bool backends_tick(struct server_probes *probes, uint64_t now_ms, uint64_t *ret_next_ms);

/* The sockets to poll; an fd is -1 where there is nothing to poll. */
void backends_sockets(const struct server_probes *probes, struct pollfd fds[BACKENDS_SOCKETS]);
/* Call after the poll. True: a socket was ready, so that backends_tick() is due. */
bool backends_ready(struct server_probes *probes, const struct pollfd fds[BACKENDS_SOCKETS], uint64_t now_ms);

/* True when a server is there for connections that arrive at this node itself: a good one whose weight is not 0. */
bool backends_serve_clients(const struct server_probes *probes);
/*
 * True when a server is there for connections that peers forward. These never get to a server of the form direct or
 * tunnel. A member with Weight=0 gets none; for it the answer is that of backends_serve_clients().
 */
bool backends_serve_peers(const struct server_probes *probes);

/*
 * The service ports of this node that fail while others work, a bit each in the order of the configuration. 0 when all or
 * none work, and with real servers.
 */
uint32_t backends_ports_down(const struct server_probes *probes);

/*
 * Appends the real servers to a table with all members, and completes nodes[0]: NODE_SERVER_DOWN, ports_down, and
 * active or unhealthy by backends_serve_clients(): dprd chooses servers by it.
 */
void backends_fill(const struct server_probes *probes, struct load_table *table);

#endif
