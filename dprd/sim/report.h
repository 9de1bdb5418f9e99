/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report.h - the results for people and programs. Each form begins with a line that says that it is
 * simulated.
 */
#ifndef DPRD_SIM_REPORT_H
#define DPRD_SIM_REPORT_H

#include <stdio.h>

#include "dprd/sim/options.h"

/* One policy and one period; run[r] has the seed setup.seed + r. */
struct arm {
	const struct policy *policy;
	double period_s;
	struct sim_result *run; /* options->repeat elements */
};

/* Sorted by period, then by policy, as on the command line; after an interruption some arms have no runs. */
struct report {
	const struct options *options;
	unsigned arm_count;
	struct arm *arm;
};

/* A number of a result, named as in CSV and JSON. */
struct report_column {
	const char *name, *heading;
	double (*value)(const struct sim_result *result);
	int decimals;
	enum { REPORT_ALWAYS, REPORT_BURST, REPORT_ERRORS } when; /* in the printed table */
};
extern const struct report_column report_columns[];
extern const unsigned report_column_count;

/* The least, the median and the most of a column over the runs of an arm. */
struct report_range {
	double least, median, most;
};
struct report_range report_range(const struct report *report, const struct arm *arm,
				 const struct report_column *column);

/* Mean delay of an arm / that of its policy with the shortest period; 0 when there is only one period. */
double report_ratio(const struct report *report, const struct arm *arm);

/* Writes the line that describes the simulation, without its end. */
void report_headline(const struct report *report, char *text, unsigned bytes);

void report_table(const struct report *report, FILE *file);

/* 0 or -errno. */
int report_csv(const struct report *report, const char *path);
int report_json(const struct report *report, const char *path);

/* Draws an SVG with gnuplot. 0; -ENOENT: gnuplot is missing; -EIO: it failed; otherwise -errno. */
int report_plot(const struct report *report, const char *path);

#endif
