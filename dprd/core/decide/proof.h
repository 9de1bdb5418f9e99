/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * proof.h - do probes of a peer arrive at this node, by family? Pure.
 *
 * Each node sends probes to its peers in the form of forwarded connections, and each node says of which peers it gets
 * some. A peer whose probes do not arrive here forwards no connection to this node.
 */
#ifndef DPRD_PROOF_H
#define DPRD_PROOF_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/config/config.h"

enum {
	PROOF_SEND_MS = 200, /* between two probes of one way */
	PROOF_SEND_MANY_MS = 280, /* the same with more members than PROOF_MANY: still three in PROOF_FRESH_MS */
	PROOF_MANY = 32,
	PROOF_LOOK_MS = 100, /* between two looks at what came */
	PROOF_FRESH_MS =
		850, /* a way is proven for this time: three probes in a row may be lost, or two of many members' */
	PROOF_LEARN_MS = 1500, /* after the first look; before that a missing probe says nothing */
	PROOF_LATE_MS = 300, /* after a longer gap between two looks, the probes of the gap may still wait in a queue */
	PROOF_SETTLE_MS = 400, /* for this time */
	PROOF_STEADY_MS = 1500, /* a node that sent no probes for PROOF_LATE_MS believes for this time in no new loss */
	PROOF_FULL_EACH = 10, /* one of so many probes is as large as packets may be */
	PROOF_FULL_FRESH_MS = 9000, /* four of them in a row may be lost */
	PROOF_FULL_LEARN_MS = 12000,
};

/* By member and family (0: IPv4). */
struct proofs {
	uint64_t heard_ms[MEMBERS_MAX][2]; /* the newest probe came then; 0: none did */
	bool proven[MEMBERS_MAX][2]; /* as of the last look */
	uint64_t full_ms[MEMBERS_MAX][2]; /* the newest full-size probe came then; 0: none did */
	bool narrow[MEMBERS_MAX][2]; /* as of the last look: probes arrive, but no full-size ones */
	uint64_t proven_ms[MEMBERS_MAX][2]; /* since then they arrive */
	uint64_t since_ms; /* of the first look without a failure; 0: there was none */
	uint64_t looked_ms; /* of the last look */
	unsigned looks;
	uint64_t settled_ms; /* until then no way loses its proof */
};

/* A look at what came failed: nothing is known. */
void proofs_fail(struct proofs *p);

/* Notes a probe. */
void proofs_hear(struct proofs *p, unsigned member, bool v6, bool full, uint64_t heard_ms);

/* Ends a look, after all probes were noted. True: a way won or lost its proof. */
bool proofs_look(struct proofs *p, uint64_t now_ms);

/* True when a missing probe means that the way is lost. */
static inline bool proofs_judge(const struct proofs *p)
{
	return p->since_ms && p->looked_ms - p->since_ms >= PROOF_LEARN_MS;
}

#endif
