/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decide.h - the verdicts of the BPF programs, which dprd makes ahead of the connections; see Decide=.
 */
#ifndef DPRD_PLANE_DECIDE_H
#define DPRD_PLANE_DECIDE_H

#include <stdbool.h>
#include <stdint.h>

struct decide_env;
struct dprd;
struct plane_decide;

struct plane_decide *plane_decide_new(void); /* the caller frees it with free() */
bool plane_decide_runs(const struct dprd *d); /* true while the programs decide. Lock held */
/* At each tick, after the own load was read. Lock held. */
void plane_decide_tick(struct dprd *d, uint64_t now_ms);
/* The programs queue new SYNs to dprd until the next call of one of the others. Lock held. */
void plane_decide_pause(struct dprd *d);
/* The decisions of the programs since the last call, into d->why; with Decide=queue those that this node serves. Lock held. */
void plane_decide_remember(struct dprd *d, const struct decide_env *env);
/* Makes the verdicts anew, after a change that the next connection must meet. Lock not held. */
void plane_decide_now(struct dprd *d);

#endif
