/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * proofs.h - what dprd says of the ways of its peers to this node, by the status file and then by announcements. Pure.
 */
#ifndef DPRD_PROOFS_H
#define DPRD_PROOFS_H

#include <stdint.h>

enum { PROOFS_NODES_MAX = 64 };

/* How much dprd can say about probes of its peers. Announcements carry these numbers. */
enum status_probes {
	PROBES_NONE, /* it does not look for them */
	PROBES_WANTED, /* it has not looked long enough to say whose are missing */
	PROBES_JUDGED,
};

/* By family (0: IPv4). */
struct status_proofs {
	uint32_t probes; /* enum status_probes */
	struct proofs_nodes {
		uint32_t count;
		uint32_t id[PROOFS_NODES_MAX]; /* 0 behind them */
	} unproven[2], narrow[2]; /* members whose probes do not arrive; whose full-size probes do not */
};

#endif
