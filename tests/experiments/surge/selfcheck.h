/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * selfcheck.h - compares the generator's draws with the model
 *
 * Makes a file set and a plan as a run would, takes the six properties of the published model from them, and
 * compares each with its law by the distance of Kolmogorov and Smirnov. (OFF times are two, and so are sizes.)
 */
#ifndef TESTS_EXPERIMENTS_SURGE_SELFCHECK_H
#define TESTS_EXPERIMENTS_SURGE_SELFCHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum selfcheck_property {
	CHECK_FILE_SIZES,
	CHECK_LARGE_FILES, /* above the cut: too few to be seen among all */
	CHECK_POPULARITY,
	CHECK_REQUEST_SIZES,
	CHECK_PAGE_FILES,
	CHECK_LOCALITY,
	CHECK_ACTIVE_OFF,
	CHECK_INACTIVE_OFF,
	CHECKS
};

struct selfcheck {
	const char *property, *law;
	size_t values;
	double mean, distance;
	/* Independent values: 1.95/sqrt(values), which one true sample in a thousand exceeds. The others: see .c. */
	double bound;
};

/* False when out of memory. */
bool selfcheck_run(uint64_t seed, unsigned files, unsigned users, double seconds, struct selfcheck checks[CHECKS]);

#endif
