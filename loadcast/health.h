/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * health.h - asks the web server of this node whether it works: TCP connect, or HTTP GET.
 *
 * One probe at a time, on a non-blocking socket that the caller polls. The first result counts at
 * once; after that it takes health_fall failures or health_rise successes in a row to change.
 */
#ifndef LOADCAST_HEALTH_H
#define LOADCAST_HEALTH_H

#include "dprd/base/config.h"

struct health;

/* NULL: out of memory. The configuration must outlive it. good is believed until the first result. */
struct health *health_new(const struct config *config, bool good);
void health_free(struct health *health); /* NULL is fine */

/* Starts the probe that is due, ends the one that takes too long. Returns when to call again. */
uint64_t health_tick(struct health *health, uint64_t now_ms);

/* What to poll for; the socket is -1 between probes. */
int health_socket(const struct health *health, short *ret_events);
/* The socket is ready. */
void health_ready(struct health *health, uint64_t now_ms);

/* The newest that counts. */
bool health_is_good(const struct health *health);
/* What went wrong in the newest failed probe; empty: nothing yet. */
const char *health_reason(const struct health *health);

/* Whether size bytes of an answer begin with an HTTP status line, and its status. Pure. */
bool health_parse_status(const char *answer, size_t size, unsigned *ret_status);

#endif
