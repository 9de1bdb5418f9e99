/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lock.h - one dprd per run directory, one loadcast per load table.
 */
#ifndef DPRD_LOCK_H
#define DPRD_LOCK_H

#include <stdbool.h>

/*
 * Makes the run directory if it is missing, and takes its lock. Returns a file descriptor that holds the lock until it
 * is closed; or -errno, which is logged: -EWOULDBLOCK: another dprd holds it.
 */
int lock_take(const char *run_dir);
/* The same for a file: takes the lock FILE.lock. program: the name in the log for the process that holds it. */
int lock_take_beside(const char *file, const char *program);
/* lock_watch(): a file descriptor to watch the lock, or -1. lock_is_taken(): true when a process holds it. */
int lock_watch(const char *run_dir);
bool lock_is_taken(int fd);

#endif
