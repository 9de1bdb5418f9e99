/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tunnel.h - sends IP datagrams as they are, by raw sockets that belong to one thread.
 */
#ifndef DPRD_TUNNEL_H
#define DPRD_TUNNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/base/addr.h"
#include "dprd/host/neighbour.h"

struct tunnel;

enum { TUNNEL_PACKETS_MAX = 256 }; /* between two flushes */

struct tunnel *tunnel_new(void);
void tunnel_free(struct tunnel *tunnel);
/* One datagram of several pieces, whole IP header included; queued until tunnel_flush(). The bytes
 * must stay. False when there is no room: flush first. */
bool tunnel_add(struct tunnel *tunnel, const struct addr *destination, const void *head, unsigned head_bytes,
		const void *body, unsigned body_bytes, unsigned tag);
/* Sends all; calls failed(context, tag, error) for each datagram that the kernel refuses. */
void tunnel_flush(struct tunnel *tunnel, void (*failed)(void *context, unsigned tag, int error), void *context);
/* True when this many more datagrams and scratch bytes fit before the next flush. */
bool tunnel_has_room(const struct tunnel *tunnel, unsigned packets, unsigned bytes);
/* Room for data that must stay until the flush; NULL when there is no more. tunnel_flush() frees all of it. */
uint8_t *tunnel_scratch(struct tunnel *tunnel, unsigned bytes);
/* The path MTU from source to destination as the kernel knows it; 0: no route. */
unsigned tunnel_path_mtu(const struct addr *source, const struct addr *destination);
/*
 * Makes the kernel learn the path MTU of IPv6 tunnels from ICMPv6 errors, as it does for IPv4 by itself: for raw
 * sockets it reads these errors only when a socket asks for errors. Returns that socket, or -1: this host has no IPv6.
 * Call tunnel_forget_errors() now and then. Sockets that send do not ask for errors: each one would fail the next
 * packet.
 */
int tunnel_learn_mtu(void);
void tunnel_forget_errors(int learner);
/* The address that the kernel sends from, to this one, unless told otherwise. False: no route. */
bool tunnel_preferred_source(const struct addr *destination, struct addr *ret);
/*
 * Sends an empty datagram to the discard port (RFC 863); its fate does not matter. It makes the kernel ask for a
 * hardware address, or ask again; frames sent to the hardware address directly do not.
 */
void tunnel_discard(const struct addr *destination);

/*
 * The same to a hardware address, without routes or output rules. A hardware address that is not known yet is an error:
 * only the kernel asks for it.
 */
bool tunnel_add_direct(struct tunnel *tunnel, const struct neighbour *to, bool v6, const void *head,
		       unsigned head_bytes, const void *body, unsigned body_bytes, unsigned tag);

#endif
