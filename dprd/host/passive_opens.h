/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * passive_opens.h - how many TCP connections this host has accepted, by both families and on all ports; and how many SYN
 * cookies it has sent.
 */
#ifndef DPRD_PASSIVE_OPENS_H
#define DPRD_PASSIVE_OPENS_H

#include <stdbool.h>
#include <stdint.h>

/* Connections whose handshake is complete: a flood of SYNs does not count. Takes about 15 us. 0 or -errno. */
int passive_opens_read(uint64_t *ret);

/* SYNs of all listeners. */
struct syn_counts {
	uint64_t cookies; /* that the kernel has answered by a SYN cookie: such an answer leaves no socket */
	uint64_t drops; /* that it has dropped, because a queue of the listener was full */
};

/* 0 or -errno. */
int syn_counts_read(struct syn_counts *ret);

/* The parsers of /proc/net/snmp and /proc/net/netstat, pure. False: the kernel does not write such a text. */
bool passive_opens_parse(const char *text, uint64_t *ret);
bool syn_counts_parse(const char *text, struct syn_counts *ret);

#endif
