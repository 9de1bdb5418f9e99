/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * preflight.h - what of this host does not fit.
 */
#ifndef DPRD_PREFLIGHT_H
#define DPRD_PREFLIGHT_H

#include <stdbool.h>

struct config;

/*
 * Prints, or when starting logs, each problem with the command that mends it.
 * The number of problems that make dprd useless; *ret_warnings counts the others.
 */
unsigned preflight(const struct config *config, bool starting, unsigned *ret_warnings);

#endif
