// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * stopat.c - preloaded into dprd, it freezes dprd with packets in hand: when the file STOPAT exists while a worker
 * receives packets, the whole process stops itself. loadcast and the standby process, which have it, too, go on. The number in the file gives the place: 0 after recvmmsg(), N when the same
 * thread has asked for the time N more times, -1 before it sends the first packet on, -2 before its next netlink
 * message to the kernel, -4 before the second one, -5 before it reads a file, as it does for its own load.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { AT_READ = -5, AT_NETLINK_AGAIN = -4, NOT_ARMED = -3, AT_NETLINK = -2, AT_SEND = -1 };

static __thread int left = NOT_ARMED;

static void stop(void)
{
	left = NOT_ARMED;
	/* The signal goes to this thread: it would go on for a moment if another thread took it. */
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGSTOP);
}

static void arm(void)
{
	const char *path = getenv("STOPAT");
	char name[16] = "";
	FILE *file;

	prctl(PR_GET_NAME, name);
	file = path && !strcmp(name, "dprd-worker") ? fopen(path, "r") : NULL;
	if (!file)
		return;
	if (fscanf(file, "%d", &left) != 1)
		left = NOT_ARMED;
	fclose(file);
	unlink(path);
	if (left == 0)
		stop();
}

int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout)
{
	int received = (int)syscall(SYS_recvmmsg, fd, messages, count, flags, timeout);

	if (received > 0)
		arm();
	return received;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static int (*original)(clockid_t, struct timespec *);

	if (!original)
		*(void **)&original = dlsym(RTLD_NEXT, "clock_gettime");
	if (left > 0 && --left == 0)
		stop();
	return original(clock, now);
}

ssize_t pread(int fd, void *bytes, size_t length, off_t offset)
{
	if (left == AT_READ)
		stop();
	return syscall(SYS_pread64, fd, bytes, length, offset);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	if (left == AT_SEND)
		stop();
	return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
}

ssize_t sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t to_length)
{
	/* Nothing else is sent so by a thread that has packets in hand. */
	if (left == AT_NETLINK)
		stop();
	else if (left == AT_NETLINK_AGAIN)
		left = AT_NETLINK;
	return syscall(SYS_sendto, fd, bytes, length, flags, to, to_length);
}

/* Verdicts go to the kernel this way. */
ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
	return sendto(fd, bytes, length, flags, NULL, 0);
}
