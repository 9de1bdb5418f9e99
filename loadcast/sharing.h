/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sharing.h - the daemon's side of shared addresses: share.h's rules put to work through lease.h. */
#ifndef LOADCAST_SHARING_H
#define LOADCAST_SHARING_H

#include "loadcast/lease.h"
#include "loadcast/share.h"

struct sharing {
	struct lease *lease; /* NULL: the configuration has no shared address */
	struct share share;
	struct bucket_share applied;
	bool said_gone; /* there is no kernel part, and the log says so */
	uint64_t announced_ms; /* out of turn */
	uint64_t waiting; /* members that wait for an announcement, a bit each */
};

/* Opens or closes what the configuration asks for; for a reload, too. The former one must still exist. */
int sharing_configure(struct sharing *sharing, const struct config *config, uint64_t now_ms,
		      char message[CONFIG_ERROR_BYTES]);
void sharing_close(struct sharing *sharing);

/* For the table: NULL without shared addresses. */
struct share *sharing_share(struct sharing *sharing);

/*
 * Brings the kernel up to date. active: this node's web server is good and it does not drain. Members in
 * asked_by want an answer. 0, or an announcement is due now, above all for some members, a bit each.
 */
uint64_t sharing_step(struct sharing *sharing, bool active, uint64_t asked_by, uint64_t now_ms);

#endif
