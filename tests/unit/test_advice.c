// SPDX-License-Identifier: GPL-2.0-or-later
/* Without room, descriptors or a program, the line in the log names the cause that an operator can mend. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "dprd/base/advice.h"
#include "dprd/base/command.h"
#include "tests/unit/own_backends.h"
#include "tests/unit/valgrind.h"

static void test_causes(void **context)
{
	(void)context;
	assert_non_null(strstr(advice_for(-ENOSPC, "install it"), "df -h"));
	assert_non_null(strstr(advice_for(-EDQUOT, "install it"), "df -h"));
	assert_non_null(strstr(advice_for(-EMFILE, "install it"), "LimitNOFILE="));
	assert_non_null(strstr(advice_for(-ENFILE, "install it"), "fs.file-max"));
	assert_non_null(strstr(advice_for(-ENOMEM, "install it"), "memory"));
	assert_non_null(strstr(advice_for(-EROFS, "install it"), "read-only"));
	assert_non_null(strstr(advice_for(-EAGAIN, "install it"), "TasksMax="));
	assert_string_equal(advice_for(-ENOENT, "install it"), "install it");
	assert_string_equal(advice_for(0, "install it"), "install it");
}

/* A tool is started without a free descriptor; then one that does not exist is. */
static void test_command(void **context)
{
	static const char *const yes[] = { "true", NULL }, *const none[] = { "no-such-tool-of-dprd", NULL };
	struct rlimit before, few;
	const char *said;
	int error, free_fd;

	(void)context;
	SKIP_UNDER_VALGRIND("the limit of open files is not the kernel's");
	log_catch(NULL);
	free_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_true(free_fd >= 0);
	close(free_fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit) { .rlim_cur = (rlim_t)free_fd + 1, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	error = command_run_logged(yes, NULL, false);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(error, -EMFILE);
	said = log_text();
	assert_non_null(strstr(said, "LimitNOFILE="));
	assert_null(strstr(said, "install"));
	log_release(NULL);

	log_catch(NULL);
	assert_int_equal(command_run_logged(none, NULL, false), -ENOENT);
	assert_non_null(strstr(log_text(), "install the packages"));
	log_release(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_causes),
		cmocka_unit_test(test_command),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
