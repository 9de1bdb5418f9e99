/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * renew.h - starts dprd anew, as the same process, when that gives it the better plane.
 *
 * Nobody asked for this start. So it must not bring what a restart brings beside the plane: another configuration than
 * the one in effect, or an end of connections to former ports.
 */
#ifndef DPRD_RENEW_H
#define DPRD_RENEW_H

#include <stdint.h>

struct dprd;

struct renew {
	uint64_t next_ms; /* not before */
	const char *held_back; /* the reason that the log told last; NULL: none */
};

/* At the start. A process that was started anew waits for a while before it does so again. */
void renew_start(struct dprd *d);
/* Each second. */
void renew_second(struct dprd *d, uint64_t now_ms);
/* Replaces the process; what is kept waits for it as for any next dprd. It returns when that fails. */
void renew_execute(char **arguments);

#endif
