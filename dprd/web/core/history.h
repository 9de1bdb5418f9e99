/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * history.h - the last ten minutes: rates of new connections, loads, and how even they are.
 *
 * A ring of fixed size. A value that is not known is NAN, and null in JSON: dprd did not answer, or it started between
 * two samples, or a member is not heard.
 */
#ifndef DPRD_WEB_HISTORY_H
#define DPRD_WEB_HISTORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "dprd/config/config.h"

enum {
	HISTORY_PERIOD_MS = 5000,
	HISTORY_POINTS = 10 * 60 * 1000 / HISTORY_PERIOD_MS,
};

/* Rates are new connections per second. */
enum history_value {
	HISTORY_SERVED, /* served where they arrived */
	HISTORY_FORWARDED,
	HISTORY_TAKEN, /* served for peers */
	HISTORY_IMBALANCE, /* standard deviation of the loads over their mean */
	HISTORY_VALUES,
};

struct history_member {
	char name[NAME_BYTES];
	double load, arrivals; /* NAN: not known */
	bool counts; /* it may get connections: its load is a part of the imbalance */
};

/* The facts of one answer to "status"; counts are those since that dprd started. */
struct history_sample {
	bool up;
	int64_t at_ms; /* the wall clock, for the reader */
	uint64_t now_ms; /* a clock that never steps, for rates */
	double run; /* names the process whose counts these are */
	double total[HISTORY_IMBALANCE];
	unsigned member_count;
	struct history_member member[MEMBERS_MAX];
};

struct history_point {
	int64_t at_ms;
	bool up;
	float value[HISTORY_VALUES];
	float load[MEMBERS_MAX], arrivals[MEMBERS_MAX]; /* by slot */
};

/* Zeroed at the start. */
struct history {
	struct history_point point[HISTORY_POINTS];
	unsigned next, count;
	char name[MEMBERS_MAX][NAME_BYTES]; /* by slot; empty: free */
	/* The counts of the last sample. */
	bool known;
	double run, total[HISTORY_IMBALANCE];
	uint64_t now_ms;
};

/* Reads an answer to "status"; status without such members, or NULL: dprd is not up. */
void history_read(const json_t *status, int64_t at_ms, uint64_t now_ms, struct history_sample *ret);
void history_add(struct history *history, const struct history_sample *sample);
/* Oldest first. NULL: no memory. */
json_t *history_json(const struct history *history);

#endif
