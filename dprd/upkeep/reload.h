/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * reload.h - applies a changed configuration while dprd runs.
 */
#ifndef DPRD_RELOAD_H
#define DPRD_RELOAD_H

#include "dprd/config/config.h"

struct dprd;

/*
 * Reads and checks the file again; only then applies it. 0, or -errno with *errors filled and nothing changed (-EINVAL:
 * the file has errors). note names the keys that take effect only at a restart (queues, table sizes); without such keys
 * it is empty. Main thread, lock not held.
 */
int reload_config(struct dprd *d, struct config_errors *errors, char note[CONFIG_ERROR_BYTES]);

#endif
