/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * addr.h - one address type for IPv4 and IPv6.
 *
 * An IPv4 address is kept v4-mapped (::ffff:a.b.c.d, RFC 4291 2.5.5.2), so that every table,
 * comparison and hash has one width. Pure: no I/O.
 */
#ifndef DPRD_BASE_ADDR_H
#define DPRD_BASE_ADDR_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint16_t be16; /* network byte order */
typedef uint32_t be32;

enum {
	ADDR_TEXT_BYTES = 48, /* longest text form and its NUL */
};

struct addr {
	uint8_t bytes[16];
};

static inline struct addr addr_from_v4(be32 v4)
{
	struct addr a = { .bytes = { [10] = 0xff, [11] = 0xff } };

	memcpy(a.bytes + 12, &v4, 4);
	return a;
}

static inline struct addr addr_from_v6(const void *v6)
{
	struct addr a;

	memcpy(a.bytes, v6, 16);
	return a;
}

static inline bool addr_is_v4(const struct addr *a)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(a->bytes, mapped, sizeof(mapped)) == 0;
}

/* Only for an address that addr_is_v4(). */
static inline be32 addr_v4(const struct addr *a)
{
	be32 v4;

	memcpy(&v4, a->bytes + 12, 4);
	return v4;
}

static inline bool addr_equal(const struct addr *a, const struct addr *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static inline bool addr_is_zero(const struct addr *a)
{
	static const struct addr zero;

	return addr_equal(a, &zero);
}

/* Text of either family into *ret. false, and *ret untouched, when it is neither. */
static inline bool addr_parse(const char *text, struct addr *ret)
{
	uint8_t v6[16];
	be32 v4;

	if (inet_pton(AF_INET, text, &v4) == 1) {
		*ret = addr_from_v4(v4);
		return true;
	}
	if (inet_pton(AF_INET6, text, v6) == 1) {
		*ret = addr_from_v6(v6);
		return true;
	}
	return false;
}

/* The text form in the caller's buffer of ADDR_TEXT_BYTES; returns the buffer. */
static inline const char *addr_format(const struct addr *a, char text[ADDR_TEXT_BYTES])
{
	const char *ok = addr_is_v4(a) ? inet_ntop(AF_INET, a->bytes + 12, text, ADDR_TEXT_BYTES)
				       : inet_ntop(AF_INET6, a->bytes, text, ADDR_TEXT_BYTES);

	if (!ok)
		snprintf(text, ADDR_TEXT_BYTES, "?");
	return text;
}

#endif
