// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * index.c - the list of a file set, on disk.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/experiments/surge/objects.h"

enum { INDEX_LINE_BYTES = 256 };

bool index_write(const char *path, const struct file_set *set, const char *remark)
{
	FILE *out = fopen(path, "w");
	bool is_full;

	if (!out) {
		fprintf(stderr, "surge: cannot write the index %s: %s\n", path, strerror(errno));
		return false;
	}
	fprintf(out, "# %s\n# name size_bytes requests\n", remark);
	for (unsigned i = 0; i < set->count; i++)
		fprintf(out, "%s %llu %llu\n", set->files[i].name, (unsigned long long)set->files[i].size_bytes,
			(unsigned long long)set->files[i].requests);
	is_full = ferror(out);
	if (fclose(out) != 0 || is_full) {
		fprintf(stderr, "surge: the index %s is not complete: disk full?\n", path);
		return false;
	}
	return true;
}

/* False when the line is not "name size requests". */
static bool line_read(const char *line, struct file *file)
{
	unsigned long long size, requests;
	int end = 0;

	/* FILE_NAME_BYTES less one */
	if (sscanf(line, "%47s %llu %llu %n", file->name, &size, &requests, &end) != 3 || line[end])
		return false;
	file->size_bytes = size;
	file->requests = requests;
	return size <= INT64_MAX && requests <= UINT32_MAX && file->name[0] != '/';
}

static const char *lines_read(FILE *in, struct file_set *set, unsigned *number)
{
	char line[INDEX_LINE_BYTES];

	while (fgets(line, sizeof(line), in)) {
		++*number;
		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (!strchr(line, '\n'))
			return "the line is too long, or the file was cut off";
		if (set->count == FILES_MAX)
			return "too many files";
		if (!line_read(line, &set->files[set->count]))
			return "not \"name size requests\"";
		set->count++;
	}
	return ferror(in) ? strerror(errno) : NULL;
}

bool index_read(const char *path, struct file_set *set)
{
	FILE *in = fopen(path, "r");
	const char *problem;
	unsigned number = 0;

	memset(set, 0, sizeof(*set));
	if (!in) {
		fprintf(stderr, "surge: cannot read the index %s: %s. \"surge files\" makes one\n", path,
			strerror(errno));
		return false;
	}
	set->files = calloc(FILES_MAX, sizeof(*set->files));
	problem = set->files ? lines_read(in, set, &number) : "out of memory";
	fclose(in);
	if (!problem && !file_set_rank(set))
		problem = "out of memory";
	if (!problem && !set->requests)
		problem = "no file is ever asked for";
	if (!problem)
		return true;
	fprintf(stderr, "surge: %s:%u: %s\n", path, number, problem);
	file_set_free(set);
	return false;
}
