/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim.h - simulates a cluster with a virtual clock: the decisions of dprd, and the duration of connections.
 *
 * A discrete-event simulation. Every decision is made by decide() and the policies of the daemon, on views that are
 * filled as dprd/cluster/view.c fills them; only the network, the web servers and the clients are models. The same
 * setup gives the same run to the bit. dpr-sim(1) explains each setting.
 */
#ifndef DPRD_SIM_SIM_H
#define DPRD_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/core/decide/decide.h"

enum {
	SIM_NODES_MAX = POLICY_NODES_MAX,
	SIM_WORKERS_MAX = 1024, /* of one node */
	SIM_FAILURES_MAX = 256,
	SIM_ERRORS_TIMES = 100, /* a server that fails is this many times as fast, unless the setup says */
	SIM_FLOWS_MAX = 262144, /* of one node's flow table */
	SIM_BURST_MAX = 1000000,
	SIM_BURST_PERIODS = 6, /* within the last of these a burst begins, unless the setup says when */
};

enum sim_service {
	SIM_FIFO, /* each worker serves one connection, the others wait in the order of arrival */
	SIM_PS, /* all are served at once and share the workers; one uses at most one worker */
};

enum sim_law_kind { SIM_LAW_EXP, SIM_LAW_DET, SIM_LAW_PARETO, SIM_LAW_LOGNORMAL };

/* A service-time law, of mean 1. */
struct sim_law {
	enum sim_law_kind kind;
	double shape; /* PARETO: alpha > 0; LOGNORMAL: sigma */
	double most; /* PARETO: no value is above this many means */
};

/* How nodes learn each other's loads. */
enum sim_tables {
	SIM_TABLES_AUTO, /* SHARED without loss and failures, otherwise OWN */
	SIM_TABLES_SHARED, /* all nodes hear the same: one table for all */
	SIM_TABLES_OWN, /* one table for each node: loss, silence, echoes */
	SIM_TABLES_REAL, /* loadcast/core/table.c and its datagrams; at most MEMBERS_MAX nodes */
};

enum sim_fate {
	SIM_DIES,
	SIM_REVIVES,
	SIM_FAILS, /* its web server answers with errors from now on, quickly */
	SIM_RESTARTS, /* its dprd restarts */
};

struct sim_failure {
	double at_s;
	unsigned node;
	enum sim_fate fate;
};

/* Connections that arrive in a short time and stay open: WebSockets that reconnect, for example. */
struct sim_burst {
	unsigned connections; /* 0: there is no burst */
	unsigned entries; /* the first N nodes get them in turn */
	double at_s; /* of the first one; negative: a random moment of the sixth period */
	double span_s; /* from the first one to the last one; 0: all at once */
	double hold_s; /* each stays open for this long; 0: to the end of the run */
};

struct sim_setup {
	unsigned nodes, workers;
	enum sim_service service;
	struct sim_law law;
	double service_mean_s; /* on a node of capacity 1 */
	double load; /* arriving work / what all workers can do */
	double share[SIM_NODES_MAX]; /* of the arrivals that come to a node first; sums to 1 */
	double capacity[SIM_NODES_MAX]; /* speed of a node's workers */
	double weight[SIM_NODES_MAX]; /* as in dprd.conf */
	double period_s, jitter; /* announcements: period * (1 - jitter .. 1 + jitter) */
	double loss; /* probability that one node misses one announcement */
	double delay_s; /* of an announcement */
	double tick_s; /* a node looks into its table at multiples of this; 0: always */
	double hop_s; /* the delay of a forwarded connection */
	unsigned dead_periods;
	const struct policy *policy;
	bool max_load_auto;
	double max_load, min_advantage; /* as in dprd.conf */
	bool second_look; /* as in dprd.conf */
	bool suspicion; /* dprd/core/policy/suspicion.h */
	double fail_times; /* servers that fail are this many times as fast */
	enum sim_tables tables;
	unsigned flows; /* of each node's flow table; 0: tables that are never full */
	uint64_t connections; /* the run ends after this many arrivals */
	double seconds; /* or after this time; 0: no such bound (not for both) */
	double warmup_s; /* arrivals before this are not in the result */
	unsigned failure_count;
	struct sim_failure failure[SIM_FAILURES_MAX]; /* by time */
	struct sim_burst burst;
	uint64_t seed;
};

/* Counts connections that arrived after the warm-up, except where noted. */
struct sim_result {
	uint64_t arrived, completed;
	uint64_t lost; /* sent to, served by or forwarded by a node that died */
	uint64_t refused; /* came to a dead node */
	uint64_t forwarded; /* at least once */
	uint64_t errors, completed_since; /* connections that arrived since a server failed: errors, and all */
	uint64_t sent_back, chosen_again; /* by the node where they landed; and then to another one */
	uint64_t all_arrived, all_ended; /* warm-up included */
	uint64_t announcements, decisions;
	uint64_t reasons[REASONS];
	double measured_s; /* from the warm-up to the last arrival */
	double rate_per_s; /* completed connections within that time */
	double mean_s, p50_s, p90_s, p99_s, max_s; /* from the arrival at the cluster to the end of service */
	double utilisation, utilisation_least, utilisation_most; /* of all workers; of one node's */
	double imbalance; /* coefficient of variation of open connections per capacity, averaged in time */
	double open_mean; /* open connections of a node, averaged over nodes and time */
	unsigned open_most; /* of one node, ever */
	double jain; /* Jain's index of the connections served per capacity: 1 / nodes .. 1 */
	uint64_t burst_sent_back; /* burst connections; they count in nothing else but the next one */
	double burst_ratio; /* once all are placed: held per weight, the fullest node / all nodes; 0: no burst */
	uint64_t fingerprint; /* hash of the node and time of each service: equal runs have equal ones */
};

/* Sets every field to what dpr-sim(1) calls its default; policy is the first of policies[]. */
void sim_setup_default(struct sim_setup *ret);

/* True when a web server fails: then the result has errors. */
bool sim_has_errors(const struct sim_setup *setup);

/* Arrivals per second to the whole cluster. */
double sim_arrivals_per_s(const struct sim_setup *setup);

/* Seconds that the run takes by its bounds, without the connections still open then. */
double sim_expected_s(const struct sim_setup *setup);

/*
 * The fault of a setup, as text that says what to do; NULL when it can be run. The text is static or written to
 * message.
 */
const char *sim_setup_error(const struct sim_setup *setup, char *message, unsigned message_bytes);

/* Called from time to time; done: share of the run. May be NULL. False ends the run. */
typedef bool sim_progress_fn(void *context, double done);

/* Runs a setup without error. 0; -ENOMEM; -EINTR when progress ended it. */
int sim_run(const struct sim_setup *setup, sim_progress_fn *progress, void *context, struct sim_result *ret);

#endif
