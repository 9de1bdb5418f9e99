/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probes.h - proves the ways between this node and its peers, also while no connection uses them.
 *
 * A probe (core/packet/probe.h) goes to each peer and family by the way that connections go. The peer's rules note it,
 * its dprd says by the status file whose probes do not arrive, and loadcast announces that. A peer at which those of this
 * node do not arrive is no choice for connections of this family.
 */
#ifndef DPRD_PROBES_H
#define DPRD_PROBES_H

#include "dprd/base/proofs.h"
#include "dprd/core/decide/proof.h"

struct dprd;
struct tunnel;

/* A client of this node: probes have its address as their source, as connections that this node forwards. */
struct probe_client {
	struct addr address; /* all zero: none is known */
	struct addr avoided; /* with this one a way was lost last; it is used only if there is no other */
	uint64_t asked_ms; /* when this node last looked for one */
	unsigned asked; /* how often: each time at another port */
};

/* The way from this node to a member, of one family. */
struct probe_way {
	uint64_t lost_ms; /* since then its probes do not arrive; 0: they do, or nothing is known */
	bool said; /* in the log */
	bool narrow; /* they do, but full-size ones do not */
	uint64_t narrowed_ms; /* when this node last made the way narrower for this reason */
	bool stuck; /* it cannot be narrower */
};

struct probes {
	/* Main thread only. */
	struct tunnel *tunnel; /* NULL: none are sent */
	uint64_t sent_ms, read_ms;
	uint64_t steady_ms; /* since then probes leave without gaps */
	unsigned sent; /* times that probes were sent */
	struct proofs proofs; /* of the ways to this node */
	struct probe_client client[2]; /* by family */
	uint64_t answers_ms; /* when the routes of answers were last looked at */
	/* This node has no route for answers to connections of this member's, though it has one for its own. */
	bool mute[MEMBERS_MAX][2];
	/* Under the lock. */
	bool wanted[MEMBERS_MAX]; /* the member looks for probes */
	uint64_t wanted_ms[MEMBERS_MAX]; /* since then */
	struct probe_way way[MEMBERS_MAX][2]; /* by family (0: IPv4) */
};

/* Without sockets of its own this node sends no probes, and says so once. */
void probes_open(struct dprd *d);
void probes_close(struct dprd *d);

/* Every TICK_MS: sends, makes ways narrower, and looks at what came. True: probes_status() has news. Main thread, lock not held. */
bool probes_tick(struct dprd *d, uint64_t now_ms);

/* The proofs of the ways to this node, for its peers. Main thread. */
void probes_status(const struct dprd *d, struct status_proofs *ret);

/* True when this node expects probes of this member and family: both have the addresses for it. */
bool probes_expected(const struct config *config, unsigned member, bool v6);

/* True when probes of this member and family should arrive here and do not, or answers could not leave. Main thread. */
bool probes_is_lost(const struct dprd *d, unsigned member, bool v6);

/*
 * The member says what arrives there, by these flags of the load table; without NODE_HEARD nothing is new. Logs what
 * lasts. Lock held.
 */
void probes_judge(struct dprd *d, unsigned member, uint32_t flags, uint64_t now_ms);

/* True when probes of this node arrive at the member, as far as is known. Lock held. */
bool probes_allow(const struct dprd *d, unsigned member, bool v6);

/* After a change of the configuration; members that stay keep what is known of them. Lock held. */
void probes_reconfigure(struct dprd *d, const struct config *former);

#endif
