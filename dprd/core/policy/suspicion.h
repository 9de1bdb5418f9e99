/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * suspicion.h - finds that this node's connections suddenly end much sooner than before, compared with those of its
 * peers: perhaps its web server answers with errors, so its low load must not attract more connections. Pure.
 *
 * By Little's law the mean life of a connection is the load divided by the connections served per second. The node
 * learns its usual life, how this compares with its peers' lives, and how much the comparison varies. Its lives are
 * suspicious when they are less than a quarter of both, and by more than the comparison usually varies. Then its load
 * is at least the number of connections that it accepted within a usual life. So it gets as many new connections as the
 * others, and not all of them. A node that is always faster than its peers loses nothing, for that is usual. When the
 * peers' lives become longer, by connections that stay open there, this node's own lives have not changed.
 */
#ifndef DPRD_SUSPICION_H
#define DPRD_SUSPICION_H

#include <stdbool.h>
#include <stdint.h>

enum {
	SUSPICION_SLOT_MS = 50,
	SUSPICION_SLOTS = 1200, /* a minute: the longest usual life that counts */
	SUSPICION_TIMES = 4, /* lives are suspicious when they are shorter than usual by more than this */
	SUSPICION_WARN_MS = 5000, /* nobody is told of a suspicion that is younger */
	SUSPICION_TOLD_MAX = 1000, /* times: all above is told as this */
};

/* All zero: nothing is known. Lives are logarithms of seconds. */
struct suspicion {
	bool begun, suspects;
	uint64_t now_ms, accepted, served; /* of the last call */
	uint64_t known_ms; /* the time for which lives have been known */
	uint64_t suspected_ms; /* the time for which they have been suspicious without a break */
	double open, accepted_per_s, served_per_s, others_open, others_per_s; /* means */
	double usual_life; /* its own */
	double usual_ratio; /* its own life, less the others' */
	double spread; /* the usual distance from usual_ratio */
	double times; /* so many times are lives shorter than usual; at least 1 */
	double floor; /* of the load, in connections */
	uint64_t newest; /* number of the slot that was written last: time / SUSPICION_SLOT_MS */
	uint16_t count[SUSPICION_SLOTS]; /* accepted, by slot number modulo SUSPICION_SLOTS */
};

struct suspicion_facts {
	uint64_t accepted; /* connections that this host accepted, ever, on all ports */
	uint64_t served; /* SYNs to the service that this node served, ever; in a flood most are never accepted */
	double open; /* its open connections, without the floor */
	double others_open; /* those of all peers, as announced */
	double arrivals_per_s; /* new connections that reach the cluster */
};

/* Call every few SUSPICION_SLOT_MS. now_ms never runs backwards. Sets suspects, times and floor. */
void suspicion_tick(struct suspicion *s, const struct suspicion_facts *facts, uint64_t now_ms);

/* For warnings: how many times shorter lives are, 1 to SUSPICION_TOLD_MAX; 0: no suspicion, or a young one. */
unsigned suspicion_told(const struct suspicion *s);

#endif
