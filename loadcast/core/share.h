/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * share.h - decides which nodes have a share of the shared addresses, and until when this node may act on it. Pure.
 *
 * docs/biactive.md argues why no two nodes ever own a bucket at once. The rules, for a node and its peers:
 *
 * - A peer counts while it is heard (SHARE_HEARD). It is left out (SHARE_OUT) only when nothing was heard of it for
 *   share_takeover_ms() and it did not answer several questions.
 * - A peer that counts gets its part of the buckets (SHARE_IN) once it hears us and was heard for share_takeover_ms(),
 *   as it also waits that long itself. We tell it only after our kernel has a share that includes the peer. The weight
 *   that our kernel gives it is the grant.
 * - This node takes for itself the least of what all peers that count grant it, in announcements that are newer than
 *   its wish for that weight. Its lease ends share_lease_ms() after it sent the newest announcement that all of them
 *   have echoed with a grant.
 * - share_lease_ms() < share_takeover_ms(): a node that is left out has no lease any more. Where nodes announce
 *   different periods, a lease goes by the shortest of all that are heard, and a node that takes over from a peer waits
 *   by the longer of both. So the rule holds also when one of the two missed the other's last change. A node whose
 *   period becomes longer announces and has leases by the shorter one for five more short periods, and until all nodes
 *   that are heard have echoed a later announcement.
 * - A node announces which peers it refuses a share: silent ones, and ones that came and went before and have not
 *   stayed long enough since. No node gets a share in our kernel while a peer that counts refuses it. A node that is
 *   refused for share_takeover_ms() asks for nothing. Otherwise some nodes would leave buckets to a node that may not
 *   take them.
 * - After a start, after standing still for longer than a lease, and whenever it had no share before, a node announces
 *   its wish for share_takeover_ms() before it takes anything, or for as long as a peer that is left out may have a
 *   lease by its longer period: peers that it does not hear may hear it, and count on it. With a shorter period this
 *   wait begins anew, because the wish was not announced often enough. A peer that is left out, and that has not echoed
 *   the wish, may hear it late on a network that loses messages, and until then its lease needs no echo of ours: for such
 *   a peer the wait is longer by a lease (SHARE_UNHEARD_PERIODS).
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
	SHARE_UNHEARD_PERIODS = SHARE_LEASE_PERIODS + SHARE_TAKEOVER_PERIODS,
	SHARE_ASK_PERIODS = 2, /* periods of silence before a peer is asked for an answer */
	SHARE_ASKS_PER_PERIOD = 4,
	SHARE_ASKS_LEAST = 4, /* unanswered questions before a peer is left out */
	SHARE_LISTEN_PERIODS = 3, /* periods after the start before the node wants a share */
	SHARE_HOLD_MIN_MS = 2000, /* a peer that comes and goes waits this long, and twice as long each time */
	SHARE_HOLD_MAX_MS = 60000,
};

enum share_level {
	SHARE_OUT, /* has no share; its echo is not needed */
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
	uint64_t echoed_ms; /* when we sent the newest announcement that came back with that grant */
	uint64_t heard_ms;
	uint64_t refused; /* members that get no share from this peer, a bit each */
	unsigned period_ms; /* that it announced; 0: nothing yet */
	uint64_t asked_for_ms; /* when it asked for a share after having had none */
	uint64_t came_ms; /* when it was heard again after having been silent */
	uint64_t lost_ms; /* when it was last left out; 0: never */
	uint32_t hold_ms; /* how long it must stay from came_ms on */
	unsigned asked; /* number of questions since it was heard */
	uint64_t asked_ms;
};

struct share {
	const struct config *config;
	uint32_t wanted; /* our own weight; 0: none, or no part in the kernel */
	uint64_t wanted_ms; /* since when this weight is announced */
	uint64_t raised_ms; /* when it became more than the announced weight */
	uint64_t started_ms;
	uint64_t refused_ms; /* since when a peer that counts refuses us a share; 0: none does */
	uint32_t used; /* our own weight, as the kernel has it */
	uint64_t ticked_ms;
	uint64_t sent_ms; /* our newest announcement */
	uint64_t place_until_ms; /* share_keep_place(); 0: not needed */
	unsigned shorter_ms; /* a period that this node announced before it had a longer one; 0: none */
	uint64_t shorter_until_ms; /* leases that count from earlier announcements go by shorter_ms */
	struct share_peer peer[MEMBERS_MAX]; /* as in the configuration */
};

/* The content of one announcement of a peer. */
struct share_said {
	uint32_t weight; /* the wanted weight; 0: it has no share and takes none */
	uint32_t grant;
	uint64_t refused; /* members that it refuses a share, as in the configuration, a bit each */
	unsigned period_ms; /* its own period; 0: unknown */
	bool echoed; /* it echoes one of our announcements, sent at */
	uint64_t echo_sent_ms;
};

unsigned share_lease_ms(const struct share *share);
unsigned share_takeover_ms(const struct share *share); /* from a peer with a longer period: as many of its periods */

/* Every member with a configured weight counts as alive until share_takeover_ms() have passed. */
void share_init(struct share *share, const struct config *config, uint64_t now_ms);

/* Takes another configuration; keeps what is known of members that stay. share->config must still exist. */
void share_reconfigure(struct share *share, const struct config *config, uint64_t now_ms);

/*
 * A former process of this node may have left a lease in the kernel that this one cannot end yet. Until until_ms the
 * node announces its weight although it takes nothing, so that no peer takes over the buckets of the former lease.
 */
void share_keep_place(struct share *share, uint64_t until_ms);
/* The kernel has taken a lease from this process: the lease of the former process has ended. */
void share_give_place_up(struct share *share);

/* The weight that this node wants from now on. 0 for SHARE_LISTEN_PERIODS after the start, and while refused. */
void share_want(struct share *share, uint32_t weight, uint64_t now_ms);

/* A member that has refused us a share for so long that this node asks for nothing at now_ms; -1: none. */
int share_refuser(const struct share *share, uint64_t now_ms);

/* True when this node refuses the member a share; it must announce that. */
bool share_refuses(const struct share *share, unsigned member, uint64_t now_ms);

/*
 * True when fewer than half of the members that have a weight are heard, this one included; or half of more than two,
 * without the first of them. A member that asks for no share counts as heard while a lease from its echo would last.
 */
bool share_is_minority(const struct share *share);

/* The weight to announce: it shrinks only after our kernel gave the share up. */
uint32_t share_announced(const struct share *share);

/* The mean time between two announcements: the period, or a shorter one that the node had just before. */
unsigned share_period_ms(const struct share *share, uint64_t now_ms);

/* Call with every announcement that is sent. */
void share_sent(struct share *share, uint64_t now_ms);

void share_hear(struct share *share, unsigned member, const struct share_said *said, uint64_t now_ms);

/*
 * Call at least every share_ask_ms(), after share_hear() got all that arrived: silent peers are judged here. True: a
 * peer must be asked for an answer now; the next announcement asks it (share_asks()).
 */
bool share_tick(struct share *share, uint64_t now_ms);
unsigned share_ask_ms(const struct share *share);
bool share_asks(const struct share *share, unsigned member, uint64_t now_ms);

/* Fills the share that the kernel should have now. Give it to the kernel if it differs, then call share_applied(). */
void share_fill(const struct share *share, uint64_t now_ms, struct bucket_share *ret);
void share_applied(struct share *share, const struct bucket_share *applied);

/* The end of the lease for the share applied last; 0: there is none. */
uint64_t share_until_ms(const struct share *share);

/*
 * Rebalance=yes: the next weight to want, in small steps. A node with a fifth more load than the mean gives
 * away some of its share, down to a quarter of the configured weight; one below the mean takes it back.
 * Loads are per unit of configured weight.
 */
uint32_t share_rebalanced(uint32_t weight, uint32_t configured, double own_load, double mean_load);

#endif
