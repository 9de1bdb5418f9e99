/* SPDX-License-Identifier: GPL-2.0-or-later */
/* options.h - the options of a run of users. */
#ifndef TESTS_EXPERIMENTS_SURGE_OPTIONS_H
#define TESTS_EXPERIMENTS_SURGE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/experiments/surge/resolve.h"

enum {
	SERVERS_MAX = 64,
	SHARES_MAX = 1024,
	SOURCES_MAX = 256,
	LANES_MAX = 16,
	HOST_BYTES = 256,
	PREFIX_BYTES = 128,
	/* Two statuses for two kinds of failure. */
	STATUS_FAILED = 1,
	STATUS_USAGE = 2,
};

enum http_mode { MODE_HTTP_10, MODE_HTTP_11, MODE_PIPELINED };
enum resolve_mode { RESOLVE_ONCE, RESOLVE_OBJECT, RESOLVE_CONNECTION };

struct server {
	char host[HOST_BYTES], port[8];
	char host_header[HOST_BYTES + 16]; /* as it is sent */
	bool is_literal;
	struct addresses literal;
	unsigned share;
};

struct options {
	const char *index, *log, *json, *series, *node_header, *host_header;
	char prefix[PREFIX_BYTES]; /* of each URL: begins and ends with a slash */
	bool log_is_surge, progress;
	unsigned server_count, share_count, source_count;
	struct server servers[SERVERS_MAX];
	uint8_t shares[SHARES_MAX]; /* user u has the server shares[u % share_count] */
	union address sources[SOURCES_MAX];
	unsigned users, group, lanes, connection_pages;
	uint64_t seed;
	double seconds, warmup_s, timeout_s, stagger_s;
	enum http_mode http;
	enum resolve_mode resolve;
	int family;
};

extern const char *const http_mode_names[], *const resolve_mode_names[];

/* Puts back: 0 to go on, -1 when the help was printed, STATUS_USAGE after a message on standard error. */
int options_read(int argc, char **argv, struct options *options);

/* "HOST[:PORT][*SHARE],..." into options->servers; false for any other text. */
bool servers_read(const char *text, struct options *options);

/* Numbers as users write them: the whole text, within the bounds. */
bool number_read(const char *text, double low, double high, double *ret);
bool whole_read(const char *text, uint64_t low, uint64_t high, uint64_t *ret);

#endif
