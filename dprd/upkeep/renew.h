/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * renew.h - restarts dprd, as the same process, when that gives it the better plane.
 *
 * No operator asked for this restart. So it may change nothing except the plane: not the configuration in effect, and
 * it must not end connections to former ports.
 */
#ifndef DPRD_RENEW_H
#define DPRD_RENEW_H

#include <stdint.h>

struct dprd;

struct renew {
	uint64_t next_ms; /* not before */
	const char *held_back; /* the reason that the log told last; NULL: none */
};

/* At the start. A process that was restarted in this way waits for a while before it does so again. */
void renew_start(struct dprd *d);
/* Each second. */
void renew_second(struct dprd *d, uint64_t now_ms);
/* Replaces the process; the kept state waits for it, as for any next dprd. Returns only when that fails. */
void renew_execute(char **arguments);

#endif
