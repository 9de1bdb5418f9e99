/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * craft.h - frames from lines that read like tcpdump's, made without any of dprd's own code.
 *
 *   eth gw>me | ip cl>s1 ttl 63 | tcp 40000>80 S seq 1000 opt 020405b4 | data 20
 *
 * Layers from the outside in, each with its values. Missing values have defaults; lengths, protocols and checksums
 * follow from the content, unless the line sets them ("sum bad", "sum N" for any of them).
 *
 *   eth A>B [type N]     by default gw>me; the type follows from the next layer
 *   ip A>B ...           of the line's family; ip4, ip6: of that one. tos N, ttl N, proto N, len N (as it
 *                        stands in the header), nodf (nothing to IPv6); IPv4: id N, mf, off N,
 *                        options N (bytes), ihl N; IPv6: flow N
 *   tunnel A>B ...       the same with the values of an outer header: ttl 64, id 0, flow: a hash of the connection
 *                        within
 *   ext N BYTES          an IPv6 extension header N, all zero
 *   tcp A>B FLAGS ...    FLAGS: letters of FSRP.UEW, or none. seq N, ack N, win N, urg N, doff N, opt HEX
 *   udp A>B
 *   icmp KIND ...        KIND: unreachable, toobig, timeout, parameter, echo, of the family, or TYPE/CODE.
 *                        mtu N, quote N (bytes that are quoted of what follows)
 *   data N, hex HEX      N bytes of a pattern; these bytes
 *   *, *N                the datagram of another frame; its first N bytes
 *   pad N                at the end: bytes behind the datagram
 *   chop N               at the end: N bytes are cut off
 *
 * A line that cannot be understood ends the program.
 */
#ifndef TESTS_BPF_CRAFT_H
#define TESTS_BPF_CRAFT_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/base/addr.h"

enum { FRAME_BYTES = 8192, FRAME_ETHERNET_BYTES = 14 };

struct frame {
	uint8_t bytes[FRAME_BYTES];
	unsigned length;
};

/* The meaning of the names in a line. */
struct craft_names {
	bool v6; /* family of the line */
	/* An address of this family; false: there is no such name. */
	bool (*address)(const void *context, const char *name, bool v6, struct addr *ret);
	/* A hardware address. */
	bool (*hardware)(const void *context, const char *name, uint8_t ret[6]);
	const void *context;
};

/* other: the frame that "*" stands for, or NULL. */
void craft(const struct craft_names *names, const char *line, const struct frame *other, struct frame *ret);

/* The datagram's length by its header. */
unsigned frame_datagram_bytes(const struct frame *frame);

/* True when all checksums are right: IP header, transport, and the packet that it quotes or carries. */
bool frame_sums_good(const struct frame *frame);

/* Prints the bytes in hex, sixteen to a line, and marks differences from other. */
void frame_print(const char *title, const struct frame *frame, const struct frame *other);

#endif
