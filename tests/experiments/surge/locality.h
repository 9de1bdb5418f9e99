/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * locality.h - an endless sequence of references to the files of a set, with temporal locality.
 *
 * Files stand in a stack, the one used last on top. The depth at which the next reference finds its file is drawn
 * (lognormal), and among the files around that depth one is taken that still has references to come: the more, the
 * likelier. Popularity comes in as clumps: whenever few references are left to be made, a file is drawn by its
 * popularity and gets a clump more. So every stretch of some thousand references has both the distances and the
 * popularity of the model; a fixed plan that is used up would have them only as a whole. Pure, except for memory.
 */
#ifndef TESTS_EXPERIMENTS_SURGE_LOCALITY_H
#define TESTS_EXPERIMENTS_SURGE_LOCALITY_H

#include <stdint.h>

#include "tests/experiments/surge/objects.h"

struct locality;

/* The set must have requests, and outlive this. NULL when out of memory. */
struct locality *locality_new(const struct file_set *set, uint64_t seed);
void locality_free(struct locality *locality);
/* The next file: an index into the set. */
uint32_t locality_next(struct locality *locality);

#endif
