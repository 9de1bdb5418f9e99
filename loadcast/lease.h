/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lease.h - the lease on its way into the kernel, without any right of loadcast's own.
 *
 * To the kernel module: a file in /proc that belongs to loadcast's user. To the BPF programs: memory of a
 * map that dprd hands over, as a file descriptor through a Unix socket beside the load table. Both outlive
 * dprd.
 */
#ifndef LOADCAST_LEASE_H
#define LOADCAST_LEASE_H

#include "dprd/config/config.h"
#include "kernel-patch/bucket.h"

#define LEASE_MODULE_FILE "/proc/net/dprd_biactive/lease"
/* What dprd sends along with the file descriptor. */
#define LEASE_MESSAGE "DPLEASE1"

enum { LEASE_SOCKETS = 2 };

struct lease;

/* NULL with a message that says what to do. */
struct lease *lease_open(const struct config *config, char message[CONFIG_ERROR_BYTES]);
void lease_close(struct lease *lease); /* NULL is fine; the lease in the kernel ends by itself */

/* The sockets to poll for reading; -1 where there is none. lease_ready() takes what came. */
void lease_sockets(const struct lease *lease, int sockets[LEASE_SOCKETS]);
void lease_ready(struct lease *lease);

/* Whether something in the kernel listens. Looks for the module anew; cheap enough for each announcement. */
bool lease_has_kernel(struct lease *lease);

/*
 * Gives share and lease to the kernel. until_ns on CLOCK_MONOTONIC; 0 ends it. False: the kernel part is
 * gone, and with it what it knew.
 */
bool lease_write(struct lease *lease, const struct bucket_share *share, uint64_t until_ns);

#endif
