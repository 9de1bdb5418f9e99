// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * surge - a workload for web servers: the model that P. Barford and M. Crovella published in 1998.
 */
#include <stdio.h>
#include <string.h>

#include "dprd/base/version.h"
#include "tests/experiments/surge/client.h"
#include "tests/experiments/surge/commands.h"
#include "tests/experiments/surge/report.h"

static const char help[] =
	"usage: surge files DIRECTORY --count N --seed S     make the files of the server, and their index\n"
	"       surge run --index FILE --server HOST ...     load servers with users, measure\n"
	"       surge selfcheck                              compare what is drawn with the laws of the model\n"
	"       surge --version\n"
	"\n"
	"Each has --help. A closed loop: N users fetch pages and pause; a slow server is asked less. So look at\n"
	"X (requests/s) and R (response time) together: N/X - R, the think time, must be the same in all runs that\n"
	"you compare, about 2 s. Compare runs of equal length, index, seed and number of users only.\n";

static const char *const too_long = "Ask for fewer users or a shorter time";

int command_run(int argc, char **argv)
{
	struct options options;
	struct client client;
	struct file_set set;
	struct plan plan;
	int status = options_read(argc, argv, &options);

	if (status)
		return status < 0 ? 0 : status;
	if (!index_read(options.index, &set))
		return STATUS_FAILED;
	status = plan_make(&plan, &set, options.users, options.warmup_s + options.seconds, options.seed, false);
	if (status) {
		fprintf(stderr, "surge run: the plan of all users is too large. %s\n", too_long);
		file_set_free(&set);
		return STATUS_FAILED;
	}
	status = client_run(&client, &options, &set, &plan);
	if (!status) {
		if (!report_run(&client.measures, &options, &set))
			status = STATUS_FAILED;
		if (!measures_close(&client.measures, &options))
			status = STATUS_FAILED;
	}
	plan_free(&plan);
	file_set_free(&set);
	return status;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *word;
		int (*command)(int argc, char **argv);
	} commands[] = { { "files", command_files }, { "run", command_run }, { "selfcheck", command_selfcheck } };

	for (unsigned i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(argv[1], commands[i].word) == 0)
			return commands[i].command(argc - 1, argv + 1);
	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)) {
		fputs(help, stdout);
		return 0;
	}
	if (argc > 1 && strcmp(argv[1], "--version") == 0) {
		printf("surge %s\n", dprd_version);
		return 0;
	}
	fputs(help, stderr);
	return STATUS_USAGE;
}
