/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probed.h - the kernel's note of probes that arrived lately: sets of the table "inet dprd" that a rule fills.
 */
#ifndef DPRD_PROBED_H
#define DPRD_PROBED_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/base/addr.h"

enum {
	PROBED_MAX =
		4096, /* addresses in the set: all of all members; forgotten ones take room until the kernel sweeps */
	PROBED_KEPT_MS = 10000, /* the kernel forgets a probe after this time */
};

/* Gets one address. Its newest probe came age_ms ago. */
typedef void probed_fn(void *context, const struct addr *address, uint32_t age_ms);

/* Calls item for each address of the set, of small or of full-size probes. 0, or -errno: the set cannot be read; some may have been read. */
int probed_read(bool v6, bool full, probed_fn *item, void *context);

#endif
