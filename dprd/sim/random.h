/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * random.h - streams of random numbers that a seed repeats, and the laws drawn from them.
 *
 * xoshiro256** (Blackman, Vigna, 2018), one stream for each purpose: the draws of one policy do not change the arrivals
 * of the next one.
 */
#ifndef DPRD_SIM_RANDOM_H
#define DPRD_SIM_RANDOM_H

#include "dprd/sim/sim.h"

struct random_stream {
	uint64_t state[4];
};

/* Streams of one seed with different purposes are independent. */
void random_start(struct random_stream *stream, uint64_t seed, uint64_t purpose);

uint64_t random_bits(struct random_stream *stream);

/* In (0, 1): without the ends, so that its logarithm is finite. */
double random_uniform(struct random_stream *stream);

/* Exponential with mean 1. */
double random_exponential(struct random_stream *stream);

/* A law, ready to draw from. */
struct law {
	struct sim_law law;
	double least; /* PARETO: the lowest value */
	double below_most; /* PARETO: the share of the unbounded law that lies below the bound */
};

/* Sets the scale so that the mean is 1, bound included. */
void law_start(struct law *law, const struct sim_law *from);
double law_draw(const struct law *law, struct random_stream *stream);

/* Draws an index by its share in constant time (Walker's alias method, improved by Vose, 1991). */
struct alias {
	unsigned count;
	double keep[SIM_NODES_MAX];
	uint16_t other[SIM_NODES_MAX];
};

/* The shares sum to 1 and are not negative; 1 <= count <= SIM_NODES_MAX. */
void alias_start(struct alias *alias, const double *share, unsigned count);
unsigned alias_draw(const struct alias *alias, struct random_stream *stream);

#endif
