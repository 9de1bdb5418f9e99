// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/base/netlink.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <sys/socket.h>

enum { DRAIN_MAX = 1024 };

void netlink_drain(const struct mnl_socket *socket)
{
	char scrap[64]; /* the beginning of a message; the kernel drops the rest */

	for (unsigned i = 0; i < DRAIN_MAX; i++) {
		if (recv(mnl_socket_get_fd(socket), scrap, sizeof(scrap), MSG_DONTWAIT) < 0 && errno == EAGAIN)
			return;
	}
}
