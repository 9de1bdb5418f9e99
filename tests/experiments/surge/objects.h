/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * objects.h - the files of a server: their sizes, and how often each is requested.
 *
 * Sizes follow the law of files, numbers of requests the law of Zipf. Numbers are matched to sizes so that the sizes of
 * requests follow their own law (Barford and Crovella 1998).
 */
#ifndef TESTS_EXPERIMENTS_SURGE_OBJECTS_H
#define TESTS_EXPERIMENTS_SURGE_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { FILES_MAX = 200000, FILE_NAME_BYTES = 48, FILES_DEFAULT_MAX_BYTES = 10000000 };

struct file {
	char name[FILE_NAME_BYTES]; /* relative to the directory, and to the URL prefix */
	uint64_t size_bytes;
	uint64_t requests; /* how often, relative to the others */
	unsigned rank; /* 1: asked for most */
};

struct file_set {
	unsigned count;
	uint64_t requests; /* the sum */
	struct file *files; /* in the order in which they were drawn */
};

/*
 * Pure: the set of a seed. most_bytes, above MODEL_CUT_BYTES, cuts the tail of the sizes; the file asked
 * for most gets top_requests (at least count: then each has some). False when out of memory.
 */
bool file_set_make(struct file_set *set, unsigned count, uint64_t seed, uint64_t most_bytes, uint64_t top_requests);
void file_set_free(struct file_set *set);
/* Sets the ranks and the sum of requests from the requests of each file. False when out of memory. */
bool file_set_rank(struct file_set *set);

/* Pure: writes requests[], sorted downwards, to sizes[], sorted upwards: matched[i] belongs to sizes[i]. */
void match_requests(const uint64_t *sizes, const uint64_t *requests, uint64_t *matched, unsigned count);

/* The law of sizes as they are asked for; the largest file cuts it. */
double request_size_cdf(double x_bytes, const void *largest_bytes);
/* The law of ranks; parameters is the set. */
double popularity_cdf(double rank, const void *set);

/*
 * The index: lines "name size requests", lines with # are remarks. Both return false after a message on
 * standard error. What was read belongs to the caller: file_set_free().
 */
bool index_read(const char *path, struct file_set *set);
bool index_write(const char *path, const struct file_set *set, const char *remark);

#endif
