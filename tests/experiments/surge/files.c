// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * files.c - "surge files": the file set on disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/experiments/surge/commands.h"
#include "tests/experiments/surge/dist.h"
#include "tests/experiments/surge/objects.h"
#include "tests/experiments/surge/options.h"

enum { BLOCK_BYTES = 65536 };

static const char help[] =
	"usage: surge files DIRECTORY [--count N] [--seed S] [--max-bytes B] [--top-requests R]\n"
	"\n"
	"Makes N files and their index, DIRECTORY/surge.index, with lines \"name size requests\". Sizes: lognormal\n"
	"(mu 9.357, sigma 1.318) up to 133,000 bytes for 93 %, beyond that Pareto (alpha 1.1). Requests: Zipf,\n"
	"matched to the sizes so that sizes, as they are asked for, follow Pareto (k 1,000 bytes, alpha 1.0).\n"
	"Equal options make equal files and an equal index. Files that are there in the right size are kept.\n"
	"Means move by some percent from seed to seed: compare runs on one file set only.\n"
	"\n"
	"  --count N         files, 10 to 200,000 (2,000: about 110 MB)\n"
	"  --seed S          (1)\n"
	"  --max-bytes B     cuts the tail of the sizes (10,000,000)\n"
	"  --top-requests R  of the most popular file; rank r has R/r (10 x count)\n";

struct wanted {
	const char *directory;
	uint64_t count, seed, most_bytes, top_requests;
};

/* Text that does not compress to nothing; the same in every file, so that a reader may check it. */
static void fill_block(char *block)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,";
	struct prng prng = prng_new(0, 0, 0);

	for (unsigned i = 0; i < BLOCK_BYTES; i++)
		block[i] = i % 64 == 63 ? '\n' : letters[prng_next(&prng) % 64];
}

static bool write_file(const char *path, uint64_t bytes, const char *block)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		return false;
	while (bytes) {
		const ssize_t written = write(fd, block, bytes < BLOCK_BYTES ? (size_t)bytes : BLOCK_BYTES);

		if (written < 0) {
			const int error = errno;

			close(fd);
			errno = error;
			return false;
		}
		bytes -= (uint64_t)written;
	}
	return close(fd) == 0;
}

static bool write_files(const struct file_set *set, const char *directory, unsigned *kept)
{
	char *block = malloc(BLOCK_BYTES), path[PATH_MAX];
	bool good = block != NULL;
	struct stat there;

	if (good)
		fill_block(block);
	for (unsigned i = 0; good && i < set->count; i++) {
		if (snprintf(path, sizeof(path), "%s/%s", directory, set->files[i].name) >= (int)sizeof(path)) {
			errno = ENAMETOOLONG;
			good = false;
		} else if (stat(path, &there) == 0 && S_ISREG(there.st_mode) &&
			   (uint64_t)there.st_size == set->files[i].size_bytes) {
			++*kept;
		} else {
			good = write_file(path, set->files[i].size_bytes, block);
		}
	}
	if (!good)
		fprintf(stderr, "surge files: cannot write below %s: %s\n", directory, strerror(errno));
	free(block);
	return good;
}

static int make_files(const struct wanted *wanted)
{
	char index[PATH_MAX], remark[200];
	unsigned kept = 0;
	struct file_set set;
	double bytes = 0;
	bool good;

	if (mkdir(wanted->directory, 0755) < 0 && errno != EEXIST) {
		fprintf(stderr, "surge files: cannot make %s: %s\n", wanted->directory, strerror(errno));
		return STATUS_FAILED;
	}
	if (!file_set_make(&set, (unsigned)wanted->count, wanted->seed, wanted->most_bytes, wanted->top_requests)) {
		fprintf(stderr, "surge files: out of memory\n");
		return STATUS_FAILED;
	}
	snprintf(remark, sizeof(remark), "surge files: count %llu, seed %llu, max-bytes %llu, top-requests %llu",
		 (unsigned long long)wanted->count, (unsigned long long)wanted->seed,
		 (unsigned long long)wanted->most_bytes, (unsigned long long)wanted->top_requests);
	good = write_files(&set, wanted->directory, &kept) &&
	       snprintf(index, sizeof(index), "%s/surge.index", wanted->directory) < (int)sizeof(index) &&
	       index_write(index, &set, remark);
	for (unsigned i = 0; i < set.count; i++)
		bytes += (double)set.files[i].size_bytes;
	if (good)
		printf("%s: %u files, %.1f MB, %u of them were there\n", index, set.count, bytes / 1e6, kept);
	file_set_free(&set);
	return good ? 0 : STATUS_FAILED;
}

static int complain(const char *what, const char *which)
{
	fprintf(stderr, "surge files: %s%s\nTry: surge files --help\n", what, which);
	return STATUS_USAGE;
}

int command_files(int argc, char **argv)
{
	static const struct option options[] = {
		{ "count", 1, NULL, 'c' },        { "seed", 1, NULL, 's' }, { "max-bytes", 1, NULL, 'm' },
		{ "top-requests", 1, NULL, 't' }, { "help", 0, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	struct wanted wanted = { .count = 2000, .seed = 1, .most_bytes = FILES_DEFAULT_MAX_BYTES };
	bool good = true;
	int option;

	while (good && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return 0;
		}
		if (option == '?')
			return complain("see above", "");
		if (option == 'c')
			good = whole_read(optarg, 10, FILES_MAX, &wanted.count);
		else if (option == 's')
			good = whole_read(optarg, 0, UINT64_MAX, &wanted.seed);
		else if (option == 'm')
			good = whole_read(optarg, (uint64_t)MODEL_CUT_BYTES + 1, 1000000000000, &wanted.most_bytes);
		else
			good = whole_read(optarg, 1, UINT32_MAX, &wanted.top_requests);
	}
	if (!good)
		return complain("this is not a value for its option: ", optarg);
	if (optind + 1 != argc)
		return complain("name one directory", "");
	wanted.directory = argv[optind];
	if (!wanted.top_requests)
		wanted.top_requests = 10 * wanted.count;
	if (wanted.top_requests < wanted.count)
		return complain("--top-requests below --count: some files would never be asked for", "");
	return make_files(&wanted);
}
