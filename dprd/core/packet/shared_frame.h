/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * shared_frame.h - makes the Ethernet frames that tell a node's neighbours about shared addresses. Pure.
 *
 * Neighbours learn the hardware address of a shared address (RFC 826, RFC 5227 3; RFC 4861 7.2.6), and switches learn
 * that a multicast router is here (RFC 4286): otherwise a snooping switch would not send multicast frames to nodes that
 * joined no group.
 */
#ifndef DPRD_SHARED_FRAME_H
#define DPRD_SHARED_FRAME_H

#include "dprd/core/packet/packet.h"

enum {
	SHARED_FRAME_BYTES = 96, /* the longest of them */
	SHARED_ADVERTISEMENT_S = 20, /* RFC 4286, 3.3: MaxAdvertisementInterval's default */
};

/*
 * "address is at shared": a gratuitous ARP request, or an unsolicited neighbour advertisement. own: the
 * interface's hardware address. Returns the frame's length.
 */
unsigned shared_frame_announce(uint8_t frame[SHARED_FRAME_BYTES], const struct addr *address, const uint8_t shared[6],
			       const uint8_t own[6]);

/* A Multicast Router Advertisement from source; for IPv6 that is a link-local address. Returns the frame's length. */
unsigned shared_frame_router(uint8_t frame[SHARED_FRAME_BYTES], const struct addr *source, const uint8_t own[6]);

#endif
