/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * measure.h - the results of a run: every transfer begins and ends here, and counts at its end.
 *
 * A transfer that ends within the measured time counts, whenever it began. All times are of one monotonic clock.
 */
#ifndef TESTS_EXPERIMENTS_SURGE_MEASURE_H
#define TESTS_EXPERIMENTS_SURGE_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/experiments/surge/objects.h"
#include "tests/experiments/surge/options.h"
#include "tests/experiments/surge/resolve.h"

enum { TALLIES_MAX = 256, TALLY_NAME_BYTES = 64 };

enum outcome {
	OUTCOME_OK,
	OUTCOME_CENSORED,
	OUTCOME_NAME, /* this and the following are errors */
	OUTCOME_REFUSED,
	OUTCOME_UNREACHABLE,
	OUTCOME_RESET,
	OUTCOME_TIMEOUT,
	OUTCOME_CLOSED,
	OUTCOME_STATUS,
	OUTCOME_WRONG_LENGTH,
	OUTCOME_MALFORMED,
	OUTCOME_CHUNKED,
	OUTCOME_LOCAL,
	OUTCOMES
};

extern const char *const outcome_names[OUTCOMES];

/* Times that did not come about are 0. */
struct transfer {
	unsigned user;
	uint32_t step;
	const struct file *file;
	uint64_t start_us, connected_us, first_byte_us, end_us;
	uint64_t received_bytes;
	unsigned status;
	const union address *server; /* NULL: none was reached */
	const char *node;
	enum outcome outcome;
};

struct values {
	float *all;
	size_t count, room;
};

struct tally {
	char name[TALLY_NAME_BYTES];
	uint64_t requests, errors, bytes;
	double response_ms; /* the sum */
};

/* The last place takes the rest. */
struct tallies {
	unsigned count;
	struct tally all[TALLIES_MAX];
};

struct second {
	uint32_t requests, errors, in_flight;
	double response_ms; /* the sum */
};

struct measures {
	uint64_t start_us, from_us, until_us; /* of the run, and of the measured time */
	int64_t to_unix_us;
	uint64_t outcomes[OUTCOMES];
	uint64_t bytes, connections, connect_failures, reopened, lookups, lookup_failures;
	double lookup_ms, censored_age_ms; /* sums */
	struct values response_ms, connect_ms, first_byte_ms;
	struct tallies servers, nodes;
	unsigned in_flight;
	uint64_t in_flight_since_us;
	double in_flight_us; /* integral over the measured time */
	unsigned second_count;
	struct second *seconds; /* of the whole run */
	uint64_t wakes, lag_most_us;
	double lag_us; /* the sum: how late pauses ended */
	bool out_of_memory;
	FILE *log;
	bool log_is_surge;
	const char *prefix;
};

/* 0, or STATUS_FAILED after a message. The run begins at start_us. */
int measures_open(struct measures *measures, const struct options *options, uint64_t start_us);
/* Frees everything; false after a message when the log could not be written. */
bool measures_close(struct measures *measures, const struct options *options);

bool measures_inside(const struct measures *measures, uint64_t now_us);
void measures_begin(struct measures *measures, unsigned count, uint64_t now_us);
void measures_end(struct measures *measures, const struct transfer *transfer);
void measures_connected(struct measures *measures, uint64_t took_us, uint64_t now_us);
void measures_looked_up(struct measures *measures, uint64_t took_us, bool found, uint64_t now_us);
/* A pause that should have ended at due_us ends now. */
void measures_woke(struct measures *measures, uint64_t due_us, uint64_t now_us);
/* The run ends earlier than planned, or now: closes the integral. */
void measures_stop(struct measures *measures, uint64_t now_us);

#endif
