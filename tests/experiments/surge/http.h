/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * http.h - reads answers of a web server from a stream of bytes, cut at any place.
 *
 * Pure. Understands the answers of a file server: status, Content-Length, Connection, one header of the user's choice.
 * Interim answers (1xx) are skipped. Chunked answers are not understood, and said to be so.
 */
#ifndef TESTS_EXPERIMENTS_SURGE_HTTP_H
#define TESTS_EXPERIMENTS_SURGE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_LINE_BYTES = 512, HTTP_NODE_BYTES = 48, HTTP_HEADERS_MAX = 100 };

enum http_state { HTTP_HEAD, HTTP_BODY, HTTP_DONE, HTTP_MALFORMED, HTTP_CHUNKED };

struct http_answer {
	enum http_state state;
	unsigned status; /* 0 until the first line was read */
	bool has_length;
	bool keeps_open; /* true when the server will take another request on this connection */
	uint64_t length_bytes; /* as the server says */
	uint64_t body_bytes; /* as received */
	char node
		[HTTP_NODE_BYTES]; /* of the header asked for, cut, "_" for what is not a word; "" when there was none */

	const char *node_header; /* NULL: none asked for */
	unsigned line_bytes, headers;
	char line[HTTP_LINE_BYTES]; /* the current line, cut when it is longer */
};

/* For the next answer. node_header, any case, must outlive it. */
void http_begin(struct http_answer *answer, const char *node_header);

/*
 * Takes bytes until the answer is complete or they are used up; returns their number. In a state of HTTP_DONE or above
 * it takes no more.
 */
size_t http_take(struct http_answer *answer, const char *bytes, size_t count);

/* The server closed. True when that is the end of the answer: one without a length, or complete already. */
bool http_end(struct http_answer *answer);

#endif
