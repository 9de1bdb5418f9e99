/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sim_setups.h - runs of the simulator for its tests: small, with fixed seeds, judged by theory. */
#ifndef TESTS_UNIT_SIM_SETUPS_H
#define TESTS_UNIT_SIM_SETUPS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdlib.h>

#include <cmocka.h>

#include "dprd/sim/values.h"

/* UNIT_SHORT: a quarter, for valgrind; estimates are then less exact. */
static inline unsigned sim_fewer(unsigned normal)
{
	return getenv("UNIT_SHORT") ? normal / 4 : normal;
}

static inline double sim_slack(double normal)
{
	return getenv("UNIT_SHORT") ? 3 * normal : normal;
}

/* Sets the warm-up after a change of the arrivals: a tenth of the run. */
static inline void sim_warm_up(struct sim_setup *setup)
{
	setup->warmup_s = sim_expected_s(setup) / 10;
}

/* Without costs and delays, a connection takes 1 s; loads as fresh as can be. */
static inline struct sim_setup sim_plain(unsigned nodes, const struct policy *policy, unsigned connections)
{
	struct sim_setup setup;

	sim_setup_default(&setup);
	setup.nodes = nodes;
	setup.policy = policy;
	setup.connections = sim_fewer(connections);
	setup.service_mean_s = 1;
	setup.period_s = 1;
	setup.delay_s = setup.hop_s = 0;
	assert_true(value_skew("uniform", nodes, setup.share));
	sim_warm_up(&setup);
	return setup;
}

static inline struct sim_result sim_go(const struct sim_setup *setup)
{
	struct sim_result result;
	char message[256];

	assert_null(sim_setup_error(setup, message, sizeof(message)));
	assert_int_equal(sim_run(setup, NULL, NULL, &result), 0);
	/* Every connection ends once, whatever happened to it. */
	assert_int_equal(result.all_ended, result.all_arrived);
	assert_int_equal(result.arrived, result.completed + result.lost + result.refused);
	return result;
}

static inline void assert_near(const char *what, double value, double theory, double slack)
{
	print_message("         %s: %.4f, theory %.4f, within %.1f %%\n", what, value, theory, 100 * slack);
	assert_true(fabs(value - theory) <= slack * theory);
}

#endif
