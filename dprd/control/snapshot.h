/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * control/snapshot.h - a copy of all that answers need from the running dprd: the values of one answer fit together,
 * and the lock is held only shortly.
 */
#ifndef DPRD_CONTROL_SNAPSHOT_H
#define DPRD_CONTROL_SNAPSHOT_H

#include "dprd/cluster/backend.h"
#include "dprd/cluster/state.h"
#include "dprd/rules/rules.h"

/* Counts of the last seconds, kept by control/socket.c. */
struct control_recent {
	uint64_t overruns; /* in the last CONTROL_RECENT_S seconds */
	int64_t strangers; /* tunnel packets of strangers, all; -1: not known */
	int64_t strangers_recent; /* in the last CONTROL_FIREWALL_S seconds */
	int64_t undecided; /* SYNs that passed by dprd in floods, all; -1: not known */
};

/* Copied under the lock. */
struct control_snapshot {
	uint64_t now_ms;
	struct counters counters;
	struct decision_times decision_times;
	struct flow_counts flows;
	struct load_table table;
	bool table_valid;
	struct view_node nodes[MEMBERS_MAX];
	unsigned node_count;
	bool eligible[MEMBERS_MAX]; /* by member, as the next ones */
	const char *why_not[MEMBERS_MAX];
	struct way way[MEMBERS_MAX][2];
	struct outcome outcome[MEMBERS_MAX][2];
	uint64_t forwarded[MEMBERS_MAX][2]; /* connections, since the member is one */
	struct probe_way probe[MEMBERS_MAX][2];
	double own_load, max_load; /* per unit of weight, as decide() compares them */
	const struct policy *policy;
	bool draining, minority;
	unsigned shorter_times; /* as in struct node_load, of this node */
	bool programs_decide; /* about new connections, at this moment */
	const char *decided_why; /* with Decide=auto or kernel: why not the programs, for each port alike; else NULL */
	uint32_t arrivals_per_1000_s;
	struct backend_status backends[OWN_BACKENDS_MAX]; /* by number */
	bool serves_here; /* the web server of this node gets connections, too */
};

struct control_totals {
	uint64_t seen, kind[VERDICT_DECAPSULATE + 1]; /* by enum verdict_kind */
	bool law_holds; /* seen is the sum of the others */
};

/* Takes the lock. */
void control_take_snapshot(struct dprd *d, struct control_snapshot *ret);

/* True while SYNs pass by dprd because there are too many. */
static inline bool control_passes_flood(const struct dprd *d)
{
	return !d->fastpath && d->flood.on && !d->config.own_backend_count;
}

/* Packets that were counted outside the queues since dprd started. 0 or -errno. */
int control_outside_counts(struct dprd *d, struct rules_counts *ret);

struct control_totals control_sum(const struct counters *counters);

/* There is a way: true when connections of this family that go to the member are answered, as far as is known. */
static inline bool control_answers(const struct control_snapshot *s, unsigned member, bool v6)
{
	return way_takes_new(&s->way[member][v6]) && !s->outcome[member][v6].rest_ms && !s->probe[member][v6].lost_ms;
}

/* The entry of a node in the load table; NULL: there is none. */
const struct node_load *control_node_load(const struct control_snapshot *s, uint32_t node_id);
uint64_t control_table_age_ms(const struct control_snapshot *s);
bool control_table_fresh(const struct config *config, const struct control_snapshot *s);
/* "active", "draining" or "unhealthy". */
const char *control_own_state(const struct config *config, const struct control_snapshot *s);

#endif
