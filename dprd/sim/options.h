/* SPDX-License-Identifier: GPL-2.0-or-later */
/* options.h - the command line of dpr-sim: one setup, and the values that vary from run to run. */
#ifndef DPRD_SIM_OPTIONS_H
#define DPRD_SIM_OPTIONS_H

#include "dprd/sim/sim.h"

enum {
	OPTIONS_POLICIES_MAX = 64,
	OPTIONS_PERIODS_MAX = 64,
	OPTIONS_REPEAT_MAX = 1000,
	OPTIONS_ERROR_BYTES = 256,
};

struct options {
	struct sim_setup setup; /* except policy, period and seed */
	unsigned policy_count, period_count, repeat;
	const struct policy *policy[OPTIONS_POLICIES_MAX];
	double period_s[OPTIONS_PERIODS_MAX];
	const char *json, *csv, *plot; /* paths, or NULL; text of the caller */
	bool progress; /* print progress */
	bool help, version; /* print only that */
};

/* True and *ret; or false and the fault with its remedy, in one line without its end. */
bool options_read(int argc, char **argv, struct options *ret, char error[OPTIONS_ERROR_BYTES]);

/* The text for --help. */
extern const char options_usage[];

#endif
