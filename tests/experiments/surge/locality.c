// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * locality.c - references that come again soon: the LRU stack.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/experiments/surge/dist.h"
#include "tests/experiments/surge/locality.h"
#include "tests/experiments/surge/streams.h"

/*
 * A file above NEAR_DEPTH is found there by the drawn depths; one below would wait for ever. The first
 * reference of a clump comes from far below, so clumps are as large as they may be; but those of a rare file
 * are small, because rare files are the large ones and many users would fetch one at once.
 */
enum { BACKLOG = 1200, NEAR_DEPTH = 40, CLUMP_LEAST = 4, CLUMP_MOST = 32, CLUMP_OF_AVERAGE = 27 };

struct locality {
	const struct file_set *set;
	struct prng prng;
	unsigned count;
	unsigned backlog; /* the sum of owed[] */
	uint32_t *stack; /* [0] was used last */
	uint32_t *owed; /* of each file: references to come */
	double *up_to; /* of each file: the clumps to be expected up to and with it */
};

static unsigned clump_of(const struct locality *locality, uint32_t file)
{
	const struct file_set *set = locality->set;
	const double clump = CLUMP_OF_AVERAGE * (double)set->files[file].requests / (double)set->requests * set->count;

	if (clump < CLUMP_LEAST)
		return CLUMP_LEAST;
	return clump > CLUMP_MOST ? CLUMP_MOST : (unsigned)clump;
}

struct locality *locality_new(const struct file_set *set, uint64_t seed)
{
	struct locality *locality = calloc(1, sizeof(*locality));
	double sum = 0;

	if (!locality)
		return NULL;
	locality->set = set;
	locality->count = set->count;
	locality->prng = prng_new(seed, STREAM_REFERENCES, 0);
	locality->stack = calloc(set->count, sizeof(*locality->stack));
	locality->owed = calloc(set->count, sizeof(*locality->owed));
	locality->up_to = calloc(set->count, sizeof(*locality->up_to));
	if (!locality->stack || !locality->owed || !locality->up_to) {
		locality_free(locality);
		return NULL;
	}
	for (unsigned i = 0; i < set->count; i++) {
		locality->stack[i] = i;
		locality->up_to[i] = sum += (double)set->files[i].requests / clump_of(locality, i);
	}
	return locality;
}

void locality_free(struct locality *locality)
{
	if (!locality)
		return;
	free(locality->up_to);
	free(locality->owed);
	free(locality->stack);
	free(locality);
}

static uint32_t draw_popular(struct locality *locality)
{
	const double point = prng_unit(&locality->prng) * locality->up_to[locality->count - 1];
	uint32_t low = 0, high = locality->count - 1;

	while (low < high) {
		const uint32_t middle = (low + high) / 2;

		if (locality->up_to[middle] > point)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The file at a depth, from 0, is used: it goes on top. */
static uint32_t use(struct locality *locality, unsigned depth)
{
	const uint32_t file = locality->stack[depth];

	memmove(locality->stack + 1, locality->stack, depth * sizeof(*locality->stack));
	locality->stack[0] = file;
	locality->owed[file]--;
	locality->backlog--;
	return file;
}

static unsigned depth_of(const struct locality *locality, uint32_t file)
{
	unsigned depth = 0;

	while (locality->stack[depth] != file)
		depth++;
	return depth;
}

/* Among the files from one depth to another, by what they are owed; count when none is owed anything. */
static unsigned pick_between(struct locality *locality, unsigned from, unsigned until)
{
	uint64_t sum = 0;
	double point;

	for (unsigned depth = from; depth <= until; depth++)
		sum += locality->owed[locality->stack[depth]];
	if (!sum)
		return locality->count;
	point = prng_unit(&locality->prng) * (double)sum;
	for (unsigned depth = from; depth < until; depth++) {
		point -= locality->owed[locality->stack[depth]];
		if (point < 0)
			return depth;
	}
	return until;
}

static unsigned pick_around(struct locality *locality, unsigned depth)
{
	unsigned window = depth / 4, picked;

	for (;; window += 1 + window / 2) {
		const unsigned from = depth > window ? depth - window : 0;
		const unsigned until = depth + window < locality->count ? depth + window : locality->count - 1;

		picked = pick_between(locality, from, until);
		if (picked < locality->count)
			return picked;
	}
}

uint32_t locality_next(struct locality *locality)
{
	double depth;

	while (locality->backlog < BACKLOG) {
		const uint32_t file = draw_popular(locality);
		unsigned at;

		locality->owed[file] += clump_of(locality, file);
		locality->backlog += clump_of(locality, file);
		at = depth_of(locality, file);
		if (at >= NEAR_DEPTH)
			return use(locality, at);
	}
	depth = ceil(lognormal_quantile(prng_unit(&locality->prng), MODEL_STACK_MU, MODEL_STACK_SIGMA));
	if (depth > locality->count)
		depth = locality->count;
	return use(locality, pick_around(locality, (unsigned)depth - 1));
}
