// SPDX-License-Identifier: GPL-2.0-or-later
/* server.c - the pool of connections, the common part of both kinds of servers, and FIFO servers. */
#include "dprd/sim/server_private.h"

#include <stdlib.h>

enum { POOL_ROOM_FIRST = 1024 };

uint32_t pool_take(struct pool *pool)
{
	uint32_t taken = pool->free;

	if (pool->count && taken != CONNECTION_NONE) {
		pool->free = pool->connection[taken].next;
	} else {
		if (pool->count == pool->room) {
			uint32_t room = pool->room ? 2 * pool->room : POOL_ROOM_FIRST;
			struct connection *larger =
				room > pool->room ? reallocarray(pool->connection, room, sizeof(*larger)) : NULL;

			if (!larger)
				return CONNECTION_NONE;
			pool->connection = larger;
			pool->room = room;
		}
		if (!pool->count)
			pool->free = CONNECTION_NONE;
		taken = pool->count++;
	}
	pool->connection[taken] = (struct connection) { .next = CONNECTION_NONE };
	return taken;
}

void pool_give(struct pool *pool, uint32_t connection)
{
	pool->connection[connection].next = pool->free;
	pool->free = connection;
}

void pool_free(struct pool *pool)
{
	free(pool->connection);
	*pool = (struct pool) { 0 };
}

static unsigned timers_of_one(enum sim_service service, unsigned workers)
{
	return service == SIM_PS ? 1 : workers;
}

uint32_t servers_timers(const struct sim_setup *setup)
{
	return setup->nodes * timers_of_one(setup->service, setup->workers);
}

static void server_reset(struct server *s)
{
	s->first_waiting = s->last_waiting = CONNECTION_NONE;
	s->open = s->busy = 0;
	for (unsigned worker = 0; worker < s->workers; worker++) {
		s->idle[worker] = (uint16_t)worker;
		s->serving[worker] = CONNECTION_NONE;
	}
}

bool servers_init(struct servers *servers, const struct sim_setup *setup, struct pool *pool, struct timers *timers)
{
	size_t workers = (size_t)setup->nodes * setup->workers;

	*servers = (struct servers) {
		.pool = pool,
		.timers = timers,
		.service = setup->service,
		.count = setup->nodes,
		.workers = setup->workers,
		.server = calloc(setup->nodes, sizeof(*servers->server)),
		.serving = calloc(workers, sizeof(*servers->serving)),
		.idle = calloc(workers, sizeof(*servers->idle)),
	};
	if (!servers->server || !servers->serving || !servers->idle) {
		servers_free(servers);
		return false;
	}
	for (unsigned i = 0; i < setup->nodes; i++) {
		struct server *s = &servers->server[i];

		s->speed = setup->capacity[i];
		s->workers = setup->workers;
		s->serving = servers->serving + (size_t)i * setup->workers;
		s->idle = servers->idle + (size_t)i * setup->workers;
		server_reset(s);
	}
	return true;
}

void servers_free(struct servers *servers)
{
	for (unsigned i = 0; servers->server && i < servers->count; i++)
		free(servers->server[i].shared);
	free(servers->server);
	free(servers->serving);
	free(servers->idle);
	*servers = (struct servers) { 0 };
}

void server_account(struct servers *servers, unsigned node, double now_s)
{
	struct server *s = &servers->server[node];

	s->busy_worker_s += (s->open < s->workers ? s->open : s->workers) * (now_s - s->busy_since_s);
	s->busy_since_s = now_s;
}

static void start(struct servers *servers, unsigned node, unsigned worker, uint32_t connection, double now_s)
{
	struct server *s = &servers->server[node];

	s->serving[worker] = connection;
	timer_set(servers->timers, node * servers->workers + worker,
		  now_s + servers->pool->connection[connection].work_s / s->speed);
}

static void begin_fifo(struct servers *servers, unsigned node, uint32_t connection, double now_s)
{
	struct server *s = &servers->server[node];

	if (s->busy < s->workers) {
		start(servers, node, s->idle[s->workers - ++s->busy], connection, now_s);
		return;
	}
	servers->pool->connection[connection].next = CONNECTION_NONE;
	if (s->first_waiting == CONNECTION_NONE)
		s->first_waiting = connection;
	else
		servers->pool->connection[s->last_waiting].next = connection;
	s->last_waiting = connection;
}

static uint32_t end_fifo(struct servers *servers, unsigned node, unsigned worker, double now_s)
{
	struct server *s = &servers->server[node];
	uint32_t ended = s->serving[worker], next = s->first_waiting;

	timer_stop(servers->timers, node * servers->workers + worker);
	s->serving[worker] = CONNECTION_NONE;
	if (next == CONNECTION_NONE) {
		s->idle[s->workers - s->busy--] = (uint16_t)worker;
		return ended;
	}
	s->first_waiting = servers->pool->connection[next].next;
	start(servers, node, worker, next, now_s);
	return ended;
}

bool server_begin(struct servers *servers, unsigned node, uint32_t connection, double now_s)
{
	server_account(servers, node, now_s);
	if (servers->service == SIM_PS) {
		if (!server_begin_shared(servers, node, connection, now_s))
			return false;
	} else {
		begin_fifo(servers, node, connection, now_s);
	}
	servers->server[node].open++;
	return true;
}

uint32_t server_end(struct servers *servers, uint32_t timer, double now_s)
{
	unsigned each = timers_of_one(servers->service, servers->workers), node = timer / each;
	uint32_t ended;

	server_account(servers, node, now_s);
	ended = servers->service == SIM_PS ? server_end_shared(servers, node, now_s)
					   : end_fifo(servers, node, timer % each, now_s);
	servers->server[node].open--;
	return ended;
}

static void cut_off(struct servers *servers, uint32_t connection, uint16_t entry)
{
	struct connection *c = connection == CONNECTION_NONE ? NULL : &servers->pool->connection[connection];

	if (c && c->forwarded && c->entry == entry)
		c->lost = true;
}

void server_cut_off(struct servers *servers, unsigned node, uint16_t entry)
{
	const struct server *s = &servers->server[node];

	for (unsigned i = 0; servers->service == SIM_PS && i < s->open; i++)
		cut_off(servers, s->shared[i], entry);
	for (unsigned worker = 0; servers->service == SIM_FIFO && worker < s->workers; worker++)
		cut_off(servers, s->serving[worker], entry);
	for (uint32_t i = s->first_waiting; i != CONNECTION_NONE; i = servers->pool->connection[i].next)
		cut_off(servers, i, entry);
}

void server_clear(struct servers *servers, unsigned node, double now_s,
		  void (*gone)(void *context, uint32_t connection), void *context)
{
	struct server *s = &servers->server[node];
	unsigned each = timers_of_one(servers->service, servers->workers);

	server_account(servers, node, now_s);
	for (unsigned i = 0; i < each; i++)
		timer_stop(servers->timers, node * each + i);
	for (unsigned i = 0; servers->service == SIM_PS && i < s->open; i++)
		gone(context, s->shared[i]);
	for (unsigned worker = 0; servers->service == SIM_FIFO && worker < s->workers; worker++)
		if (s->serving[worker] != CONNECTION_NONE)
			gone(context, s->serving[worker]);
	while (s->first_waiting != CONNECTION_NONE) {
		uint32_t next = servers->pool->connection[s->first_waiting].next;

		gone(context, s->first_waiting);
		s->first_waiting = next;
	}
	server_reset(s);
}
