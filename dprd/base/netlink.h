/* SPDX-License-Identifier: GPL-2.0-or-later */
/* netlink.h - a netlink socket after a failed question. */
#ifndef DPRD_BASE_NETLINK_H
#define DPRD_BASE_NETLINK_H

struct mnl_socket;

/*
 * Reads and drops the left-over answers of a failed question, and the rest of a dump; it does not wait, and reads a
 * bounded number, so that a caller that asks again comes to an end. Otherwise each question would read an old answer;
 * and a socket that has overrun silently loses answers until it is empty.
 */
void netlink_drain(const struct mnl_socket *socket);

#endif
