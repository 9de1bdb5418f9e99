// SPDX-License-Identifier: GPL-2.0-or-later
/* control/snapshot.c - copies all that an answer needs, under the lock. */
#include "dprd/control/snapshot.h"

#include "dprd/base/clock.h"
#include "dprd/cluster/view.h"
#include "dprd/plane/decide.h"
#include "dprd/plane/plane.h"

void control_take_snapshot(struct dprd *d, struct control_snapshot *s)
{
	unsigned i;

	memset(s, 0, sizeof(*s));
	s->now_ms = clock_now_ms();
	mutex_lock(&d->lock);
	plane_count(d);
	s->counters = d->counters;
	s->decision_times = d->decision_times;
	s->flows = flow_counts(d->flows);
	s->table_valid = d->table_valid;
	if (d->table_valid)
		s->table = d->table;
	s->node_count = d->view.count;
	memcpy(s->nodes, d->view_nodes, sizeof(s->nodes));
	for (i = 0; i < d->config.member_count; i++)
		s->eligible[i] = view_member_eligible(d, i, s->now_ms, &s->why_not[i]);
	memcpy(s->way, d->ways.member, sizeof(s->way));
	memcpy(s->outcome, d->outcomes.member, sizeof(s->outcome));
	memcpy(s->forwarded, d->outcomes.forwarded, sizeof(s->forwarded));
	memcpy(s->probe, d->probes.way, sizeof(s->probe));
	s->policy = d->policy;
	s->own_load = policy_load(&d->view_nodes[0]);
	s->max_load = d->config.max_load_auto ? policy_max_load_auto(&d->view) : d->config.max_load;
	s->draining = d->draining;
	s->shorter_times = suspicion_told(&d->suspicion);
	s->minority = d->minority;
	s->programs_decide = plane_decide_runs(d);
	s->decided_why = d->fastpath && d->config.decide_in != DECIDE_QUEUE ? view_ports_differ(d) : NULL;
	s->arrivals_per_1000_s = d->arrivals_per_1000_s;
	for (i = 0; i < d->config.own_backend_count; i++)
		backend_status(d, i, &s->backends[i]);
	s->serves_here = backend_serves_here(d);
	mutex_unlock(&d->lock);
}

int control_outside_counts(struct dprd *d, struct rules_counts *ret)
{
	if (!d->fastpath)
		return rules_count(d, ret);
	mutex_lock(&d->lock);
	plane_count(d);
	/* The programs count all SYNs as decided, in a flood as well. */
	*ret = (struct rules_counts) { .strangers = (int64_t)d->counters.reason[REASON_NOT_PEER] };
	mutex_unlock(&d->lock);
	return 0;
}

const struct node_load *control_node_load(const struct control_snapshot *s, uint32_t node_id)
{
	uint32_t i;

	for (i = 0; s->table_valid && i < s->table.count; i++) {
		if (s->table.nodes[i].id == node_id)
			return &s->table.nodes[i];
	}
	return NULL;
}

uint64_t control_table_age_ms(const struct control_snapshot *s)
{
	return s->now_ms > s->table.published_ms ? s->now_ms - s->table.published_ms : 0;
}

bool control_table_fresh(const struct config *config, const struct control_snapshot *s)
{
	return s->table_valid && control_table_age_ms(s) <= (uint64_t)config->dead_periods * config->period_ms;
}

const char *control_own_state(const struct config *config, const struct control_snapshot *s)
{
	const struct node_load *load = control_node_load(s, config->member[config->self].id);

	if (s->draining || (load && (load->agent == AGENT_WANTS_DRAIN || load->agent == AGENT_WANTS_MAINT)))
		return "draining";
	return load && load->state == NODE_UNHEALTHY ? "unhealthy" : "active";
}

struct control_totals control_sum(const struct counters *counters)
{
	struct control_totals totals = { .seen = counters->seen };
	uint64_t sum = 0;
	unsigned i;

	for (i = 0; i < REASONS; i++)
		totals.kind[reason_kind((enum reason)i)] += counters->reason[i];
	for (i = 0; i <= VERDICT_DECAPSULATE; i++)
		sum += totals.kind[i];
	totals.law_holds = sum == totals.seen;
	return totals;
}
