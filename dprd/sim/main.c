// SPDX-License-Identifier: GPL-2.0-or-later
/* dpr-sim: simulates dprd in a cluster that need not exist. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dprd/base/version.h"
#include "dprd/sim/report.h"

enum { EXIT_USAGE = 2 };

/* The present run, for the line of progress that is printed each second. */
struct progress {
	bool wanted, terminal;
	const struct arm *arm;
	unsigned runs_done, runs;
	time_t shown_s, started_s;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	(void)number;
	interrupted = 1;
}

static time_t clock_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static bool show_progress(void *context, double done)
{
	struct progress *p = context;
	time_t now_s;
	double all;

	if (interrupted)
		return false;
	if (!p->wanted)
		return true;
	now_s = clock_s();
	if (now_s == p->shown_s)
		return true;
	p->shown_s = now_s;
	all = (p->runs_done + done) / p->runs;
	fprintf(stderr, "%ssimulating: %3.0f %%, run %u of %u (%s, period %g ms), %ld s, about %.0f s left%s",
		p->terminal ? "\r\033[K" : "", 100 * all, p->runs_done + 1, p->runs, p->arm->policy->name,
		1000 * p->arm->period_s, (long)(now_s - p->started_s),
		all > 0 ? (double)(now_s - p->started_s) * (1 - all) / all : 0, p->terminal ? "" : "\n");
	return true;
}

static int simulate(const struct options *o, struct report *report)
{
	struct progress progress = {
		.terminal = isatty(STDERR_FILENO),
		.runs = report->arm_count * o->repeat,
		.started_s = clock_s(),
	};
	int error = 0;

	progress.wanted = o->progress || progress.terminal;
	progress.shown_s = progress.started_s;
	for (unsigned i = 0; i < report->arm_count && !error; i++) {
		struct sim_setup setup = o->setup;
		struct arm *arm = &report->arm[i];

		setup.policy = arm->policy;
		setup.period_s = arm->period_s;
		progress.arm = arm;
		for (unsigned r = 0; r < o->repeat && !error; r++) {
			setup.seed = o->setup.seed + r;
			error = sim_run(&setup, show_progress, &progress, &arm->run[r]);
			progress.runs_done++;
		}
	}
	if (progress.terminal && progress.wanted)
		fputs("\r\033[K", stderr);
	return error;
}

/* True when writing succeeded; otherwise prints the error. */
static bool wrote(const char *path, int error)
{
	if (error)
		fprintf(stderr, "dpr-sim: %s: %s\n", path, strerror(-error));
	return !error;
}

static bool write_files(const struct options *o, const struct report *report)
{
	bool good = true;
	int error;

	if (o->csv)
		good = wrote(o->csv, report_csv(report, o->csv)) && good;
	if (o->json)
		good = wrote(o->json, report_json(report, o->json)) && good;
	if (!o->plot)
		return good;
	error = report_plot(report, o->plot);
	if (error == -ENOENT)
		fprintf(stderr, "dpr-sim: no plot: gnuplot is not installed (apt install gnuplot-nox); --csv FILE has "
				"the same figures\n");
	else if (error == -EIO)
		fprintf(stderr, "dpr-sim: %s: gnuplot could not draw it\n", o->plot);
	else
		wrote(o->plot, error);
	return good && !error;
}

/* A run of a few periods says little about the period. */
static void warn_short(const struct options *o)
{
	enum { PERIODS_LEAST = 20 };
	double longest_s = 0, run_s = sim_expected_s(&o->setup) - o->setup.warmup_s;

	for (unsigned i = 0; i < o->period_count; i++)
		longest_s = o->period_s[i] > longest_s ? o->period_s[i] : longest_s;
	if (o->setup.load > 0 && run_s < PERIODS_LEAST * longest_s)
		fprintf(stderr, "dpr-sim: the run has only %.1f announcement periods of %g ms: raise --connections\n",
			run_s / longest_s, 1000 * longest_s);
}

static int run(const struct options *o)
{
	struct report report = { .options = o, .arm_count = o->policy_count * o->period_count };
	size_t count = (size_t)report.arm_count * o->repeat; /* at least one: options_read() sees to that */
	struct sim_result *runs = count ? calloc(count, sizeof(*runs)) : NULL;
	int error = -ENOMEM;
	bool good = false;

	report.arm = count ? calloc(report.arm_count, sizeof(*report.arm)) : NULL;
	if (runs && report.arm) {
		for (unsigned i = 0; i < report.arm_count; i++)
			report.arm[i] = (struct arm) {
				.policy = o->policy[i % o->policy_count],
				.period_s = o->period_s[i / o->policy_count],
				.run = runs + (size_t)i * o->repeat,
			};
		error = simulate(o, &report);
	}
	if (error) {
		fprintf(stderr, "dpr-sim: %s\n", error == -EINTR ? "interrupted: no results" : strerror(-error));
	} else {
		report_table(&report, stdout);
		good = write_files(o, &report);
	}
	free(report.arm);
	free(runs);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	static struct options options; /* large */
	char error[OPTIONS_ERROR_BYTES];
	int result;

	if (!options_read(argc, argv, &options, error)) {
		fprintf(stderr, "dpr-sim: %s\n", error);
		return EXIT_USAGE;
	}
	if (options.help || options.version) {
		if (options.help)
			fputs(options_usage, stdout);
		else
			printf("dpr-sim %s\n", dprd_version);
		return EXIT_SUCCESS;
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	warn_short(&options);
	result = run(&options);
	if (fflush(stdout) || ferror(stdout)) {
		perror("dpr-sim: standard output");
		return EXIT_FAILURE;
	}
	return result;
}
