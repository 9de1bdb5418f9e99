/* SPDX-License-Identifier: GPL-2.0-or-later */
/* stats.h - measures a run: delays of connections, and the evenness of open connections, averaged in time. */
#ifndef DPRD_SIM_STATS_H
#define DPRD_SIM_STATS_H

#include "dprd/sim/histogram.h"
#include "dprd/sim/server.h"

struct stats {
	const struct sim_setup *setup;
	bool measuring; /* from the warm-up to the last arrival */
	double begun_s, ended_s;
	double errors_from_s; /* the first failure of a web server; INFINITY: none */
	double at_s; /* the averages go up to this time */
	double sum, squares; /* of open connections per capacity, over the living nodes */
	double sum_time, uneven_time, counted_s; /* sum and coefficient of variation, times time */
	unsigned alive;
	uint64_t completed_in_time;
	uint64_t *served; /* by node */
	struct histogram *delays;
	struct sim_result result;
};

bool stats_init(struct stats *stats, const struct sim_setup *setup);
void stats_free(struct stats *stats);

/* stats_begin(): the warm-up is over. stats_end(): the last connection has arrived. */
void stats_begin(struct stats *stats, struct servers *servers, double now_s);
void stats_end(struct stats *stats, struct servers *servers, double now_s);

/* The open connections of a node are about to change from before to after. */
void stats_change_open(struct stats *stats, unsigned node, unsigned before, unsigned after, double now_s);

/* A node dies or is revived; its open connections are gone already, or not yet there. */
void stats_change_alive(struct stats *stats, bool up, double now_s);

/* A connection has completed. */
void stats_complete(struct stats *stats, const struct connection *connection, double now_s);

/* True when a connection that arrived at this time is in the result. */
static inline bool stats_counts(const struct stats *stats, double arrived_s)
{
	return arrived_s >= stats->setup->warmup_s;
}

/* Call when all connections have ended. */
void stats_result(struct stats *stats, struct sim_result *ret);

#endif
