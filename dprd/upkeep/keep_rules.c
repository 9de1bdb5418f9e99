// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sets the firewall rules up again when another program removed them, when they must change, and when setting them up
 * failed. Switches their limit of SYNs on when a flood begins, and off when it ends.
 */
#include "dprd/upkeep/keep_rules.h"

#include "dprd/base/clock.h"
#include "dprd/base/log.h"
#include "dprd/cluster/state.h"
#include "dprd/core/decide/flood.h"
#include "dprd/rules/rules.h"
#include "dprd/upkeep/refill.h"
#include "dprd/upkeep/upkeep.h"

enum {
	RULES_CHECK_MS = 2000, /* between two looks */
	RULES_DOUBT_MS = 1000, /* the same after another program changed the firewall */
	RULES_RETRY_MS = 1000, /* after a tool failed */
};

static void set_up_rules(struct dprd *d)
{
	bool failed = rules_install(d) || refill_set(d);

	if (failed) {
		mutex_lock(&d->lock);
		d->rules_changed = true;
		mutex_unlock(&d->lock);
	}
	if (failed && !d->rules_failed)
		log_warning("the firewall rules are incomplete; trying again each second; until then new connections "
			    "are served here");
	else if (!failed && d->rules_failed)
		log_info("the firewall rules are complete");
	d->rules_failed = failed;
	/* The tools may have taken their time. */
	d->upkeep->keep_rules.tried_ms = clock_now_ms();
}

/*
 * True when it is time to look and rules are missing. It also looks after this node itself has set them up: the program
 * that flushed them may have gone on meanwhile.
 */
static bool rules_missed(struct dprd *d, uint64_t now_ms)
{
	struct keep_rules *k = &d->upkeep->keep_rules;
	bool doubted, changed;

	k->doubted = rules_watch_hit(d->rules_watch) || k->doubted;
	doubted = k->doubted && now_ms - k->doubt_checked_ms >= RULES_DOUBT_MS;
	if (!doubted && now_ms - k->checked_ms < RULES_CHECK_MS)
		return false;
	k->checked_ms = now_ms;
	if (doubted) {
		k->doubt_checked_ms = now_ms;
		k->doubted = false;
	}
	mutex_lock(&d->lock);
	changed = d->rules_changed;
	mutex_unlock(&d->lock);
	/* Rules that are about to be set up are not missing. */
	return !changed && !rules_present(d);
}

void keep_rules_tick(struct dprd *d, uint64_t now_ms)
{
	const struct keep_rules *k = &d->upkeep->keep_rules;
	bool gone = rules_missed(d, now_ms), wanted;

	mutex_lock(&d->lock);
	/* Rules that could not be set up are expected to be missing. */
	gone = (gone || d->rules_gone) && !d->rules_failed;
	wanted = (d->rules_changed || gone) && (!d->rules_failed || now_ms >= k->tried_ms + RULES_RETRY_MS);
	if (wanted)
		d->rules_changed = false;
	d->rules_gone = false;
	d->counters.rules_restored += gone;
	mutex_unlock(&d->lock);
	if (!wanted)
		return;
	if (gone)
		log_warning("the firewall rules of dprd were gone; setting them up again");
	set_up_rules(d);
}

/* Routes go away with lo, or when another program flushes them: then what peers forward here would leave the host. */
static void keep_routes(struct dprd *d)
{
	struct keep_rules *k = &d->upkeep->keep_rules;
	bool changed;

	mutex_lock(&d->lock);
	changed = d->rules_changed;
	mutex_unlock(&d->lock);
	/* Routes that are about to be set up are not missing. */
	if (changed || d->rules_failed || rules_routes_present(&d->config)) {
		k->routes_gone = false;
		return;
	}
	if (!k->routes_gone)
		log_warning("local routes of dprd were gone; setting them up again");
	/* A failure that was logged is not logged again at each try. */
	if (rules_routes_restore(&d->config, k->routes_gone)) {
		k->routes_gone = true;
		return;
	}
	k->routes_gone = false;
	mutex_lock(&d->lock);
	d->counters.routes_restored++;
	mutex_unlock(&d->lock);
}

void keep_rules_second(struct dprd *d)
{
	keep_routes(d);
	if (d->fastpath || d->routes || !rules_host_routes())
		return;
	mutex_lock(&d->lock);
	d->rules_changed = true;
	mutex_unlock(&d->lock);
}

/* This is not done with real servers: their rules could not recognise a SYN that bypassed dprd as a new connection. */
void keep_rules_flood(struct dprd *d, uint64_t now_ms)
{
	struct keep_rules *k = &d->upkeep->keep_rules;
	bool guarded = !d->config.own_backend_count && d->config.max_new_flows_per_s != NEW_FLOWS_UNGUARDED, changed;
	struct flood_signs signs = { .max_half_open = d->flow_limits.max_half_open,
				     .max_per_second = d->config.max_new_flows_per_s };

	if (d->fastpath || k->flood_refused || (!guarded && !d->flood.on))
		return;
	/* A reload took the guard away during a flood: end the flood without another sign. */
	if (!guarded)
		signs.max_half_open = signs.max_per_second = UINT32_MAX;
	mutex_lock(&d->lock);
	signs.half_open = flow_counts(d->flows).half_open;
	signs.syns = d->counters.syns;
	changed = flood_update(&d->flood, &signs, now_ms);
	mutex_unlock(&d->lock);
	if (!changed)
		return;
	if (d->flood.on)
		log_warning("a flood of SYNs: this node serves all except one of %d without a decision",
			    FLOOD_DECIDED_OF);
	else
		log_info("the flood of SYNs is over");
	if (!rules_set_flood(d))
		return;
	log_warning("cannot change the firewall rules for the flood: check that this kernel has CONFIG_NFT_LIMIT");
	k->flood_refused = d->flood.on;
	/* When the end of a flood could not be set up, it is tried again when the flood seems to be over once more. */
	d->flood = (struct flood) { .on = !d->flood.on, .since_ms = now_ms };
}

void keep_rules_reconfigure(struct dprd *d, const struct config *former)
{
	mutex_lock(&d->lock);
	d->rules_changed = true;
	mutex_unlock(&d->lock);
	/* The next tick sets them up. Rules that choose real servers are set up at once: the caller may rely on them. */
	if (d->config.own_backend_count || former->own_backend_count)
		keep_rules_tick(d, clock_now_ms());
}

void keep_rules_start(struct dprd *d)
{
	d->upkeep->keep_rules.checked_ms = clock_now_ms();
}
