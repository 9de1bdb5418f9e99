/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fileset.h - the files that a load generator may request, their checksums and their popularity.
 *
 * A list has one file a line: path, size in bytes, CRC-32 in hex, weight. A file of weight 0 is
 * never drawn.
 */
#ifndef TESTS_LAB_FILESET_H
#define TESTS_LAB_FILESET_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILESET_MAX = 65536, FILE_PATH_BYTES = 64 };

struct file {
	char path[FILE_PATH_BYTES];
	uint64_t size_bytes;
	uint32_t crc;
	double weight_end; /* sum of the weights up to this file, itself included */
};

struct fileset {
	unsigned count;
	struct file *files;
};

/* Each user has a stream of random numbers, independent of the others. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* In [0, 1). */
static inline double random_unit(uint64_t *state)
{
	return (double)(random_next(state) >> 11) / 9007199254740992.0;
}

/* CRC-32 as in zlib and Ethernet; start with 0. */
static inline uint32_t crc32_add(uint32_t crc, const void *bytes, size_t count)
{
	static uint32_t table[256];
	const uint8_t *at = bytes;

	if (!table[1]) {
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t c = i;

			for (int bit = 0; bit < 8; bit++)
				c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
			table[i] = c;
		}
	}
	crc = ~crc;
	while (count--)
		crc = table[(crc ^ *at++) & 255] ^ (crc >> 8);
	return ~crc;
}

/* False with a message on standard error. */
static inline int fileset_read(const char *list, struct fileset *set)
{
	FILE *in = fopen(list, "r");
	double sum = 0, weight;

	set->count = 0;
	set->files = calloc(FILESET_MAX, sizeof(*set->files));
	if (!in || !set->files) {
		perror(list);
		return 0;
	}
	for (; set->count < FILESET_MAX; set->count++) {
		struct file *file = &set->files[set->count];

		if (fscanf(in, "%63s %lu %x %lf", file->path, &file->size_bytes, &file->crc, &weight) != 4)
			break;
		file->weight_end = sum += weight;
	}
	fclose(in);
	if (!set->count)
		fprintf(stderr, "%s: not a list of files\n", list);
	return set->count > 0;
}

/* The file at point u, in [0, 1), of the summed weights. */
static inline const struct file *fileset_draw(const struct fileset *set, double u)
{
	double point = u * set->files[set->count - 1].weight_end;
	unsigned low = 0, high = set->count - 1;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (set->files[middle].weight_end > point)
			high = middle;
		else
			low = middle + 1;
	}
	return &set->files[low];
}

#endif
