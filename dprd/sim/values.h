/* SPDX-License-Identifier: GPL-2.0-or-later */
/* values.h - reads words of the command line as numbers. Each function returns false for any other text. */
#ifndef DPRD_SIM_VALUES_H
#define DPRD_SIM_VALUES_H

#include "dprd/sim/sim.h"

/* 12 or 0.5, finite, not negative. */
bool value_number(const char *text, double *ret);

/* A whole number from low to high. */
bool value_count(const char *text, uint64_t low, uint64_t high, uint64_t *ret);

/* 10us, 10ms, 1.5s, 2m, 1h; 0 needs no unit. In seconds. */
bool value_time(const char *text, double *ret_s);

/* 10% or 0.1: 0 to 1. */
bool value_share(const char *text, double *ret);

/* 4:1:1, at most max numbers, into ret[]. */
bool value_list(const char *text, unsigned max, double *ret, unsigned *ret_count);

/* exp, det, pareto:ALPHA, pareto:ALPHA:MOST, lognormal:SIGMA. */
bool value_law(const char *text, struct sim_law *ret);

/* uniform, zipf:S, or a list, which is repeated until all nodes have a number. Shares sum to 1. */
bool value_skew(const char *text, unsigned nodes, double *ret_share);

/* A list that is repeated until all nodes have a number. */
bool value_per_node(const char *text, unsigned nodes, double *ret);

/* 60 or 60@2s: connections of a burst, and when; without a time at_s stays as it is. */
bool value_burst(const char *text, struct sim_burst *ret);

/* 3@10s or n3@10s: node (counted from 1 in the text, from 0 in *ret) and time. */
bool value_failure(const char *text, struct sim_failure *ret);

#endif
