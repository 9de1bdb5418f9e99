// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/core/policy/suspicion.h"

#include <math.h>
#include <string.h>

enum {
	MEAN_MS = 5000, /* of loads and rates */
	FIRST_MS = 30000, /* the first lives are taken for usual */
	LEARN_MS = 20000,
	THAW_MS = 600000, /* the same while it is suspicious: a node may be faster from now on */
	SERVED_LEAST = 10, /* connections within MEAN_MS, here and elsewhere: fewer prove nothing */
};

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

static void judge(struct suspicion *s, uint64_t elapsed_ms)
{
	double others_life_s = s->others_open / s->others_per_s;
	double ratio = s->open / s->accepted_per_s / others_life_s;

	s->known_ms += elapsed_ms;
	if (s->known_ms <= FIRST_MS) {
		s->usual = ratio;
		return;
	}
	s->times = ratio > 0 ? fmax(s->usual / ratio, 1) : s->usual > 0 ? HUGE_VAL : 1;
	s->suspects = s->times > SUSPICION_TIMES;
	approach(&s->usual, ratio, part(elapsed_ms, s->suspects ? THAW_MS : LEARN_MS));
	if (s->suspects)
		s->floor = accepted_within(s, others_life_s * s->usual);
}

void suspicion_tick(struct suspicion *s, const struct suspicion_facts *facts, uint64_t now_ms)
{
	uint64_t elapsed_ms = now_ms - s->now_ms, accepted = facts->accepted - s->accepted;
	double enough_per_s = SERVED_LEAST * 1000.0 / MEAN_MS, per_s, by;

	if (!s->begun || facts->accepted < s->accepted) {
		*s = (struct suspicion) { .begun = true, .times = 1, .newest = now_ms / SUSPICION_SLOT_MS };
	} else if (elapsed_ms) {
		count(s, accepted, now_ms);
		by = part(elapsed_ms, MEAN_MS);
		per_s = (double)accepted * 1000 / (double)elapsed_ms;
		approach(&s->accepted_per_s, per_s, by);
		approach(&s->open, facts->open, by);
		approach(&s->others_open, facts->others_open, by);
		/* All that arrive and are not accepted here are accepted elsewhere. */
		approach(&s->others_per_s, facts->arrivals_per_s - per_s, by);
		s->suspects = false;
		s->times = 1;
		s->floor = 0;
		if (s->accepted_per_s >= enough_per_s && s->others_per_s >= enough_per_s && s->others_open > 0)
			judge(s, elapsed_ms);
	}
	s->now_ms = now_ms;
	s->accepted = facts->accepted;
}
