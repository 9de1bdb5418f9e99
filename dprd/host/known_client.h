/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * known_client.h - finds a client that has, or had a moment ago, a connection with this host: its address is real, and
 * the way to it works.
 */
#ifndef DPRD_KNOWN_CLIENT_H
#define DPRD_KNOWN_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/base/addr.h"

typedef bool known_client_fn(void *context, const struct addr *client);

/*
 * Asks the kernel for connections to a port, and returns the first client of the family that fits. False: none was found
 * among the first ones. Takes up to some milliseconds on a host with many sockets: call it now and then.
 */
bool known_client_find(uint16_t port, bool v6, known_client_fn *fits, void *context, struct addr *ret);

#endif
