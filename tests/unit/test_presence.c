// SPDX-License-Identifier: GPL-2.0-or-later
/* A file is announced once its rules stand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "dprd/base/status.h"
#include "dprd/upkeep/upkeep.h"
#include "tests/unit/control_fixture.h"

enum { PORT = 8081 };

static char directory[] = "/tmp/test_presence.XXXXXX";
static struct upkeep upkeep;
static struct dprd d;
static uint64_t now_ms;

static int start(void **context)
{
	(void)context;
	fixture_start(&d);
	memset(&upkeep, 0, sizeof(upkeep));
	d.upkeep = &upkeep;
	assert_non_null(mkdtemp(directory));
	snprintf(d.config.run_dir, sizeof(d.config.run_dir), "%s", directory);
	now_ms = 1000000;
	return 0;
}

static int stop(void **context)
{
	(void)context;
	presence_withdraw(&d);
	rmdir(directory);
	fixture_stop(&d);
	return 0;
}

static struct dprd_status announced(void)
{
	char path[sizeof(directory) + 16];
	struct dprd_status status;

	now_ms += 1000;
	presence_tick(&d, now_ms);
	snprintf(path, sizeof(path), "%s/status", directory);
	assert_int_equal(status_read(path, &status), 0);
	return status;
}

static void test_a_file_waits_for_its_rules(void **context)
{
	uint32_t ports = d.config.port_count, hash = d.config.file_hash;
	struct dprd_status before, during, after;

	(void)context;
	/* The first file is announced at once: there is no former one, and dprd serves what it cannot forward. */
	d.rules_changed = true;
	before = announced();
	assert_int_equal(before.file_hash, hash);
	assert_int_equal(before.port_count, ports);
	d.config.file_hash = hash + 1;
	d.config.port[d.config.port_count++] = PORT;
	during = announced();
	assert_int_equal(during.file_hash, hash);
	assert_int_equal(during.service_hash, before.service_hash);
	assert_int_equal(during.port_count, ports);
	d.rules_changed = false;
	after = announced();
	assert_int_equal(after.file_hash, hash + 1);
	assert_int_not_equal(after.service_hash, before.service_hash);
	assert_int_equal(after.port_count, ports + 1);
	assert_int_equal(after.port[ports], PORT);
	/* Rules that change without a file: the file is the same. */
	d.rules_changed = true;
	assert_int_equal(announced().file_hash, hash + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_file_waits_for_its_rules, start, stop),
	};

	return cmocka_run_group_tests_name("presence", tests, NULL, NULL);
}
