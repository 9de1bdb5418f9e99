/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lock.h - one dprd per run directory.
 */
#ifndef DPRD_LOCK_H
#define DPRD_LOCK_H

#include <stdbool.h>

/* Makes the run directory where there is none, and takes its lock. A file descriptor that holds it until it is
 * closed; or -errno, which is logged: -EWOULDBLOCK another dprd has it. */
int lock_take(const char *run_dir);
/* The lock, to look at: a file descriptor, or -1. And whether somebody has it. */
int lock_watch(const char *run_dir);
bool lock_is_taken(int fd);

#endif
