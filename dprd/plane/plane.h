/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane.h - which plane carries the packets, and what its programs are told.
 */
#ifndef DPRD_PLANE_H
#define DPRD_PLANE_H

#include <stdbool.h>

struct decide_env;
struct dprd;

enum { PLANE_WHY_BYTES = 256 };

/* The plane is chosen, and the flow table opened with the flows of a former process of either
 * plane. 0 or -errno. */
int plane_open(struct dprd *d);
/* BPF plane: the programs go to work. Needs the view and the ways. 0 or -errno. */
int plane_attach(struct dprd *d);
/* After the rules: what the other plane left goes. */
void plane_started(struct dprd *d);
const char *plane_name(const struct dprd *d); /* "bpf" or "nfqueue" */
/* True when this node may serve connections of peers that dprd has not seen. */
bool plane_serves_unseen(const struct dprd *d);
/* True when something on this node takes tunnel packets out: not while all interfaces of the programs are gone. */
bool plane_carries(const struct dprd *d);
/* After a change of the configuration and of the ways: the programs learn of it at once. Lock not held. */
void plane_reconfigure(struct dprd *d);
void plane_update(struct dprd *d); /* each second, and after a change: the programs, and what they are told */
void plane_tick(struct dprd *d, bool works); /* every TICK_MS: that dprd works, and what the programs did */
void plane_second_look(struct dprd *d,
		       const struct decide_env *env); /* tells whether dprd makes second looks. Lock held */
void plane_served(struct dprd *d, unsigned connections); /* since dprd last told its room for those that land */
void plane_count(struct dprd *d); /* the programs' counters into d->counters, now. Lock held */
void plane_close(struct dprd *d, bool keep);

#endif
