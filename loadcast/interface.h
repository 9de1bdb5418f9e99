/* SPDX-License-Identifier: GPL-2.0-or-later */
/* interface.h - socket addresses of both families, and the interfaces that they belong to. */
#ifndef LOADCAST_INTERFACE_H
#define LOADCAST_INTERFACE_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "dprd/base/addr.h"
#include "loadcast/load.h"

union socket_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct addr address_of(const union socket_address *s);

/* Returns the size of the address filled in. */
socklen_t fill_address(union socket_address *s, const struct addr *a, uint16_t port);

/* Interface of this host that has the address; 0: none has it. */
unsigned interface_of(const struct addr *address);

/*
 * The unicast Ethernet address of an interface; all zero: it has none. 0, or -errno when the interface is gone. Unlike
 * interface_of(), it takes no lock that a change of the network's configuration holds.
 */
int interface_hardware(unsigned interface, uint8_t ret[HARDWARE_BYTES]);

/* Interface that leads to an address by the routes of this host; 0: none does. */
unsigned interface_towards(const struct addr *address);

#endif
