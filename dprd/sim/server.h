/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * server.h - the web servers: open connections that wait and are served.
 *
 * A server says by its timers when something ends; server_end() then says which connection that was.
 * Connections are numbers into one pool, which grows but never shrinks.
 */
#ifndef DPRD_SIM_SERVER_H
#define DPRD_SIM_SERVER_H

#include "dprd/sim/sim.h"
#include "dprd/sim/timers.h"

#define CONNECTION_NONE UINT32_MAX

struct connection {
	double arrived_s;
	double work_s; /* on a worker of capacity 1 */
	double ends_at; /* PS: when its server's clock of work shows this, it has ended */
	uint64_t number; /* of its arrival */
	uint32_t next; /* of the queue, or of the pool's free ones */
	uint16_t entry, server;
	bool forwarded; /* through the entry node, for its whole life */
	uint16_t sent_back_by;
	bool looked; /* the node where it landed has decided */
	bool returning; /* and sent it back */
	bool lost; /* its client is cut off; the server does not know */
};

struct pool {
	struct connection *connection;
	uint32_t count, room; /* ever used; allocated */
	uint32_t free; /* first of the free ones, or CONNECTION_NONE */
};

struct server {
	double speed;
	double busy_since_s, busy_worker_s; /* work done up to busy_since_s, as busy workers times time */
	unsigned workers, open;
	/* FIFO */
	uint32_t first_waiting, last_waiting;
	unsigned busy;
	uint32_t *serving; /* by worker */
	uint16_t *idle; /* workers without work: a stack of workers - busy */
	/* PS: a heap by ends_at */
	double clock; /* work that each connection got since the server was last empty */
	double clock_at_s; /* when the clock showed that */
	uint32_t *shared;
	unsigned shared_room;
};

struct servers {
	struct pool *pool;
	struct timers *timers;
	enum sim_service service;
	unsigned count, workers;
	struct server *server;
	uint32_t *serving; /* memory of all servers' */
	uint16_t *idle;
};

/* CONNECTION_NONE: out of memory. The connection is all zero. */
uint32_t pool_take(struct pool *pool);
void pool_give(struct pool *pool, uint32_t connection);
void pool_free(struct pool *pool);

/* How many timers they need: 0 .. that - 1 are theirs. */
uint32_t servers_timers(const struct sim_setup *setup);

/* The pool and the timers stay the caller's. False: out of memory. */
bool servers_init(struct servers *servers, const struct sim_setup *setup, struct pool *pool, struct timers *timers);
void servers_free(struct servers *servers);

/* A connection begins. False: out of memory. */
bool server_begin(struct servers *servers, unsigned node, uint32_t connection, double now_s);

/* A timer of the servers is due: the connection that ended. It stays the caller's to give back. */
uint32_t server_end(struct servers *servers, uint32_t timer, double now_s);

/* The host dies: all its connections go, each to gone(). */
void server_clear(struct servers *servers, unsigned node, double now_s,
		  void (*gone)(void *context, uint32_t connection), void *context);

/* The host that forwarded for them has died: a node's connections that came through it are lost. */
void server_cut_off(struct servers *servers, unsigned node, uint16_t entry);

/* Brings busy_worker_s up to now. */
void server_account(struct servers *servers, unsigned node, double now_s);

#endif
