/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tick.h - what happens every TICK_MS, and each second.
 */
#ifndef DPRD_TICK_H
#define DPRD_TICK_H

#include <stdint.h>

struct dprd;

enum { TICK_MS = 50 }; /* table snapshot, expiry, workers' heartbeat */

/* 0 or -errno. */
int tick_start(struct dprd *d);
/* Reads the load table's file, without the lock, and refreshes the view with it. */
void tick_refresh_view(struct dprd *d, uint64_t now_ms);
void tick_refresh_mtu(struct dprd *d); /* path MTUs to all members */
void tick_forget_node(struct dprd *d, uint32_t node_id); /* its flows end. Lock held */
/*
 * All flows of the table into the kernel's set; but half-open ones of which this node has a socket are forgotten.
 * 0 or -errno (-ENOENT: there is no set).
 */
int tick_refill_set(struct dprd *d);
/* The firewall rules, if someone flushed them or if they must be others: nothing is lost but a moment. What fails is
 * tried again each second. */
void tick_restore_rules(struct dprd *d, uint64_t now_ms);

#endif
