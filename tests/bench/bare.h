/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bare.h - the frames of bare.c and bare.bpf.c: Ethernet, IPv4 without options. */
#ifndef TESTS_BENCH_BARE_H
#define TESTS_BENCH_BARE_H

enum {
	BARE_IPV4_ETHERTYPE = 0x0800,
	BARE_IP = 14, /* offset of the IP header */
	BARE_PROTOCOL = BARE_IP + 9,
	BARE_IP_SUM = BARE_IP + 10,
	BARE_SOURCE = BARE_IP + 12,
	BARE_DESTINATION = BARE_IP + 16,
	BARE_IP_BYTES = 20,
	BARE_TCP = BARE_IP + BARE_IP_BYTES,
	BARE_OUTER_BYTES = BARE_TCP,
	BARE_PROTOCOL_IPIP = 4,
	BARE_LINES = 1 << 17, /* of the flow table */
};

#endif
