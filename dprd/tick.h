/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tick.h - what happens every TICK_MS, and each second.
 */
#ifndef DPRD_TICK_H
#define DPRD_TICK_H

struct dprd;

/* 0 or -errno. */
int tick_start(struct dprd *d);

#endif
