/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * preflight.h - checks whether this host fits dprd.
 */
#ifndef DPRD_PREFLIGHT_H
#define DPRD_PREFLIGHT_H

#include <stdbool.h>

struct config;

/*
 * Prints each problem with the command that fixes it; when starting, logs it. Returns the number of problems that make
 * dprd useless; *ret_warnings counts the others.
 */
unsigned preflight(const struct config *config, bool starting, unsigned *ret_warnings);

#endif
