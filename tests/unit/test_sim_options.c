// SPDX-License-Identifier: GPL-2.0-or-later
/* The command line of dpr-sim and its output, which always begins with "simulated". */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "dprd/sim/report.h"
#include "tests/unit/sim_setups.h"

static struct options options;
static char error[OPTIONS_ERROR_BYTES];

static bool read_words(const char *words)
{
	static char copy[512]; /* options point into it */
	char *argv[40] = { (char *)(uintptr_t) "dpr-sim" }, *save = NULL;
	int argc = 1;

	snprintf(copy, sizeof(copy), "%s", words);
	for (char *word = strtok_r(copy, " ", &save); word && argc < 39; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	error[0] = '\0';
	return options_read(argc, argv, &options, error);
}

static void defaults(void **state)
{
	(void)state;
	assert_true(read_words(""));
	assert_ptr_equal(options.policy[0], policies[0]);
	assert_int_equal(options.policy_count, 1);
	assert_int_equal(options.period_count, 1);
	assert_int_equal(options.setup.connections, 200000);
	/* A tenth of 200000 connections at 16 * 0.8 / 10 ms. */
	assert_true(fabs(options.setup.warmup_s - 15.625) < 1e-9);
	assert_true(options.setup.second_look);
}

/* Options are taken in any order. */
static void taken(void **state)
{
	(void)state;
	assert_true(read_words(
		"--skew 4:1:1 --capacity 1:3 --nodes 3 --policy li,least --period 1ms,1s --max-load 2.5 "
		"--second-look no --kill 2@20s --revive n2@30s --kill 1@10s,3@25s --restart 2@22s --repeat 3 --seed 7 "
		"--seconds 100s --warmup 5s --workers 8 --service ps"));
	assert_true(fabs(options.setup.share[0] - 4 / 6.0) < 1e-12);
	assert_true(fabs(options.setup.capacity[1] - 3) <= 0 && fabs(options.setup.weight[1] - 3) <= 0);
	assert_int_equal(options.policy_count, 2);
	assert_int_equal(options.period_count, 2);
	assert_false(options.setup.max_load_auto);
	assert_false(options.setup.second_look);
	assert_int_equal(options.setup.failure_count, 5);
	assert_int_equal(options.setup.failure[0].node, 0);
	assert_int_equal(options.setup.failure[2].fate, SIM_RESTARTS);
	assert_int_equal(options.setup.failure[3].node, 2);
	assert_int_equal(options.setup.failure[4].fate, SIM_REVIVES);
	assert_int_equal(options.setup.connections, 0);
	assert_true(fabs(options.setup.warmup_s - 5) <= 0);
	assert_true(read_words("--policy all --second-look=yes"));
	for (options.repeat = 0; policies[options.repeat]; options.repeat++)
		assert_ptr_equal(options.policy[options.repeat], policies[options.repeat]);
	assert_int_equal(options.policy_count, options.repeat);
	assert_true(options.setup.second_look);
	assert_true(read_words("--load 0 --burst 60@2s --burst-span 50ms --burst-entries 3 --hold 5s"));
	assert_int_equal(options.setup.burst.connections, 60);
	assert_int_equal(options.setup.burst.entries, 3);
	assert_true(fabs(options.setup.burst.at_s - 2) <= 0 && fabs(options.setup.burst.span_s - 0.05) < 1e-12);
	assert_true(fabs(options.setup.burst.hold_s - 5) <= 0);
	assert_true(read_words("--burst 60"));
	assert_true(options.setup.burst.at_s < 0);
}

static void refused(void **state)
{
	static const char *const wrong[][2] = {
		{ "--nodes 0", "--nodes 0" },
		{ "--nodes 1025", "--nodes" },
		{ "--policy leest", "li, p2c" },
		{ "--period 10", "unit" },
		{ "--period 10ms,0s", "unit" },
		{ "--nope", "no such option" },
		{ "--load", "missing" },
		{ "stray", "stray" },
		{ "--load 0", "above 0" },
		{ "--loss 100%", "loss" },
		{ "--jitter 100%", "jitter" },
		{ "--kill 17@1s", "no node 17" },
		{ "--restart 1", "3@10s" },
		{ "--kill 1", "3@10s" },
		{ "--tables real --nodes 65", "64" },
		{ "--tables real --period 200ms,20ms", "50ms" },
		{ "--tables shared --loss 1%", "shared" },
		{ "--skew 1:2:3 --nodes 2", "--skew" },
		{ "--service ps2", "fifo or ps" },
		{ "--second-look=0", "--second-look" },
		{ "--seed -1", "--seed" },
		{ "--burst 0", "like 60" },
		{ "--burst 60@", "like 60" },
		{ "--burst @2s", "like 60" },
		{ "--burst 60 --burst-entries 17", "entry nodes" },
		{ "--hold 5", "unit" },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_false(read_words(wrong[i][0]));
		if (!strstr(error, wrong[i][1]))
			fail_msg("%s: \"%s\" does not say \"%s\"", wrong[i][0], error, wrong[i][1]);
	}
}

/* A report of invented results: two policies, two periods, three runs. */
static struct sim_result invented[2][2][3];
static struct arm arms[4];
static struct report report = { .options = &options, .arm_count = 4, .arm = arms };

static void invent(void)
{
	assert_true(read_words("--policy li,random --period 1ms,100ms --repeat 3 --seed 5"));
	for (unsigned i = 0; i < 4; i++) {
		arms[i] = (struct arm) { options.policy[i % 2], options.period_s[i / 2], invented[i / 2][i % 2] };
		for (unsigned r = 0; r < 3; r++)
			arms[i].run[r] = (struct sim_result) {
				.arrived = 200,
				.completed = 200,
				.forwarded = 50,
				.mean_s = (1 + i) * 0.01 + ((r + 1) % 3) * 0.001,
				.fingerprint = i * 16 + r,
			};
	}
}

static void measures(void **state)
{
	struct report_range range;

	(void)state;
	invent();
	range = report_range(&report, &arms[0], &report_columns[1]);
	assert_near("median", range.median, 11, 1e-9);
	assert_near("least", range.least, 10, 1e-9);
	assert_near("most", range.most, 12, 1e-9);
	assert_near("fresh / fresh", report_ratio(&report, &arms[0]), 1, 1e-9);
	assert_near("old / fresh", report_ratio(&report, &arms[2]), 31 / 11.0, 1e-9);
	options.period_count = 1;
	assert_true(report_ratio(&report, &arms[2]) <= 0);
}

static void first_line(FILE *file, char line[256])
{
	rewind(file);
	assert_non_null(fgets(line, 256, file));
	assert_non_null(strstr(line, "simulated"));
}

static void table(void **state)
{
	FILE *file = tmpfile();
	char line[256];
	unsigned rows = 0;

	(void)state;
	assert_non_null(file);
	invent();
	report_table(&report, file);
	first_line(file, line);
	assert_int_equal(strncmp(line, "simulated: open loop, 16 nodes", 30), 0);
	while (fgets(line, sizeof(line), file))
		rows += strncmp(line, "li ", 3) == 0 || strncmp(line, "random ", 7) == 0;
	assert_int_equal(rows, 4);
	fclose(file);
}

static void files(void **state)
{
	char path[] = "/tmp/test_sim.XXXXXX", line[256];
	int fd = mkstemp(path);
	json_t *all, *second;
	unsigned rows = 0;
	FILE *file;

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	invent();
	assert_int_equal(report_csv(&report, path), 0);
	file = fopen(path, "re");
	assert_non_null(file);
	first_line(file, line);
	while (fgets(line, sizeof(line), file))
		rows += strncmp(line, "li,", 3) == 0 || strncmp(line, "random,", 7) == 0;
	assert_int_equal(rows, 12);
	fclose(file);
	assert_int_equal(report_json(&report, path), 0);
	file = fopen(path, "re");
	assert_non_null(file);
	first_line(file, line);
	fclose(file);
	all = json_load_file(path, 0, NULL);
	assert_true(json_is_true(json_object_get(all, "simulated")));
	assert_int_equal(json_array_size(json_object_get(all, "arms")), 4);
	second = json_array_get(json_object_get(all, "arms"), 1);
	assert_string_equal(json_string_value(json_object_get(second, "policy")), "random");
	assert_int_equal(json_array_size(json_object_get(second, "runs")), 3);
	json_decref(all);
	unlink(path);
	assert_true(report_csv(&report, "/nonexistent/x.csv") < 0);
	assert_true(report_json(&report, "/nonexistent/x.json") < 0);
}

/* A program of that name in place of gnuplot shows what gnuplot would get. */
static void plot(void **state)
{
	char directory[] = "/tmp/test_sim.XXXXXX", path[64], input[64], text[8192], line[256];
	const char *before = getenv("PATH");
	char *kept = strdup(before ? before : "");
	FILE *file;
	size_t size;

	(void)state;
	invent();
	assert_non_null(mkdtemp(directory));
	assert_int_equal(setenv("PATH", directory, 1), 0);
	assert_true(report_plot(&report, "x.svg") < 0);
	snprintf(path, sizeof(path), "%s/gnuplot", directory);
	snprintf(input, sizeof(input), "%s/input", directory);
	file = fopen(path, "we");
	assert_non_null(file);
	fprintf(file, "#!/bin/sh\n/bin/cat >%s\n", input);
	assert_int_equal(fchmod(fileno(file), 0700), 0);
	fclose(file);
	assert_int_equal(report_plot(&report, "it's.svg"), 0);
	file = fopen(input, "re");
	assert_non_null(file);
	size = fread(text, 1, sizeof(text) - 1, file);
	text[size] = '\0';
	first_line(file, line);
	fclose(file);
	assert_non_null(strstr(text, "set output 'it''s.svg'"));
	assert_non_null(strstr(text, "title 'li'"));
	/* In service times of 10 ms: the period, the median, the range. */
	assert_non_null(strstr(text, "\n0.1 1.1 1 1.2\n10 3.1 3 3.2\ne\n"));
	unlink(input);
	file = fopen(path, "we");
	assert_non_null(file);
	fputs("#!/bin/sh\nexit 1\n", file);
	fclose(file);
	assert_true(report_plot(&report, "x.svg") < 0);
	unlink(path);
	rmdir(directory);
	setenv("PATH", kept, 1);
	free(kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults), cmocka_unit_test(taken), cmocka_unit_test(refused),
		cmocka_unit_test(measures), cmocka_unit_test(table), cmocka_unit_test(files),
		cmocka_unit_test(plot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
