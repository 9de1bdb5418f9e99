// SPDX-License-Identifier: GPL-2.0-or-later
#include "loadcast/core/speech.h"

#include <string.h>

enum {
	/* RFC 8446 5.1, 6 and 4 */
	TLS_ALERT = 21,
	TLS_HANDSHAKE = 22,
	TLS_CLIENT_HELLO = 1,
	TLS_SERVER_HELLO = 2,
	TLS_MAJOR = 3,
	AT_HANDSHAKE_TYPE = 5,
	AT_ALERT_NUMBER = 6,
	RECORD_HEADER = 5,
	HOST_MAX = 255,
};

bool speech_http_status(const char *answer, size_t size, unsigned *ret_status)
{
	static const char start[] = "HTTP/1.";
	const size_t digits = sizeof(start) - 1 + 2; /* the minor version and a blank */
	unsigned i, status = 0;

	if (size < digits + 3 || memcmp(answer, start, sizeof(start) - 1) != 0 || answer[digits - 1] != ' ')
		return false;
	for (i = 0; i < 3; i++) {
		char c = answer[digits + i];

		if (c < '0' || c > '9')
			return false;
		status = status * 10 + (unsigned)(c - '0');
	}
	*ret_status = status;
	return true;
}

/* True while more bytes may still make a status line of it. */
static bool may_be_http(const char *answer, size_t size)
{
	static const char shape[] = "HTTP/1.x ddd";
	size_t i;

	for (i = 0; i < size && i < sizeof(shape) - 1; i++) {
		bool digit = answer[i] >= '0' && answer[i] <= '9';

		if (shape[i] == 'd' ? !digit : shape[i] != 'x' && shape[i] != answer[i])
			return false;
	}
	return i < sizeof(shape) - 1;
}

static enum speech tls_of(const uint8_t *record, size_t size, unsigned *ret_code)
{
	size_t needed = record[0] == TLS_ALERT ? AT_ALERT_NUMBER : AT_HANDSHAKE_TYPE;

	if (record[0] != TLS_ALERT && record[0] != TLS_HANDSHAKE)
		return SPEECH_TCP;
	if (size > 1 && record[1] != TLS_MAJOR)
		return SPEECH_TCP;
	if (size <= needed)
		return SPEECH_UNKNOWN;
	if (record[0] == TLS_HANDSHAKE && record[AT_HANDSHAKE_TYPE] != TLS_SERVER_HELLO)
		return SPEECH_TCP;
	*ret_code = record[0] == TLS_ALERT ? record[AT_ALERT_NUMBER] : 0;
	return SPEECH_TLS;
}

enum speech speech_of(const char *answer, size_t size, bool ended, unsigned *ret_code)
{
	enum speech speech;

	*ret_code = 0;
	if (!size)
		return SPEECH_UNKNOWN;
	if (speech_http_status(answer, size, ret_code))
		return SPEECH_HTTP;
	if (may_be_http(answer, size))
		return ended ? SPEECH_TCP : SPEECH_UNKNOWN;
	speech = tls_of((const uint8_t *)answer, size, ret_code);
	return speech == SPEECH_UNKNOWN && ended ? SPEECH_TCP : speech;
}

struct hello {
	uint8_t *out;
	size_t size;
};

static void put(struct hello *h, const void *bytes, size_t size)
{
	if (size)
		memcpy(h->out + h->size, bytes, size);
	h->size += size;
}

static void put_u16(struct hello *h, size_t value)
{
	const uint8_t bytes[2] = { (uint8_t)(value >> 8), (uint8_t)value };

	put(h, bytes, sizeof(bytes));
}

/* A length of two bytes, set by end_length() when what follows is written. */
static size_t begin_length(struct hello *h)
{
	put_u16(h, 0);
	return h->size;
}

static void end_length(struct hello *h, size_t begin)
{
	size_t length = h->size - begin;

	h->out[begin - 2] = (uint8_t)(length >> 8);
	h->out[begin - 1] = (uint8_t)length;
}

/* RFC 6066 3 */
static void put_server_name(struct hello *h, const char *host)
{
	size_t length = strlen(host), extension, list;

	if (!length || length > HOST_MAX)
		return;
	put_u16(h, 0);
	extension = begin_length(h);
	list = begin_length(h);
	put(h, "\0", 1);
	put_u16(h, length);
	put(h, host, length);
	end_length(h, list);
	end_length(h, extension);
}

/* Any 32 bytes are a public key of X25519 (RFC 7748). */
static void put_key_share(struct hello *h, const uint8_t key[32])
{
	put(h, "\x00\x33\x00\x26\x00\x24\x00\x1d\x00\x20", 10);
	put(h, key, 32);
}

size_t speech_tls_hello(const char *host, const uint8_t random[SPEECH_HELLO_RANDOM], uint8_t out[SPEECH_HELLO_BYTES])
{
	/* Every server should know these: RFC 8446 9.1; for TLS 1.2, RFC 9325 4.2. */
	static const char ciphers[] =
		"\x13\x01\x13\x02\x13\x03\xc0\x2b\xc0\x2f\xc0\x2c\xc0\x30\xcc\xa9\xcc\xa8\x00\x9c";
	static const char versions[] = "\x00\x2b\x00\x05\x04\x03\x04\x03\x03";
	static const char groups[] = "\x00\x0a\x00\x08\x00\x06\x00\x1d\x00\x17\x00\x18";
	static const char signatures[] =
		"\x00\x0d\x00\x12\x00\x10\x04\x03\x08\x04\x04\x01\x05\x03\x08\x05\x05\x01\x08\x06"
		"\x06\x01";
	struct hello h = { .out = out };
	size_t record, handshake, list;

	put(&h, "\x16\x03\x01", 3);
	record = begin_length(&h);
	put(&h, "\x01\x00", 2); /* the type; the highest byte of its length */
	handshake = begin_length(&h);
	put(&h, "\x03\x03", 2);
	put(&h, random, 32);
	put(&h, "", 1); /* no session */
	list = begin_length(&h);
	put(&h, ciphers, sizeof(ciphers) - 1);
	end_length(&h, list);
	put(&h, "\x01\x00", 2); /* no compression */
	list = begin_length(&h);
	put_server_name(&h, host);
	put(&h, versions, sizeof(versions) - 1);
	put(&h, groups, sizeof(groups) - 1);
	put(&h, signatures, sizeof(signatures) - 1);
	put_key_share(&h, random + 32);
	end_length(&h, list);
	end_length(&h, handshake);
	end_length(&h, record);
	return h.size;
}
