/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * queue.h - packets come from NFQUEUE and get their verdicts: one thread per worker.
 */
#ifndef DPRD_QUEUE_H
#define DPRD_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct dprd;
struct standby_members;

enum { WORKERS_MAX = 16 };

/* 0 or -errno. */
int queue_check(const struct dprd *d); /* checks that the queues can be bound; changes nothing */
int queue_start(struct dprd *d);
void queue_stop(struct dprd *d);
void queue_tick(struct dprd *d, bool each_second); /* each tick */
/* The facts of the members for the standby process. Valid until the next call. Main thread; with workers, lock held. */
const struct standby_members *queue_members(struct dprd *d);
/* When the worker that was silent for longest was last seen to run. */
uint64_t queue_heartbeat_ms(const struct dprd *d);

#endif
