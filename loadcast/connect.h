/* SPDX-License-Identifier: GPL-2.0-or-later */
/* connect.h - the beginning of a TCP connection that the caller polls. */
#ifndef LOADCAST_CONNECT_H
#define LOADCAST_CONNECT_H

#include "dprd/base/addr.h"

/* A non-blocking socket on its way to this address; writable at the end. -1: *ret_error is the errno. */
int connect_begin(const struct addr *to, uint16_t port, int *ret_error);

/* Call when the socket is writable: 0, or the errno of the connection. */
int connect_error(int socket);

#endif
