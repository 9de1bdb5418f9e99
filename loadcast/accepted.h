/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * accepted.h - tells whether the server has accepted a connection, or the connection waits in the server's accept
 * queue.
 *
 * The kernel opens a connection without the server. One look-up by sock_diag finds the server's socket when the server is
 * on this host; until accept(2) that socket has no inode.
 */
#ifndef LOADCAST_ACCEPTED_H
#define LOADCAST_ACCEPTED_H

#include "dprd/base/addr.h"

enum accepted {
	ACCEPTED_UNKNOWN, /* the server's socket is not on this host, has ended, or cannot be asked for */
	ACCEPTED_YES,
	ACCEPTED_NOT_YET,
};

/* socket: the client's end, connected. */
enum accepted accepted_look(int socket);

/* socket: the client's end, which may still be connecting. True: the server's address is one of this host. */
bool accepted_is_local(int socket, const struct addr *server);

#endif
