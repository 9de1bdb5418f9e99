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

enum socket_found {
	SOCKET_OTHER, /* a listener, or a socket in TIME-WAIT; also when the kernel gave no answer */
	SOCKET_OWNS, /* the tuple has a socket of its own */
	SOCKET_NONE, /* not even a listener: no program of this network namespace serves it */
};

struct socket_lookup *socket_lookup_new(void);
void socket_lookup_free(struct socket_lookup *lookup);
/* Sets found[i] for keys[i]. 0; or -errno, and all of found[] is SOCKET_OTHER. */
int socket_lookup_find(struct socket_lookup *lookup, const struct flow_key *keys, unsigned count,
		       enum socket_found *found);

#endif
