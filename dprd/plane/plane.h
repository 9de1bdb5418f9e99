/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane.h - the plane that carries the packets, and the tables of its programs.
 */
#ifndef DPRD_PLANE_H
#define DPRD_PLANE_H

#include <stdbool.h>

struct decide_env;
struct dprd;

/* Chooses the plane and opens the flow table, with the flows of a former process of either plane. 0 or -errno. */
int plane_open(struct dprd *d);
/* BPF plane: attaches the programs. Needs the view and the ways. 0 or -errno. */
int plane_attach(struct dprd *d);
/* After the rules are set up: removes the remains of the other plane. */
void plane_started(struct dprd *d);
/*
 * True when this dprd uses the plane nfqueue only because addresses or routes were missing at its start, and they are
 * there now: a new process would use the programs.
 */
bool plane_is_outdated(const struct dprd *d);
/* The member whose tunnel packets the programs do not see, and the reason; "": they see all. */
const char *plane_unseen(const struct dprd *d);
/* True when Plane=auto could not use the programs. */
bool plane_is_second_choice(const struct dprd *d);
const char *plane_name(const struct dprd *d); /* "bpf" or "nfqueue" */
const char *plane_why(const struct dprd *d); /* the reason for it; "" before plane_open() */
/* True when this node may serve connections of peers whose packets dprd has never seen. */
bool plane_serves_unseen(const struct dprd *d);
/* True when tunnel packets are taken out on this node: not while all interfaces of the programs are gone. */
bool plane_carries(const struct dprd *d);
/* After a change of the configuration and of the ways: the programs learn of it at once. Lock not held. */
void plane_reconfigure(struct dprd *d);
void plane_update(struct dprd *d); /* each second, and after a change: the programs and their tables */
/* Every TICK_MS: tells the programs that dprd works, and takes their counters. */
void plane_tick(struct dprd *d, bool works);
/* Tells the programs which SYNs dprd takes a second look at. Lock held. */
void plane_second_look(struct dprd *d, const struct decide_env *env);
/* This node serves that many clients of its own: they leave less room for SYNs of peers. Lock held. */
void plane_served(struct dprd *d, unsigned connections);
void plane_count(struct dprd *d); /* adds the programs' counters to d->counters now. Lock held */
void plane_close(struct dprd *d, bool keep);

#endif
