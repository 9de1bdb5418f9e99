/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * background.h - a thread of the lowest priority, for work that holds a processor for milliseconds: whatever else is to
 * run comes first.
 */
#ifndef DPRD_BASE_BACKGROUND_H
#define DPRD_BASE_BACKGROUND_H

#include <pthread.h>
#include <stdint.h>

/*
 * Starts a thread with this name (at most 15 characters), a stack of 256 kB, and no signals: these are for the main
 * thread. 0 or -errno.
 */
int background_start(pthread_t *ret, const char *name, void *(*run)(void *context), void *context);

/* The processor time of the calling thread. On a busy host work waits for the processor far longer than it takes. */
uint64_t background_used_us(void);

#endif
