/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * histogram.h - counts delays in bins of 1/128 of a power of two: the error of a percentile is less than 0.6 %. Mean
 * and maximum are exact.
 */
#ifndef DPRD_SIM_HISTOGRAM_H
#define DPRD_SIM_HISTOGRAM_H

#include <stdint.h>

enum {
	HISTOGRAM_EXPONENT_LEAST = -40, /* 2^-40 s, a picosecond; smaller values count as that */
	HISTOGRAM_EXPONENT_MOST = 40, /* 2^40 s; larger values count as that */
	HISTOGRAM_PARTS = 128,
	HISTOGRAM_BINS = (HISTOGRAM_EXPONENT_MOST - HISTOGRAM_EXPONENT_LEAST) * HISTOGRAM_PARTS,
};

struct histogram {
	uint64_t count;
	double sum, sum_low, most; /* sum_low: lost by the sum's rounding so far */
	uint64_t bins[HISTOGRAM_BINS];
};

void histogram_add(struct histogram *histogram, double value);

/* Returns 0 when the histogram is empty. */
double histogram_mean(const struct histogram *histogram);

/* The value below which this share of all values lies, 0 < share < 1; 0 when the histogram is empty. */
double histogram_percentile(const struct histogram *histogram, double share);

#endif
