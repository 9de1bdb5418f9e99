/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * slow_start.h - the weight of a node that comes back grows, so that it is not flooded while its caches are cold. Pure.
 */
#ifndef LOADCAST_SLOW_START_H
#define LOADCAST_SLOW_START_H

#include <stdbool.h>
#include <stdint.h>

enum {
	SLOW_START_HELD = 900, /* permille of the weight that a node holds back when it has just come */
	SLOW_START_FRESH_MS =
		10000, /* a table of a former loadcast that is not older shows that the node served just now */
};

/* All zero: the node did not serve until now. */
struct slow_start {
	bool serves;
	uint64_t since_ms; /* it serves; 0: for long */
};

/* How much of its weight the node holds back now, in permille: from SLOW_START_HELD down to 0 within duration_ms. */
uint16_t slow_start_held(struct slow_start *s, bool serves, unsigned duration_ms, uint64_t now_ms);

#endif
