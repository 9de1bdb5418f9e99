// SPDX-License-Identifier: GPL-2.0-or-later
/* The lock of a run directory: one holder, and the owner of its file. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "dprd/base/lock.h"
#include "dprd/base/owner.h"
#include "tests/unit/own_backends.h"

enum { OTHER_USER = 65534, OTHER_GROUP = 65533 };

static char directory[32], lock_path[48], target_path[48];

static int make_directory(void **context)
{
	(void)context;
	snprintf(directory, sizeof(directory), "/tmp/test_lock.XXXXXX");
	assert_non_null(mkdtemp(directory));
	snprintf(lock_path, sizeof(lock_path), "%s/lock", directory);
	snprintf(target_path, sizeof(target_path), "%s/target", directory);
	return 0;
}

static int remove_directory(void **context)
{
	(void)context;
	unlink(lock_path);
	unlink(target_path);
	return rmdir(directory);
}

static void make_target(void)
{
	int fd = open(target_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static struct stat lock_and_stat(const char *path)
{
	struct stat status;
	int fd = lock_take(directory);

	assert_true(fd >= 0);
	assert_int_equal(stat(path, &status), 0);
	close(fd);
	return status;
}

static void test_one_holder(void **context)
{
	int fd = lock_take(directory);

	(void)context;
	assert_true(fd >= 0);
	assert_int_equal(lock_take(directory), -EWOULDBLOCK);
	close(fd);
	fd = lock_take(directory);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(lock_take("/nonexistent/run"), -ENOENT);
}

/* One loadcast for each load table; the other one says whose place is taken. */
static void test_beside_a_file(void **context)
{
	char table[48], other[48], path[128];
	int fd, second;

	(void)context;
	snprintf(table, sizeof(table), "%s/table", directory);
	snprintf(other, sizeof(other), "%s/other", directory);
	log_catch(NULL);
	fd = lock_take_beside(table, "loadcast");
	assert_true(fd >= 0);
	assert_int_equal(lock_take_beside(table, "loadcast"), -EWOULDBLOCK);
	snprintf(path, sizeof(path), "<3>%s.lock: another loadcast is running here\n", table);
	assert_string_equal(log_text(), path);
	second = lock_take_beside(other, "loadcast");
	assert_true(second >= 0);
	log_release(NULL);
	close(second);
	close(fd);
	fd = lock_take_beside(table, "loadcast");
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(lock_take_beside("table", "loadcast"), -EINVAL);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s.lock", i ? other : table);
		assert_int_equal(unlink(path), 0);
	}
}

/* Root gives what it made to the owner of the directory, and no other process's files. */
static void test_files_of_root(void **context)
{
	char inner[48], file[64], link_path[64], link_to_inner[48];
	struct stat status;
	int fd;

	(void)context;
	if (geteuid() != 0) {
		print_message("skip: another user's directory needs root\n");
		skip();
	}
	snprintf(inner, sizeof(inner), "%s/v1", directory);
	snprintf(file, sizeof(file), "%s/flows", inner);
	snprintf(link_path, sizeof(link_path), "%s/linked", inner);
	assert_int_equal(mkdir(inner, 0700), 0);
	fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	make_target();
	assert_int_equal(link(target_path, link_path), 0);
	assert_int_equal(owner_give_all(inner, directory), 0);
	assert_int_equal(stat(inner, &status), 0);
	assert_int_equal(status.st_uid, 0);
	assert_true(owner_is_own(0, directory) && !owner_is_own(OTHER_USER, directory));
	assert_int_equal(chown(directory, OTHER_USER, OTHER_GROUP), 0);
	/* In the place of the directory, its user may put a link to one of root's. */
	snprintf(link_to_inner, sizeof(link_to_inner), "%s/v0", directory);
	assert_int_equal(symlink(inner, link_to_inner), 0);
	assert_true(owner_give_all(link_to_inner, directory) < 0);
	assert_int_equal(stat(inner, &status), 0);
	assert_int_equal(status.st_uid, 0);
	assert_int_equal(fstat(fd, &status), 0);
	assert_int_equal(status.st_uid, 0);
	unlink(link_to_inner);
	assert_true(owner_is_own(0, directory) && owner_is_own(OTHER_USER, directory));
	assert_false(owner_is_own(OTHER_USER - 9, directory));
	assert_int_equal(owner_give_all(inner, directory), 0);
	assert_int_equal(stat(inner, &status), 0);
	assert_int_equal(status.st_uid, OTHER_USER);
	assert_int_equal(fstat(fd, &status), 0);
	assert_int_equal(status.st_uid, OTHER_USER);
	assert_int_equal(stat(target_path, &status), 0);
	assert_int_equal(status.st_uid, 0);
	close(fd);
	unlink(file);
	unlink(link_path);
	rmdir(inner);
}

/* A watcher sees a holder come and go, and does not hinder it. */
static void test_watch(void **context)
{
	int watch, fd;

	(void)context;
	assert_true(lock_watch(directory) < 0);
	fd = lock_take(directory);
	assert_true(fd >= 0);
	watch = lock_watch(directory);
	assert_true(watch >= 0);
	assert_true(lock_is_taken(watch));
	close(fd);
	assert_false(lock_is_taken(watch));
	fd = lock_take(directory);
	assert_true(fd >= 0);
	assert_true(lock_is_taken(watch));
	close(fd);
	close(watch);
}

/* A link to another user's file is not followed, and its target is not created. */
static void test_symbolic_link(void **context)
{
	(void)context;
	assert_int_equal(symlink(target_path, lock_path), 0);
	assert_int_equal(lock_take(directory), -ELOOP);
	assert_int_equal(access(target_path, F_OK), -1);
	make_target();
	assert_int_equal(lock_take(directory), -ELOOP);
}

static void test_owner(void **context)
{
	struct stat status;

	(void)context;
	if (geteuid() != 0) {
		print_message("skip: another user's directory needs root\n");
		skip();
	}
	status = lock_and_stat(lock_path);
	assert_int_equal(status.st_uid, 0);
	unlink(lock_path);

	assert_int_equal(chown(directory, OTHER_USER, OTHER_GROUP), 0);
	status = lock_and_stat(lock_path);
	assert_int_equal(status.st_uid, OTHER_USER);
	assert_int_equal(status.st_gid, OTHER_GROUP);
	assert_int_equal(status.st_mode & 07777, 0600);
	unlink(lock_path);

	/* A file that the other user links there does not become his. */
	make_target();
	assert_int_equal(link(target_path, lock_path), 0);
	status = lock_and_stat(target_path);
	assert_int_equal(status.st_uid, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_holder, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(test_beside_a_file, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(test_files_of_root, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(test_watch, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(test_symbolic_link, make_directory, remove_directory),
		cmocka_unit_test_setup_teardown(test_owner, make_directory, remove_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
