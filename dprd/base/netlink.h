/* SPDX-License-Identifier: GPL-2.0-or-later */
/* netlink.h - a netlink socket after a question that went wrong. */
#ifndef DPRD_BASE_NETLINK_H
#define DPRD_BASE_NETLINK_H

struct mnl_socket;

/*
 * Reads away what such a question left behind, and the rest of a dump with it; without waiting, and so much
 * of it at most that a caller who asks again comes to an end. Else an answer of the past would be read for each
 * question; and a socket that has overrun loses answers without a word until it is empty.
 */
void netlink_drain(const struct mnl_socket *socket);

#endif
