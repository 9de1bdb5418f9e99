/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kept.h - keeps for the next dprd what is not in the flow table: the aliases that connections use, and the drain.
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
/* Keeps the operator's last command, drain or undrain. 0, or -errno: it is lost at a restart. */
int kept_drain(const struct dprd *d, bool draining);
/* Removes both files: dprd --purge. */
void kept_purge(const struct config *config);

#endif
