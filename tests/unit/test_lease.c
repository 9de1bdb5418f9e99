// SPDX-License-Identifier: GPL-2.0-or-later
/* The socket through which dprd hands over the lease's memory: accepted and refused messages. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "loadcast/lease.h"

static char directory[] = "/tmp/test-lease-XXXXXX", path[64];
static struct config config;
static struct lease *lease;

static int open_lease(void **state)
{
	char message[CONFIG_ERROR_BYTES] = "";

	(void)state;
	snprintf(config.table_file, sizeof(config.table_file), "%s/table", directory);
	snprintf(path, sizeof(path), "%s/lease", directory);
	lease = lease_open(&config, message);
	if (!lease)
		print_message("%s\n", message);
	return lease ? 0 : -1;
}

static int close_lease(void **state)
{
	(void)state;
	lease_close(lease);
	return 0;
}

static int connect_to_it(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, path, strlen(path) + 1);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void send_fd(int socket, const char *text, int fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .header = { CMSG_LEN(sizeof(fd)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec data = { (char *)text, strlen(text) };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };

	if (fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	assert_int_equal(sendmsg(socket, &message, 0), (ssize_t)strlen(text));
}

static unsigned open_files(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 256; fd++) {
		struct stat status;

		count += fstat(fd, &status) == 0;
	}
	return count;
}

static void socket_is_for_the_group(void **state)
{
	struct stat status;

	(void)state;
	assert_int_equal(stat(path, &status), 0);
	assert_true(S_ISSOCK(status.st_mode));
	assert_int_equal(status.st_mode & 0777, 0660);
	assert_false(lease_has_kernel(lease));
}

/* The sender of a file could shorten it, and the next write through the mapping would kill loadcast. */
static void takes_no_file(void **state)
{
	int memory = memfd_create("lease", MFD_CLOEXEC), dprd = connect_to_it();
	unsigned before;

	(void)state;
	assert_true(memory >= 0);
	assert_int_equal(ftruncate(memory, 4096), 0);
	lease_ready(lease);
	before = open_files();
	send_fd(dprd, LEASE_MESSAGE, memory);
	lease_ready(lease);
	assert_false(lease_has_kernel(lease));
	assert_int_equal(open_files(), before);
	close(memory);
	close(dprd);
}

static void takes_no_other_message(void **state)
{
	int pipes[2], dprd = connect_to_it();
	unsigned before;

	(void)state;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	lease_ready(lease);
	before = open_files();
	send_fd(dprd, "hello", pipes[0]);
	lease_ready(lease);
	send_fd(dprd, LEASE_MESSAGE, -1);
	lease_ready(lease);
	/* Its beginning looks right. */
	send_fd(dprd, LEASE_MESSAGE "2", pipes[0]);
	lease_ready(lease);
	/* The right message, but nothing that can be mapped. */
	send_fd(dprd, LEASE_MESSAGE, pipes[0]);
	lease_ready(lease);
	assert_false(lease_has_kernel(lease));
	assert_int_equal(open_files(), before);
	close(pipes[0]);
	close(pipes[1]);
	close(dprd);
}

/* The newest connection counts; a closed one is forgotten. */
static void one_dprd_at_a_time(void **state)
{
	int sockets[LEASE_SOCKETS], first = connect_to_it(), second;
	char byte;

	(void)state;
	lease_ready(lease);
	lease_sockets(lease, sockets);
	assert_true(sockets[0] >= 0 && sockets[1] >= 0);
	second = connect_to_it();
	lease_ready(lease);
	assert_int_equal(recv(first, &byte, 1, 0), 0);
	close(first);
	close(second);
	lease_ready(lease);
	lease_sockets(lease, sockets);
	assert_int_equal(sockets[1], -1);
}

static void opens_again(void **state)
{
	char message[CONFIG_ERROR_BYTES] = "";

	(void)state;
	/* As after a crash, the socket's file still exists. */
	struct lease *again = lease_open(&config, message);

	assert_non_null(again);
	lease_close(again);
	assert_int_equal(access(path, F_OK), -1);
}

static void says_what_is_wrong(void **state)
{
	char message[CONFIG_ERROR_BYTES] = "";
	struct config bad = config;

	(void)state;
	snprintf(bad.table_file, sizeof(bad.table_file), "%s/absent/table", directory);
	assert_null(lease_open(&bad, message));
	assert_non_null(strstr(message, "absent/lease: bind: No such file or directory (its directory must exist"));
	snprintf(bad.table_file, sizeof(bad.table_file), "/%0150d/table", 0);
	assert_null(lease_open(&bad, message));
	assert_non_null(strstr(message, "too long"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(socket_is_for_the_group, open_lease, close_lease),
		cmocka_unit_test_setup_teardown(takes_no_file, open_lease, close_lease),
		cmocka_unit_test_setup_teardown(takes_no_other_message, open_lease, close_lease),
		cmocka_unit_test_setup_teardown(one_dprd_at_a_time, open_lease, close_lease),
		cmocka_unit_test_setup_teardown(opens_again, open_lease, close_lease),
		cmocka_unit_test_setup_teardown(says_what_is_wrong, open_lease, close_lease),
	};
	int failed;

	if (!mkdtemp(directory))
		return EXIT_FAILURE;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(directory);
	return failed;
}
