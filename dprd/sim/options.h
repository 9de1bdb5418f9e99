/* SPDX-License-Identifier: GPL-2.0-or-later */
/* options.h - what the user of dpr-sim asked for: one setup, and what varies from run to run. */
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
	struct sim_setup setup; /* but for policy, period and seed */
	unsigned policy_count, period_count, repeat;
	const struct policy *policy[OPTIONS_POLICIES_MAX];
	double period_s[OPTIONS_PERIODS_MAX];
	const char *json, *csv, *plot; /* paths, or NULL; the caller's text */
	bool progress; /* asked for */
	bool help, version; /* that is all that is wanted */
};

/* True and *ret; else what is wrong and what to do, in one line without its end. */
bool options_read(int argc, char **argv, struct options *ret, char error[OPTIONS_ERROR_BYTES]);

/* The text for --help. */
extern const char options_usage[];

#endif
