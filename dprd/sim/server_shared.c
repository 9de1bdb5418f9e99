// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * server_shared.c - processor sharing: n connections get speed * min(1, workers / n) each.
 *
 * All get the same, so one clock is enough, which shows the work done for each connection: a connection ends when the
 * clock has moved on by its work. Only the next end needs a timer.
 */
#include "dprd/sim/server_private.h"

#include <stdlib.h>

enum { CHILDREN = 2, ROOM_FIRST = 16 };

static double ends_at(const struct servers *servers, uint32_t connection)
{
	return servers->pool->connection[connection].ends_at;
}

static double rate(const struct server *s, unsigned open)
{
	return open > s->workers ? s->speed * s->workers / open : s->speed;
}

static void wind_clock(struct server *s, double now_s)
{
	/* An empty server starts from 0 again: the clock stays small, and so exact. */
	if (s->open == 0)
		s->clock = 0;
	else
		s->clock += (now_s - s->clock_at_s) * rate(s, s->open);
	s->clock_at_s = now_s;
}

static void set_timer(struct servers *servers, unsigned node, unsigned open, double now_s)
{
	struct server *s = &servers->server[node];
	double left;

	if (open == 0) {
		timer_stop(servers->timers, node);
		return;
	}
	left = ends_at(servers, s->shared[0]) - s->clock;
	timer_set(servers->timers, node, now_s + (left > 0 ? left : 0) / rate(s, open));
}

bool server_begin_shared(struct servers *servers, unsigned node, uint32_t connection, double now_s)
{
	struct server *s = &servers->server[node];
	unsigned place = s->open;

	wind_clock(s, now_s);
	if (s->open == s->shared_room) {
		unsigned room = s->shared_room ? 2 * s->shared_room : ROOM_FIRST;
		uint32_t *larger = reallocarray(s->shared, room, sizeof(*larger));

		if (!larger)
			return false;
		s->shared = larger;
		s->shared_room = room;
	}
	servers->pool->connection[connection].ends_at = s->clock + servers->pool->connection[connection].work_s;
	while (place && ends_at(servers, connection) < ends_at(servers, s->shared[(place - 1) / CHILDREN])) {
		s->shared[place] = s->shared[(place - 1) / CHILDREN];
		place = (place - 1) / CHILDREN;
	}
	s->shared[place] = connection;
	set_timer(servers, node, s->open + 1, now_s);
	return true;
}

uint32_t server_end_shared(struct servers *servers, unsigned node, double now_s)
{
	struct server *s = &servers->server[node];
	uint32_t ended = s->shared[0], moved = s->shared[s->open - 1];
	unsigned place = 0, left = s->open - 1;

	wind_clock(s, now_s);
	for (;;) {
		unsigned child = place * CHILDREN + 1;

		if (child >= left)
			break;
		if (child + 1 < left && ends_at(servers, s->shared[child + 1]) < ends_at(servers, s->shared[child]))
			child++;
		if (ends_at(servers, moved) <= ends_at(servers, s->shared[child]))
			break;
		s->shared[place] = s->shared[child];
		place = child;
	}
	s->shared[place] = moved;
	set_timer(servers, node, left, now_s);
	return ended;
}
