/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * presence.h - tells loadcast (and by it the peers) and the service manager about this dprd.
 */
#ifndef DPRD_PRESENCE_H
#define DPRD_PRESENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/config/config.h"

struct dprd;

struct presence {
	uint64_t status_ms; /* when the status file was last written */
	int status_error; /* of the last attempt; 0: it was written */
	/* The file whose rules stand, as announced. */
	uint32_t file_hash, service_hash; /* config_service_hash() of the file with this hash; 0: not known yet */
	uint32_t port_count;
	uint16_t port[PORTS_MAX];
	bool renews; /* a new process takes its place */
	bool leaving; /* dprd has announced that it stops, and waits until peers know it */
	uint64_t watchdog_ms; /* the service manager's limit between two pings; 0: it wants none */
	uint64_t watchdog_pinged_ms;
};

/* The advice when the status file cannot be written, for errors that have no general one. */
#define PRESENCE_ADVICE "its directory must exist and belong to the user of dprd"

/* Asks the service manager whether it wants pings. */
void presence_start(struct dprd *d);
/* Each tick, while dprd works: the status file for loadcast. */
void presence_tick(struct dprd *d, uint64_t now_ms);
/* There is news for peers: the next presence_tick() does not wait. */
void presence_hurry(struct dprd *d);
/* Each tick, while the workers run: the watchdog's ping. */
void presence_ping(struct dprd *d, uint64_t now_ms);
/*
 * Between the last tick and the first one, where much may take its time (the tools that set up the rules): another ping.
 */
void presence_alive(void);
/* Each second: the line that systemctl status shows. */
void presence_second(struct dprd *d, uint64_t now_ms);
/* Removes the status file, because dprd no longer works. */
void presence_withdraw(const struct dprd *d);
/*
 * Ends the event loop a moment later. Meanwhile peers learn about the stop, and this node serves the connections that
 * they still forward. 0 or -errno.
 */
int presence_leave(struct dprd *d);
/* The same, but this process starts the program anew afterwards (presence.renews). */
void presence_renew(struct dprd *d);

#endif
