// SPDX-License-Identifier: GPL-2.0-or-later
#include "loadcast/core/share.h"

#include <string.h>

#include "loadcast/core/announce.h"

static bool is_peer(const struct share *share, unsigned member)
{
	return member < share->config->member_count && member != share->config->self;
}

unsigned share_takeover_ms(const struct share *share)
{
	return SHARE_TAKEOVER_PERIODS * share->config->period_ms;
}

/* The peer's lease may be as long as its own period allows. */
static unsigned takeover_from_ms(const struct share *share, const struct share_peer *p)
{
	unsigned own = share->config->period_ms;

	return SHARE_TAKEOVER_PERIODS * (p->period_ms > own ? p->period_ms : own);
}

static bool is_silent(const struct share *share, const struct share_peer *p, uint64_t now_ms)
{
	return p->level == SHARE_OUT && now_ms >= p->heard_ms + takeover_from_ms(share, p);
}

/* The shortest period of all peers that are heard or count: each of them may take over after that period. */
static unsigned pace_heard_ms(const struct share *share)
{
	unsigned shortest = share->config->period_ms;

	for (unsigned i = 0; i < share->config->member_count; i++) {
		const struct share_peer *p = &share->peer[i];

		if (p->period_ms && p->period_ms < shortest && !is_silent(share, p, share->ticked_ms))
			shortest = p->period_ms;
	}
	return shortest;
}

/*
 * True while peers may still take over by the shorter period that this node had before. That holds for a peer that is
 * heard and has not echoed an announcement from well after the change, and for a while for any peer.
 */
static bool plays_shorter(const struct share *share, uint64_t sent_ms)
{
	if (share->shorter_ms && sent_ms < share->shorter_until_ms)
		return true;
	for (unsigned i = 0; share->shorter_ms && i < share->config->member_count; i++) {
		const struct share_peer *p = &share->peer[i];

		if (p->met && !is_silent(share, p, share->ticked_ms) &&
		    (!p->echoed || p->echoed_ms < share->shorter_until_ms))
			return true;
	}
	return false;
}

/* The period of a lease that counts from an announcement of ours. */
static unsigned lease_period_ms(const struct share *share, uint64_t sent_ms)
{
	unsigned period_ms = pace_heard_ms(share);

	return share->shorter_ms < period_ms && plays_shorter(share, sent_ms) ? share->shorter_ms : period_ms;
}

static uint64_t lease_end_ms(const struct share *share, uint64_t sent_ms)
{
	return sent_ms + SHARE_LEASE_PERIODS * lease_period_ms(share, sent_ms);
}

/* The period at the time of the oldest announcement from which a lease may count now. */
static unsigned pace_ms(const struct share *share)
{
	uint64_t oldest_ms = share->sent_ms;

	for (unsigned i = 0; i < share->config->member_count; i++) {
		const struct share_peer *p = &share->peer[i];

		if (p->level != SHARE_OUT && p->echoed && p->echoed_ms < oldest_ms)
			oldest_ms = p->echoed_ms;
	}
	return lease_period_ms(share, oldest_ms);
}

unsigned share_lease_ms(const struct share *share)
{
	return SHARE_LEASE_PERIODS * pace_ms(share);
}

unsigned share_ask_ms(const struct share *share)
{
	return pace_ms(share) / SHARE_ASKS_PER_PERIOD;
}

void share_init(struct share *share, const struct config *config, uint64_t now_ms)
{
	memset(share, 0, sizeof(*share));
	share->config = config;
	share->started_ms = share->ticked_ms = now_ms;
	for (unsigned i = 0; i < config->member_count; i++) {
		if (!is_peer(share, i) || !config->member[i].weight)
			continue;
		share->peer[i] = (struct share_peer) {
			.level = SHARE_IN,
			.wanted = config->member[i].weight,
			.heard_ms = now_ms,
		};
	}
}

/*
 * Call it when the period became longer. An even shorter, earlier period counts for as long as a lease lasts that began
 * with an announcement of that time.
 */
static void keep_shorter(struct share *share, const struct share *old, uint64_t now_ms)
{
	uint64_t forgotten_ms = old->shorter_until_ms + SHARE_LEASE_PERIODS * ANNOUNCE_PERIOD_MAX_MS;
	unsigned shorter_ms = old->config->period_ms;

	share->shorter_ms = old->shorter_ms;
	share->shorter_until_ms = old->shorter_until_ms;
	if (share->config->period_ms <= shorter_ms)
		return;
	if (old->shorter_ms && old->shorter_ms < shorter_ms && (now_ms < forgotten_ms || plays_shorter(old, now_ms)))
		shorter_ms = old->shorter_ms;
	share->shorter_ms = shorter_ms;
	share->shorter_until_ms = now_ms + SHARE_TAKEOVER_PERIODS * shorter_ms;
}

unsigned share_period_ms(const struct share *share, uint64_t now_ms)
{
	unsigned period_ms = share->config->period_ms;

	return share->shorter_ms < period_ms && plays_shorter(share, now_ms) ? share->shorter_ms : period_ms;
}

/* For so long a peer that is left out may have a lease that needs no echo of ours. */
static unsigned left_out_ms(const struct share *share, const struct share_peer *p)
{
	bool knows = p->echoed_ms && p->echoed_ms >= share->wanted_ms;

	return takeover_from_ms(share, p) / SHARE_TAKEOVER_PERIODS *
	       (knows ? SHARE_TAKEOVER_PERIODS : SHARE_UNHEARD_PERIODS);
}

/* The time for which a peer asks, as far as this node can know: a member that is left out here may be so there. */
static unsigned asks_for_ms(const struct share *share, unsigned member)
{
	const struct share_peer *p = &share->peer[member];
	unsigned periods = SHARE_TAKEOVER_PERIODS;

	for (unsigned i = 0; i < share->config->member_count; i++) {
		if (i != member && is_peer(share, i) && share->config->member[i].weight &&
		    share->peer[i].level == SHARE_OUT)
			periods = SHARE_UNHEARD_PERIODS;
	}
	return takeover_from_ms(share, p) / SHARE_TAKEOVER_PERIODS * periods;
}

/*
 * The time for which a node asks before it takes a share: a peer that is left out may not hear it, and may have a lease
 * by a longer period.
 */
static unsigned asking_ms(const struct share *share)
{
	unsigned longest_ms = share_takeover_ms(share);

	for (unsigned i = 0; i < share->config->member_count; i++) {
		const struct share_peer *p = &share->peer[i];

		if (is_peer(share, i) && share->config->member[i].weight && p->level == SHARE_OUT &&
		    left_out_ms(share, p) > longest_ms)
			longest_ms = left_out_ms(share, p);
	}
	return longest_ms;
}

void share_reconfigure(struct share *share, const struct config *config, uint64_t now_ms)
{
	const struct config *former = share->config;
	struct share old = *share;
	bool listens, waits;

	share_init(share, config, now_ms);
	if (former->member[former->self].id != config->member[config->self].id)
		return;
	/* A longer period does not start a wait again that has ended. */
	listens = now_ms < old.started_ms + SHARE_LISTEN_PERIODS * former->period_ms;
	waits = now_ms < old.wanted_ms + asking_ms(&old);
	share->started_ms = listens ? old.started_ms : 0;
	share->wanted = old.wanted;
	/* A shorter period does not end a wait at once: few announcements have asked so far. */
	share->wanted_ms = !waits ? 0 : config->period_ms < former->period_ms ? now_ms : old.wanted_ms;
	share->raised_ms = old.raised_ms;
	share->refused_ms = old.refused_ms;
	share->place_until_ms = old.place_until_ms;
	share->used = old.used;
	share->ticked_ms = old.ticked_ms;
	share->sent_ms = old.sent_ms;
	keep_shorter(share, &old, now_ms);
	for (unsigned i = 0; i < config->member_count; i++) {
		int was = config_member_by_id(former, config->member[i].id);

		if (was < 0 || !is_peer(share, i))
			continue;
		share->peer[i] = old.peer[was];
		/* The bits follow the former order of members; its next announcement has the present one. */
		share->peer[i].refused = 0;
	}
}

/* A member that counts and refuses another member a share; -1: none. */
static int refuser_of(const struct share *share, unsigned member)
{
	for (unsigned i = 0; i < share->config->member_count; i++) {
		if (share->peer[i].level != SHARE_OUT && share->peer[i].refused >> member & 1)
			return (int)i;
	}
	return -1;
}

int share_refuser(const struct share *share, uint64_t now_ms)
{
	if (!share->refused_ms || now_ms < share->refused_ms + share_takeover_ms(share))
		return -1;
	return refuser_of(share, share->config->self);
}

void share_keep_place(struct share *share, uint64_t until_ms)
{
	share->place_until_ms = until_ms;
}

void share_give_place_up(struct share *share)
{
	share->place_until_ms = 0;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

void share_want(struct share *share, uint32_t weight, uint64_t now_ms)
{
	if (refuser_of(share, share->config->self) < 0)
		share->refused_ms = 0;
	else if (!share->refused_ms)
		share->refused_ms = now_ms;
	if (now_ms < share->started_ms + SHARE_LISTEN_PERIODS * share->config->period_ms ||
	    share_refuser(share, now_ms) >= 0)
		weight = 0;
	if (weight > BUCKET_WEIGHT_MAX)
		weight = BUCKET_WEIGHT_MAX;
	if (!share->wanted && weight)
		share->wanted_ms = now_ms;
	/* Earlier grants do not count, also when the weight was announced only to keep the place. */
	if (weight > larger(share->wanted, share->used))
		share->raised_ms = now_ms;
	share->wanted = weight;
}

uint32_t share_announced(const struct share *share)
{
	uint32_t place = 0;

	/* Peers may have known another weight; any that is not 0 keeps them from taking over. */
	if (share->ticked_ms < share->place_until_ms)
		place = larger(share->config->member[share->config->self].weight, 1);
	return larger(larger(share->wanted, share->used), place);
}

void share_sent(struct share *share, uint64_t now_ms)
{
	share->sent_ms = now_ms;
}

/*
 * True when several peers fell silent together with this one and no other is heard: then the fault is on this node or
 * on the network, and not on this peer.
 */
static bool was_deaf(const struct share *share, const struct share_peer *p, uint64_t now_ms)
{
	unsigned together = 0;

	for (unsigned i = 0; i < share->config->member_count; i++) {
		const struct share_peer *other = &share->peer[i];
		uint64_t apart_ms =
			other->heard_ms > p->heard_ms ? other->heard_ms - p->heard_ms : p->heard_ms - other->heard_ms;

		if (!other->met)
			continue;
		if (!is_silent(share, other, now_ms))
			return false;
		together += apart_ms < share_takeover_ms(share);
	}
	return together > 1;
}

/* A peer is heard again. A peer that came and went before must stay for a while first. */
static void come(struct share *share, struct share_peer *p, uint64_t now_ms)
{
	if (was_deaf(share, p, now_ms)) {
		for (unsigned i = 0; i < share->config->member_count; i++)
			share->peer[i].lost_ms = share->peer[i].hold_ms = 0;
	}
	p->came_ms = now_ms;
	if (!p->lost_ms || now_ms - p->lost_ms > SHARE_HOLD_MAX_MS)
		p->hold_ms = 0;
}

/* After a partition each side sees the other come back: if both waited, no node would serve. */
static bool is_held(const struct share_peer *p, uint64_t now_ms)
{
	return p->grant && now_ms < p->came_ms + p->hold_ms;
}

bool share_refuses(const struct share *share, unsigned member, uint64_t now_ms)
{
	const struct share_peer *p = &share->peer[member];

	if (!is_peer(share, member) || !share->config->member[member].weight)
		return false;
	return is_silent(share, p, now_ms) || (p->level != SHARE_IN && is_held(p, now_ms));
}

void share_hear(struct share *share, unsigned member, const struct share_said *said, uint64_t now_ms)
{
	struct share_peer *p = &share->peer[member];

	if (!is_peer(share, member))
		return;
	if (is_silent(share, p, now_ms))
		come(share, p, now_ms);
	p->heard_ms = now_ms;
	p->met = true;
	p->asked = 0;
	p->wanted = said->weight < BUCKET_WEIGHT_MAX ? said->weight : BUCKET_WEIGHT_MAX;
	p->grant = said->grant;
	p->refused = said->refused;
	p->period_ms = said->period_ms;
	if (said->echoed) {
		p->echoed = true;
		p->echoed_ms = said->echo_sent_ms;
	}
	if (!p->wanted) {
		/* It gave its share up before it said so: no wait and no penalty. */
		p->level = SHARE_OUT;
		return;
	}
	if (p->level == SHARE_OUT) {
		p->level = SHARE_HEARD;
		p->asked_for_ms = now_ms;
	}
	if (p->level != SHARE_HEARD || !said->echoed || now_ms >= lease_end_ms(share, said->echo_sent_ms))
		return;
	if (is_held(p, now_ms) || refuser_of(share, member) >= 0)
		return;
	/* The peer takes nothing before that, so its buckets would have no owner now. */
	if (now_ms >= p->asked_for_ms + asks_for_ms(share, member) || !said->grant)
		p->level = SHARE_IN;
}

static void lose(struct share_peer *p, uint64_t now_ms)
{
	if (p->level == SHARE_IN) {
		/* The first loss is an accident. */
		if (p->lost_ms && now_ms - p->lost_ms <= SHARE_HOLD_MAX_MS)
			p->hold_ms = p->hold_ms ? 2 * p->hold_ms : SHARE_HOLD_MIN_MS;
		if (p->hold_ms > SHARE_HOLD_MAX_MS)
			p->hold_ms = SHARE_HOLD_MAX_MS;
		p->lost_ms = now_ms;
	}
	p->level = SHARE_OUT;
	p->echoed = false;
	p->grant = 0;
}

/* True when the peer's silence, or its missing echo, would end our lease soon. */
static bool wants_asking(const struct share *share, const struct share_peer *p, uint64_t now_ms)
{
	unsigned patience_ms = SHARE_ASK_PERIODS * pace_ms(share);

	return p->level != SHARE_OUT && (now_ms >= p->heard_ms + patience_ms ||
					 (share->used && (!p->echoed || now_ms >= p->echoed_ms + patience_ms)));
}

bool share_tick(struct share *share, uint64_t now_ms)
{
	/* A node that stood still has not listened: all silences begin anew. */
	bool late = now_ms > share->ticked_ms + share->config->period_ms;
	bool ask = false;

	/* Others may have taken over, too: begin as after a start. */
	if (now_ms >= share->ticked_ms + share_lease_ms(share))
		share->wanted_ms = now_ms;
	share->ticked_ms = now_ms;
	for (unsigned i = 0; i < share->config->member_count; i++) {
		struct share_peer *p = &share->peer[i];

		if (late && p->level != SHARE_OUT) {
			p->heard_ms = now_ms;
			p->asked = 0;
		}
		if (!is_peer(share, i) || !wants_asking(share, p, now_ms))
			continue;
		if (p->asked >= SHARE_ASKS_LEAST && now_ms >= p->heard_ms + takeover_from_ms(share, p)) {
			lose(p, now_ms);
		} else if (!p->asked || now_ms >= p->asked_ms + share_ask_ms(share)) {
			p->asked++;
			p->asked_ms = now_ms;
			ask = true;
		}
	}
	return ask;
}

bool share_asks(const struct share *share, unsigned member, uint64_t now_ms)
{
	return is_peer(share, member) && wants_asking(share, &share->peer[member], now_ms);
}

/* A peer that counts has a vote: the lease needs its echo anyway. */
static bool has_vote(const struct share *share, const struct share_peer *p)
{
	return p->met && (p->level != SHARE_OUT || (p->echoed && share->ticked_ms < lease_end_ms(share, p->echoed_ms)));
}

bool share_is_minority(const struct share *share)
{
	const struct config *config = share->config;
	unsigned all = 0, heard = 0;
	bool first = false;

	for (unsigned i = 0; i < config->member_count; i++) {
		const struct share_peer *p = &share->peer[i];

		if (!config->member[i].weight)
			continue;
		all++;
		if (is_peer(share, i) && !has_vote(share, p))
			continue;
		heard++;
		first |= all == 1;
	}
	return 2 * heard < all || (2 * heard == all && all > 2 && !first);
}

/*
 * A grant of more than we have does not count if the peer gave it before we asked: the peer may take it back at this
 * moment.
 */
static uint32_t grant_of(const struct share *share, const struct share_peer *p)
{
	if (p->grant > share->used && (!p->echoed || p->echoed_ms <= share->raised_ms))
		return share->used;
	return p->grant;
}

/* The weight that this node may take: what it wants, up to the least grant of all peers that count. */
static uint32_t usable(const struct share *share, uint64_t now_ms)
{
	uint32_t weight = share->wanted;

	if (now_ms < share->wanted_ms + asking_ms(share))
		return 0;
	for (unsigned i = 0; i < share->config->member_count; i++) {
		const struct share_peer *p = &share->peer[i];

		if (is_peer(share, i) && p->level != SHARE_OUT && grant_of(share, p) < weight)
			weight = grant_of(share, p);
	}
	return weight;
}

void share_fill(const struct share *share, uint64_t now_ms, struct bucket_share *ret)
{
	const struct config *config = share->config;
	uint32_t own = usable(share, now_ms);

	memset(ret, 0, sizeof(*ret));
	ret->self_id = config->member[config->self].id;
	for (unsigned i = 0; i < config->member_count; i++) {
		uint32_t weight = i == config->self                  ? own
				  : share->peer[i].level == SHARE_IN ? share->peer[i].wanted
								     : 0;

		if (weight)
			ret->member[ret->count++] = (struct bucket_member) { config->member[i].id, weight };
	}
}

static uint32_t weight_in(const struct bucket_share *share, uint32_t id)
{
	for (unsigned i = 0; i < share->count; i++) {
		if (share->member[i].id == id)
			return share->member[i].weight;
	}
	return 0;
}

void share_applied(struct share *share, const struct bucket_share *applied)
{
	for (unsigned i = 0; i < share->config->member_count; i++)
		share->peer[i].granted = weight_in(applied, share->config->member[i].id);
	share->used = weight_in(applied, applied->self_id);
	share->peer[share->config->self].granted = 0;
}

uint64_t share_until_ms(const struct share *share)
{
	/* Peers that are left out here may still hear us, and count from our last announcement. */
	uint64_t until_ms = lease_end_ms(share, share->sent_ms);

	if (!share->used)
		return 0;
	for (unsigned i = 0; i < share->config->member_count; i++) {
		const struct share_peer *p = &share->peer[i];

		if (!is_peer(share, i) || p->level == SHARE_OUT)
			continue;
		if (!p->echoed || p->grant < share->used)
			return 0;
		if (lease_end_ms(share, p->echoed_ms) < until_ms)
			until_ms = lease_end_ms(share, p->echoed_ms);
	}
	return until_ms;
}

uint32_t share_rebalanced(uint32_t weight, uint32_t configured, double own_load, double mean_load)
{
	uint32_t step = configured / 20 ? configured / 20 : 1;
	uint32_t least = configured / 4 ? configured / 4 : 1;

	if (own_load > 1.2 * mean_load)
		weight = weight > least + step ? weight - step : least;
	else if (own_load < mean_load)
		weight += step;
	return weight < configured ? weight : configured;
}
