/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * health.h - asks one web server whether it works: TCP connect, or HTTP GET.
 *
 * One probe at a time, on a non-blocking socket that the caller polls. The first result counts at
 * once; after that it takes health_fall failures or health_rise successes in a row to change.
 */
#ifndef LOADCAST_HEALTH_H
#define LOADCAST_HEALTH_H

#include "dprd/config/config.h"

struct health;

/*
 * For the server that listens on this address and port. It is believed to be good until the first result.
 * The configuration must outlive it. NULL: out of memory.
 */
struct health *health_new(const struct config *config, const struct addr *address, uint16_t port);
void health_free(struct health *health); /* NULL is fine */

/*
 * After a reload: what the former one believes. When both ask the same server the same question, that goes on
 * as if nothing had happened, and the probe under way, too; the former one only waits for health_free() then.
 */
void health_inherit(struct health *health, struct health *former);

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
