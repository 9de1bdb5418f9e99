/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * health.h - probes one port of a web server: by a TCP connection that the server accepts, by a GET of HTTP or HTTPS, by
 * the beginning of a TLS handshake, or by a command.
 *
 * One probe at a time, on a non-blocking descriptor that the caller polls. The first result counts at
 * once; after that it takes health_fall failures or health_rise successes in a row to change. A connection that the
 * server on this host does not accept within the time counts as two failures: the server stands still.
 *
 * HEALTH_AUTO asks in the protocol of the port. It learns the protocol from answers of the port, and never from
 * silence: a port that has spoken HTTP or TLS must go on speaking it until it speaks another protocol.
 */
#ifndef LOADCAST_HEALTH_H
#define LOADCAST_HEALTH_H

#include "dprd/config/config.h"

struct health;

/*
 * Probes the server at this address and port by this check. The server counts as good until the first result. The
 * configuration must outlive it. NULL: out of memory.
 */
struct health *health_new(const struct config *config, enum health_check check, const struct addr *address,
			  uint16_t port);
void health_free(struct health *health); /* NULL is fine */

/*
 * After a reload: takes over the knowledge of the former object. When both ask the same server the same question, the
 * state and a probe under way go on unchanged; then the former object may only be freed.
 */
void health_inherit(struct health *health, struct health *former);

/* Starts the probe that is due and ends one that takes too long. Returns when to call again. */
uint64_t health_tick(struct health *health, uint64_t now_ms);

/* The descriptor to poll; -1 between probes. */
int health_socket(const struct health *health, short *ret_events);
/* Call when the socket is ready, with the events of poll(2). */
void health_ready(struct health *health, short revents, uint64_t now_ms);

/* The state by the results that count so far. */
bool health_is_good(const struct health *health);
/* The failure of the newest failed probe; empty: none yet. */
const char *health_reason(const struct health *health);

#endif
