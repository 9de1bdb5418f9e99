/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * expire.h - ends flows, in the table and in the kernel's set.
 */
#ifndef DPRD_EXPIRE_H
#define DPRD_EXPIRE_H

#include <stdbool.h>
#include <stdint.h>

struct config;
struct dprd;

/* Each tick: ends the flows that timed out, in a part of the table. Each second: also the flows to dead peers. */
void expire_tick(struct dprd *d, uint64_t now_ms, bool each_second);
/* After a change of the configuration: new timeouts; the flows to removed nodes end. former: NULL at start. Lock held. */
void expire_reconfigure(struct dprd *d, const struct config *former);

#endif
