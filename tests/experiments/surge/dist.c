// SPDX-License-Identifier: GPL-2.0-or-later
/* dist.c - draws from the laws of the workload model and compares samples with them. */
#include <math.h>

#include "tests/experiments/surge/dist.h"

static uint64_t splitmix_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

struct prng prng_new(uint64_t seed, uint32_t purpose, uint32_t number)
{
	uint64_t mix = seed;
	struct prng prng;

	/* Twice through the mixer: neighbouring seeds and numbers must not meet. */
	mix = splitmix_next(&mix) ^ ((uint64_t)purpose << 32 | number);
	for (int i = 0; i < 4; i++)
		prng.state[i] = splitmix_next(&mix);
	return prng;
}

static uint64_t rotated(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

/* xoshiro256++ of D. Blackman and S. Vigna. */
uint64_t prng_next(struct prng *prng)
{
	uint64_t *s = prng->state;
	const uint64_t result = rotated(s[0] + s[3], 23) + s[0];
	const uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotated(s[3], 45);
	return result;
}

double prng_unit(struct prng *prng)
{
	return ((double)(prng_next(prng) >> 12) + 0.5) / 4503599627370496.0;
}

double normal_cdf(double x)
{
	return 0.5 * erfc(-x * M_SQRT1_2);
}

/* A rough start (Abramowitz and Stegun 26.2.23), made exact by Newton's steps on the lower half. */
double normal_quantile(double u)
{
	const double p = u < 0.5 ? u : 1 - u;
	const double t = sqrt(-2 * log(p));
	double x = -(t -
		     (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))));

	for (int i = 0; i < 4; i++)
		x -= (normal_cdf(x) - p) / (exp(-0.5 * x * x) / sqrt(2 * M_PI));
	return u < 0.5 ? x : -x;
}

double lognormal_cdf(double x, double mu, double sigma)
{
	return x <= 0 ? 0 : normal_cdf((log(x) - mu) / sigma);
}

double lognormal_quantile(double u, double mu, double sigma)
{
	return exp(mu + sigma * normal_quantile(u));
}

double weibull_cdf(double x, double shape, double scale)
{
	return x <= 0 ? 0 : -expm1(-pow(x / scale, shape));
}

double weibull_quantile(double u, double shape, double scale)
{
	return scale * pow(-log1p(-u), 1 / shape);
}

double pareto_cdf(double x, double k, double alpha, double most)
{
	if (x <= k)
		return 0;
	if (x >= most)
		return 1;
	return (1 - pow(k / x, alpha)) / (1 - pow(k / most, alpha));
}

double pareto_quantile(double u, double k, double alpha, double most)
{
	return k * pow(1 - u * (1 - pow(k / most, alpha)), -1 / alpha);
}

double file_size_cdf(double x_bytes, double most_bytes)
{
	const double below_cut = lognormal_cdf(MODEL_CUT_BYTES, MODEL_BODY_MU, MODEL_BODY_SIGMA);

	if (x_bytes <= MODEL_CUT_BYTES)
		return MODEL_BODY_SHARE * lognormal_cdf(x_bytes, MODEL_BODY_MU, MODEL_BODY_SIGMA) / below_cut;
	return MODEL_BODY_SHARE +
	       (1 - MODEL_BODY_SHARE) * pareto_cdf(x_bytes, MODEL_CUT_BYTES, MODEL_TAIL_ALPHA, most_bytes);
}

double file_size_quantile(double u, double most_bytes)
{
	const double below_cut = lognormal_cdf(MODEL_CUT_BYTES, MODEL_BODY_MU, MODEL_BODY_SIGMA);

	if (u < MODEL_BODY_SHARE)
		return lognormal_quantile(u / MODEL_BODY_SHARE * below_cut, MODEL_BODY_MU, MODEL_BODY_SIGMA);
	return pareto_quantile((u - MODEL_BODY_SHARE) / (1 - MODEL_BODY_SHARE), MODEL_CUT_BYTES, MODEL_TAIL_ALPHA,
			       most_bytes);
}

double page_files_cdf(double files)
{
	return pareto_cdf(floor(files) + 1, MODEL_FILES_K, MODEL_FILES_ALPHA, PAGE_FILES_MAX + 1);
}

unsigned page_files_quantile(double u)
{
	const double files = pareto_quantile(u, MODEL_FILES_K, MODEL_FILES_ALPHA, PAGE_FILES_MAX + 1);

	return files >= PAGE_FILES_MAX ? PAGE_FILES_MAX : (unsigned)files;
}

double ks_distance(const double *sorted, const double *weights, size_t count, bool whole_numbers, law_cdf *cdf,
		   const void *parameters)
{
	double total = 0, below = 0, worst = count ? 0 : 1;
	size_t i, same;

	for (i = 0; i < count; i++)
		total += weights ? weights[i] : 1;
	for (i = 0; i < count; i = same) {
		const double before = cdf(whole_numbers ? sorted[i] - 1 : sorted[i], parameters);
		const double at = cdf(sorted[i], parameters);

		worst = fmax(worst, fabs(below / total - before));
		for (same = i; same < count && sorted[same] <= sorted[i]; same++)
			below += weights ? weights[same] : 1;
		worst = fmax(worst, fabs(below / total - at));
	}
	return worst;
}
