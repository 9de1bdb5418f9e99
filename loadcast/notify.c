// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The readiness protocol of the service manager, by hand: libsystemd would take most of the 8 MiB of address space that
 * loadcast may use.
 */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "loadcast/loadcast.h"

enum { MESSAGE_BYTES = 512 };

void notify_manager(const char *format, ...)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	char message[MESSAGE_BYTES];
	size_t length;
	va_list args;
	int fd, size;

	if (!path || (*path != '/' && *path != '@'))
		return;
	length = strlen(path);
	if (length >= sizeof(to.sun_path))
		return;
	memcpy(to.sun_path, path, length);
	if (*path == '@')
		to.sun_path[0] = '\0';
	va_start(args, format);
	size = vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	if (size < 0)
		return;
	if (size >= MESSAGE_BYTES)
		size = MESSAGE_BYTES - 1;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	/* When the service manager does not listen, that is not an error of loadcast. */
	if (sendto(fd, message, (size_t)size, MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&to,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0)
		errno = 0;
	close(fd);
}

unsigned notify_watchdog_ms(void)
{
	const char *interval = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	unsigned long long us;

	if (!interval || (pid && strtol(pid, NULL, 10) != (long)getpid()))
		return 0;
	us = strtoull(interval, NULL, 10);
	/* Twice per interval, as sd_watchdog_enabled(3) advises. */
	return us / 2000 < 3600000 ? (unsigned)(us / 2000) : 3600000;
}
