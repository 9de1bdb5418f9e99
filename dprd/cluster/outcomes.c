// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * outcomes.c - counts the outcome of connections that this node forwards, and finds members that answer none of them.
 */
#include "dprd/cluster/outcomes.h"

#include "dprd/base/log.h"
#include "dprd/cluster/state.h"

static struct outcome *find(struct dprd *d, uint32_t node_id, bool v6)
{
	int member = config_member_by_id(&d->config, node_id);

	mutex_assert_held(&d->lock);
	return member < 0 || (unsigned)member == d->config.self ? NULL : &d->outcomes.member[member][v6];
}

void outcomes_made(struct dprd *d, uint32_t node_id, bool v6, unsigned connections, uint64_t now_ms)
{
	struct outcome *o = find(d, node_id, v6);

	if (!o)
		return;
	outcome_made(o, connections, &d->outcomes.history, now_ms);
	d->outcomes.forwarded[config_member_by_id(&d->config, node_id)][v6] += connections;
}

void outcomes_confirmed(struct dprd *d, uint32_t node_id, bool v6, unsigned connections, uint64_t now_ms)
{
	struct outcome *o = find(d, node_id, v6);

	if (o && outcome_confirmed(o, connections, &d->outcomes.history, now_ms))
		log_info("connections forwarded to %s over IPv%c get answers again",
			 d->config.member[config_member_by_id(&d->config, node_id)].name, v6 ? '6' : '4');
}

void outcomes_returned(struct dprd *d, uint32_t node_id, bool v6)
{
	struct outcome *o = find(d, node_id, v6);

	if (o)
		outcome_returned(o);
}

bool outcomes_rests(const struct dprd *d, unsigned member, bool v6)
{
	mutex_assert_held(&d->lock);
	return d->outcomes.member[member][v6].rest_ms > 0;
}

void outcomes_proven(struct dprd *d, unsigned member, bool v6)
{
	mutex_assert_held(&d->lock);
	outcome_restart(&d->outcomes.member[member][v6]);
}

bool outcomes_allow(const struct dprd *d, unsigned member, bool v6, uint64_t now_ms)
{
	mutex_assert_held(&d->lock);
	return outcome_may_try(&d->outcomes.member[member][v6], now_ms);
}

void outcomes_reconfigure(struct dprd *d, const struct config *former)
{
	static struct outcome old[MEMBERS_MAX][2]; /* the lock is held */
	static uint64_t old_forwarded[MEMBERS_MAX][2];
	unsigned i;

	mutex_assert_held(&d->lock);
	memcpy(old, d->outcomes.member, sizeof(old));
	memcpy(old_forwarded, d->outcomes.forwarded, sizeof(old_forwarded));
	memset(d->outcomes.member, 0, sizeof(d->outcomes.member));
	memset(d->outcomes.forwarded, 0, sizeof(d->outcomes.forwarded));
	for (i = 0; former && i < d->config.member_count; i++) {
		int before = config_member_by_id(former, d->config.member[i].id);

		if (before < 0)
			continue;
		memcpy(d->outcomes.member[i], old[before], sizeof(old[before]));
		memcpy(d->outcomes.forwarded[i], old_forwarded[before], sizeof(old_forwarded[before]));
	}
}

/* The standby process sends on the client's packets, and tells nobody which connections they confirm. */
static bool standby_sent(struct dprd *d)
{
	bool sent = d->counters.standby_forwarded != d->outcomes.standby_forwarded;

	d->outcomes.standby_forwarded = d->counters.standby_forwarded;
	return sent;
}

/* Ends a window. Returns the unanswered connections to all members that do not rest. */
static uint32_t ripen_all(struct dprd *d, bool unseen, uint64_t now_ms)
{
	struct outcome *o = d->outcomes.member[0];
	uint32_t waiting = 0;
	unsigned i;

	for (i = 0; i < 2 * d->config.member_count; i++) {
		if (unseen)
			outcome_forget(&o[i]);
		if (outcome_ripen(&o[i], now_ms) && !o[i].rest_ms)
			waiting += o[i].unanswered;
	}
	return waiting;
}

static uint32_t waiting_for(const struct outcome o[2])
{
	return (o[0].rest_ms ? 0 : outcome_waiting(&o[0])) + (o[1].rest_ms ? 0 : outcome_waiting(&o[1]));
}

/*
 * A peer whose connections wait for too long gets no more, until more is known. A peer that is lost over both families
 * is compared with the other peers only.
 */
static void hold(struct dprd *d, uint64_t now_ms)
{
	struct outcomes *all = &d->outcomes;
	uint32_t waiting = 0;
	unsigned i;

	for (i = 0; i < d->config.member_count; i++)
		waiting += waiting_for(all->member[i]);
	for (i = 0; i < 2 * d->config.member_count; i++)
		outcome_hold(&all->member[i / 2][i % 2], &all->history, waiting - waiting_for(all->member[i / 2]),
			     now_ms);
}

void outcomes_tick(struct dprd *d, uint64_t now_ms)
{
	struct outcomes *all = &d->outcomes;
	uint32_t waiting;
	bool unseen;
	unsigned i;

	mutex_lock(&d->lock);
	hold(d, now_ms);
	if (now_ms - all->window_ms < OUTCOME_WINDOW_MS) {
		mutex_unlock(&d->lock);
		return;
	}
	unseen = now_ms - all->window_ms > OUTCOME_LATE_MS;
	unseen |= standby_sent(d);
	waiting = ripen_all(d, unseen, now_ms);
	all->window_ms = now_ms;
	for (i = 0; waiting && i < 2 * d->config.member_count; i++) {
		struct outcome *o = &all->member[i / 2][i % 2];

		if (!outcome_judge(o, &all->history, waiting - (o->rest_ms ? 0 : o->unanswered), now_ms))
			continue;
		waiting -= o->unanswered;
		d->counters.ways_lost++;
		log_warning("%u connections forwarded to %s over IPv%c got no answer; it gets new ones of this family "
			    "only on trial: see dprctl status",
			    o->unanswered, d->config.member[i / 2].name, i % 2 ? '6' : '4');
	}
	mutex_unlock(&d->lock);
}
