/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * server.h - the web servers: open connections that wait and are served.
 *
 * A server's timers tell when a connection ends; server_end() then tells which one. Connections are numbers into one
 * pool, which grows but never shrinks.
 */
#ifndef DPRD_SIM_SERVER_H
#define DPRD_SIM_SERVER_H

#include "dprd/sim/sim.h"
#include "dprd/sim/timers.h"

#define CONNECTION_NONE UINT32_MAX

struct connection {
	double arrived_s;
	double work_s; /* time on a worker of capacity 1 */
	double ends_at; /* PS: it ends when the work clock of its server shows this */
	uint64_t number; /* its place in the order of arrival */
	uint32_t next; /* in the queue, or in the pool's free list */
	uint16_t entry, server;
	bool forwarded; /* goes through the entry node for its whole life */
	uint16_t sent_back_by;
	uint8_t alternative; /* as the tunnel carries it */
	bool looked; /* the node where it landed has decided */
	bool returning; /* and has sent it back */
	bool lost; /* its client is cut off; the server does not know */
	bool error; /* its server has failed */
	bool held; /* of a burst: it stays open and gives the server no work */
};

struct pool {
	struct connection *connection;
	uint32_t count, room; /* ever used; allocated */
	uint32_t free; /* first of the free list, or CONNECTION_NONE */
};

struct server {
	double speed;
	double busy_since_s, busy_worker_s; /* work done up to busy_since_s, as busy workers times time */
	unsigned workers, open;
	unsigned held; /* connections of a burst, not in open */
	double held_from_s; /* burst connections before this time died with the host */
	/* FIFO */
	uint32_t first_waiting, last_waiting;
	unsigned busy;
	uint32_t *serving; /* by worker */
	uint16_t *idle; /* workers without work: a stack of workers - busy */
	/* PS: a heap by ends_at */
	double clock; /* work that each connection got since the server was last empty */
	double clock_at_s; /* when the clock showed this */
	uint32_t *shared;
	unsigned shared_room;
};

struct servers {
	struct pool *pool;
	struct timers *timers;
	enum sim_service service;
	unsigned count, workers;
	struct server *server;
	uint32_t *serving; /* memory of all servers */
	uint16_t *idle;
};

/* CONNECTION_NONE: out of memory. The connection is all zero. */
uint32_t pool_take(struct pool *pool);
void pool_give(struct pool *pool, uint32_t connection);
void pool_free(struct pool *pool);

/* The number of timers that they need; theirs are the first ones from 0 on. */
uint32_t servers_timers(const struct sim_setup *setup);

/* The caller owns the pool and the timers. False: out of memory. */
bool servers_init(struct servers *servers, const struct sim_setup *setup, struct pool *pool, struct timers *timers);
void servers_free(struct servers *servers);

/* A connection begins. False: out of memory. */
bool server_begin(struct servers *servers, unsigned node, uint32_t connection, double now_s);

/* A timer of the servers is due: returns the connection that ended, which the caller gives back to the pool. */
uint32_t server_end(struct servers *servers, uint32_t timer, double now_s);

/* The host dies: calls gone() for each of its connections. */
void server_clear(struct servers *servers, unsigned node, double now_s,
		  void (*gone)(void *context, uint32_t connection), void *context);

/* The host that forwarded for them has died: this node's connections that came through it are lost. */
void server_cut_off(struct servers *servers, unsigned node, uint16_t entry);

/* Brings busy_worker_s up to now. */
void server_account(struct servers *servers, unsigned node, double now_s);

#endif
