// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * objects.c - draws a file set and matches popularity to sizes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/experiments/surge/dist.h"
#include "tests/experiments/surge/objects.h"
#include "tests/experiments/surge/streams.h"

double request_size_cdf(double x_bytes, const void *largest_bytes)
{
	return pareto_cdf(x_bytes, MODEL_REQUEST_K_BYTES, MODEL_REQUEST_ALPHA, *(const double *)largest_bytes);
}

/* Sum of 1/1 ... 1/n, to 1e-10. */
static double harmonic(double n)
{
	double sum = 0;

	if (n >= 50)
		return log(n) + 0.57721566490153286 + 1 / (2 * n) - 1 / (12 * n * n) + 1 / (120 * n * n * n * n);
	for (; n >= 1; n--)
		sum += 1 / n;
	return sum;
}

double popularity_cdf(double rank, const void *set)
{
	const struct file_set *files = set;

	return rank < 1 ? 0 : harmonic(floor(rank)) / harmonic(files->count);
}

/*
 * From the smallest file upwards: when the law is half a step ahead of what was given so far, the largest number
 * left makes that step, and the law passes through its middle; otherwise the smallest number left goes here.
 * Between two sizes the law goes on: the middle of that counts. No matching can stay closer to the law than half
 * the largest number.
 */
void match_requests(const uint64_t *sizes, const uint64_t *requests, uint64_t *matched, unsigned count)
{
	const double largest = count ? (double)sizes[count - 1] : 0;
	unsigned first = 0, last = count;
	double total = 0, given = 0;

	for (unsigned i = 0; i < count; i++)
		total += (double)requests[i];
	for (unsigned i = 0; i < count; i++) {
		const double law = request_size_cdf((double)sizes[i], &largest);
		const double next = i + 1 < count ? request_size_cdf((double)sizes[i + 1], &largest) : 1;
		const bool is_step = total * (law + next) / 2 - given >= (double)requests[first] / 2;

		matched[i] = is_step ? requests[first++] : requests[--last];
		given += (double)matched[i];
	}
}

static int by_size(const void *a, const void *b)
{
	const struct file *const *x = a, *const *y = b;

	if ((*x)->size_bytes != (*y)->size_bytes)
		return (*x)->size_bytes < (*y)->size_bytes ? -1 : 1;
	return *x < *y ? -1 : *x > *y;
}

static int by_requests(const void *a, const void *b)
{
	const struct file *const *x = a, *const *y = b;

	if ((*x)->requests != (*y)->requests)
		return (*x)->requests > (*y)->requests ? -1 : 1;
	return *x < *y ? -1 : *x > *y;
}

static struct file **files_sorted(const struct file_set *set, int (*order)(const void *, const void *))
{
	struct file **sorted = calloc(set->count + 1, sizeof(struct file *));

	for (unsigned i = 0; sorted && i < set->count; i++)
		sorted[i] = &set->files[i];
	if (sorted)
		qsort(sorted, set->count, sizeof(struct file *), order);
	return sorted;
}

bool file_set_rank(struct file_set *set)
{
	struct file **sorted = files_sorted(set, by_requests);

	if (!sorted)
		return false;
	set->requests = 0;
	for (unsigned i = 0; i < set->count; i++) {
		sorted[i]->rank = i + 1;
		set->requests += sorted[i]->requests;
	}
	free(sorted);
	return true;
}

static bool give_requests(struct file_set *set, uint64_t top_requests)
{
	struct file **sorted = files_sorted(set, by_size);
	uint64_t *numbers = calloc((size_t)set->count * 3 + 1, sizeof(*numbers));
	uint64_t *sizes = numbers, *requests = numbers + set->count, *matched = requests + set->count;
	const bool good = sorted && numbers;

	for (unsigned i = 0; good && i < set->count; i++) {
		sizes[i] = sorted[i]->size_bytes;
		requests[i] = (uint64_t)llround((double)top_requests / (i + 1));
	}
	if (good)
		match_requests(sizes, requests, matched, set->count);
	for (unsigned i = 0; good && i < set->count; i++)
		sorted[i]->requests = matched[i];
	free(sorted);
	free(numbers);
	return good && file_set_rank(set);
}

static void shuffle_and_name(struct file_set *set, struct prng *prng)
{
	for (unsigned i = set->count; i > 0; i--) {
		const unsigned other = (unsigned)(prng_unit(prng) * i);
		const uint64_t size_bytes = set->files[i - 1].size_bytes;

		set->files[i - 1].size_bytes = set->files[other].size_bytes;
		set->files[other].size_bytes = size_bytes;
		snprintf(set->files[i - 1].name, FILE_NAME_BYTES, "%06u.html", i);
	}
}

/* One size from each of count parts of the law: sets differ less from seed to seed, and leave no gaps. */
bool file_set_make(struct file_set *set, unsigned count, uint64_t seed, uint64_t most_bytes, uint64_t top_requests)
{
	struct prng prng = prng_new(seed, STREAM_SIZES, 0);

	set->count = count;
	set->files = calloc(count, sizeof(*set->files));
	for (unsigned i = 0; set->files && i < count; i++) {
		struct file *file = &set->files[i];
		const double u = (i + prng_unit(&prng)) / count;

		file->size_bytes = (uint64_t)ceil(file_size_quantile(u, (double)most_bytes));
		if (file->size_bytes > most_bytes)
			file->size_bytes = most_bytes;
	}
	if (set->files)
		shuffle_and_name(set, &prng);
	if (set->files && give_requests(set, top_requests))
		return true;
	file_set_free(set);
	return false;
}

void file_set_free(struct file_set *set)
{
	free(set->files);
	memset(set, 0, sizeof(*set));
}
