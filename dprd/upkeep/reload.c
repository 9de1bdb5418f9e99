// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Applies a changed configuration while dprd runs. All that can fail happens first; then each module that the change
 * concerns takes what it needs from the new configuration.
 */
#include "dprd/upkeep/reload.h"

#include <errno.h>

#include "dprd/base/clock.h"
#include "dprd/base/log.h"
#include "dprd/cluster/asks.h"
#include "dprd/cluster/backend.h"
#include "dprd/cluster/state.h"
#include "dprd/cluster/ways.h"
#include "dprd/plane/decide.h"
#include "dprd/plane/plane.h"
#include "dprd/upkeep/expire.h"
#include "dprd/upkeep/keep_rules.h"
#include "dprd/upkeep/kept.h"
#include "loadcast/sample.h"

/*
 * The order matters. Under the lock, so that no packet meets half of a change: the programs stop deciding, because their
 * verdicts are for the former members, addresses and ports; flows to removed nodes end before the others forget these
 * nodes; real servers ask for the ways. Then, without the lock, the parts that ask the kernel: first the ways; with them
 * the view; with both, the programs and the rules.
 */
static void reconfigure(struct dprd *d, const struct config *fresh, const struct config *former,
			struct sampler *sampler)
{
	mutex_lock(&d->lock);
	plane_decide_pause(d);
	d->config = *fresh;
	expire_reconfigure(d, former);
	ways_reconfigure(&d->ways, &d->config, former);
	outcomes_reconfigure(d, former);
	probes_reconfigure(d, former);
	sampler = asks_reconfigure(d, sampler);
	backend_reconfigure(d, former);
	mutex_unlock(&d->lock);
	sampler_free(sampler);

	ways_refresh(&d->ways, &d->config, &d->lock, &d->rules_changed);
	asks_refresh(d, clock_now_ms());
	asks_inside(d);
	plane_reconfigure(d);
	keep_rules_reconfigure(d, former);
}

int reload_config(struct dprd *d, struct config_errors *errors, char note[CONFIG_ERROR_BYTES])
{
	static struct config fresh, former; /* too large for a stack; main thread only */
	struct sampler *sampler;
	int error = config_read(d->config_path, d->node_name, &fresh, errors);

	if (error)
		return error;
	config_keep_fixed(&d->config, &fresh, note);
	config_keep_ports(&d->config, &fresh);
	config_keep_services(&d->config, &fresh);
	config_keep_fresh(&d->config, &fresh);
	sampler = sampler_new(&fresh);
	if (!sampler) {
		error = -errno;
		errors->count = 1;
		snprintf(errors->text[0], CONFIG_ERROR_BYTES, "cannot read the load of this host: %s",
			 strerror(-error));
		return error;
	}
	kept_aliases(d, &fresh);
	former = d->config;
	reconfigure(d, &fresh, &former, sampler);
	log_info("configuration read again: policy %s, %u members%s%s", d->config.policy, d->config.member_count,
		 *note ? "; " : "", note);
	return 0;
}
