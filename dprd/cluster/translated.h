/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * translated.h - connections of the service that the kernel's NAT sends to sockets which are not on this host, and that
 * have no flow:
 *
 *   - the web server, or one of several, is a container with a published port: its sockets are in another network
 *     namespace
 *   - a peer forwarded the connection here, and a rule chose a real server (rules/backend.c)
 *
 * Connection tracking has them; policy/tally.h has the number in between the counts. A count goes through the kernel's
 * whole table, which takes 9 ms even when it is empty, and during that time the processor handles no packet. So a
 * thread of the lowest priority does it, for at most half a percent of a processor's time, and every 4 s at most while
 * there is no such connection.
 */
#ifndef DPRD_TRANSLATED_H
#define DPRD_TRANSLATED_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/core/policy/tally.h"

struct dprd;
struct translated_counter;

struct translated {
	/* Main thread only. */
	struct translated_counter *counter; /* NULL: nothing is counted */
	bool started; /* tally_start() */
	uint64_t ended_ms, took_us; /* of the last count */
	/* Lock held. */
	struct tally tally;
};

/* Main thread, lock not held. When connection tracking cannot be asked, a warning says so, and nothing is counted. */
void translated_open(struct dprd *d);
void translated_close(struct dprd *d);
/* Each tick: starts a count when that is due, or takes its result. */
void translated_refresh(struct dprd *d, uint64_t now_ms);

/* Lock held for all of these. */
/* True when there are such connections, or may be at any time. */
bool translated_used(const struct dprd *d);
/* This node serves that many new connections. */
void translated_began(struct dprd *d, unsigned connections);
/* Takes over the SYNs of peers that stayed here without dprd, as the BPF programs counted them. */
void translated_take_stayed(struct dprd *d);
/* Open connections of this kind now. */
uint32_t translated_connections(const struct dprd *d);

#endif
