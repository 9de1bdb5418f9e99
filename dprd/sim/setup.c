// SPDX-License-Identifier: GPL-2.0-or-later
/* setup.c - the defaults of a setup, values computed from it, and its checks. */
#include <math.h>
#include <stdio.h>

#include "dprd/sim/sim.h"
#include "loadcast/load.h"

static const double share_slack = 1e-6; /* the sum of shares may miss 1 by this */

void sim_setup_default(struct sim_setup *ret)
{
	*ret = (struct sim_setup) {
		.nodes = 16,
		.workers = 1,
		.service = SIM_FIFO,
		.law = { .kind = SIM_LAW_EXP },
		.service_mean_s = 0.01,
		.load = 0.8,
		.period_s = 0.2,
		.jitter = 0.5,
		.delay_s = 0.0002,
		.hop_s = 0.0002,
		.dead_periods = 5,
		.policy = policies[0],
		.max_load_auto = true,
		.second_look = true,
		.suspicion = true,
		.fail_times = SIM_ERRORS_TIMES,
		.connections = 200000,
		.seed = 1,
		.burst = { .entries = 1, .at_s = -1 },
	};
	for (unsigned i = 0; i < SIM_NODES_MAX; i++) {
		ret->share[i] = i < ret->nodes ? 1.0 / ret->nodes : 0;
		ret->capacity[i] = ret->weight[i] = 1;
	}
}

bool sim_has_errors(const struct sim_setup *setup)
{
	for (unsigned i = 0; i < setup->failure_count; i++)
		if (setup->failure[i].fate == SIM_FAILS)
			return true;
	return false;
}

double sim_arrivals_per_s(const struct sim_setup *setup)
{
	double capacity = 0;

	for (unsigned i = 0; i < setup->nodes; i++)
		capacity += setup->capacity[i];
	return setup->load * capacity * setup->workers / setup->service_mean_s;
}

double sim_expected_s(const struct sim_setup *setup)
{
	const struct sim_burst *burst = &setup->burst;
	double burst_at_s = burst->at_s < 0 ? SIM_BURST_PERIODS * setup->period_s : burst->at_s;
	double by_count = setup->connections ? (double)setup->connections / sim_arrivals_per_s(setup) : INFINITY;
	double by_time = setup->seconds > 0 ? setup->seconds : INFINITY;

	if (!(setup->load > 0))
		return burst_at_s + burst->span_s;
	return fmin(by_count, by_time);
}

static const char *nodes_error(const struct sim_setup *setup)
{
	double shares = 0;

	for (unsigned i = 0; i < setup->nodes; i++) {
		if (!(setup->share[i] >= 0) || !isfinite(setup->share[i]))
			return "a share of the arrivals is negative or no number";
		if (!(setup->capacity[i] > 0) || !isfinite(setup->capacity[i]))
			return "a capacity is not above 0";
		if (!(setup->weight[i] >= 0) || !isfinite(setup->weight[i]))
			return "a weight is negative or no number";
		shares += setup->share[i];
	}
	return fabs(shares - 1) > share_slack ? "the shares of the arrivals do not sum to 1" : NULL;
}

static const char *law_error(const struct sim_setup *setup)
{
	if (setup->law.kind == SIM_LAW_PARETO && !(setup->law.shape > 0 && setup->law.most > 1))
		return "pareto needs an alpha above 0, and its largest value above the mean";
	if (setup->law.kind == SIM_LAW_LOGNORMAL && !(setup->law.shape >= 0 && setup->law.shape <= 5))
		return "lognormal needs a sigma from 0 to 5";
	if (!(setup->service_mean_s > 0) || !isfinite(setup->load) ||
	    !(setup->load > 0 || (setup->load >= 0 && setup->burst.connections)))
		return "load and mean service time must be above 0; with a burst the load may be 0";
	return NULL;
}

static const char *time_error(const struct sim_setup *setup)
{
	if (!(setup->period_s > 0) || !(setup->jitter >= 0 && setup->jitter < 1))
		return "the announcement period must be above 0, and its jitter from 0 to below 100 %";
	if (!(setup->loss >= 0 && setup->loss < 1))
		return "the loss of announcements must be from 0 to below 100 %";
	if (!(setup->delay_s >= 0 && setup->hop_s >= 0 && setup->tick_s >= 0 && setup->warmup_s >= 0))
		return "a time is negative";
	if (!setup->connections && !(setup->seconds > 0))
		return "the run has no end: give connections or seconds";
	if (!(setup->burst.span_s >= 0 && setup->burst.hold_s >= 0))
		return "a time of the burst is negative";
	if (setup->dead_periods < 2)
		return "dead periods: at least 2";
	return NULL;
}

/* The daemon's configuration is in whole milliseconds, and weights are whole numbers. */
static const char *real_error(const struct sim_setup *setup)
{
	double period_ms = setup->period_s * 1000;

	if (setup->tables != SIM_TABLES_REAL)
		return NULL;
	if (setup->nodes > MEMBERS_MAX)
		return "real tables hold 64 nodes: fewer nodes, or other tables";
	if (period_ms < 50 || period_ms > 10000 || fabs(period_ms - round(period_ms)) > 1e-6)
		return "real tables need a period from 50ms to 10s in whole milliseconds";
	for (unsigned i = 0; i < setup->nodes; i++)
		if (fabs(setup->weight[i] - round(setup->weight[i])) > 0 || setup->weight[i] > 1000)
			return "real tables need whole weights up to 1000";
	return NULL;
}

const char *sim_setup_error(const struct sim_setup *setup, char *message, unsigned message_bytes)
{
	const char *error;

	if (setup->nodes < 1 || setup->nodes > SIM_NODES_MAX) {
		snprintf(message, message_bytes, "nodes: 1 to %d", SIM_NODES_MAX);
		return message;
	}
	if (setup->workers < 1 || setup->workers > SIM_WORKERS_MAX) {
		snprintf(message, message_bytes, "workers: 1 to %d", SIM_WORKERS_MAX);
		return message;
	}
	if (setup->flows > SIM_FLOWS_MAX) {
		snprintf(message, message_bytes, "flows: at most %d", SIM_FLOWS_MAX);
		return message;
	}
	for (unsigned i = 0; i < setup->failure_count; i++) {
		if (setup->failure[i].node < setup->nodes)
			continue;
		snprintf(message, message_bytes,
			 "there is no node %u to kill, revive, restart or fail: there are 1 to %u",
			 setup->failure[i].node + 1, setup->nodes);
		return message;
	}
	if (setup->burst.connections > SIM_BURST_MAX || setup->burst.entries < 1 ||
	    setup->burst.entries > setup->nodes) {
		snprintf(message, message_bytes, "a burst has at most %d connections, and 1 to %u entry nodes",
			 SIM_BURST_MAX, setup->nodes);
		return message;
	}
	if (setup->tables == SIM_TABLES_SHARED && (setup->loss > 0 || setup->failure_count))
		return "with loss or failures the nodes do not hear the same: no shared table";
	error = nodes_error(setup);
	if (!error)
		error = law_error(setup);
	if (!error)
		error = time_error(setup);
	return error ? error : real_error(setup);
}
