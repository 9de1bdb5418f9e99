/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sharing.h - the daemon's side of shared addresses: applies the rules of share.h through lease.h. */
#ifndef LOADCAST_SHARING_H
#define LOADCAST_SHARING_H

#include "loadcast/lease.h"
#include "loadcast/load.h"
#include "loadcast/core/share.h"

struct sharing {
	struct lease *lease; /* NULL: the configuration has no shared address */
	struct share share;
	struct bucket_share applied;
	bool said_gone; /* logged that there is no kernel part */
	bool said_refused; /* logged that a peer refuses us a share */
	uint64_t announced_ms; /* the last announcement out of turn */
	uint64_t waiting; /* members that wait for an announcement, a bit each */
	uint32_t balanced; /* Rebalance=yes: the weight to want now; 0: as configured */
	uint64_t balanced_ms;
	unsigned interface[2]; /* by family, of the shared addresses; 0: not found */
	uint8_t hardware[2][HARDWARE_BYTES]; /* of these interfaces; all zero: unknown, or not to be announced */
	uint64_t looked_ms, searched_ms; /* 0: not yet with this configuration */
};

/* Call sharing_step() at least this often: peers must know a changed hardware address within a second. */
enum { SHARING_LOOK_MS = 500 };

/* The facts of this node and its peers that a step needs. */
struct sharing_news {
	bool active; /* the web server is good, and the node does not drain */
	uint64_t asked_by; /* members that want an answer, a bit each */
	double own_load, mean_load; /* connections per unit of configured weight, of self and of all that are heard */
};

/* Opens or closes the lease as the configuration asks, also at a reload. The former configuration must still exist. */
int sharing_configure(struct sharing *sharing, const struct config *config, uint64_t now_ms,
		      char message[CONFIG_ERROR_BYTES]);
/*
 * Call once after the start, before the load table is written. A former process of this node may have left a lease
 * which cannot be ended until dprd hands over its map. Peers must not take over before that lease ends by itself.
 */
void sharing_succeed(struct sharing *sharing, uint64_t now_ms);
void sharing_close(struct sharing *sharing);

/* The share for the load table; NULL without shared addresses. */
struct share *sharing_share(struct sharing *sharing);

/*
 * Updates the kernel, and every SHARING_LOOK_MS the hardware addresses. Returns 0, or the members (a bit each) that
 * must get an announcement now.
 */
uint64_t sharing_step(struct sharing *sharing, const struct sharing_news *news, uint64_t now_ms);

#endif
