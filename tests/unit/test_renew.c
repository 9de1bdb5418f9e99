// SPDX-License-Identifier: GPL-2.0-or-later
/* A start anew, which nobody asked for: when it comes, and what holds it back. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "dprd/cluster/state.h"
#include "dprd/plane/plane.h"
#include "dprd/upkeep/presence.h"
#include "tests/unit/own_backends.h"

static bool is_outdated(const struct dprd *d);
static void renew(struct dprd *d);

#define plane_is_outdated is_outdated
#define presence_renew renew
#include "dprd/upkeep/renew.c" // NOLINT(bugprone-suspicious-include): its calls are what is tested
#undef plane_is_outdated
#undef presence_renew

static const char text[] = "[Cluster]\nName=web\n[Node]\nName=n1\n"
			   "[Member \"n1\"]\nService=192.0.2.11\nCluster=10.0.0.11\n"
			   "[Member \"n2\"]\nService=192.0.2.12\nCluster=10.0.0.12\n";

static struct dprd d;
static struct upkeep upkeep;
static char path[] = "/tmp/test_renew.XXXXXX";
static bool outdated;
static unsigned renewed;

static bool is_outdated(const struct dprd *of)
{
	(void)of;
	return outdated;
}

static void renew(struct dprd *of)
{
	(void)of;
	renewed++;
}

static void write_file(const char *more)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fprintf(file, "%s%s", text, more) > 0);
	assert_int_equal(fclose(file), 0);
}

static int start(void **state)
{
	static struct config_errors none;

	write_file("");
	d = (struct dprd) { .config_path = path, .upkeep = &upkeep };
	assert_int_equal(config_read(path, NULL, &d.config, &none), 0);
	unsetenv(RENEWED);
	renew_start(&d);
	outdated = true;
	renewed = 0;
	return log_catch(state);
}

/* True when the process starts anew at this time, or held_back is in the log. */
static bool starts(uint64_t now_ms, const char *held_back)
{
	unsigned before = renewed;

	renew_second(&d, now_ms);
	if (held_back)
		assert_non_null(strstr(log_text(), held_back));
	return renewed != before;
}

static void when_outdated(void **state)
{
	(void)state;
	outdated = false;
	assert_false(starts(1000, NULL));
	outdated = true;
	assert_true(starts(2000, "restarts itself with the plane bpf"));
}

/* An interface that comes and goes. */
static void not_often(void **state)
{
	uint64_t now_ms = clock_now_ms();

	(void)state;
	setenv(RENEWED, "1", 1);
	renew_start(&d);
	assert_null(getenv(RENEWED));
	assert_false(starts(now_ms + RENEW_AGAIN_MS - 1, NULL));
	assert_true(starts(now_ms + RENEW_AGAIN_MS + 1000, NULL));
}

/* The file is being edited; it is complete, but not reloaded; it is as before. */
static void file_that_differs(void **state)
{
	uint64_t now_ms = 1000;

	(void)state;
	write_file("[Member \"n3\"]\nServ");
	assert_false(starts(now_ms, "the configuration file has errors; use: systemctl restart dprd"));
	assert_false(starts(now_ms += RENEW_LOOK_MS, NULL));
	assert_string_equal(log_text(), "");
	write_file("[Balance]\nPolicy=least\n");
	assert_false(starts(now_ms += RENEW_LOOK_MS, "has changed since it was read"));
	unlink(path);
	assert_false(starts(now_ms += RENEW_LOOK_MS, "the configuration file has errors"));
	write_file("");
	assert_false(starts(now_ms + RENEW_LOOK_MS - 1, NULL));
	assert_true(starts(now_ms + RENEW_LOOK_MS, NULL));
}

static void what_a_restart_loses(void **state)
{
	uint64_t now_ms = 1000;

	(void)state;
	d.config.former_port_count = 1;
	assert_false(starts(now_ms, "ports or addresses that a reload has taken out"));
	d.config.former_port_count = 0;
	d.config.former_services = true;
	assert_false(starts(now_ms += RENEW_LOOK_MS, NULL));
	d.config.former_services = false;
	d.config.fresh_services = 2;
	assert_false(starts(now_ms += RENEW_LOOK_MS, "new service addresses"));
	d.config.fresh_services = 0;
	/* Reloaded; this key waits for a restart by hand. */
	strcpy(d.config.run_dir, "/run/other");
	assert_false(starts(now_ms += RENEW_LOOK_MS, "wait for a restart"));
	strcpy(d.config.run_dir, "/run/dprd");
	assert_true(starts(now_ms + RENEW_LOOK_MS, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(when_outdated, start, log_release),
		cmocka_unit_test_setup_teardown(not_often, start, log_release),
		cmocka_unit_test_setup_teardown(file_that_differs, start, log_release),
		cmocka_unit_test_setup_teardown(what_a_restart_loses, start, log_release),
	};
	int fd = mkstemp(path), failed;

	if (fd < 0 || close(fd) || sodium_init() < 0)
		return EXIT_FAILURE;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed;
}
