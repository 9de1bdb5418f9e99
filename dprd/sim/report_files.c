// SPDX-License-Identifier: GPL-2.0-or-later
/* report_files.c - results as CSV, JSON, and an SVG drawn by gnuplot. */
#define _GNU_SOURCE
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dprd/sim/report.h"

enum { HEADLINE_BYTES = 1024, PLOT_WIDTH = 900, PLOT_HEIGHT = 540 };

static int close_file(FILE *file)
{
	bool bad = ferror(file);
	int error = fclose(file) ? -errno : 0;

	return error ? error : bad ? -EIO : 0;
}

int report_csv(const struct report *report, const char *path)
{
	FILE *file = fopen(path, "we");
	char headline[HEADLINE_BYTES];

	if (!file)
		return -errno;
	report_headline(report, headline, sizeof(headline));
	fprintf(file, "# %s\npolicy,period_ms,seed", headline);
	for (unsigned i = 0; i < report_column_count; i++)
		fprintf(file, ",%s", report_columns[i].name);
	fputs(",arrived,completed,lost,refused,announcements,fingerprint\n", file);
	for (unsigned i = 0; i < report->arm_count; i++) {
		const struct arm *arm = &report->arm[i];

		for (unsigned r = 0; r < report->options->repeat; r++) {
			const struct sim_result *run = &arm->run[r];

			fprintf(file, "%s,%.9g,%llu", arm->policy->name, 1000 * arm->period_s,
				(unsigned long long)report->options->setup.seed + r);
			for (unsigned c = 0; c < report_column_count; c++)
				fprintf(file, ",%.9g", report_columns[c].value(run));
			fprintf(file, ",%llu,%llu,%llu,%llu,%llu,%016llx\n", (unsigned long long)run->arrived,
				(unsigned long long)run->completed, (unsigned long long)run->lost,
				(unsigned long long)run->refused, (unsigned long long)run->announcements,
				(unsigned long long)run->fingerprint);
		}
	}
	return close_file(file);
}

static json_t *ranges(const struct report *report, const struct arm *arm)
{
	json_t *made = json_object();

	for (unsigned c = 0; c < report_column_count; c++) {
		struct report_range range = report_range(report, arm, &report_columns[c]);

		json_object_set_new(
			made, report_columns[c].name,
			json_pack("{s:f, s:f, s:f}", "median", range.median, "min", range.least, "max", range.most));
	}
	return made;
}

static json_t *reasons_of(const struct sim_result *run)
{
	json_t *made = json_object();

	for (unsigned i = 0; i < REASONS; i++)
		if (run->reasons[i])
			json_object_set_new(made, reason_name((enum reason)i),
					    json_integer((json_int_t)run->reasons[i]));
	return made;
}

static json_t *run_json(const struct sim_result *run, uint64_t seed)
{
	char fingerprint[24];
	json_t *made;

	snprintf(fingerprint, sizeof(fingerprint), "%016llx", (unsigned long long)run->fingerprint);
	made = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:s, s:o}", "seed", (json_int_t)seed, "arrived",
			 (json_int_t)run->arrived, "completed", (json_int_t)run->completed, "lost",
			 (json_int_t)run->lost, "refused", (json_int_t)run->refused, "announcements",
			 (json_int_t)run->announcements, "decisions", (json_int_t)run->decisions, "chosen_again",
			 (json_int_t)run->chosen_again, "measured_s", run->measured_s, "fingerprint", fingerprint,
			 "reasons", reasons_of(run));
	for (unsigned c = 0; made && c < report_column_count; c++)
		json_object_set_new(made, report_columns[c].name, json_real(report_columns[c].value(run)));
	return made;
}

static json_t *arm_json(const struct report *report, const struct arm *arm)
{
	json_t *runs = json_array();
	double ratio = report_ratio(report, arm);

	for (unsigned r = 0; r < report->options->repeat; r++)
		json_array_append_new(runs, run_json(&arm->run[r], report->options->setup.seed + r));
	return json_pack("{s:s, s:f, s:f, s:o, s:o, s:o}", "policy", arm->policy->name, "period_ms",
			 1000 * arm->period_s, "period_service_times",
			 arm->period_s / report->options->setup.service_mean_s, "ratio_to_fresh",
			 ratio > 0 ? json_real(ratio) : json_null(), "measures", ranges(report, arm), "runs", runs);
}

static json_t *setup_json(const struct sim_setup *s)
{
	json_t *share = json_array(), *capacity = json_array(), *weight = json_array();

	for (unsigned i = 0; i < s->nodes; i++) {
		json_array_append_new(share, json_real(s->share[i]));
		json_array_append_new(capacity, json_real(s->capacity[i]));
		json_array_append_new(weight, json_real(s->weight[i]));
	}
	return json_pack(
		"{s:i, s:i, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:f, s:b, s:b, s:I, s:f, s:o, s:o, s:o}",
		"nodes", (int)s->nodes, "workers", (int)s->workers, "service", s->service == SIM_PS ? "ps" : "fifo",
		"service_mean_ms", 1000 * s->service_mean_s, "load", s->load, "jitter", s->jitter, "loss", s->loss,
		"delay_ms", 1000 * s->delay_s, "hop_ms", 1000 * s->hop_s, "tick_ms", 1000 * s->tick_s, "max_load",
		s->max_load_auto ? json_string("auto") : json_real(s->max_load), "min_advantage", s->min_advantage,
		"second_look", s->second_look, "suspicion", s->suspicion, "connections", (json_int_t)s->connections,
		"warmup_s", s->warmup_s, "share", share, "capacity", capacity, "weight", weight);
}

int report_json(const struct report *report, const char *path)
{
	json_t *arms = json_array(), *all;
	char headline[HEADLINE_BYTES], *text;
	FILE *file;

	report_headline(report, headline, sizeof(headline));
	for (unsigned i = 0; i < report->arm_count; i++)
		json_array_append_new(arms, arm_json(report, &report->arm[i]));
	all = json_pack("{s:b, s:s, s:o, s:o}", "simulated", 1, "headline", headline, "setup",
			setup_json(&report->options->setup), "arms", arms);
	text = all ? json_dumps(all, JSON_INDENT(1)) : NULL;
	json_decref(all);
	if (!text)
		return -ENOMEM;
	file = fopen(path, "we");
	if (!file) {
		free(text);
		return -errno;
	}
	/* The first line must say "simulated", too: "{" and the text behind it stand on one line. */
	fprintf(file, "{%s\n", text + strlen("{\n"));
	free(text);
	return close_file(file);
}

static bool has_program(const char *name)
{
	const char *searched = getenv("PATH");
	char *path = strdup(searched ? searched : "/usr/bin:/bin"), *rest = path, *directory;
	bool found = false;

	while (path && !found && (directory = strsep(&rest, ":"))) {
		char *file;

		if (asprintf(&file, "%s/%s", *directory ? directory : ".", name) < 0)
			break;
		found = access(file, X_OK) == 0;
		free(file);
	}
	free(path);
	return found;
}

/* Writes text in gnuplot's single quotes; a quote within it is doubled. */
static void quote(FILE *file, const char *text)
{
	fputc('\'', file);
	for (; *text; text++)
		fprintf(file, *text == '\'' ? "''" : "%c", *text);
	fputc('\'', file);
}

/* Writes one curve for each policy; with only one period, one bar. */
static void plot_data(const struct report *report, FILE *gnuplot)
{
	const struct options *o = report->options;
	const struct report_column *mean = &report_columns[1];

	for (unsigned p = 0; p < o->policy_count; p++) {
		for (unsigned i = p; i < report->arm_count; i += o->policy_count) {
			const struct arm *arm = &report->arm[i];
			struct report_range range = report_range(report, arm, mean);
			double x = o->period_count > 1 ? arm->period_s / o->setup.service_mean_s : p;
			double unit = 1000 * o->setup.service_mean_s;

			fprintf(gnuplot, "%.9g %.9g %.9g %.9g\n", x, range.median / unit, range.least / unit,
				range.most / unit);
		}
		fputs("e\n", gnuplot);
	}
}

/* With only one period the policies stand side by side. */
static void plot_names(const struct options *o, FILE *gnuplot)
{
	fprintf(gnuplot, "set xrange [-1:%u]\nset xtics (", o->policy_count);
	for (unsigned p = 0; p < o->policy_count; p++) {
		fputs(p ? ", " : "", gnuplot);
		quote(gnuplot, o->policy[p]->name);
		fprintf(gnuplot, " %u", p);
	}
	fputs(")\nset xlabel 'policy'\nunset key\n", gnuplot);
}

static void plot(const struct report *report, const char *path, FILE *gnuplot)
{
	const struct options *o = report->options;
	char headline[HEADLINE_BYTES], *rest;
	bool sweep = o->period_count > 1;

	report_headline(report, headline, sizeof(headline));
	fprintf(gnuplot, "set terminal svg size %d,%d name 'simulated' background rgb 'white'\nset output ", PLOT_WIDTH,
		PLOT_HEIGHT);
	quote(gnuplot, path);
	fputs("\nset title ", gnuplot);
	/* Shortens the headline to fit above the plot: cluster and connections. */
	rest = strstr(headline, ", hop ");
	if (rest)
		*rest = '\0';
	quote(gnuplot, headline);
	fputs(" noenhanced\nset ylabel 'mean delay (service times)'\nset grid\nset key outside\nset logscale y\n",
	      gnuplot);
	if (sweep)
		fputs("set logscale x\nset xlabel 'announcement period (service times)'\n", gnuplot);
	else
		plot_names(o, gnuplot);
	fputs("plot ", gnuplot);
	for (unsigned p = 0; p < o->policy_count; p++) {
		fprintf(gnuplot, "%s'-' using 1:2:3:4 with %s title ", p ? ", " : "",
			sweep ? "yerrorlines" : "yerrorbars pointtype 7");
		quote(gnuplot, o->policy[p]->name);
	}
	fputc('\n', gnuplot);
	plot_data(report, gnuplot);
}

int report_plot(const struct report *report, const char *path)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction before;
	FILE *gnuplot;
	int status;

	if (!has_program("gnuplot"))
		return -ENOENT;
	gnuplot = popen("gnuplot", "we"); // NOLINT(bugprone-command-processor): it holds no text of the user
	if (!gnuplot)
		return -errno;
	/* When gnuplot exits early, writing to it must fail, not end this process. */
	sigaction(SIGPIPE, &ignore, &before);
	plot(report, path, gnuplot);
	status = pclose(gnuplot);
	sigaction(SIGPIPE, &before, NULL);
	return status ? -EIO : 0;
}
