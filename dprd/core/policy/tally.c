// SPDX-License-Identifier: GPL-2.0-or-later
/* tally.c - the estimate, and the average life of a connection. */
#include "dprd/core/policy/tally.h"

#include <math.h>

enum {
	UNSEEN_MAX = 10, /* this many new connections, and none was found: there are no more to come */
};

/* Counts weigh less by a factor of e after this time. */
static const double LATELY_S = 10;

/* Each estimate begins with this many connection-seconds without an end, so that few connections prove little. */
static const double OPEN_PRIOR_S = 10;

/* Where new connections go follows from where the open ones are. While there are few, they count as going here. */
static const double SHARE_PRIOR = 50;

/* The part of young connections that is open still after this time. */
static double part_open(const struct tally *t, uint64_t from_ms, uint64_t to_ms)
{
	double passed_s = to_ms > from_ms ? (double)(to_ms - from_ms) / 1000 : 0;

	return t->ended > 0 ? exp(-passed_s * t->ended / (t->open_s + OPEN_PRIOR_S)) : 1;
}

void tally_began(struct tally *t, unsigned connections, uint64_t now_ms)
{
	double more = t->share * connections;

	if (!t->used)
		return;
	t->young = fmax(0, t->young * part_open(t, t->young_ms, now_ms) + more);
	t->young_ms = now_ms;
	t->began += more;
}

void tally_start(struct tally *t, uint64_t now_ms)
{
	tally_began(t, 0, now_ms);
	t->mark.young = t->young;
	t->mark.ms = now_ms;
}

/* Learns from the connections that ended since the last count. */
static void learn(struct tally *t, double open, uint64_t now_ms)
{
	double passed_s = now_ms > t->counted_ms ? (double)(now_ms - t->counted_ms) / 1000 : 0;
	double kept = exp(-passed_s / LATELY_S);

	t->ended = kept * t->ended + fmax(0, t->counted + t->began - open);
	t->open_s = kept * t->open_s + passed_s * (t->counted + open) / 2;
}

/* The number of open connections by a count and by the estimate. */
static double judge(const struct tally *t, const struct tally_count *count, uint64_t now_ms)
{
	double since_start = t->young - t->mark.young * part_open(t, t->mark.ms, now_ms);

	return fmin(fmax(tally_open(t, now_ms), count->open), count->open + fmax(0, since_start));
}

void tally_end(struct tally *t, const struct tally_count *count, uint64_t now_ms)
{
	double open = count->open;

	t->unseen = count->any ? 0 : t->unseen + t->began;
	if (!count->any && (!t->used || t->unseen >= UNSEEN_MAX)) {
		*t = (struct tally) { .used = false };
		return;
	}
	if (!t->used) {
		/* It is unknown how old they are: all of them count as young. */
		t->young = open;
	} else {
		tally_began(t, 0, now_ms);
		open = judge(t, count, now_ms);
		learn(t, open, now_ms);
	}
	t->used = true;
	t->began = 0;
	t->counted = open;
	t->counted_ms = t->young_ms = now_ms;
	t->young = t->young_counted = fmin(t->young, open);
	t->share = (open + SHARE_PRIOR) / (open + SHARE_PRIOR + count->own);
}

bool tally_may_change(const struct tally *t)
{
	return t->used && (t->counted > 0 || t->began > 0);
}

double tally_open(const struct tally *t, uint64_t now_ms)
{
	if (!t->used)
		return 0;
	return fmax(0, t->counted + t->young * part_open(t, t->young_ms, now_ms) - t->young_counted);
}
