/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * speech.h - recognises the protocol of a server by the first bytes of its answer, and writes the ClientHello that asks
 * for TLS. Pure.
 *
 * A TLS server that answers a ClientHello with a ServerHello, or with an alert, is alive: it has read the ClientHello,
 * and for a ServerHello it has its certificate. The handshake goes no further, so no TLS library is needed.
 */
#ifndef LOADCAST_SPEECH_H
#define LOADCAST_SPEECH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum speech {
	SPEECH_UNKNOWN, /* no answer yet, or too little of it */
	SPEECH_TCP, /* another protocol: the only check is that a connection can be opened */
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
 * Judges by the size bytes that came; ended: no more will come. *ret_code: the HTTP status; with TLS, 0 for a
 * ServerHello, or the number of the alert.
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
