/* SPDX-License-Identifier: GPL-2.0-or-later */
/* causes.h - why packets that peers forward do not arrive at this node, as far as this host can tell. */
#ifndef DPRD_CONTROL_CAUSES_H
#define DPRD_CONTROL_CAUSES_H

#include <stdbool.h>

struct dprd;

enum { CONTROL_CAUSE_BYTES = 400 };

/* Writes the cause that this host knows of, and what mends it; or else what to look at. */
void control_arrival_cause(const struct dprd *d, unsigned member, bool v6, char text[CONTROL_CAUSE_BYTES]);

#endif
