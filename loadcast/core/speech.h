/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * speech.h - which protocol a server speaks, by the first bytes of its answer; and the ClientHello that asks for TLS. Pure.
 *
 * A TLS server that answers a ClientHello with a ServerHello, or with an alert, is alive: it has read, and for a
 * ServerHello it has its certificate. The handshake goes no further, so no TLS library is needed.
 */
#ifndef LOADCAST_SPEECH_H
#define LOADCAST_SPEECH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum speech {
	SPEECH_UNKNOWN, /* nothing was said yet, or not enough to tell */
	SPEECH_TCP, /* something else: only that a connection can be opened is checked */
	SPEECH_HTTP,
	SPEECH_TLS,
};

enum {
	SPEECH_BYTES = 16, /* of an answer; more is never looked at */
	SPEECH_HELLO_BYTES = 512, /* at most, of a ClientHello */
	SPEECH_HELLO_RANDOM = 64, /* the client's random bytes and its key share */
	TLS_INTERNAL_ERROR = 80, /* an alert */
};

/*
 * By the size bytes that came; ended: no more will come. *ret_code: the HTTP status; with TLS, 0 for a ServerHello, or
 * the number of the alert.
 */
enum speech speech_of(const char *answer, size_t size, bool ended, unsigned *ret_code);

/* True when size bytes of an answer begin with an HTTP status line; *ret_status is its status. */
bool speech_http_status(const char *answer, size_t size, unsigned *ret_status);

/*
 * Writes a ClientHello of TLS 1.3 and 1.2 that names the host; an empty one names none. Its size. The random bytes are
 * fresh ones of the caller.
 */
size_t speech_tls_hello(const char *host, const uint8_t random[SPEECH_HELLO_RANDOM], uint8_t out[SPEECH_HELLO_BYTES]);

#endif
