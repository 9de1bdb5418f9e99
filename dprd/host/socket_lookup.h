/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * socket_lookup.h - tells whether this node has a socket for a tuple (sock_diag, exact look-up).
 */
#ifndef DPRD_SOCKET_LOOKUP_H
#define DPRD_SOCKET_LOOKUP_H

#include <stdbool.h>

#include "dprd/core/packet/packet.h"

struct socket_lookup;

enum { SOCKET_LOOKUP_MAX = 128 }; /* tuples in one request */

struct socket_lookup *socket_lookup_new(void);
void socket_lookup_free(struct socket_lookup *lookup);
/*
 * Sets found[i] when keys[i] has a socket that is neither a listener nor in TIME-WAIT. On -errno all of found[] is
 * false.
 */
int socket_lookup_find(struct socket_lookup *lookup, const struct flow_key *keys, unsigned count, bool *found);

#endif
