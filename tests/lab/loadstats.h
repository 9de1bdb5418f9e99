/* SPDX-License-Identifier: GPL-2.0-or-later */
/* loadstats.h - the counts of a load generator, and their JSON. */
#ifndef TESTS_LAB_LOADSTATS_H
#define TESTS_LAB_LOADSTATS_H

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

enum outcome { DONE, REFUSED, RESET, UNREACHABLE, TIMEOUT, SHORT, CORRUPT, STATUS, RESOLVE, OTHER, OUTCOMES };

static const char *const outcome_names[OUTCOMES] = {
	"done", "refused", "reset", "unreachable", "timeout", "short", "corrupt", "status", "resolve", "other",
};

enum { GROUPS_MAX = 16, DELAYS_MAX = 1 << 24 };

struct tally {
	uint64_t completed, errors[OUTCOMES];
	uint64_t bytes;
	double delay_sum_ms;
	uint32_t delays_used, delays_room;
	float *delays_ms;
};

static inline void tally_done(struct tally *tally, double delay_ms, uint64_t bytes)
{
	tally->completed++;
	tally->bytes += bytes;
	tally->delay_sum_ms += delay_ms;
	if (tally->delays_used == tally->delays_room && tally->delays_room < DELAYS_MAX) {
		uint32_t room = tally->delays_room ? 2 * tally->delays_room : 4096;
		float *grown = realloc(tally->delays_ms, room * sizeof(*grown));

		if (!grown)
			return;
		tally->delays_ms = grown;
		tally->delays_room = room;
	}
	if (tally->delays_used < tally->delays_room)
		tally->delays_ms[tally->delays_used++] = (float)delay_ms;
}

static inline int tally_compare(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* A quantile of sorted delays, by the nearest rank. */
static inline double tally_quantile(const struct tally *tally, double q)
{
	uint32_t rank = (uint32_t)(q * tally->delays_used);

	if (!tally->delays_used)
		return 0;
	return (double)tally->delays_ms[rank < tally->delays_used ? rank : tally->delays_used - 1];
}

static inline uint64_t tally_errors(const struct tally *tally)
{
	uint64_t sum = 0;

	for (unsigned i = DONE + 1; i < OUTCOMES; i++)
		sum += tally->errors[i];
	return sum;
}

/* A new object; the tally's delays are sorted afterwards. */
static inline json_t *tally_json(struct tally *tally, double seconds)
{
	json_t *errors = json_object();

	if (tally->delays_used)
		qsort(tally->delays_ms, tally->delays_used, sizeof(*tally->delays_ms), tally_compare);
	for (unsigned i = DONE + 1; i < OUTCOMES; i++)
		json_object_set_new(errors, outcome_names[i], json_integer((json_int_t)tally->errors[i]));
	return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:o}", "completed",
			 (json_int_t)tally->completed, "requests_per_second", (double)tally->completed / seconds,
			 "megabits_per_second", (double)tally->bytes * 8e-6 / seconds, "mean_ms",
			 tally->completed ? tally->delay_sum_ms / (double)tally->completed : 0.0, "p50_ms",
			 tally_quantile(tally, 0.5), "p90_ms", tally_quantile(tally, 0.9), "p99_ms",
			 tally_quantile(tally, 0.99), "max_ms", tally_quantile(tally, 1.0), "errors_total",
			 (json_int_t)tally_errors(tally), "errors", errors);
}

#endif
