// SPDX-License-Identifier: GPL-2.0-or-later
/* histogram.c - finds the bin of a value, and the value that a bin stands for. */
#include "dprd/sim/histogram.h"

#include <math.h>

static unsigned bin_of(double value)
{
	int exponent;
	double part = frexp(value, &exponent); /* value = part * 2^exponent, 0.5 <= part < 1 */

	if (!(value > 0) || exponent <= HISTOGRAM_EXPONENT_LEAST)
		return 0;
	if (exponent > HISTOGRAM_EXPONENT_MOST)
		return HISTOGRAM_BINS - 1;
	return (unsigned)(exponent - HISTOGRAM_EXPONENT_LEAST - 1) * HISTOGRAM_PARTS +
	       (unsigned)((part - 0.5) * 2 * HISTOGRAM_PARTS);
}

/* Returns the lower edge of a bin. */
static double edge(double bin)
{
	double whole = floor(bin / HISTOGRAM_PARTS), part = bin / HISTOGRAM_PARTS - whole;

	return ldexp(0.5 + part / 2, (int)whole + HISTOGRAM_EXPONENT_LEAST + 1);
}

void histogram_add(struct histogram *histogram, double value)
{
	/* Kahan's sum, because ten million small values are added to a large sum. */
	double low = value - histogram->sum_low, sum = histogram->sum + low;

	histogram->sum_low = sum - histogram->sum - low;
	histogram->sum = sum;
	histogram->count++;
	histogram->bins[bin_of(value)]++;
	if (value > histogram->most)
		histogram->most = value;
}

double histogram_mean(const struct histogram *histogram)
{
	return histogram->count ? histogram->sum / (double)histogram->count : 0;
}

double histogram_percentile(const struct histogram *histogram, double share)
{
	double wanted = share * (double)histogram->count, below = 0;

	if (!histogram->count)
		return 0;
	for (unsigned i = 0; i < HISTOGRAM_BINS; i++) {
		double here = (double)histogram->bins[i], value;

		if (here <= 0 || below + here < wanted) {
			below += here;
			continue;
		}
		value = edge(i + (wanted - below) / here);
		return value < histogram->most ? value : histogram->most;
	}
	return histogram->most;
}
