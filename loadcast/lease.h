/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lease.h - writes the lease into the kernel; loadcast needs no rights for it.
 *
 * The kernel module has a file in /proc that belongs to loadcast's user. The BPF programs have a map; dprd hands over
 * its file descriptor through a Unix socket beside the load table. Both outlive dprd.
 */
#ifndef LOADCAST_LEASE_H
#define LOADCAST_LEASE_H

#include "dprd/config/config.h"
#include "kernel-patch/bucket.h"

#define LEASE_MODULE_FILE "/proc/net/dprd_biactive/lease"
/* dprd sends it along with the file descriptor. */
#define LEASE_MESSAGE "DPLEASE1"

enum { LEASE_SOCKETS = 2 };

struct lease;

/* NULL with a message that says what to do. */
struct lease *lease_open(const struct config *config, char message[CONFIG_ERROR_BYTES]);
void lease_close(struct lease *lease); /* NULL is fine; the lease in the kernel ends by itself */

/* The sockets to poll for reading; -1 where there is none. lease_ready() takes what came. */
void lease_sockets(const struct lease *lease, int sockets[LEASE_SOCKETS]);
void lease_ready(struct lease *lease);

/* True when a part in the kernel takes the lease. Looks for the module again; cheap enough for each announcement. */
bool lease_has_kernel(struct lease *lease);

/*
 * Gives share and lease to the kernel. until_ns is on CLOCK_MONOTONIC; 0 ends the lease. False: the kernel part is
 * gone, and its share with it.
 */
bool lease_write(struct lease *lease, const struct bucket_share *share, uint64_t until_ns);

#endif
