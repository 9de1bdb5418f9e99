/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * request.h - which page a request of a browser asks for, and whether it may have it.
 *
 * dprd-web only shows: every target is answered from what dprd says to a command that reads. A request that asks for
 * anything else gets an error, and nothing of it reaches dprd.
 */
#ifndef DPRD_WEB_REQUEST_H
#define DPRD_WEB_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

enum { WEB_PATH_BYTES = 256, WEB_HOST_BYTES = 256, WEB_NAMES_MAX = 16 };

enum web_target {
	WEB_PAGE,
	WEB_STYLE,
	WEB_SCRIPT,
	WEB_ICON,
	WEB_STATUS,
	WEB_HISTORY,
	WEB_METRICS,
	WEB_WHY,
	WEB_TARGETS,
};

struct web_request {
	const char *method, *path; /* path: without the query */
	const char *host; /* the header; NULL: there is none */
	const char *const *names; /* more names of this server, beside "localhost" */
	unsigned name_count;
};

/* The status of HTTP for this request; with 200, *ret is the target. */
unsigned web_route(const struct web_request *request, enum web_target *ret);

/*
 * True for an address, for "localhost" and for one of the names, each with or without a port. Another name may be one
 * that its owner pointed at this host, so that a page of theirs can read ours (DNS rebinding).
 */
bool web_host_allowed(const char *host, const char *const *names, unsigned count);

/* "ADDRESS:PORT", "[ADDRESS]:PORT": writes the address without brackets. False: it has another form. */
bool web_parse_listen(const char *text, char address[WEB_HOST_BYTES], unsigned *ret_port);

#endif
