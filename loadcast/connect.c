// SPDX-License-Identifier: GPL-2.0-or-later
#include "loadcast/connect.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

int connect_begin(const struct addr *to, uint16_t port, int *ret_error)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	bool is_v4 = addr_is_v4(to);
	int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), connected;

	*ret_error = errno;
	if (fd < 0)
		return -1;
	if (is_v4) {
		v4.sin_addr.s_addr = addr_v4(to);
		connected = connect(fd, (struct sockaddr *)&v4, sizeof(v4));
	} else {
		memcpy(&v6.sin6_addr, to->bytes, 16);
		connected = connect(fd, (struct sockaddr *)&v6, sizeof(v6));
	}
	if (connected == 0 || errno == EINPROGRESS)
		return fd;
	*ret_error = errno;
	close(fd);
	return -1;
}

int connect_error(int socket_)
{
	int error = 0;
	socklen_t size = sizeof(error);

	return getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ? errno : error;
}
