/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kept.h - what a new dprd takes over from the one before, besides flows: the aliases that connections use, and the drain.
 *
 * Both stand in the run directory, which a start of the host empties.
 */
#ifndef DPRD_KEPT_H
#define DPRD_KEPT_H

#include <stdbool.h>

#include "dprd/config/alias.h"

struct dprd;

/* At the start, before anything uses an alias: reads both files. Main thread, lock not held. */
void kept_open(struct dprd *d);
/* At a reload: gives the new configuration its aliases, and writes them to the file before any connection uses them. */
void kept_aliases(struct dprd *d, struct config *fresh);
/* The operator's last word. 0, or -errno: a restart will not know it. */
int kept_drain(const struct dprd *d, bool draining);
/* Removes both files: dprd --purge. */
void kept_purge(const struct config *config);

#endif
