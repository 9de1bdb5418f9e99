/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decide.h - the BPF programs' verdicts, made ahead of the connections; see Decide=.
 */
#ifndef DPRD_PLANE_DECIDE_H
#define DPRD_PLANE_DECIDE_H

#include <stdbool.h>
#include <stdint.h>

struct decide_env;
struct dprd;
struct plane_decide;

struct plane_decide *plane_decide_new(void); /* free() frees it */
bool plane_decide_runs(const struct dprd *d); /* true while the programs decide. Lock held */
/* The tick has read the own load just before. Lock held. */
void plane_decide_tick(struct dprd *d, uint64_t now_ms);
void plane_decide_remember(struct dprd *d, const struct decide_env *env); /* their decisions, for why. Lock held */
/* After a change that the next new connection must find. Lock not held. */
void plane_decide_now(struct dprd *d);

#endif
