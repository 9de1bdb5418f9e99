/* SPDX-License-Identifier: GPL-2.0-or-later */
/* passive_opens.h - how many TCP connections this host has accepted, by both families and on all ports. */
#ifndef DPRD_PASSIVE_OPENS_H
#define DPRD_PASSIVE_OPENS_H

#include <stdbool.h>
#include <stdint.h>

/* Connections whose handshake is complete: a flood of SYNs does not count. Takes about 15 us. 0 or -errno. */
int passive_opens_read(uint64_t *ret);

/* The parser of /proc/net/snmp, pure. False: the kernel does not write such a text. */
bool passive_opens_parse(const char *text, uint64_t *ret);

#endif
