// SPDX-License-Identifier: GPL-2.0-or-later
/* test_dprd_process.c - the life of dprd, by its status file and its process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loadcast/dprd_process.h"

enum { NOW_MS = 5000000, END_MS = 60000 };

static char directory[32], path[64];
static struct dprd_process dprd;
static struct dprd_status got;

static int start(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/dprd-test-XXXXXX");
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/status", directory);
	dprd_process_init(&dprd);
	return 0;
}

static int end(void **state)
{
	(void)state;
	dprd_process_close(&dprd);
	unlink(path);
	return rmdir(directory);
}

static void publish(pid_t pid, uint64_t written_ms)
{
	struct dprd_status status = { .written_ms = written_ms, .pid = (uint32_t)pid, .redirected = 7 };

	assert_int_equal(status_publish(path, &status), 0);
}

static bool lives(uint64_t now_ms)
{
	return dprd_process_read(&dprd, directory, now_ms, &got);
}

static bool has_ended(int timeout_ms)
{
	struct pollfd fd = { .fd = dprd.process, .events = POLLIN };

	return poll(&fd, 1, timeout_ms) == 1;
}

/* Linux has it since 5.3, valgrind's of Debian 12 not yet. */
static void need_pidfd(void)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (fd < 0 && errno == ENOSYS) {
		print_message("skipped: no pidfd_open(2) here\n");
		skip();
	}
	close(fd);
}

static pid_t start_process(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

static void end_process(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_status(void **state)
{
	(void)state;
	assert_false(lives(NOW_MS));
	publish(getpid(), NOW_MS);
	assert_true(lives(NOW_MS));
	assert_int_equal(got.redirected, 7);
	assert_false(has_ended(0));
	assert_true(lives(NOW_MS + STATUS_FRESH_MS - 1));
	assert_false(lives(NOW_MS + STATUS_FRESH_MS));
	assert_int_equal(got.redirected, 0);
	publish(getpid(), NOW_MS + STATUS_FRESH_MS);
	assert_true(lives(NOW_MS + STATUS_FRESH_MS));
}

static void test_process_ends(void **state)
{
	pid_t first, second;

	(void)state;
	need_pidfd();
	first = start_process();
	publish(first, NOW_MS);
	assert_true(lives(NOW_MS));
	assert_false(has_ended(0));
	end_process(first);
	assert_true(has_ended(END_MS));
	dprd_process_ended(&dprd, NOW_MS + 10);
	assert_int_equal(dprd.process, -1);
	/* Its last status is young enough, and does not count. */
	assert_false(lives(NOW_MS + 10));
	assert_int_equal(got.redirected, 0);
	assert_false(lives(NOW_MS + 20));

	second = start_process();
	publish(second, NOW_MS + 30);
	assert_true(lives(NOW_MS + 30));
	assert_true(dprd.process >= 0);
	assert_false(has_ended(0));
	end_process(second);
	assert_true(has_ended(END_MS));
}

/* Another process than the one before, which has not ended. */
static void test_other_process(void **state)
{
	pid_t child;

	(void)state;
	need_pidfd();
	child = start_process();
	publish(getpid(), NOW_MS);
	assert_true(lives(NOW_MS));
	publish(child, NOW_MS + 100);
	assert_true(lives(NOW_MS + 100));
	assert_false(has_ended(0));
	end_process(child);
	assert_true(has_ended(END_MS));
}

/* With dprd in a PID namespace of its own its status counts without a process. */
static void test_no_such_process(void **state)
{
	pid_t child = start_process();

	(void)state;
	end_process(child);
	publish(child, NOW_MS);
	assert_true(lives(NOW_MS));
	assert_int_equal(dprd.process, -1);
	dprd_process_ended(&dprd, NOW_MS + 1);
	assert_false(lives(NOW_MS + 1));
	publish(child, NOW_MS + 100);
	assert_true(lives(NOW_MS + 100));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_status, start, end),
		cmocka_unit_test_setup_teardown(test_process_ends, start, end),
		cmocka_unit_test_setup_teardown(test_other_process, start, end),
		cmocka_unit_test_setup_teardown(test_no_such_process, start, end),
	};

	return cmocka_run_group_tests_name("dprd_process", tests, NULL, NULL);
}
