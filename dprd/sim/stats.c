// SPDX-License-Identifier: GPL-2.0-or-later
/* stats.c - sums over time, and the results made of them. */
#include "dprd/sim/stats.h"

#include <math.h>
#include <stdlib.h>

bool stats_init(struct stats *stats, const struct sim_setup *setup)
{
	*stats = (struct stats) {
		.setup = setup,
		.alive = setup->nodes,
		.errors_from_s = INFINITY,
		.served = calloc(setup->nodes, sizeof(*stats->served)),
		.delays = calloc(1, sizeof(*stats->delays)),
	};
	for (unsigned i = setup->failure_count; i-- > 0;)
		if (setup->failure[i].fate == SIM_FAILS)
			stats->errors_from_s = setup->failure[i].at_s;
	if (stats->served && stats->delays)
		return true;
	stats_free(stats);
	return false;
}

void stats_free(struct stats *stats)
{
	free(stats->served);
	free(stats->delays);
	stats->served = NULL;
	stats->delays = NULL;
}

/* Adds the time since at_s, in which nothing changed. */
static void go_on(struct stats *stats, double now_s)
{
	double passed_s = now_s - stats->at_s, mean = stats->alive ? stats->sum / stats->alive : 0;

	stats->at_s = now_s;
	if (!stats->measuring)
		return;
	stats->sum_time += mean * passed_s;
	/* Without open connections nothing is uneven. */
	if (stats->sum > 0.5 / SIM_NODES_MAX) {
		double variance = stats->squares / stats->alive - mean * mean;

		stats->uneven_time += variance > 0 ? sqrt(variance) / mean * passed_s : 0;
		stats->counted_s += passed_s;
	}
}

static void account_servers(struct servers *servers, double now_s)
{
	for (unsigned i = 0; i < servers->count; i++)
		server_account(servers, i, now_s);
}

void stats_begin(struct stats *stats, struct servers *servers, double now_s)
{
	go_on(stats, now_s);
	account_servers(servers, now_s);
	for (unsigned i = 0; i < servers->count; i++)
		servers->server[i].busy_worker_s = 0;
	stats->measuring = true;
	stats->begun_s = now_s;
}

void stats_end(struct stats *stats, struct servers *servers, double now_s)
{
	struct sim_result *r = &stats->result;
	double all = 0, workers = stats->setup->workers;

	if (!stats->measuring)
		return;
	go_on(stats, now_s);
	account_servers(servers, now_s);
	stats->measuring = false;
	stats->ended_s = now_s;
	r->measured_s = now_s - stats->begun_s;
	r->utilisation_least = INFINITY;
	for (unsigned i = 0; i < servers->count && r->measured_s > 0; i++) {
		double busy = servers->server[i].busy_worker_s / workers / r->measured_s;

		all += servers->server[i].busy_worker_s * servers->server[i].speed;
		r->utilisation += servers->server[i].speed;
		r->utilisation_least = fmin(r->utilisation_least, busy);
		r->utilisation_most = fmax(r->utilisation_most, busy);
	}
	r->utilisation = all > 0 ? all / workers / r->measured_s / r->utilisation : 0;
}

void stats_change_open(struct stats *stats, unsigned node, unsigned before, unsigned after, double now_s)
{
	double capacity = stats->setup->capacity[node], was = before / capacity, is = after / capacity;

	go_on(stats, now_s);
	stats->sum += is - was;
	stats->squares += is * is - was * was;
	if (after > stats->result.open_most)
		stats->result.open_most = after;
}

void stats_change_alive(struct stats *stats, bool up, double now_s)
{
	go_on(stats, now_s);
	stats->alive += up ? 1 : -1U;
}

void stats_complete(struct stats *stats, const struct connection *connection, double now_s)
{
	struct sim_result *r = &stats->result;

	r->fingerprint = policy_mix(r->fingerprint ^ connection->number);
	r->fingerprint = policy_mix(r->fingerprint ^ connection->server);
	/* The time is rounded to a nanosecond, the clock's precision after ten thousand seconds. */
	r->fingerprint = policy_mix(r->fingerprint ^ (uint64_t)(now_s * 1e9));
	stats->completed_in_time += stats->measuring;
	if (!stats_counts(stats, connection->arrived_s))
		return;
	r->completed++;
	if (connection->arrived_s >= stats->errors_from_s) {
		r->completed_since++;
		r->errors += connection->error;
	}
	stats->served[connection->server]++;
	histogram_add(stats->delays, now_s - connection->arrived_s);
}

static double jain(const struct stats *stats)
{
	double sum = 0, squares = 0;

	for (unsigned i = 0; i < stats->setup->nodes; i++) {
		double served = (double)stats->served[i] / stats->setup->capacity[i];

		sum += served;
		squares += served * served;
	}
	return squares > 0 ? sum * sum / squares / stats->setup->nodes : 0;
}

void stats_result(struct stats *stats, struct sim_result *ret)
{
	struct sim_result *r = &stats->result;

	r->rate_per_s = r->measured_s > 0 ? (double)stats->completed_in_time / r->measured_s : 0;
	r->mean_s = histogram_mean(stats->delays);
	r->p50_s = histogram_percentile(stats->delays, 0.5);
	r->p90_s = histogram_percentile(stats->delays, 0.9);
	r->p99_s = histogram_percentile(stats->delays, 0.99);
	r->max_s = stats->delays->most;
	r->imbalance = stats->counted_s > 0 ? stats->uneven_time / stats->counted_s : 0;
	r->open_mean = r->measured_s > 0 ? stats->sum_time / r->measured_s : 0;
	r->jain = jain(stats);
	*ret = *r;
}
