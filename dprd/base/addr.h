/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * addr.h - one address type for IPv4 and IPv6.
 *
 * An IPv4 address is stored v4-mapped (::ffff:a.b.c.d, RFC 4291 2.5.5.2), so that all tables, comparisons and hashes
 * use addresses of one size. Pure: no I/O.
 */
#ifndef DPRD_BASE_ADDR_H
#define DPRD_BASE_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#ifndef __bpf__ /* text is for programs that have a C library */
#include <arpa/inet.h>
#include <stdio.h>
#endif

typedef uint16_t be16; /* network byte order */
typedef uint32_t be32;

enum {
	ADDR_TEXT_BYTES = 48, /* longest text form and its NUL */
};

struct addr {
	union {
		uint8_t bytes[16];
		uint32_t words[4]; /* in network order, as the bytes */
	};
};

/*
 * Four bytes of a packet or record at any address. (The BPF compiler turns a memcpy() of unaligned bytes into four
 * loads, while the kernel lets BPF programs load them at once where the processor can.)
 */
static inline uint32_t load_u32(const void *bytes)
{
#ifdef __bpf__
	return *(const uint32_t *)bytes;
#else
	uint32_t value;

	memcpy(&value, bytes, 4);
	return value;
#endif
}

static inline uint64_t load_u64(const void *bytes)
{
	uint64_t value;

	memcpy(&value, bytes, 8);
	return value;
}

static inline uint16_t load_u16(const void *bytes)
{
#ifdef __bpf__
	return *(const uint16_t *)bytes;
#else
	uint16_t value;

	memcpy(&value, bytes, 2);
	return value;
#endif
}

static inline void store_u32(void *bytes, uint32_t value)
{
#ifdef __bpf__
	*(uint32_t *)bytes = value;
#else
	memcpy(bytes, &value, 4);
#endif
}

static inline void store_u16(void *bytes, uint16_t value)
{
#ifdef __bpf__
	*(uint16_t *)bytes = value;
#else
	memcpy(bytes, &value, 2);
#endif
}

/* The third word of a v4-mapped address. */
static inline uint32_t addr_mapped_word(void)
{
	const struct addr mapped = { .bytes = { [10] = 0xff, [11] = 0xff } };

	return mapped.words[2];
}

static inline struct addr addr_from_v4(be32 v4)
{
	struct addr a;

	a.words[0] = a.words[1] = 0;
	a.words[2] = addr_mapped_word();
	a.words[3] = v4;
	return a;
}

static inline struct addr addr_from_v6(const void *v6)
{
	struct addr a;
	int i;

	for (i = 0; i < 4; i++)
		a.words[i] = load_u32((const uint8_t *)v6 + 4 * i);
	return a;
}

static inline bool addr_is_v4(const struct addr *a)
{
	return !(a->words[0] | a->words[1] | (a->words[2] ^ addr_mapped_word()));
}

/* Only for an address for which addr_is_v4() is true. */
static inline be32 addr_v4(const struct addr *a)
{
	return a->words[3];
}

static inline bool addr_equal(const struct addr *a, const struct addr *b)
{
	return !((a->words[0] ^ b->words[0]) | (a->words[1] ^ b->words[1]) | (a->words[2] ^ b->words[2]) |
		 (a->words[3] ^ b->words[3]));
}

static inline bool addr_is_zero(const struct addr *a)
{
	return !(a->words[0] | a->words[1] | a->words[2] | a->words[3]);
}

#ifndef __bpf__
/* Reads an address of either family into *ret. False, and *ret untouched: the text is not an address. */
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

#endif
