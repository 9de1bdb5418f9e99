/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * https.h - one GET by HTTPS, by libcurl's multi interface on a socket that the caller polls.
 *
 * libcurl is loaded when https_load() is first called, because a loadcast that does not need it stays small. No name is
 * looked up: the connection goes to an address, and Host= is only the name that TLS and HTTP carry. The answer ends with
 * its header; a page is not read.
 */
#ifndef LOADCAST_HTTPS_H
#define LOADCAST_HTTPS_H

#include "dprd/config/config.h"

enum { HTTPS_ERROR_BYTES = 128 };

struct https;

/* Loads libcurl. 0, or -ENOENT with a message that says what is missing. */
int https_load(char message[CONFIG_ERROR_BYTES]);

/*
 * Begins a GET of Path= at this address. Copies what it needs of the configuration. NULL: out of memory, or
 * https_load() failed.
 */
struct https *https_ask(const struct config *config, const struct addr *address, uint16_t port);
void https_free(struct https *https); /* NULL is fine */

/* The socket to poll; -1: none yet. */
int https_socket(const struct https *https, short *ret_events);

/* When https_go_on() is due without an event of the socket. The calls for other probes may make it due earlier. */
uint64_t https_due_ms(const struct https *https);

/*
 * Call when the socket is ready (revents of poll), or with 0 when the time has come. True: it is over. Then *ret_status
 * is the status of HTTP; or 0, and error says why there is none.
 */
bool https_go_on(struct https *https, short revents, uint64_t now_ms, unsigned *ret_status,
		 char error[HTTPS_ERROR_BYTES]);

#endif
