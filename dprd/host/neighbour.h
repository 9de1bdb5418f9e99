/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * neighbour.h - the interface and the hardware address by which the kernel would send to an address.
 */
#ifndef DPRD_NEIGHBOUR_H
#define DPRD_NEIGHBOUR_H

#include <libmnl/libmnl.h>

#include "dprd/base/addr.h"

struct neighbour {
	uint32_t interface;
	struct addr next_hop; /* the router, or the destination itself */
	bool ethernet; /* the interface wants hardware addresses */
	bool gateway; /* a router is on the way, and hardware[] is the router's */
	bool known; /* hardware[] is set: the kernel knows the next hop's address */
	bool stale; /* the kernel has not confirmed it for long: it asks again once it has something to send there */
	bool unanswered; /* the kernel asks in vain: packets wait up to 3 s for an answer, and leave if one comes */
	uint8_t hardware[12]; /* destination, source: as an Ethernet header begins */
};

/* A socket for neighbour_find(); NULL with errno set. Closed by mnl_socket_close(). */
struct mnl_socket *neighbour_open(void);

/* Asks the kernel's route and neighbour tables. 0, or -errno: there is no route. */
int neighbour_find(struct mnl_socket *socket, const struct addr *source, const struct addr *destination,
		   struct neighbour *ret);

/* Drops the packets that wait for the answer of an unanswered neighbour. The next packet makes the kernel ask anew. */
void neighbour_drop_waiting(struct mnl_socket *socket, const struct neighbour *n);

#endif
