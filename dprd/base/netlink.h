/* SPDX-License-Identifier: GPL-2.0-or-later */
/* netlink.h - makes a netlink socket usable again after a failed request. */
#ifndef DPRD_BASE_NETLINK_H
#define DPRD_BASE_NETLINK_H

struct mnl_socket;

/*
 * Reads and drops the answers left over from a failed request, and the rest of a dump. It does not wait, and it reads a
 * limited number, so that it always ends. Without this each request would read an old answer; and a socket that has
 * overrun loses answers until it is empty.
 */
void netlink_drain(const struct mnl_socket *socket);

#endif
