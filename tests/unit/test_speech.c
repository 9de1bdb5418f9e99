// SPDX-License-Identifier: GPL-2.0-or-later
/* A server's protocol by its first bytes; the ClientHello, field by field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "loadcast/core/speech.h"

struct answer {
	const char *bytes;
	size_t size;
	enum speech speech;
	unsigned code;
};

#define ANSWER(text, speech, code)                   \
	{                                            \
		text, sizeof(text) - 1, speech, code \
	}

static const struct answer answers[] = {
	ANSWER("HTTP/1.1 200 OK\r\n", SPEECH_HTTP, 200),
	ANSWER("HTTP/1.0 503", SPEECH_HTTP, 503),
	ANSWER("HTTP/1.1 4x4 Odd", SPEECH_TCP, 0),
	ANSWER("HTTP/2 200 OK\r\n\r\n", SPEECH_TCP, 0),
	ANSWER("SSH-2.0-OpenSSH_", SPEECH_TCP, 0),
	ANSWER("H", SPEECH_UNKNOWN, 0),
	ANSWER("HTTP/1.1 40", SPEECH_UNKNOWN, 0),
	ANSWER("", SPEECH_UNKNOWN, 0),
	/* ServerHello; alerts 112 (unrecognized_name) and 80 (internal_error) */
	ANSWER("\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03", SPEECH_TLS, 0),
	ANSWER("\x15\x03\x03\x00\x02\x02\x70", SPEECH_TLS, 112),
	ANSWER("\x15\x03\x01\x00\x02\x02\x50", SPEECH_TLS, 80),
	ANSWER("\x15\x03\x03\x00\x02\x02", SPEECH_UNKNOWN, 0),
	ANSWER("\x16\x03\x03\x00\x7a", SPEECH_UNKNOWN, 0),
	ANSWER("\x16", SPEECH_UNKNOWN, 0),
	/* no handshake that a server begins with; no TLS */
	ANSWER("\x16\x03\x03\x00\x7a\x01\x00", SPEECH_TCP, 0),
	ANSWER("\x16\x02\x00", SPEECH_TCP, 0),
	ANSWER("\x17\x03\x03\x00\x02\x02\x70", SPEECH_TCP, 0),
};

static void by_the_answer(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		const struct answer *a = &answers[i];
		unsigned code = 77;
		/* Memory of its exact size: a sanitizer sees what is read behind it. */
		char *bytes = malloc(a->size + !a->size);

		assert_non_null(bytes);
		memcpy(bytes, a->bytes, a->size);
		assert_int_equal(speech_of(bytes, a->size, false, &code), a->speech);
		assert_int_equal(code, a->code);
		/* Nothing more comes: what began like a protocol was none; no word at all says nothing. */
		assert_int_equal(speech_of(bytes, a->size, true, &code),
				 a->speech == SPEECH_UNKNOWN && a->size ? SPEECH_TCP : a->speech);
		free(bytes);
	}
}

/* Byte by byte, an answer becomes known once and stays what it is. */
static void in_pieces(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		enum speech known = SPEECH_UNKNOWN;

		for (size_t size = 1; size <= answers[i].size; size++) {
			unsigned code;
			enum speech speech = speech_of(answers[i].bytes, size, false, &code);

			if (known != SPEECH_UNKNOWN)
				assert_int_equal(speech, known);
			known = speech;
		}
		assert_int_equal(known, answers[i].speech);
	}
}

static unsigned u16(const uint8_t *at)
{
	return (unsigned)at[0] << 8 | at[1];
}

/* The extension of this type, or NULL; every length must fit the one around it. */
static const uint8_t *extension(const uint8_t *hello, size_t size, unsigned type, unsigned *ret_length)
{
	size_t at = 5 + 4 + 2 + 32;
	const uint8_t *found = NULL;

	assert_int_equal(u16(hello + 3), size - 5);
	assert_int_equal(hello[6], 0);
	assert_int_equal(u16(hello + 7), size - 9);
	assert_int_equal(hello[at], 0);
	at += 1;
	at += 2 + u16(hello + at);
	assert_int_equal(u16(hello + at), 0x100);
	at += 2;
	assert_int_equal(u16(hello + at), size - at - 2);
	for (at += 2; at < size; at += 4 + u16(hello + at + 2)) {
		assert_true(at + 4 + u16(hello + at + 2) <= size);
		if (u16(hello + at) == type) {
			found = hello + at + 4;
			*ret_length = u16(hello + at + 2);
		}
	}
	assert_int_equal(at, size);
	return found;
}

static void client_hello(void **state)
{
	uint8_t random[SPEECH_HELLO_RANDOM], out[SPEECH_HELLO_BYTES];
	char longest[256];
	const uint8_t *found;
	unsigned length;
	size_t size;

	(void)state;
	for (unsigned i = 0; i < sizeof(random); i++)
		random[i] = (uint8_t)(i + 1);
	size = speech_tls_hello("www.example.org", random, out);
	assert_memory_equal(out, "\x16\x03\x01", 3);
	assert_int_equal(out[5], 1);
	assert_memory_equal(out + 9, "\x03\x03", 2);
	assert_memory_equal(out + 11, random, 32);
	found = extension(out, size, 0, &length);
	assert_non_null(found);
	assert_int_equal(length, 2 + 3 + 15);
	assert_memory_equal(found, "\x00\x12\x00\x00\x0fwww.example.org", length);
	found = extension(out, size, 43, &length);
	assert_non_null(found);
	assert_memory_equal(found, "\x04\x03\x04\x03\x03", length);
	found = extension(out, size, 51, &length);
	assert_non_null(found);
	assert_int_equal(length, 38);
	assert_memory_equal(found + 6, random + 32, 32);
	assert_non_null(extension(out, size, 10, &length));
	assert_int_equal(u16(extension(out, size, 10, &length)), length - 2);
	assert_non_null(extension(out, size, 13, &length));
	assert_int_equal(u16(extension(out, size, 13, &length)), length - 2);
	size = speech_tls_hello("", random, out);
	assert_null(extension(out, size, 0, &length));
	memset(longest, 'a', 255);
	longest[255] = '\0';
	size = speech_tls_hello(longest, random, out);
	assert_true(size <= SPEECH_HELLO_BYTES);
	assert_non_null(extension(out, size, 0, &length));
	assert_int_equal(length, 5 + 255);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_the_answer),
		cmocka_unit_test(in_pieces),
		cmocka_unit_test(client_hello),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
