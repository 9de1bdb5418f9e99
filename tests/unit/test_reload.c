// SPDX-License-Identifier: GPL-2.0-or-later
/* A reload: what it takes from the file, and that a failure leaves everything as it was and is told. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "dprd/cluster/ways.h"
#include "dprd/fastpath/fastpath.h"
#include "dprd/plane/private.h"
#include "loadcast/sample.h"

static void watched_refresh(struct ways *ways, const struct config *config, struct mutex *lock, bool *changed);
static struct sampler *failing_sampler(const struct config *config);

/* The reload gets its sampler from here. */
#define sampler_new failing_sampler
#define ways_refresh watched_refresh
#include "dprd/upkeep/reload.c" // NOLINT(bugprone-suspicious-include)
#undef sampler_new
#undef ways_refresh

static const char before[] = "[Cluster]\nName=web\n[Node]\nName=n1\n[Balance]\nPolicy=li\n"
			     "[Member \"n1\"]\nService=192.0.2.11\nCluster=10.0.0.11\n"
			     "[Member \"n2\"]\nService=192.0.2.12\nCluster=10.0.0.12\n"
			     "[Member \"n3\"]\nService=192.0.2.13\nCluster=10.0.0.13\n";
static const char after[] =
	"[Cluster]\nName=web\n[Node]\nName=n1\n[Balance]\nPolicy=least\n[Run]\nDirectory=/run/other\n"
	"[Member \"n1\"]\nService=192.0.2.11\nCluster=10.0.0.11\n"
	"[Member \"n3\"]\nService=192.0.2.13\nCluster=10.0.0.13\n";

static struct dprd d;
static struct config_errors errors;
static char path[] = "/tmp/test_reload.XXXXXX", note[CONFIG_ERROR_BYTES];
static int sampler_error;

static struct sampler *failing_sampler(const struct config *config)
{
	errno = sampler_error;
	return sampler_error ? NULL : sampler_new(config);
}

static struct fastpath fastpath;
static unsigned verdicts_left; /* made for the former file, when the first part has asked the kernel */

static void watched_refresh(struct ways *ways, const struct config *config, struct mutex *lock, bool *changed)
{
	for (unsigned v6 = 0; v6 < 2 && d.fastpath; v6++)
		verdicts_left += fastpath_schedule(d.fastpath, v6, true)->count;
	ways_refresh(ways, config, lock, changed);
}

static void write_file(const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int start(void **context)
{
	void *memory;

	(void)context;
	assert_int_equal(config_parse("test.conf", before, strlen(before), NULL, &d.config, &errors), 0);
	d.lock = (struct mutex)MUTEX_INITIALIZER;
	d.config_path = path;
	d.flow_limits = (struct flow_limits) { .max_confirmed = 1024, .max_half_open = 256, .hash_key = { 1, 2 } };
	memory = aligned_alloc(sizeof(struct flow_bucket), flow_table_bytes(&d.flow_limits));
	assert_non_null(memory);
	d.flows = flow_table_init(memory, &d.flow_limits);
	/* With programs there is no set in the kernel; without members it has nothing to tell them. */
	mutex_lock(&d.lock);
	expire_reconfigure(&d, NULL);
	ways_reconfigure(&d.ways, &d.config, NULL);
	asks_reconfigure(&d, sampler_new(&d.config));
	backend_reconfigure(&d, NULL);
	mutex_unlock(&d.lock);
	assert_non_null(d.sampler);
	sampler_error = 0;
	errors.count = 0;
	return 0;
}

static int stop(void **context)
{
	(void)context;
	sampler_free(d.sampler);
	free(d.flows);
	memset(&d, 0, sizeof(d));
	unlink(path);
	return 0;
}

static void test_takes_the_file(void **context)
{
	(void)context;
	write_file(after);
	assert_int_equal(reload_config(&d, &errors, note), 0);
	assert_string_equal(d.policy->name, "least");
	assert_int_equal(d.config.member_count, 2);
	assert_true(d.rules_changed);
	assert_string_equal(d.config.run_dir, "/run/dprd");
	assert_non_null(strstr(note, "[Run] Directory"));
}

/* Nothing may have changed but what the caller gets. */
static void assert_untouched(const struct dprd *former)
{
	assert_memory_equal(&d, former, sizeof(d));
	assert_in_range(errors.count, 1, CONFIG_ERRORS_MAX);
}

static void test_errors_in_the_file(void **context)
{
	static struct dprd former;

	(void)context;
	write_file("[Cluster]\nName=web\nPolicy=none\n");
	former = d;
	assert_int_equal(reload_config(&d, &errors, note), -EINVAL);
	assert_untouched(&former);
}

/* A full table of files: the load of this machine cannot be read by the new ports. */
static void test_no_sampler(void **context)
{
	static struct dprd former;

	(void)context;
	write_file(after);
	sampler_error = EMFILE;
	former = d;
	assert_int_equal(reload_config(&d, &errors, note), -EMFILE);
	assert_untouched(&former);
	assert_non_null(strstr(errors.text[0], strerror(EMFILE)));
}

/* The verdicts that were made ahead are for the former members, addresses and ports. */
static void test_verdicts_made_ahead(void **context)
{
	static struct plane plane;
	uint32_t confirmed[FASTPATH_WAYS] = { 0 };

	(void)context;
	fastpath = (struct fastpath) { .control = calloc(1, sizeof(*fastpath.control)),
				       .tables = calloc(2, sizeof(*fastpath.tables)),
				       .ways = calloc(FASTPATH_WAYS, sizeof(*fastpath.ways)),
				       .schedules = calloc(FASTPATH_SCHEDULES, sizeof(*fastpath.schedules)),
				       .recent = calloc(1, sizeof(*fastpath.recent)),
				       .confirmed = confirmed };
	plane.ahead = plane_decide_new();
	assert_true(fastpath.control && fastpath.tables && fastpath.ways && fastpath.schedules && fastpath.recent);
	assert_non_null(plane.ahead);
	d.config.decide_in = DECIDE_KERNEL;
	d.why = calloc(1, sizeof(*d.why));
	d.fastpath = &fastpath;
	d.plane = &plane;
	plane_decide_now(&d);
	assert_int_not_equal(fastpath_schedule(&fastpath, false, true)->count, 0);
	verdicts_left = 0;
	write_file(after);
	assert_int_equal(reload_config(&d, &errors, note), 0);
	assert_int_equal(verdicts_left, 0);
	/* Now they are for the new file. */
	assert_int_not_equal(fastpath_schedule(&fastpath, false, true)->count, 0);
	d.fastpath = NULL;
	d.plane = NULL;
	free(d.why);
	free(plane.ahead);
	free(fastpath.control);
	free(fastpath.tables);
	free(fastpath.ways);
	free(fastpath.schedules);
	free((void *)(uintptr_t)fastpath.recent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_takes_the_file, start, stop),
		cmocka_unit_test_setup_teardown(test_errors_in_the_file, start, stop),
		cmocka_unit_test_setup_teardown(test_no_sampler, start, stop),
		cmocka_unit_test_setup_teardown(test_verdicts_made_ahead, start, stop),
	};
	int fd = mkstemp(path);

	if (fd < 0 || close(fd) || sodium_init() < 0)
		return EXIT_FAILURE;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
