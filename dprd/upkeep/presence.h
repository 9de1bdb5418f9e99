/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * presence.h - what loadcast, and by it the peers, know of this dprd.
 */
#ifndef DPRD_PRESENCE_H
#define DPRD_PRESENCE_H

#include <stdint.h>

struct dprd;

void presence_tick(struct dprd *d, uint64_t now_ms); /* each tick, while dprd works */
void presence_withdraw(const struct dprd *d); /* it works no more */
/* The event loop ends: a moment later, in which peers learn of it and what they forward is still served. 0 or -errno. */
int presence_leave(struct dprd *d);

#endif
