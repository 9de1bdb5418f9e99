/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dist.h - the laws of the workload model: random numbers, quantiles, distribution functions, distances.
 *
 * The model is the one of P. Barford and M. Crovella, "Generating Representative Web Workloads for Network
 * and Server Performance Evaluation", SIGMETRICS 1998. Pure: no clock, no file, no variable. Every quantile
 * takes u in (0, 1), every distribution function gives P(X <= x).
 */
#ifndef TESTS_EXPERIMENTS_SURGE_DIST_H
#define TESTS_EXPERIMENTS_SURGE_DIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The published parameters; those of sizes are in bytes, those of OFF times in seconds. */
#define MODEL_BODY_MU 9.357 /* file sizes below the cut: lognormal */
#define MODEL_BODY_SIGMA 1.318
#define MODEL_BODY_SHARE 0.93
#define MODEL_CUT_BYTES 133000.0
#define MODEL_TAIL_ALPHA 1.1 /* file sizes above the cut: Pareto */
#define MODEL_REQUEST_K_BYTES 1000.0 /* sizes as they are asked for: Pareto */
#define MODEL_REQUEST_ALPHA 1.0
#define MODEL_FILES_K 1.0 /* files of a page, the first one counted: Pareto, rounded down */
#define MODEL_FILES_ALPHA 2.43
#define MODEL_STACK_MU 1.5 /* LRU stack distance of a reference: lognormal, rounded up */
#define MODEL_STACK_SIGMA 0.80
/* The other reading of the two published numbers has 42 % above the second that ends an active OFF time. */
#define MODEL_ACTIVE_SHAPE 1.46 /* active OFF time, between the files of a page: Weibull */
#define MODEL_ACTIVE_SCALE_S 0.382
#define MODEL_INACTIVE_K_S 1.0 /* inactive OFF time, between pages: Pareto */
#define MODEL_INACTIVE_ALPHA 1.5

enum { PAGE_FILES_MAX = 150 };

struct prng {
	uint64_t state[4];
};

/* Each purpose and number (a user, for example) has its own stream, independent of the others. */
struct prng prng_new(uint64_t seed, uint32_t purpose, uint32_t number);
uint64_t prng_next(struct prng *prng);
/* In (0, 1), both ends left out. */
double prng_unit(struct prng *prng);

double normal_cdf(double x);
double normal_quantile(double u);
double lognormal_cdf(double x, double mu, double sigma);
double lognormal_quantile(double u, double mu, double sigma);
double weibull_cdf(double x, double shape, double scale);
double weibull_quantile(double u, double shape, double scale);
/* Cut at most; INFINITY: not cut. */
double pareto_cdf(double x, double k, double alpha, double most);
double pareto_quantile(double u, double k, double alpha, double most);

/* File sizes: a lognormal body below the cut and a Pareto tail between the cut and most_bytes (above the cut). */
double file_size_cdf(double x_bytes, double most_bytes);
double file_size_quantile(double u, double most_bytes);

/* Files of a page: a whole number from 1 to PAGE_FILES_MAX. */
double page_files_cdf(double files);
unsigned page_files_quantile(double u);

/* A law with its parameters, as ks_distance() wants it. */
typedef double law_cdf(double x, const void *parameters);

/*
 * Kolmogorov and Smirnov: the largest difference between the law and the share of values up to x. The
 * values are sorted upwards; weights may be NULL (all alike). With whole numbers the law has steps, too,
 * and is looked at on whole numbers only. 1 when there are no values.
 */
double ks_distance(const double *sorted, const double *weights, size_t count, bool whole_numbers, law_cdf *cdf,
		   const void *parameters);

#endif
