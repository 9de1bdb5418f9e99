// SPDX-License-Identifier: GPL-2.0-or-later
/* report.c - the columns of a result, and the printed table. */
#include "dprd/sim/report.h"

#include <stdlib.h>
#include <string.h>

#define PART(result, of) ((result)->arrived ? 100.0 * (double)(result)->of / (double)(result)->arrived : 0)

static double rate(const struct sim_result *r)
{
	return r->rate_per_s;
}

static double mean_ms(const struct sim_result *r)
{
	return 1000 * r->mean_s;
}

static double p50_ms(const struct sim_result *r)
{
	return 1000 * r->p50_s;
}

static double p90_ms(const struct sim_result *r)
{
	return 1000 * r->p90_s;
}

static double p99_ms(const struct sim_result *r)
{
	return 1000 * r->p99_s;
}

static double max_ms(const struct sim_result *r)
{
	return 1000 * r->max_s;
}

static double forwarded(const struct sim_result *r)
{
	return PART(r, forwarded);
}

static double sent_back(const struct sim_result *r)
{
	return PART(r, sent_back);
}

static double failed(const struct sim_result *r)
{
	return PART(r, lost) + PART(r, refused);
}

static double utilisation(const struct sim_result *r)
{
	return 100 * r->utilisation;
}

static double spread(const struct sim_result *r)
{
	return 100 * (r->utilisation_most - r->utilisation_least);
}

static double imbalance(const struct sim_result *r)
{
	return r->imbalance;
}

static double jain(const struct sim_result *r)
{
	return r->jain;
}

static double open_mean(const struct sim_result *r)
{
	return r->open_mean;
}

static double open_most(const struct sim_result *r)
{
	return r->open_most;
}

static double errors(const struct sim_result *r)
{
	return r->completed_since ? 100.0 * (double)r->errors / (double)r->completed_since : 0;
}

static double burst_ratio(const struct sim_result *r)
{
	return r->burst_ratio;
}

static double burst_sent_back(const struct sim_result *r)
{
	return (double)r->burst_sent_back;
}

const struct report_column report_columns[] = {
	{ "requests_per_s", "req/s", rate, 1, REPORT_ALWAYS },
	{ "mean_delay_ms", "mean", mean_ms, 3, REPORT_ALWAYS },
	{ "p50_delay_ms", "p50", p50_ms, 2, REPORT_ALWAYS },
	{ "p90_delay_ms", "p90", p90_ms, 2, REPORT_ALWAYS },
	{ "p99_delay_ms", "p99", p99_ms, 2, REPORT_ALWAYS },
	{ "max_delay_ms", "max", max_ms, 1, REPORT_ALWAYS },
	{ "forwarded_percent", "fwd%", forwarded, 1, REPORT_ALWAYS },
	{ "sent_back_percent", "back%", sent_back, 1, REPORT_ALWAYS },
	{ "failed_percent", "fail%", failed, 2, REPORT_ALWAYS },
	{ "utilisation_percent", "util%", utilisation, 1, REPORT_ALWAYS },
	{ "utilisation_spread_percent", "sprd%", spread, 1, REPORT_ALWAYS },
	{ "imbalance", "imbal", imbalance, 3, REPORT_ALWAYS },
	{ "jain", "jain", jain, 4, REPORT_ALWAYS },
	{ "open_mean", "open", open_mean, 2, REPORT_ALWAYS },
	{ "open_most", "most", open_most, 0, REPORT_ALWAYS },
	{ "errors_percent", "err%", errors, 1, REPORT_ERRORS },
	{ "burst_ratio", "burst", burst_ratio, 3, REPORT_BURST },
	{ "burst_sent_back", "bback", burst_sent_back, 0, REPORT_BURST },
};
const unsigned report_column_count = sizeof(report_columns) / sizeof(report_columns[0]);

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

struct report_range report_range(const struct report *report, const struct arm *arm, const struct report_column *column)
{
	double values[OPTIONS_REPEAT_MAX];
	unsigned count = report->options->repeat;

	for (unsigned i = 0; i < count; i++)
		values[i] = column->value(&arm->run[i]);
	qsort(values, count, sizeof(values[0]), compare);
	return (struct report_range) {
		.least = values[0],
		.median = (values[(count - 1) / 2] + values[count / 2]) / 2,
		.most = values[count - 1],
	};
}

static const struct report_column *column_named(const char *name)
{
	unsigned i = 0;

	while (i + 1 < report_column_count && strcmp(report_columns[i].name, name) != 0)
		i++;
	return &report_columns[i];
}

double report_ratio(const struct report *report, const struct arm *arm)
{
	const struct report_column *mean = column_named("mean_delay_ms");
	const struct arm *fresh = arm;
	double base;

	if (report->options->period_count < 2)
		return 0;
	for (unsigned i = 0; i < report->arm_count; i++)
		if (report->arm[i].policy == arm->policy && report->arm[i].period_s < fresh->period_s)
			fresh = &report->arm[i];
	base = report_range(report, fresh, mean).median;
	return base > 0 ? report_range(report, arm, mean).median / base : 0;
}

static const char *law_text(const struct sim_setup *s, char *text, unsigned bytes)
{
	switch (s->law.kind) {
	case SIM_LAW_EXP:
		return "exp";
	case SIM_LAW_DET:
		return "det";
	case SIM_LAW_PARETO:
		snprintf(text, bytes, "pareto:%g:%g", s->law.shape, s->law.most);
		return text;
	case SIM_LAW_LOGNORMAL:
		snprintf(text, bytes, "lognormal:%g", s->law.shape);
		return text;
	}
	return "?";
}

void report_headline(const struct report *report, char *text, unsigned bytes)
{
	const struct sim_setup *s = &report->options->setup;
	char law[64], max_load[32], end[64];

	snprintf(max_load, sizeof(max_load), s->max_load_auto ? "auto" : "%g", s->max_load);
	if (s->connections)
		snprintf(end, sizeof(end), "%llu connections", (unsigned long long)s->connections);
	else
		snprintf(end, sizeof(end), "%g s", s->seconds);
	snprintf(text, bytes,
		 "simulated: open loop, %u nodes, %u %s worker%s each, load %g, service %s of mean %g ms, hop %g ms, "
		 "jitter %g %%, loss %g %%, delay %g ms, MaxLoad %s, MinAdvantage %g, second look %s, "
		 "%s, warm-up %.3g s, %u run%s, seed %llu",
		 s->nodes, s->workers, s->service == SIM_PS ? "shared" : "FIFO", s->workers == 1 ? "" : "s", s->load,
		 law_text(s, law, sizeof(law)), 1000 * s->service_mean_s, 1000 * s->hop_s, 100 * s->jitter,
		 100 * s->loss, 1000 * s->delay_s, max_load, s->min_advantage, s->second_look ? "yes" : "no", end,
		 s->warmup_s, report->options->repeat, report->options->repeat == 1 ? "" : "s, medians",
		 (unsigned long long)s->seed);
}

static bool is_shown(const struct report *report, const struct report_column *column)
{
	const struct sim_setup *setup = &report->options->setup;

	return column->when == REPORT_ALWAYS ||
	       (column->when == REPORT_BURST ? setup->burst.connections > 0 : sim_has_errors(setup));
}

static void print_row(const struct report *report, const struct arm *arm, FILE *file)
{
	double ratio = report_ratio(report, arm);

	fprintf(file, "%-8s", arm->policy->name);
	for (unsigned i = 0; i < report_column_count; i++) {
		const struct report_column *column = &report_columns[i];
		double value = report_range(report, arm, column).median;

		if (is_shown(report, column))
			fprintf(file, " %*.*f", i == 0 ? 10 : 9, column->decimals, value);
	}
	if (ratio > 0)
		fprintf(file, " %7.2f", ratio);
	if (report->options->repeat > 1) {
		struct report_range range = report_range(report, arm, column_named("mean_delay_ms"));

		fprintf(file, " %9.3f - %.3f", range.least, range.most);
	}
	fputc('\n', file);
}

void report_table(const struct report *report, FILE *file)
{
	char headline[1024];
	double before_s = -1;

	report_headline(report, headline, sizeof(headline));
	fprintf(file, "%s\n", headline);
	for (unsigned i = 0; i < report->arm_count; i++) {
		const struct arm *arm = &report->arm[i];

		if (arm->period_s < before_s || arm->period_s > before_s) {
			before_s = arm->period_s;
			fprintf(file, "\nperiod %g ms, %.4g service times (delays in ms)\n", 1000 * before_s,
				before_s / report->options->setup.service_mean_s);
			fprintf(file, "%-8s", "policy");
			for (unsigned c = 0; c < report_column_count; c++)
				if (is_shown(report, &report_columns[c]))
					fprintf(file, " %*s", c == 0 ? 10 : 9, report_columns[c].heading);
			fprintf(file, "%s%s\n", report->options->period_count > 1 ? " x fresh" : "",
				report->options->repeat > 1 ? " mean, range" : "");
		}
		print_row(report, arm, file);
	}
}
