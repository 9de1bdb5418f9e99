/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sample_diag.h - counts TCP sockets by sock_diag, with a filter on the local port that the kernel applies.
 *
 * A dump goes through all sockets of the network namespace, of both families at once, but copies only those that the
 * filter takes. Its time grows with the number of sockets: sample.c decides how often one runs.
 */
#ifndef LOADCAST_SAMPLE_DIAG_H
#define LOADCAST_SAMPLE_DIAG_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/config/config.h"

struct diag;

struct diag_listeners {
	uint32_t count; /* all listeners */
	uint32_t accept_queue; /* connections that wait for accept(2) at the service ports */
};

/* NULL with errno set. */
struct diag *diag_new(const struct config *config);
void diag_free(struct diag *diag); /* NULL is fine */

/* 0 or -errno, also for the next one. Not thread-safe. */
int diag_count_listeners(struct diag *diag, struct diag_listeners *ret);

/* TCP sockets with a connection, whose local port is a service port (served) or none (!served). */
int diag_count_connections(struct diag *diag, bool served, uint32_t *ret);

#endif
