// SPDX-License-Identifier: GPL-2.0-or-later
/* outcome.c - do connections that are forwarded to a peer come about? */
#include "dprd/core/decide/outcome.h"

#include <math.h>
#include <string.h>

/* So rarely may chance look like a fault; and a network loses a packet now and then. */
static const double chance_most = 1e-4, confirmed_most = 0.96;

static uint32_t sum(const struct outcome *o)
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

void outcome_made(struct outcome *o, uint32_t connections, uint64_t now_ms)
{
	o->made[0] += connections;
	if (!o->rest_ms || !connections || now_ms < o->until_ms)
		return;
	o->rest_ms = later(o->rest_ms);
	o->until_ms = now_ms + o->rest_ms;
}

void outcome_forget(struct outcome *o)
{
	memset(o->made, 0, sizeof(o->made));
	o->unanswered = 0;
}

bool outcome_confirmed(struct outcome *o, uint32_t connections, struct outcome_history *history)
{
	bool rested = o->rest_ms > 0;

	if (!connections)
		return false;
	history->made += sum(o);
	history->confirmed += connections;
	while (history->made > OUTCOME_HISTORY || history->confirmed > OUTCOME_HISTORY) {
		history->made /= 2;
		history->confirmed /= 2;
	}
	outcome_forget(o);
	o->rest_ms = 0;
	return rested;
}

bool outcome_ripen(struct outcome *o)
{
	o->unanswered += o->made[OUTCOME_WINDOWS - 1];
	memmove(o->made + 1, o->made, sizeof(o->made) - sizeof(o->made[0]));
	o->made[0] = 0;
	return o->unanswered > 0;
}

bool outcome_judge(struct outcome *o, const struct outcome_history *history, uint32_t others, uint64_t now_ms)
{
	double made = (double)history->made + others, confirmed;

	/* A flood never ends with a confirmation either: how many do is known only where some do. */
	if (o->rest_ms || o->unanswered < OUTCOME_SEVERAL || !history->confirmed)
		return false;
	confirmed = made > history->confirmed ? history->confirmed / made : 1;
	if (pow(1 - fmin(confirmed, confirmed_most), o->unanswered) > chance_most)
		return false;
	o->rest_ms = OUTCOME_REST_MS;
	o->until_ms = now_ms + o->rest_ms;
	return true;
}
