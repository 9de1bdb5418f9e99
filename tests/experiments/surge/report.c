// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * report.c - means, percentiles and rates of a run, as text, JSON and CSV.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tests/experiments/surge/report.h"

struct summary {
	double seconds, rate, mean_s, in_flight;
	uint64_t requests, errors;
};

static int by_value(const void *a, const void *b)
{
	const float x = *(const float *)a, y = *(const float *)b;

	return x < y ? -1 : x > y;
}

static double mean_of(const struct values *values)
{
	double sum = 0;

	for (size_t i = 0; i < values->count; i++)
		sum += values->all[i];
	return values->count ? sum / (double)values->count : 0;
}

/* The variance of the sample, as in the published tools. */
static double variance_of(const struct values *values, double mean)
{
	double sum = 0;

	for (size_t i = 0; i < values->count; i++)
		sum += (values->all[i] - mean) * (values->all[i] - mean);
	return values->count > 1 ? sum / (double)(values->count - 1) : 0;
}

/* The smallest value that at least this share does not exceed; 0 when there are none. */
static double percentile_of(const struct values *sorted, double share)
{
	size_t rank = (size_t)ceil(share * (double)sorted->count);

	return sorted->count ? sorted->all[rank ? rank - 1 : 0] : 0;
}

static struct summary summarize(const struct measures *measures)
{
	struct summary summary = { .requests = measures->outcomes[OUTCOME_OK] };

	summary.seconds = (double)(measures->until_us - measures->from_us) / 1e6;
	for (int i = OUTCOME_NAME; i < OUTCOMES; i++)
		summary.errors += measures->outcomes[i];
	if (summary.seconds > 0) {
		summary.rate = (double)summary.requests / summary.seconds;
		summary.in_flight = measures->in_flight_us / 1e6 / summary.seconds;
	}
	summary.mean_s = mean_of(&measures->response_ms) / 1000;
	return summary;
}

/* NULL, in JSON null, for an unknown value. */
static json_t *quotient(double a, double b)
{
	return b > 0 ? json_real(a / b) : json_null();
}

static json_t *values_json(const struct values *sorted)
{
	const double mean = mean_of(sorted);

	if (!sorted->count)
		return json_null();
	return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "mean", mean, "variance", variance_of(sorted, mean), "p50",
			 percentile_of(sorted, 0.5), "p90", percentile_of(sorted, 0.9), "p99",
			 percentile_of(sorted, 0.99), "max", percentile_of(sorted, 1));
}

static json_t *tallies_json(const struct tallies *tallies, double seconds)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < tallies->count; i++) {
		const struct tally *tally = &tallies->all[i];

		json_array_append_new(array, json_pack("{s:s, s:I, s:o, s:I, s:I, s:o}", "name", tally->name,
						       "requests", (json_int_t)tally->requests, "requests_per_second",
						       quotient((double)tally->requests, seconds), "errors",
						       (json_int_t)tally->errors, "bytes", (json_int_t)tally->bytes,
						       "response_mean_ms",
						       quotient(tally->response_ms, (double)tally->requests)));
	}
	return array;
}

static json_t *errors_json(const struct measures *measures, uint64_t total)
{
	json_t *errors = json_pack("{s:I}", "total", (json_int_t)total);

	for (int i = OUTCOME_NAME; i < OUTCOMES; i++)
		json_object_set_new(errors, outcome_names[i], json_integer((json_int_t)measures->outcomes[i]));
	return errors;
}

static json_t *settings_json(const struct options *options, const struct file_set *set)
{
	json_t *servers = json_array();

	for (unsigned i = 0; i < options->server_count; i++)
		json_array_append_new(servers,
				      json_pack("{s:s, s:s, s:i}", "host", options->servers[i].host, "port",
						options->servers[i].port, "share", (int)options->servers[i].share));
	return json_pack("{s:s, s:o, s:i, s:i, s:s, s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:I}", "loop", "closed",
			 "servers", servers, "users", (int)options->users, "files", (int)set->count, "http",
			 http_mode_names[options->http], "resolve", resolve_mode_names[options->resolve], "parallel",
			 (int)options->lanes, "connection_pages", (int)options->connection_pages, "group",
			 (int)options->group, "stagger_s", options->stagger_s, "warmup_s", options->warmup_s, "seconds",
			 options->seconds, "timeout_s", options->timeout_s, "seed", (json_int_t)options->seed);
}

static double cpu_s(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
	       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static json_t *generator_json(const struct measures *measures)
{
	return json_pack("{s:f, s:o, s:f}", "cpu_s", cpu_s(), "lag_mean_ms",
			 quotient(measures->lag_us / 1000, (double)measures->wakes), "lag_max_ms",
			 (double)measures->lag_most_us / 1000);
}

static json_t *run_json(const struct measures *measures, const struct options *options, const struct file_set *set,
			const struct summary *summary)
{
	const uint64_t censored = measures->outcomes[OUTCOME_CENSORED];
	json_t *json =
		json_pack("{s:s, s:o, s:f, s:i, s:I, s:f}", "schema", "surge.run/1", "settings",
			  settings_json(options, set), "measured_s", summary->seconds, "users", (int)options->users,
			  "requests", (json_int_t)summary->requests, "requests_per_second", summary->rate);

	if (!json)
		return NULL;
	json_object_set_new(json, "think_time_s",
			    summary->rate > 0 ? json_real(options->users / summary->rate - summary->mean_s)
					      : json_null());
	json_object_set_new(json, "in_flight_mean", json_real(summary->in_flight));
	json_object_set_new(json, "response_by_little_ms", quotient(summary->in_flight * 1000, summary->rate));
	json_object_set_new(json, "response_ms", values_json(&measures->response_ms));
	json_object_set_new(json, "first_byte_ms", values_json(&measures->first_byte_ms));
	json_object_set_new(json, "connect_ms", values_json(&measures->connect_ms));
	json_object_set_new(json, "censored",
			    json_pack("{s:I, s:o}", "count", (json_int_t)censored, "mean_age_ms",
				      quotient(measures->censored_age_ms, (double)censored)));
	json_object_set_new(json, "errors", errors_json(measures, summary->errors));
	json_object_set_new(json, "bytes", json_integer((json_int_t)measures->bytes));
	json_object_set_new(json, "connections",
			    json_pack("{s:I, s:I, s:I}", "opened", (json_int_t)measures->connections, "failed",
				      (json_int_t)measures->connect_failures, "reopened",
				      (json_int_t)measures->reopened));
	json_object_set_new(json, "lookups",
			    json_pack("{s:I, s:I, s:o}", "count", (json_int_t)measures->lookups, "failed",
				      (json_int_t)measures->lookup_failures, "mean_ms",
				      quotient(measures->lookup_ms, (double)measures->lookups)));
	json_object_set_new(json, "servers", tallies_json(&measures->servers, summary->seconds));
	json_object_set_new(json, "nodes", tallies_json(&measures->nodes, summary->seconds));
	json_object_set_new(json, "generator", generator_json(measures));
	return json;
}

static bool cannot_write(const char *path)
{
	fprintf(stderr, "surge run: cannot write %s: %s\n", path, errno ? strerror(errno) : "out of memory");
	return false;
}

static bool write_json(const char *path, json_t *json)
{
	bool good;

	errno = 0;
	if (json && strcmp(path, "-") == 0) {
		good = json_dumpf(json, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0;
		putchar('\n');
		good = fflush(stdout) == 0 && good;
	} else {
		good = json && json_dump_file(json, path, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0;
	}
	json_decref(json);
	return good || cannot_write(path);
}

/* Seconds before the measured time have negative numbers. */
static bool write_series(const char *path, const struct measures *measures)
{
	const uint64_t count = (measures->until_us - measures->start_us + 999999) / 1000000;
	const int64_t warmup = (int64_t)((measures->from_us - measures->start_us) / 1000000);
	FILE *csv = fopen(path, "w");
	bool good;

	errno = 0;
	if (!csv)
		return cannot_write(path);
	fprintf(csv, "second,requests,errors,mean_response_ms,in_flight\n");
	for (uint64_t i = 0; i < count && i < measures->second_count; i++) {
		const struct second *second = &measures->seconds[i];

		fprintf(csv, "%lld,%u,%u,%.3f,%u\n", (long long)((int64_t)i - warmup), second->requests, second->errors,
			second->requests ? second->response_ms / second->requests : 0, second->in_flight);
	}
	good = !ferror(csv);
	return (fclose(csv) == 0 && good) || cannot_write(path);
}

static void print_tallies(const char *what, const struct tallies *tallies, double seconds)
{
	for (unsigned i = 0; i < tallies->count; i++) {
		const struct tally *tally = &tallies->all[i];

		printf("  %-6s %-24s %8llu requests %8.1f/s %8llu errors  mean %.1f ms\n", what, tally->name,
		       (unsigned long long)tally->requests, (double)tally->requests / seconds,
		       (unsigned long long)tally->errors,
		       tally->requests ? tally->response_ms / (double)tally->requests : 0);
	}
}

static void print_summary(const struct measures *measures, const struct options *options, const struct summary *summary)
{
	const struct values *response = &measures->response_ms, *connect = &measures->connect_ms;

	printf("closed loop, %u users, %.1f s measured, HTTP %s, name resolved once for each %s\n", options->users,
	       summary->seconds, http_mode_names[options->http],
	       options->resolve == RESOLVE_ONCE     ? "group"
	       : options->resolve == RESOLVE_OBJECT ? "page"
						    : "connection");
	printf("  requests %llu, %.1f/s   in flight %.1f   think time N/X-R ", (unsigned long long)summary->requests,
	       summary->rate, summary->in_flight);
	if (summary->rate > 0)
		printf("%.3f s\n", options->users / summary->rate - summary->mean_s);
	else
		printf("?\n");
	printf("  response mean %.1f  p50 %.1f  p90 %.1f  p99 %.1f  max %.1f ms   connect mean %.2f  p99 %.2f ms\n",
	       summary->mean_s * 1000, percentile_of(response, 0.5), percentile_of(response, 0.9),
	       percentile_of(response, 0.99), percentile_of(response, 1), mean_of(connect),
	       percentile_of(connect, 0.99));
	printf("  errors %llu", (unsigned long long)summary->errors);
	for (int i = OUTCOME_NAME; i < OUTCOMES; i++)
		if (measures->outcomes[i])
			printf("  %s %llu", outcome_names[i], (unsigned long long)measures->outcomes[i]);
	printf("   censored %llu\n", (unsigned long long)measures->outcomes[OUTCOME_CENSORED]);
	print_tallies("server", &measures->servers, summary->seconds);
	print_tallies("node", &measures->nodes, summary->seconds);
}

void report_progress(const struct measures *measures, const struct options *options, uint64_t now_us, bool is_terminal)
{
	const uint64_t number = (now_us - measures->start_us) / 1000000;
	const struct second *second = &measures->seconds[number ? number - 1 : 0];
	const double at_s = (double)now_us / 1e6 - (double)measures->from_us / 1e6;

	if (number > measures->second_count)
		return;
	fprintf(stderr, "%ssurge %s %.0f/%.0f s  %u users  served %u/s  in flight %u  mean %.0f ms  errors %u/s%s",
		is_terminal ? "\r\033[K" : "", at_s < 0.5 ? "warm-up" : "run", at_s, options->seconds, options->users,
		second->requests, measures->in_flight, second->requests ? second->response_ms / second->requests : 0,
		second->errors, is_terminal ? "" : "\n");
}

bool report_run(struct measures *measures, const struct options *options, const struct file_set *set)
{
	struct values *all[] = { &measures->response_ms, &measures->first_byte_ms, &measures->connect_ms };
	struct summary summary;
	bool good = true;

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i]->count)
			qsort(all[i]->all, all[i]->count, sizeof(float), by_value);
	summary = summarize(measures);
	if (measures->out_of_memory) {
		fprintf(stderr, "surge run: out of memory: the percentiles would be wrong\n");
		return false;
	}
	if (!options->json || strcmp(options->json, "-") != 0)
		print_summary(measures, options, &summary);
	if (options->json)
		good = write_json(options->json, run_json(measures, options, set, &summary));
	if (options->series)
		good = write_series(options->series, measures) && good;
	return good;
}
