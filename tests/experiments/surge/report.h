/* SPDX-License-Identifier: GPL-2.0-or-later */
/* report.h - the output of a run: the summary, the series of seconds, the progress. */
#ifndef TESTS_EXPERIMENTS_SURGE_REPORT_H
#define TESTS_EXPERIMENTS_SURGE_REPORT_H

#include "tests/experiments/surge/measure.h"
#include "tests/experiments/surge/options.h"

/* A line on standard error about the second before now_us. */
void report_progress(const struct measures *measures, const struct options *options, uint64_t now_us, bool is_terminal);

/* The text summary on standard output, JSON and CSV into their files. Sorts the values. False after a message. */
bool report_run(struct measures *measures, const struct options *options, const struct file_set *set);

#endif
