/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sharing.h - the daemon's side of shared addresses: share.h's rules put to work through lease.h. */
#ifndef LOADCAST_SHARING_H
#define LOADCAST_SHARING_H

#include "loadcast/lease.h"
#include "loadcast/load.h"
#include "loadcast/core/share.h"

struct sharing {
	struct lease *lease; /* NULL: the configuration has no shared address */
	struct share share;
	struct bucket_share applied;
	bool said_gone; /* there is no kernel part, and the log says so */
	bool said_refused; /* a peer refuses us a share, and the log says so */
	uint64_t announced_ms; /* out of turn */
	uint64_t waiting; /* members that wait for an announcement, a bit each */
	uint32_t balanced; /* Rebalance=yes: the weight that is wanted now; 0: as configured */
	uint64_t balanced_ms;
	unsigned interface[2]; /* by family, of the shared addresses; 0: not found */
	uint8_t hardware[2][HARDWARE_BYTES]; /* theirs, to be announced; all zero: unknown, or not wanted */
	uint64_t looked_ms, searched_ms; /* 0: not yet with this configuration */
};

/* Step at least so often: peers are to know a changed hardware address within a second. */
enum { SHARING_LOOK_MS = 500 };

/* What a step wants to know of this node and its peers. */
struct sharing_news {
	bool active; /* the web server is good, and the node does not drain */
	uint64_t asked_by; /* members that want an answer, a bit each */
	double own_load, mean_load; /* connections per unit of configured weight, of self and of all that are heard */
};

/* Opens or closes what the configuration asks for; for a reload, too. The former one must still exist. */
int sharing_configure(struct sharing *sharing, const struct config *config, uint64_t now_ms,
		      char message[CONFIG_ERROR_BYTES]);
/*
 * Once after the start, before the load table is written: a former process of this node may have left a lease which
 * nobody can end until dprd hands over its map. Peers must not take over before the lease ends by itself.
 */
void sharing_succeed(struct sharing *sharing, uint64_t now_ms);
void sharing_close(struct sharing *sharing);

/* For the table: NULL without shared addresses. */
struct share *sharing_share(struct sharing *sharing);

/*
 * Brings the kernel up to date, and every SHARING_LOOK_MS what is known of the interfaces. 0, or an announcement
 * is due now, above all for some members, a bit each.
 */
uint64_t sharing_step(struct sharing *sharing, const struct sharing_news *news, uint64_t now_ms);

#endif
