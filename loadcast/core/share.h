/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * share.h - who has a share of the shared addresses, and until when this node may act on it. Pure.
 *
 * docs/biactive.md argues why no two nodes ever own a bucket at once. The rules, for a node and its peers:
 *
 * - A peer counts while it is heard (SHARE_HEARD), and is left out (SHARE_OUT) only when nothing was heard of
 *   it for share_takeover_ms() and several questions of its own were not answered.
 * - A peer that counts gets its part of the buckets (SHARE_IN) once it was heard for share_takeover_ms(), as
 *   it waits so long itself, and hears us. It is told so only after the kernel has the share with it: that is
 *   the grant, the weight that our kernel gives it.
 * - This node takes for itself the least of what all peers that count grant it, in words that are younger than
 *   its wish for so much. Its lease ends share_lease_ms() after it sent the newest announcement that all of
 *   them have echoed with a grant.
 * - share_lease_ms() < share_takeover_ms(): whoever is left out has no lease any more. Where nodes announce
 *   different periods, a lease goes by the shortest of all that are heard, and who takes over from a peer waits
 *   by the longer of both. So either of the two may have missed the other's last change. A node whose
 *   period becomes longer announces and has leases by the shorter one for five of these more, and until all that
 *   are heard have echoed what was announced later.
 * - A node says whom it refuses a share: who is silent, and who came and went before and has not stayed long enough
 *   since. Nobody gets a share in our kernel while a peer that counts refuses it, and who is refused for
 *   share_takeover_ms() asks for nothing. Else some would leave buckets to a node that may not take them.
 * - After a start, after standing still for longer than a lease, and whenever it had no share before, a node
 *   announces what it wants for share_takeover_ms() before it takes anything, or for as long as a peer that is left
 *   out may have a lease by its longer period: peers that it does not hear may hear it, and count on it. It begins
 *   anew by a shorter period: it has not announced it often enough.
 *
 * Times are the caller's now_ms. Everything is of fixed size; nothing here allocates.
 */
#ifndef LOADCAST_SHARE_H
#define LOADCAST_SHARE_H

#include "dprd/config/config.h"
#include "kernel-patch/bucket.h"

enum {
	SHARE_LEASE_PERIODS = 4,
	SHARE_TAKEOVER_PERIODS = 5,
	SHARE_ASK_PERIODS = 2, /* of silence, before a peer is asked for an answer */
	SHARE_ASKS_PER_PERIOD = 4,
	SHARE_ASKS_LEAST = 4, /* not answered, before a peer is left out */
	SHARE_LISTEN_PERIODS = 3, /* after the start, before anything is wanted */
	SHARE_HOLD_MIN_MS = 2000, /* a peer that comes and goes waits so long, twice as long each time */
	SHARE_HOLD_MAX_MS = 60000,
};

enum share_level {
	SHARE_OUT, /* has no share, and its echo is not needed */
	SHARE_HEARD, /* wants one: its echo is needed */
	SHARE_IN, /* has one */
};

struct share_peer {
	enum share_level level;
	uint32_t wanted; /* the weight that it announces */
	uint32_t granted; /* the weight that our kernel gives it: what we tell it */
	uint32_t grant; /* the weight that its kernel gives us */
	bool echoed;
	bool met; /* something was heard of it since the start */
	uint64_t echoed_ms; /* when we sent the newest of ours that came back with that grant */
	uint64_t heard_ms;
	uint64_t refused; /* by it: members that get no share from it, a bit each */
	unsigned period_ms; /* that it announced; 0: nothing yet */
	uint64_t asked_for_ms; /* when it asked for a share after having had none */
	uint64_t came_ms; /* when it was heard again after having been silent */
	uint64_t lost_ms; /* when it was left out last; 0: never */
	uint32_t hold_ms; /* from came_ms on */
	unsigned asked; /* questions since it was heard */
	uint64_t asked_ms;
};

struct share {
	const struct config *config;
	uint32_t wanted; /* of ourselves; 0: none, or no kernel that could act on it */
	uint64_t wanted_ms; /* since when it is announced */
	uint64_t raised_ms; /* when it became more than what was announced */
	uint64_t started_ms;
	uint64_t refused_ms; /* since when somebody that counts refuses us a share; 0: nobody does */
	uint32_t used; /* of ourselves, as the kernel has it */
	uint64_t ticked_ms;
	uint64_t sent_ms; /* our newest announcement */
	uint64_t place_until_ms; /* share_keep_place(); 0: not needed */
	unsigned shorter_ms; /* a period that this node announced before it had a longer one; 0: none */
	uint64_t shorter_until_ms; /* leases from announcements of before then are by that one, at least */
	struct share_peer peer[MEMBERS_MAX]; /* as in the configuration */
};

/* What one announcement of a peer says. */
struct share_said {
	uint32_t weight; /* wanted; 0: it has no share and takes none */
	uint32_t grant;
	uint64_t refused; /* by it: members as in the configuration, a bit each */
	unsigned period_ms; /* its own; 0: not known */
	bool echoed; /* it echoes something of ours, sent at */
	uint64_t echo_sent_ms;
};

unsigned share_lease_ms(const struct share *share);
unsigned share_takeover_ms(const struct share *share); /* from a peer with a longer period it takes as many of these */

/* Everybody that the configuration gives a weight is taken to be alive until share_takeover_ms() have passed. */
void share_init(struct share *share, const struct config *config, uint64_t now_ms);

/* Takes another configuration; members that stay keep what is known. share->config must still exist. */
void share_reconfigure(struct share *share, const struct config *config, uint64_t now_ms);

/*
 * A former process of this node may have left a lease in the kernel that this one cannot end yet. Until until_ms the node
 * announces its weight although it takes nothing, so that no peer takes over what the former lease still covers.
 */
void share_keep_place(struct share *share, uint64_t until_ms);
/* The kernel has taken a lease from this process: that of the former one has ended. */
void share_give_place_up(struct share *share);

/* The weight that this node wants from now on. 0 for SHARE_LISTEN_PERIODS after the start, and while refused. */
void share_want(struct share *share, uint32_t weight, uint64_t now_ms);

/* A member that has been refusing us a share for so long at now_ms that this node asks for nothing; -1: none. */
int share_refuser(const struct share *share, uint64_t now_ms);

/* Whether this node refuses a member a share: to be announced. */
bool share_refuses(const struct share *share, unsigned member, uint64_t now_ms);

/*
 * Fewer than half of the members that have a weight are heard, this one included; or half of more than two,
 * without the first of them. Who asks for no share is heard while a lease from its echo would last.
 */
bool share_is_minority(const struct share *share);

/* The weight to announce: peers may take it away only after our kernel gave it up. */
uint32_t share_announced(const struct share *share);

/* The time between two announcements, in the mean: the period, or a shorter one that it had just before. */
unsigned share_period_ms(const struct share *share, uint64_t now_ms);

/* Call with every announcement that is sent. */
void share_sent(struct share *share, uint64_t now_ms);

void share_hear(struct share *share, unsigned member, const struct share_said *said, uint64_t now_ms);

/*
 * Call at least every share_ask_ms(), after all that has arrived was given to share_hear(): who is silent is
 * judged here. True: somebody is to be asked for an answer now, and the next announcement asks
 * (share_asks()).
 */
bool share_tick(struct share *share, uint64_t now_ms);
unsigned share_ask_ms(const struct share *share);
bool share_asks(const struct share *share, unsigned member, uint64_t now_ms);

/* What the kernel should have now. Give it to the kernel if it differs, then call share_applied(). */
void share_fill(const struct share *share, uint64_t now_ms, struct bucket_share *ret);
void share_applied(struct share *share, const struct bucket_share *applied);

/* When the lease ends, for the share that was applied last; 0: there is none. */
uint64_t share_until_ms(const struct share *share);

/*
 * Rebalance=yes: the next weight to want, in small steps. A node with a fifth more load than the mean gives
 * away some of its share, down to a quarter of the configured weight; one below the mean takes it back.
 * Loads are per unit of configured weight.
 */
uint32_t share_rebalanced(uint32_t weight, uint32_t configured, double own_load, double mean_load);

#endif
