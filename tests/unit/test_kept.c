// SPDX-License-Identifier: GPL-2.0-or-later
/* The aliases and the drain pass from process to process, whatever the run directory contains. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "dprd/cluster/state.h"
#include "dprd/upkeep/kept.h"
#include "dprd/upkeep/upkeep.h"

#define HEAD "[Cluster]\nName=web\n[Node]\nName=n1\n[Run]\nDirectory=%s\n"
#define N1 "[Member \"n1\"]\nService=192.0.2.11\n"
#define N2 "[Member \"n2\"]\nService=192.0.2.12\n"
#define N3 "[Member \"n3\"]\nService=192.0.2.13\n"

static char directory[] = "/tmp/test_kept.XXXXXX";
static struct upkeep upkeep;
static struct dprd d;

static struct config parse(const char *members)
{
	struct config_errors errors;
	struct config config;
	char text[1000];

	snprintf(text, sizeof(text), HEAD "%s", directory, members);
	if (config_parse("test", text, strlen(text), NULL, &config, &errors))
		fail_msg("%s", errors.text[0]);
	return config;
}

/* A new process. */
static void start(const char *members)
{
	memset(&d, 0, sizeof(d));
	memset(&upkeep, 0, sizeof(upkeep));
	d.lock = (struct mutex)MUTEX_INITIALIZER;
	d.upkeep = &upkeep;
	d.config = parse(members);
	kept_open(&d);
}

static char *path_of(const char *name)
{
	static char path[200];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static int clear(void **state)
{
	(void)state;
	rmdir(path_of("aliases.new"));
	kept_purge(&d.config);
	assert_int_not_equal(access(path_of("aliases"), F_OK), 0);
	assert_int_not_equal(access(path_of("drain"), F_OK), 0);
	return 0;
}

static void assert_alias(const struct config *config, unsigned member, const char *expected)
{
	struct addr alias = config_alias(config, member, 0);
	char text[ADDR_TEXT_BYTES];

	assert_string_equal(addr_format(&alias, text), expected);
}

static void test_aliases_survive_a_restart(void **state)
{
	struct config fresh;

	(void)state;
	start(N2 N1 N3);
	assert_alias(&d.config, 2, "198.18.211.3");
	fresh = parse(N1 N3);
	kept_aliases(&d, &fresh);
	assert_alias(&fresh, 1, "198.18.211.3");
	start(N1 N3);
	assert_alias(&d.config, 1, "198.18.211.3");
	start(N3 N1 N2);
	assert_alias(&d.config, 0, "198.18.211.3");
	assert_alias(&d.config, 2, "198.18.211.1");
}

static void test_a_damaged_file(void **state)
{
	FILE *file;

	(void)state;
	start(N1 N2);
	file = fopen(path_of("aliases"), "w");
	assert_non_null(file);
	fputs("192.0.2.12 198.18.211.9\n192.0.2.13\n", file);
	fclose(file);
	start(N1 N2);
	assert_alias(&d.config, 1, "198.18.211.2");
}

/* The file cannot be written: this process works as usual. */
static void test_no_room(void **state)
{
	struct config fresh;

	(void)state;
	assert_int_equal(mkdir(path_of("aliases.new"), 0700), 0);
	start(N2 N1 N3);
	fresh = parse(N3 N1);
	kept_aliases(&d, &fresh);
	assert_alias(&fresh, 0, "198.18.211.3");
	assert_int_equal(mkdir(path_of("drain.new"), 0700), 0);
	assert_true(kept_drain(&d, true) < 0);
	rmdir(path_of("drain.new"));
}

static void test_the_drain_survives_a_restart(void **state)
{
	(void)state;
	start(N1 N2);
	assert_false(d.draining);
	assert_int_equal(kept_drain(&d, false), 0);
	assert_int_equal(kept_drain(&d, true), 0);
	start(N1 N2);
	assert_true(d.draining);
	assert_int_equal(kept_drain(&d, false), 0);
	start(N1 N2);
	assert_false(d.draining);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_aliases_survive_a_restart, clear),
		cmocka_unit_test_teardown(test_a_damaged_file, clear),
		cmocka_unit_test_teardown(test_no_room, clear),
		cmocka_unit_test_teardown(test_the_drain_survives_a_restart, clear),
	};
	int failed;

	if (!mkdtemp(directory) || sodium_init() < 0)
		return EXIT_FAILURE;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(directory);
	return failed;
}
