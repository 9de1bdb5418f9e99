/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * outcome.h - tells whether connections that are forwarded to a peer are answered. Pure.
 *
 * A peer may announce that all is well while nothing that is forwarded to it arrives: because a filter drops the
 * tunnel's protocol, a route leads elsewhere, or one family does not work. The client's first packet after the SYN
 * confirms a connection: it proves the way there, the peer's web server and the way back. There is one struct outcome
 * for each peer and family. When none of several connections was confirmed while connections to others are, the peer
 * rests: it gets no connections for some time, which doubles. After that time it gets one connection as a trial. Any
 * confirmation ends that.
 *
 * That takes a second, in which a busy way loses many. So the peer gets none for the moment, silently, as soon as several
 * wait longer than confirmations take here, and would be confirmed by the same comparison.
 *
 * In a flood no SYN leads to a connection, on any way. So the silence of one way is compared with connections by other
 * ways in the same time. When none of those is confirmed either, or there are none, it is compared with earlier
 * connections, unless many more come than before.
 */
#ifndef DPRD_OUTCOME_H
#define DPRD_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

enum {
	OUTCOME_WINDOW_MS = 200,
	OUTCOME_WINDOWS = 5, /* a connection is ripe after 800 to 1,000 ms: its client has had time to answer */
	OUTCOME_LATE_MS = 500, /* after a longer gap between two windows nothing is known of the time between */
	OUTCOME_SEVERAL = 3, /* fewer are no evidence */
	OUTCOME_HOLD_LEAST_MS = 200, /* a confirmation may take this long, and twice the longest time seen lately */
	OUTCOME_HOLD_MOST_MS = 1000,
	OUTCOME_KEEP_MS = 30000, /* unanswered connections that are older are no evidence any more */
	OUTCOME_REST_MS = 1000, /* the first rest, without connections */
	OUTCOME_REST_MOST_MS = 60000,
	OUTCOME_HISTORY = 1024, /* connections from which the usual share of confirmed ones is learnt */
	OUTCOME_SURGE = 4, /* this many times more than before may be a flood */
	OUTCOME_SURGE_LEAST = 8, /* connections to one peer in a window: fewer are no surge */
};

struct outcome {
	uint32_t made[OUTCOME_WINDOWS]; /* in the running window, and in those before it */
	uint32_t unanswered; /* ripe connections since the last confirmation */
	uint32_t most; /* of these, the most in one window */
	uint32_t returned; /* in the running window, before they were counted as made */
	uint64_t since_ms; /* when the first of them was made */
	uint64_t made_before, confirmed_before; /* all_made and all_confirmed at that time */
	bool holds; /* as of outcome_hold() */
	uint32_t rest_ms; /* how long the peer rests; 0: it does not */
	uint64_t until_ms; /* it rests until then, or until it has been tried */
};

/* All connections whose outcome is known, to all peers. */
struct outcome_history {
	uint32_t made, confirmed; /* lately: at most OUTCOME_HISTORY */
	uint32_t most; /* to one peer in one window, lately, while connections to it were confirmed */
	uint64_t all_made, all_confirmed; /* ever */
	uint32_t slow_ms; /* the longest time, lately, from a connection to the next confirmation on the same way */
};

/* Connections were forwarded to the peer. For a resting peer that was the trial, and it goes on resting. */
void outcome_made(struct outcome *o, uint32_t connections, const struct outcome_history *history, uint64_t now_ms);

/* Connections to the peer were confirmed. True: it rested, and may get connections again. */
bool outcome_confirmed(struct outcome *o, uint32_t connections, struct outcome_history *history, uint64_t now_ms);

/*
 * The peer sent a SYN back: it does not count as made. It proves the way to the peer, and not the way of the peer's
 * answers to clients. A resting peer may be tried again at once.
 */
void outcome_returned(struct outcome *o);

/* A window ends. False: nothing is ripe. */
bool outcome_ripen(struct outcome *o, uint64_t now_ms);

/*
 * Forgets all connections that were not confirmed yet: they may have been confirmed unseen. A peer that rests goes on
 * resting.
 */
void outcome_forget(struct outcome *o);

/*
 * The way to the peer was lost, and is proven again. Its rest ends: connections failed because of the way. If they fail on
 * a proven way, it rests as after a first fault.
 */
void outcome_restart(struct outcome *o);

/*
 * Lets the peer rest when its silence cannot be chance. others: unanswered connections to peers that do not rest,
 * without this one. True: it rests from now on.
 */
bool outcome_judge(struct outcome *o, const struct outcome_history *history, uint32_t others, uint64_t now_ms);

/* The connections since the last confirmation. */
uint32_t outcome_waiting(const struct outcome *o);

/*
 * Decides if the peer gets no connection for the moment, because several wait for their confirmation longer than usual.
 * others: connections that wait, to other peers that do not rest.
 */
void outcome_hold(struct outcome *o, const struct outcome_history *history, uint32_t others, uint64_t now_ms);

/* True when the peer may get a connection. */
static inline bool outcome_may_try(const struct outcome *o, uint64_t now_ms)
{
	return o->rest_ms ? now_ms >= o->until_ms : !o->holds;
}

#endif
