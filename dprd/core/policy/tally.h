/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tally.h - follows a number of open connections that is counted only now and then, since a count takes time. Pure.
 *
 * In between, the estimate follows the connections that begin:
 *
 *   open now = counted + young now - young when they were counted
 *
 * Young is the number of connections that began, each weighted by the chance that it is open still. The average life
 * follows from the counts, by Little's law. Connections that stay count in full as soon as they begin, so a burst is
 * shared as if each were counted at once. While short connections come at a steady rate, young is steady, too.
 */
#ifndef DPRD_TALLY_H
#define DPRD_TALLY_H

#include <stdbool.h>
#include <stdint.h>

/* All zero: no connection to be counted was seen yet. */
struct tally {
	bool used; /* there are connections to be counted */
	double share; /* part of the new connections that is to be counted; the others have sockets of this node */
	double counted; /* open at the last count */
	double young_counted; /* the value of young then */
	uint64_t counted_ms;
	double young, began; /* now; connections that began since the last count */
	double unseen; /* connections that began since a count found any, also one that was over */
	uint64_t young_ms;
	double ended, open_s; /* lately: connections that ended, and the time for which connections were open */
	struct {
		double young;
		uint64_t ms;
	} mark; /* tally_start() */
};

/* The result of a count. */
struct tally_count {
	uint32_t open;
	bool any; /* one was found, open or over, or some are expected */
	uint32_t own; /* connections of the service that have a socket of this node */
};

/* That many more connections begin. */
void tally_began(struct tally *t, unsigned connections, uint64_t now_ms);

/*
 * Begins and ends a count. It finds each connection that began before tally_start() and is open still. It may find
 * connections that begin later, or not: between both answers, the estimate stays as it is.
 */
void tally_start(struct tally *t, uint64_t now_ms);
void tally_end(struct tally *t, const struct tally_count *count, uint64_t now_ms);

/* True when some were open at the last count, or have begun since. */
bool tally_may_change(const struct tally *t);

/* The estimate of those open now. */
double tally_open(const struct tally *t, uint64_t now_ms);

#endif
