// SPDX-License-Identifier: GPL-2.0-or-later
/* outcome.c - tells whether connections that are forwarded to a peer are answered. */
#include "dprd/core/decide/outcome.h"

#include <math.h>
#include <string.h>

/* chance_most: how rarely chance may look like a fault. confirmed_most: a network loses a packet now and then. */
static const double chance_most = 1e-4, confirmed_most = 0.96;

uint32_t outcome_waiting(const struct outcome *o)
{
	uint32_t all = o->unanswered;

	for (unsigned i = 0; i < OUTCOME_WINDOWS; i++)
		all += o->made[i];
	return all;
}

static uint32_t later(uint32_t rest_ms)
{
	return rest_ms < OUTCOME_REST_MOST_MS / 2 ? 2 * rest_ms : OUTCOME_REST_MOST_MS;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

void outcome_made(struct outcome *o, uint32_t connections, const struct outcome_history *history, uint64_t now_ms)
{
	uint32_t returned = o->returned < connections ? o->returned : connections;

	o->returned -= returned;
	connections -= returned;
	if (!outcome_waiting(o)) {
		o->since_ms = now_ms;
		o->made_before = history->all_made;
		o->confirmed_before = history->all_confirmed;
	}
	o->made[0] += connections;
	if (!o->rest_ms || !connections || now_ms < o->until_ms)
		return;
	o->rest_ms = later(o->rest_ms);
	o->until_ms = now_ms + o->rest_ms;
}

void outcome_forget(struct outcome *o)
{
	memset(o->made, 0, sizeof(o->made));
	o->unanswered = o->most = 0;
	o->holds = false;
}

void outcome_restart(struct outcome *o)
{
	outcome_forget(o);
	o->rest_ms = 0;
	o->until_ms = 0;
}

/* A long time is believed at once, and forgotten after many that are shorter. */
static void note_time(struct outcome_history *history, uint64_t took_ms)
{
	uint32_t took = took_ms < OUTCOME_HOLD_MOST_MS ? (uint32_t)took_ms : OUTCOME_HOLD_MOST_MS;

	if (took > history->slow_ms)
		history->slow_ms = took;
	else
		history->slow_ms -= (history->slow_ms - took) / 64;
}

bool outcome_confirmed(struct outcome *o, uint32_t connections, struct outcome_history *history, uint64_t now_ms)
{
	bool rested = o->rest_ms > 0;

	if (!connections)
		return false;
	if (outcome_waiting(o))
		note_time(history, now_ms > o->since_ms ? now_ms - o->since_ms : 0);
	history->made += outcome_waiting(o);
	history->confirmed += connections;
	history->all_made += outcome_waiting(o);
	history->all_confirmed += connections;
	for (unsigned i = 0; i < OUTCOME_WINDOWS; i++)
		history->most = larger(history->most, o->made[i]);
	while (history->made > OUTCOME_HISTORY || history->confirmed > OUTCOME_HISTORY) {
		history->made /= 2;
		history->confirmed /= 2;
		history->most -= history->most / 4;
	}
	outcome_forget(o);
	o->rest_ms = 0;
	return rested;
}

void outcome_returned(struct outcome *o)
{
	unsigned i = 0;

	while (i < OUTCOME_WINDOWS && !o->made[i])
		i++;
	if (i < OUTCOME_WINDOWS)
		o->made[i]--;
	else
		o->returned++;
	if (!o->rest_ms)
		return;
	o->rest_ms = larger(o->rest_ms / 2, OUTCOME_REST_MS);
	o->until_ms = 0;
}

bool outcome_ripen(struct outcome *o, uint64_t now_ms)
{
	if (now_ms > o->since_ms + OUTCOME_KEEP_MS)
		outcome_forget(o);
	o->returned = 0;
	o->unanswered += o->made[OUTCOME_WINDOWS - 1];
	o->most = larger(o->most, o->made[OUTCOME_WINDOWS - 1]);
	memmove(o->made + 1, o->made, sizeof(o->made) - sizeof(o->made[0]));
	o->made[0] = 0;
	return o->unanswered > 0;
}

/* The usual share of confirmed connections while the peer's way works; 0: not known. most: to the peer in one window. */
static double usually_confirmed(const struct outcome *o, uint32_t most, const struct outcome_history *history,
				uint32_t others)
{
	uint64_t confirmed = history->all_confirmed - o->confirmed_before;
	double made = (double)(history->all_made - o->made_before) + others;

	if (!confirmed) {
		if (most > OUTCOME_SURGE * (uint64_t)history->most + OUTCOME_SURGE_LEAST)
			return 0;
		confirmed = history->confirmed;
		made = (double)history->made + others;
	}
	return fmin((double)confirmed / fmax(made, 1), confirmed_most);
}

void outcome_hold(struct outcome *o, const struct outcome_history *history, uint32_t others, uint64_t now_ms)
{
	uint32_t waiting = outcome_waiting(o), patience_ms = larger(OUTCOME_HOLD_LEAST_MS, 2 * history->slow_ms);
	uint32_t most = o->most;

	if (patience_ms > OUTCOME_HOLD_MOST_MS)
		patience_ms = OUTCOME_HOLD_MOST_MS;
	for (unsigned i = 0; i < OUTCOME_WINDOWS; i++)
		most = larger(most, o->made[i]);
	/* At an even rate one half has waited for at least half of the time. */
	o->holds = !o->rest_ms && waiting >= 2 * OUTCOME_SEVERAL && now_ms >= o->since_ms + patience_ms &&
		   pow(1 - usually_confirmed(o, most, history, others), waiting / 2.0) <= chance_most;
}

bool outcome_judge(struct outcome *o, const struct outcome_history *history, uint32_t others, uint64_t now_ms)
{
	if (o->rest_ms || o->unanswered < OUTCOME_SEVERAL)
		return false;
	if (pow(1 - usually_confirmed(o, o->most, history, others), o->unanswered) > chance_most)
		return false;
	o->rest_ms = OUTCOME_REST_MS;
	o->until_ms = now_ms + o->rest_ms;
	return true;
}
