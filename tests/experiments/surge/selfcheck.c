// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * selfcheck.c - the drawn workload against the laws of the model.
 */
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/experiments/surge/commands.h"
#include "tests/experiments/surge/dist.h"
#include "tests/experiments/surge/objects.h"
#include "tests/experiments/surge/options.h"
#include "tests/experiments/surge/selfcheck.h"
#include "tests/experiments/surge/sequence.h"

/*
 * Sizes are drawn one from each of equally likely parts, so they are one part off at most, and a
 * whole byte: that is up to 6e-5 where the law is steepest.
 * Popularity comes in clumps of up to 32, so a sample is worth a thirtieth of its size. The first reference of a
 * clump comes from below the drawn depths: about one in thirty. Sizes as asked for have a step as high as the
 * share of the most popular file; half of it is the least that any matching can reach.
 */
static const double popularity_bound = 0.04, locality_bound = 0.05, request_margin = 0.03, parts_margin = 1.1,
		    byte_margin = 1e-4;

static const char help[] =
	"usage: surge selfcheck [--seed S] [--count N] [--users N] [--seconds T] [--json FILE]\n"
	"\n"
	"Draws a file set (2,000 files) and the plan of a run (500 users, 600 s), and prints for each property of the\n"
	"model its largest distance (Kolmogorov and Smirnov) from the published law, and the bound for it.\n"
	"Exit status 1 when one is beyond its bound.\n";

struct sample {
	double *values;
	size_t count;
};

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double sizes_law(double x, const void *most_bytes)
{
	return file_size_cdf(x, *(const double *)most_bytes);
}

static double tail_law(double x, const void *most_bytes)
{
	return pareto_cdf(x, MODEL_CUT_BYTES, MODEL_TAIL_ALPHA, *(const double *)most_bytes);
}

static double files_law(double x, const void *parameters)
{
	(void)parameters;
	return page_files_cdf(x);
}

static double depth_law(double x, const void *parameters)
{
	(void)parameters;
	return lognormal_cdf(floor(x), MODEL_STACK_MU, MODEL_STACK_SIGMA);
}

static double active_law(double x, const void *parameters)
{
	(void)parameters;
	return weibull_cdf(x, MODEL_ACTIVE_SHAPE, MODEL_ACTIVE_SCALE_S);
}

static double inactive_law(double x, const void *parameters)
{
	(void)parameters;
	return pareto_cdf(x, MODEL_INACTIVE_K_S, MODEL_INACTIVE_ALPHA, INFINITY);
}

static double independent_bound(size_t values)
{
	return 1.95 / sqrt((double)values);
}

static void judge(struct selfcheck *check, struct sample *sample, bool whole_numbers, law_cdf *law,
		  const void *parameters)
{
	double sum = 0;

	qsort(sample->values, sample->count, sizeof(double), by_value);
	for (size_t i = 0; i < sample->count; i++)
		sum += sample->values[i];
	check->values = sample->count;
	check->mean = sample->count ? sum / (double)sample->count : 0;
	check->distance = ks_distance(sample->values, NULL, sample->count, whole_numbers, law, parameters);
	if (check->bound <= 0)
		check->bound = independent_bound(sample->count);
}

/* The depth of each file used again in a stack of its own: 1 is the one used last. */
static bool measure_depths(const struct plan *plan, unsigned files, struct sample *sample)
{
	uint32_t *stack = calloc(files, sizeof(*stack));
	unsigned used = 0;

	sample->count = 0;
	for (size_t i = 0; stack && i < plan->order_count; i++) {
		unsigned depth = 0;

		while (depth < used && stack[depth] != plan->order[i])
			depth++;
		if (depth < used)
			sample->values[sample->count++] = depth + 1;
		else
			used++;
		memmove(stack + 1, stack, depth * sizeof(*stack));
		stack[0] = plan->order[i];
	}
	free(stack);
	return stack != NULL;
}

static void check_files(const struct file_set *set, struct sample *sample, struct selfcheck *checks)
{
	const double most_bytes = FILES_DEFAULT_MAX_BYTES;

	for (sample->count = 0; sample->count < set->count; sample->count++)
		sample->values[sample->count] = (double)set->files[sample->count].size_bytes;
	checks[CHECK_FILE_SIZES].bound = parts_margin / (double)sample->count + byte_margin;
	judge(&checks[CHECK_FILE_SIZES], sample, false, sizes_law, &most_bytes);
	sample->count = 0;
	for (unsigned i = 0; i < set->count; i++)
		if ((double)set->files[i].size_bytes > MODEL_CUT_BYTES)
			sample->values[sample->count++] = (double)set->files[i].size_bytes;
	checks[CHECK_LARGE_FILES].bound = parts_margin / (double)sample->count + byte_margin;
	judge(&checks[CHECK_LARGE_FILES], sample, false, tail_law, &most_bytes);
}

static void check_references(const struct file_set *set, const struct plan *plan, struct sample *sample,
			     struct selfcheck *checks)
{
	double largest = 0, top = 0;

	for (unsigned i = 0; i < set->count; i++) {
		largest = fmax(largest, (double)set->files[i].size_bytes);
		top = fmax(top, (double)set->files[i].requests);
	}
	checks[CHECK_POPULARITY].bound = popularity_bound;
	checks[CHECK_REQUEST_SIZES].bound = top / (double)set->requests / 2 + request_margin;
	for (sample->count = 0; sample->count < plan->order_count; sample->count++)
		sample->values[sample->count] = set->files[plan->order[sample->count]].rank;
	judge(&checks[CHECK_POPULARITY], sample, true, popularity_cdf, set);
	for (sample->count = 0; sample->count < plan->order_count; sample->count++)
		sample->values[sample->count] = (double)set->files[plan->order[sample->count]].size_bytes;
	judge(&checks[CHECK_REQUEST_SIZES], sample, false, request_size_cdf, &largest);
}

enum of_user { FILES_OF_PAGE, ACTIVE_PAUSES, INACTIVE_PAUSES };

static void collect(const struct plan *plan, enum of_user what, struct sample *sample)
{
	sample->count = 0;
	for (unsigned user = 0; user < plan->users; user++) {
		unsigned files = 0;

		for (uint32_t i = 0; i < plan->of[user].count; i++) {
			const struct step *step = &plan->of[user].steps[i];

			files++;
			if (what == FILES_OF_PAGE && step->is_last_of_page)
				sample->values[sample->count++] = files;
			if (what != FILES_OF_PAGE && step->is_last_of_page == (what == INACTIVE_PAUSES))
				sample->values[sample->count++] = step->pause_us / 1e6;
			if (step->is_last_of_page)
				files = 0;
		}
	}
}

static void check_users(const struct plan *plan, struct sample *sample, struct selfcheck *checks)
{
	collect(plan, FILES_OF_PAGE, sample);
	judge(&checks[CHECK_PAGE_FILES], sample, true, files_law, NULL);
	collect(plan, ACTIVE_PAUSES, sample);
	judge(&checks[CHECK_ACTIVE_OFF], sample, false, active_law, NULL);
	collect(plan, INACTIVE_PAUSES, sample);
	judge(&checks[CHECK_INACTIVE_OFF], sample, false, inactive_law, NULL);
}

bool selfcheck_run(uint64_t seed, unsigned files, unsigned users, double seconds, struct selfcheck checks[CHECKS])
{
	static const struct selfcheck names[CHECKS] = {
		{ .property = "file sizes (bytes)", .law = "lognormal 9.357 1.318, Pareto 133000 1.1" },
		{ .property = "large files (bytes)", .law = "Pareto 133000 1.1" },
		{ .property = "popularity (rank)", .law = "Zipf 1" },
		{ .property = "request sizes (bytes)", .law = "Pareto 1000 1.0" },
		{ .property = "files of a page", .law = "Pareto 1 2.43, rounded down" },
		{ .property = "temporal locality (depth)", .law = "lognormal 1.5 0.80, rounded up" },
		{ .property = "active OFF times (s)", .law = "Weibull 1.46 0.382" },
		{ .property = "inactive OFF times (s)", .law = "Pareto 1 1.5" },
	};
	struct sample sample = { NULL, 0 };
	struct file_set set;
	struct plan plan;
	bool good;

	memcpy(checks, names, sizeof(names));
	if (!file_set_make(&set, files, seed, FILES_DEFAULT_MAX_BYTES, 10 * (uint64_t)files))
		return false;
	if (plan_make(&plan, &set, users, seconds, seed, true) != 0) {
		file_set_free(&set);
		return false;
	}
	sample.values = calloc(plan.order_count + files, sizeof(double));
	good = sample.values && measure_depths(&plan, files, &sample);
	if (good) {
		checks[CHECK_LOCALITY].bound = locality_bound;
		judge(&checks[CHECK_LOCALITY], &sample, true, depth_law, NULL);
		check_files(&set, &sample, checks);
		check_references(&set, &plan, &sample, checks);
		check_users(&plan, &sample, checks);
	}
	free(sample.values);
	plan_free(&plan);
	file_set_free(&set);
	return good;
}

static bool write_json(const char *path, uint64_t seed, const struct selfcheck *checks)
{
	json_t *rows = json_array(), *json;
	bool good;

	for (int i = 0; i < CHECKS; i++)
		json_array_append_new(rows,
				      json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:b}", "property", checks[i].property,
						"law", checks[i].law, "values", (json_int_t)checks[i].values, "mean",
						checks[i].mean, "ks_distance", checks[i].distance, "bound",
						checks[i].bound, "ok", checks[i].distance <= checks[i].bound));
	json = json_pack("{s:s, s:I, s:o}", "schema", "surge.selfcheck/1", "seed", (json_int_t)seed, "properties",
			 rows);
	good = json &&
	       (strcmp(path, "-") == 0 ? json_dumpf(json, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9))
				       : json_dump_file(json, path, JSON_INDENT(1) | JSON_REAL_PRECISION(9))) == 0;
	json_decref(json);
	if (!good)
		fprintf(stderr, "surge selfcheck: cannot write %s\n", path);
	return good;
}

static int print_checks(const struct selfcheck *checks, bool quiet)
{
	int bad = 0;

	if (!quiet)
		printf("%-26s %-42s %8s %10s %8s %8s\n", "property", "law", "values", "mean", "KS", "bound");
	for (int i = 0; i < CHECKS; i++) {
		const bool good = checks[i].distance <= checks[i].bound;

		if (!quiet)
			printf("%-26s %-42s %8zu %10.4g %8.4f %8.4f %s\n", checks[i].property, checks[i].law,
			       checks[i].values, checks[i].mean, checks[i].distance, checks[i].bound,
			       good ? "ok" : "OUT OF BOUND");
		bad += !good;
	}
	return bad;
}

int command_selfcheck(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", 1, NULL, 's' },    { "count", 1, NULL, 'c' }, { "users", 1, NULL, 'u' },
		{ "seconds", 1, NULL, 't' }, { "json", 1, NULL, 'j' },  { "help", 0, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t seed = 1, files = 2000, users = 500;
	struct selfcheck checks[CHECKS];
	const char *json = NULL;
	double seconds = 600;
	bool good = true;
	int option, bad;

	while (good && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return 0;
		}
		if (option == 's')
			good = whole_read(optarg, 0, UINT64_MAX, &seed);
		else if (option == 'c')
			good = whole_read(optarg, 100, FILES_MAX, &files);
		else if (option == 'u')
			good = whole_read(optarg, 1, USERS_MAX, &users);
		else if (option == 't')
			good = number_read(optarg, 1, 1e6, &seconds);
		else if (option == 'j')
			json = optarg;
		else
			good = false;
	}
	if (!good || optind < argc) {
		fprintf(stderr, "surge selfcheck: not a value, or not an option. Try: surge selfcheck --help\n");
		return STATUS_USAGE;
	}
	if (!selfcheck_run(seed, (unsigned)files, (unsigned)users, seconds, checks)) {
		fprintf(stderr, "surge selfcheck: out of memory, or too many users and seconds\n");
		return STATUS_FAILED;
	}
	bad = print_checks(checks, json && strcmp(json, "-") == 0);
	if (json && !write_json(json, seed, checks))
		return STATUS_FAILED;
	return bad ? STATUS_FAILED : 0;
}
