// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Applies a changed configuration while dprd runs.
 */
#include "dprd/upkeep/reload.h"

#include "dprd/base/clock.h"
#include "dprd/base/log.h"
#include "dprd/cluster/asks.h"
#include "dprd/cluster/backend.h"
#include "dprd/dprd.h"
#include "dprd/plane/decide.h"
#include "dprd/plane/plane.h"
#include "dprd/upkeep/expire.h"
#include "dprd/upkeep/keep_rules.h"
#include "loadcast/sample.h"

void reload_apply(struct dprd *d)
{
	const struct policy *policy = policy_find(d->config.policy);

	mutex_assert_held(&d->lock);
	if (policy && policy != d->policy) {
		d->policy = policy;
		memset(d->policy_state, 0, sizeof(d->policy_state));
	}
	d->flow_limits.syn_timeout_ms = d->config.syn_timeout_ms;
	d->flow_limits.idle_timeout_ms = d->config.idle_timeout_ms;
	d->flow_limits.fin_timeout_ms = d->config.fin_timeout_ms;
	d->flow_limits.rst_timeout_ms = d->config.rst_timeout_ms;
	if (d->flows)
		flow_table_set_timeouts(d->flows, &d->flow_limits);
}

int reload_config(struct dprd *d, struct config_errors *errors, char note[CONFIG_ERROR_BYTES])
{
	static struct config fresh, former; /* too large for a stack; main thread only */
	struct sampler *sampler, *old;
	unsigned i;
	int error = config_read(d->config_path, d->node_name, &fresh, errors);

	if (error)
		return error;
	config_keep_fixed(&d->config, &fresh, note);
	sampler = sampler_new(&fresh);
	mutex_lock(&d->lock);
	old = sampler ? d->sampler : NULL;
	/* A member that is no longer one has no address to forward to. */
	for (i = 0; i < d->config.member_count; i++) {
		if (config_member_by_id(&fresh, d->config.member[i].id) < 0)
			expire_node(d, d->config.member[i].id);
	}
	for (i = 0; i < d->config.own_backend_count; i++) {
		uint32_t id = config_own_backend(&d->config, i)->id;

		if (config_own_backend_by_id(&fresh, id) < 0)
			expire_node(d, id);
	}
	former = d->config;
	d->config = fresh;
	ways_configure(&d->ways, &d->config, &former);
	if (sampler)
		d->sampler = sampler;
	reload_apply(d);
	backend_configure(d, &former);
	d->rules_changed = true; /* set up anew by the next tick, */
	mutex_unlock(&d->lock);
	sampler_free(old);
	ways_refresh(&d->ways, &d->config, &d->lock, &d->rules_changed);
	asks_refresh(d, clock_now_ms());
	plane_update(d);
	plane_decide_now(d);
	/* or at once where they choose servers: who has asked for a reload may count on these then. */
	if (d->config.own_backend_count || former.own_backend_count)
		keep_rules_tick(d, clock_now_ms());
	log_info("configuration read again: policy %s, %u members%s%s", d->config.policy, d->config.member_count,
		 *note ? "; " : "", note);
	return 0;
}
