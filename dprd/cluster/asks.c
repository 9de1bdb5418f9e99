// SPDX-License-Identifier: GPL-2.0-or-later
/* asks.c - answers the questions of decide() about this node and its peers. */
#include "dprd/cluster/asks.h"

#include <errno.h>

#include "dprd/base/log.h"
#include "dprd/cluster/backend.h"
#include "dprd/cluster/translated.h"
#include "dprd/cluster/state.h"
#include "dprd/cluster/view.h"
#include "dprd/host/passive_opens.h"
#include "dprd/host/inside.h"
#include "loadcast/sample.h"

bool asks_node_alive(void *context, uint32_t node_id)
{
	const struct asks *asks = context;
	const struct config *config = &asks->d->config;
	const struct node_load *load = view_node_load(asks->d, node_id);

	/*
	 * The connections of a real server that fails stay with it, but a client that makes a new connection should not
	 * wait for it.
	 */
	if (config_own_backend_by_id(config, node_id) >= 0)
		return !load || load->state == NODE_ACTIVE;
	if (config_member_by_id(config, node_id) < 0)
		return false;
	/*
	 * Without a load table there is no sign that the node is dead; the same holds for the table of a loadcast that
	 * has heard no node yet.
	 */
	return !load || load->age_ms == LOAD_AGE_NEVER_MS ||
	       load_age_ms(&asks->d->table, load, asks->now_ms) < config->dead_peer_timeout_ms;
}

bool asks_node_takes_copies(void *context, uint32_t node_id)
{
	const struct asks *asks = context;
	const struct config *config = &asks->d->config;
	const struct node_load *load = view_node_load(asks->d, node_id);
	int own = config_own_backend_by_id(config, node_id), member = config_member_by_id(config, node_id);

	if (own >= 0)
		return !asks->d->backends.why_not[own];
	return load && (load->flags & NODE_DPRD_UP) && member >= 0 &&
	       way_takes_new(&asks->d->ways.member[member][asks->v6]) &&
	       !asks->d->outcomes.member[member][asks->v6].rest_ms &&
	       probes_allow(asks->d, (unsigned)member, asks->v6) &&
	       load_age_ms(&asks->d->table, load, asks->now_ms) <= config->dead_periods * config->period_ms;
}

void asks_env(struct dprd *d, struct decide_env *ret)
{
	mutex_assert_held(&d->lock);
	*ret = (struct decide_env) {
		.flows = d->flows,
		.view = &d->view,
		.policy = d->policy,
		.policy_state = d->policy_state,
		.hash_key = d->hash_key,
		.max_load_auto = d->config.max_load_auto,
		.max_load = d->config.max_load,
		.min_advantage = d->config.min_advantage,
		.draining = view_drains(d),
		.unhealthy = view_own_server_fails(d, 0),
		.minority = d->minority,
	};
}

unsigned asks_new_flows_left(struct dprd *d, uint64_t now_ms)
{
	uint64_t made;

	mutex_assert_held(&d->lock);
	if (now_ms - d->past.rate_window_ms >= 1000) {
		d->past.rate_window_ms = now_ms;
		d->new_flows = 0;
	}
	made = (uint64_t)d->new_flows + d->flows_reserved;
	return made < d->config.max_new_flows_per_s ? (unsigned)(d->config.max_new_flows_per_s - made) : 0;
}

bool asks_counts_elsewhere(const struct dprd *d)
{
	return d->config.own_backend_count || translated_used(d);
}

int asks_open_connections(struct dprd *d, uint32_t *ret)
{
	int error;

	mutex_assert_held(&d->lock);
	if (translated_used(d))
		translated_take_stayed(d);
	error = sampler_open_connections(d->sampler, ret);
	if (!error)
		*ret += backend_connections(d) + translated_connections(d);
	return error;
}

double asks_own_load(struct dprd *d)
{
	const struct node_load *self = view_node_load(d, d->config.member[d->config.self].id);
	struct load_sample sample = self ? self->sample : (struct load_sample) { 0 };
	struct flow_counts counts = flow_counts(d->flows);
	unsigned backends = backend_connections(d), flows = counts.half_open + counts.confirmed - counts.closing;
	/* Behind a node with real servers, rules choose these for connections of peers. */
	unsigned elsewhere = backends + (config_has_nat(&d->config) ? translated_connections(d) : 0);

	mutex_assert_held(&d->lock);
	/* The number of connections is cheap and decisive: it is read now. The other values are loadcast's newest. */
	if (d->config.factors.connections != 0)
		asks_open_connections(d, &sample.open_connections);
	d->backends.served_here = sample.open_connections > elsewhere ? sample.open_connections - elsewhere : 0;
	if (sample.open_connections < d->suspicion.floor)
		sample.open_connections = (uint32_t)d->suspicion.floor;
	sample.redirected = flows > backends ? flows - backends : 0;
	d->view_nodes[0].load = view_load(&d->config, &sample);
	return d->view_nodes[0].load;
}

struct sampler *asks_reconfigure(struct dprd *d, struct sampler *sampler)
{
	const struct policy *policy = policy_find(d->config.policy);
	struct sampler *former = d->sampler;

	mutex_assert_held(&d->lock);
	if (policy && policy != d->policy) {
		d->policy = policy;
		memset(d->policy_state, 0, sizeof(d->policy_state));
	}
	d->sampler = sampler;
	return former;
}

void asks_inside(struct dprd *d)
{
	struct inside inside;

	/* The configuration changes in this thread only. If the host does not answer, the former networks stay. */
	if (inside_read(&d->config, &inside))
		return;
	if (inside.left_out && !d->inside.left_out)
		log_warning(
			"this host has %u networks of its own (bridges, virtual interfaces) more than the %d that are "
			"known; clients there may be forwarded to peers, which cannot answer them",
			inside.left_out, INSIDE_NETWORKS_MAX);
	mutex_lock(&d->lock);
	d->inside = inside;
	mutex_unlock(&d->lock);
}

/* The rule compares connections that this host's own TCP accepts: not those elsewhere, and not other loads. */
static bool may_suspect(const struct dprd *d)
{
	return !asks_counts_elsewhere(d) && d->config.factors.connections != 0;
}

static uint64_t syns_served(const struct dprd *d)
{
	uint64_t sum = d->counters.syns_taken;

	for (unsigned i = 0; i < REASONS; i++)
		sum += reason_kind((enum reason)i) == VERDICT_SERVE ? d->counters.reason[i] : 0;
	return sum;
}

static void suspect(struct dprd *d, uint64_t accepted, uint64_t now_ms)
{
	struct suspicion_facts facts = {
		.accepted = accepted,
		.served = syns_served(d),
		.open = d->backends.served_here, /* of all open ones: there are no real servers */
		.arrivals_per_s = d->arrivals_per_1000_s / 1000.0,
	};

	for (uint32_t i = 0; d->table_valid && i < d->table.count; i++) {
		const struct node_load *load = &d->table.nodes[i];

		if (load->id == d->config.member[d->config.self].id || !view_is_heard(d, load, now_ms))
			continue;
		facts.others_open += load->sample.open_connections;
		facts.arrivals_per_s += load->sample.arrivals_per_1000_s / 1000.0;
	}
	suspicion_tick(&d->suspicion, &facts, now_ms);
}

void asks_refresh(struct dprd *d, uint64_t now_ms)
{
	static struct load_table fresh; /* too large for a stack; main thread only */
	uint64_t accepted = 0;
	int status = load_table_snapshot_new(d->config.table_file, &d->past.table_seen, &fresh);
	int uncounted = passive_opens_read(&accepted);

	translated_refresh(d, now_ms);
	mutex_lock(&d->lock);
	d->counters.table_errors += status < 0 && status != -ENOENT;
	view_refresh(d, status ? NULL : &fresh, status == -ENOENT, now_ms);
	asks_own_load(d);
	if (!uncounted && may_suspect(d))
		suspect(d, accepted, now_ms);
	else
		d->suspicion = (struct suspicion) { 0 };
	mutex_unlock(&d->lock);
}
