/* SPDX-License-Identifier: GPL-2.0-or-later */
/* streams.h - the purposes of the streams of random numbers: no two purposes share one. */
#ifndef TESTS_EXPERIMENTS_SURGE_STREAMS_H
#define TESTS_EXPERIMENTS_SURGE_STREAMS_H

enum {
	STREAM_SIZES,
	STREAM_REFERENCES,
	STREAM_PAGE_FILES, /* this and the next two: one for each user */
	STREAM_ACTIVE_OFF,
	STREAM_INACTIVE_OFF,
};

#endif
