// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/core/policy/suspicion.h"

#include <math.h>
#include <string.h>

enum {
	MEAN_MS = 5000, /* of loads and rates */
	SETTLE_MS = 10000, /* the means of the first lives, and the rates that peers announce, are not true yet */
	FIRST_MS = 30000, /* the lives until then are taken for usual */
	LEARN_MS = 60000,
	LEARN_SPREAD_MS = 120000,
	THAW_MS = 600000, /* for lives that are not usual: a node may be faster from now on */
	SERVED_LEAST = 10, /* connections within MEAN_MS, here and elsewhere: fewer prove nothing */
	EXPECTED_LEAST = 3, /* open connections that are usual at this rate: fewer are no reason to come here */
	SPREADS = 3, /* lives are also shorter than usual by this many times their spread */
};

/* Fewer connections than this, in the mean, are as good as none. */
static const double open_least = 0.01;

/* The part of a difference that a mean over mean_ms makes up in the time since the last call. */
static double part(uint64_t elapsed_ms, unsigned mean_ms)
{
	return 1 - exp(-(double)elapsed_ms / mean_ms);
}

static void approach(double *mean, double value, double by)
{
	*mean += (value - *mean) * by;
}

static void count(struct suspicion *s, uint64_t accepted, uint64_t now_ms)
{
	uint64_t slot = now_ms / SUSPICION_SLOT_MS;

	if (slot >= s->newest + SUSPICION_SLOTS)
		memset(s->count, 0, sizeof(s->count));
	for (uint64_t i = s->newest + 1; i <= slot && i < s->newest + SUSPICION_SLOTS; i++)
		s->count[i % SUSPICION_SLOTS] = 0;
	s->newest = slot;
	accepted += s->count[slot % SUSPICION_SLOTS];
	s->count[slot % SUSPICION_SLOTS] = accepted < UINT16_MAX ? (uint16_t)accepted : UINT16_MAX;
}

/* Connections accepted within the last life_s; the oldest slot counts in part. */
static double accepted_within(const struct suspicion *s, double life_s)
{
	double slots = fmin(life_s * 1000 / SUSPICION_SLOT_MS, SUSPICION_SLOTS - 1), sum = 0;

	for (uint64_t i = 0; slots > 0 && i <= s->newest; i++, slots--)
		sum += s->count[(s->newest - i) % SUSPICION_SLOTS] * fmin(slots, 1);
	return sum;
}

static double life_of(double open, double per_s)
{
	return log(fmax(open, open_least) / per_s);
}

/* A value that lies far off may be a failure: it is learnt slowly, and as if it lay less far off. */
static void approach_usual(double *usual, double value, double first, uint64_t elapsed_ms)
{
	double limit = log(SUSPICION_TIMES), distance = fmax(fmin(value - *usual, limit), -limit);

	if (first > 0)
		approach(usual, value, first);
	else
		*usual += distance * part(elapsed_ms, fabs(distance) > limit / 2 ? THAW_MS : LEARN_MS);
}

static void learn(struct suspicion *s, double life, double ratio, uint64_t elapsed_ms)
{
	double limit = log(SUSPICION_TIMES), first = 0;

	if (s->known_ms <= SETTLE_MS)
		return;
	/* At first the plain mean of all that was seen. */
	if (s->known_ms <= FIRST_MS)
		first = fmin((double)elapsed_ms / (double)(s->known_ms - SETTLE_MS), 1);
	if (!s->suspects)
		approach(&s->spread, fmin(fabs(ratio - s->usual_ratio), limit / 2),
			 fmax(first, part(elapsed_ms, LEARN_SPREAD_MS)));
	approach_usual(&s->usual_life, life, first, elapsed_ms);
	approach_usual(&s->usual_ratio, ratio, first, elapsed_ms);
}

static void judge(struct suspicion *s, double per_s, uint64_t elapsed_ms)
{
	double others = life_of(s->others_open, s->others_per_s), life = life_of(s->open, per_s);
	double ratio = life - others, shorter = fmin(s->usual_ratio - ratio, s->usual_life - life);
	double expected_s = exp(others + s->usual_ratio);

	s->known_ms += elapsed_ms;
	s->suspects = s->known_ms > FIRST_MS && shorter > log(SUSPICION_TIMES) + SPREADS * s->spread &&
		      per_s * expected_s >= EXPECTED_LEAST;
	learn(s, life, ratio, elapsed_ms);
	if (!s->suspects)
		return;
	s->times = exp(shorter);
	/* Some of the host's connections may not be the service's. */
	s->floor = accepted_within(s, expected_s) * per_s / s->accepted_per_s;
}

/* The means of all that is counted. */
static void take(struct suspicion *s, const struct suspicion_facts *facts, uint64_t elapsed_ms)
{
	double by = part(elapsed_ms, MEAN_MS), seconds = (double)elapsed_ms / 1000;
	double served_per_s = (double)(facts->served - s->served) / seconds;

	approach(&s->accepted_per_s, (double)(facts->accepted - s->accepted) / seconds, by);
	approach(&s->served_per_s, served_per_s, by);
	approach(&s->open, facts->open, by);
	approach(&s->others_open, facts->others_open, by);
	/* All that arrive and are not served here are served elsewhere. */
	approach(&s->others_per_s, facts->arrivals_per_s - served_per_s, by);
}

void suspicion_tick(struct suspicion *s, const struct suspicion_facts *facts, uint64_t now_ms)
{
	uint64_t elapsed_ms = now_ms - s->now_ms;
	double enough_per_s = SERVED_LEAST * 1000.0 / MEAN_MS, per_s;

	if (!s->begun || facts->accepted < s->accepted || facts->served < s->served) {
		*s = (struct suspicion) { .begun = true, .times = 1, .newest = now_ms / SUSPICION_SLOT_MS };
	} else if (elapsed_ms) {
		count(s, facts->accepted - s->accepted, now_ms);
		take(s, facts, elapsed_ms);
		/* Each counts connections that are none of the service's: the host other ports, the SYNs a flood. */
		per_s = fmin(s->accepted_per_s, s->served_per_s);
		s->times = 1;
		s->floor = 0;
		if (per_s >= enough_per_s && s->others_per_s >= enough_per_s)
			judge(s, per_s, elapsed_ms);
		else
			s->suspects = false;
		s->suspected_ms = s->suspects ? s->suspected_ms + elapsed_ms : 0;
	}
	s->now_ms = now_ms;
	s->accepted = facts->accepted;
	s->served = facts->served;
}

unsigned suspicion_told(const struct suspicion *s)
{
	return s->suspected_ms >= SUSPICION_WARN_MS ? (unsigned)fmin(s->times, SUSPICION_TOLD_MAX) : 0;
}
