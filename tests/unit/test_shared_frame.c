// SPDX-License-Identifier: GPL-2.0-or-later
/* test_shared_frame.c - frames about shared addresses, byte by byte, and the key of the buckets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dprd/shared/shared.h"
#include "dprd/core/packet/shared_frame.h"

static const uint8_t own[6] = { 0x02, 0x11, 0x22, 0x33, 0x44, 0x55 };

static struct addr address(const char *text)
{
	struct addr a;

	assert_true(addr_parse(text, &a));
	return a;
}

/* The one's complement sum of RFC 1071; over bytes that include a good checksum it is 0. */
static uint16_t rest(uint32_t before, const uint8_t *bytes, unsigned count)
{
	unsigned i;

	for (i = 0; i < count; i += 2)
		before += (uint32_t)bytes[i] << 8 | bytes[i + 1];
	while (before >> 16)
		before = (before & 0xffff) + (before >> 16);
	return (uint16_t)(before ^ 0xffff);
}

static void assert_frame(const uint8_t *frame, unsigned length, const uint8_t *expected, unsigned expected_length)
{
	assert_int_equal(length, expected_length);
	assert_memory_equal(frame, expected, length);
}

/* The frame is that of "arping -U", except for the sender's hardware address. */
static void test_arp(void **state)
{
	static const uint8_t shared[6] = { 0x01, 0x00, 0x5e, 0x00, 0x02, 0x64 };
	static const uint8_t expected[] = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0x11, 0x22, 0x33, 0x44, 0x55, 0x08, 0x06,
		0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x01, 0x01, 0x00, 0x5e, 0x00, 0x02, 0x64,
		192,  0,    2,    100,  0,    0,    0,    0,    0,    0,    192,  0,    2,    100,
	};
	struct addr a = address("192.0.2.100");
	uint8_t frame[SHARED_FRAME_BYTES];

	(void)state;
	assert_frame(frame, shared_frame_announce(frame, &a, shared, own), expected, sizeof(expected));
}

static void test_advertisement(void **state)
{
	static const uint8_t shared[6] = { 0x33, 0x33, 0x00, 0x00, 0x01, 0x00 };
	static const uint8_t head[] = { 0x33, 0x33, 0,    0,    0, 1, 0x02, 0x11, 0x22, 0x33, 0x44,
					0x55, 0x86, 0xdd, 0x60, 0, 0, 0,    0,    32,   58,   255 };
	static const uint8_t option[] = { 2, 1, 0x33, 0x33, 0x00, 0x00, 0x01, 0x00 };
	struct addr a = address("2001:db8:a::100"), all = address("ff02::1");
	uint8_t frame[SHARED_FRAME_BYTES];

	(void)state;
	assert_int_equal(shared_frame_announce(frame, &a, shared, own), 14 + 40 + 32);
	assert_memory_equal(frame, head, sizeof(head));
	assert_memory_equal(frame + 22, a.bytes, 16);
	assert_memory_equal(frame + 38, all.bytes, 16);
	assert_int_equal(frame[54], 136);
	assert_int_equal(frame[58], 0x20); /* override; neither a router nor solicited */
	assert_memory_equal(frame + 62, a.bytes, 16);
	assert_memory_equal(frame + 78, option, sizeof(option));
	assert_int_equal(rest(32 + 58, frame + 22, 32 + 32), 0);
}

/* RFC 4286, 3.1 and 3.4; the checksum of the message by hand: ~(0x3014). */
static void test_router_v4(void **state)
{
	static const uint8_t expected[] = {
		0x01, 0x00, 0x5e, 0x00, 0x00, 0x6a, 0x02, 0x11, 0x22, 0x33, 0x44, 0x55,
		0x08, 0x00, 0x46, 0xc0, 0x00, 0x20, 0x00, 0x00, 0x40, 0x00, 0x01, 0x02,
	};
	static const uint8_t rest_of_it[] = { 10, 0, 0,    7,  224,  0,    0, 106, 148, 4,
					      0,  0, 0x30, 20, 0xcf, 0xeb, 0, 0,   0,   0 };
	struct addr a = address("10.0.0.7");
	uint8_t frame[SHARED_FRAME_BYTES];

	(void)state;
	assert_int_equal(shared_frame_router(frame, &a, own), 14 + 24 + 8);
	assert_memory_equal(frame, expected, sizeof(expected));
	assert_memory_equal(frame + 26, rest_of_it, sizeof(rest_of_it));
	assert_int_equal(rest(0, frame + 14, 24), 0);
}

static void test_router_v6(void **state)
{
	static const uint8_t head[] = { 0x33, 0x33, 0,    0,    0, 0x6a, 0x02, 0x11, 0x22, 0x33, 0x44,
					0x55, 0x86, 0xdd, 0x60, 0, 0,    0,    0,    16,   0,    1 };
	static const uint8_t hop[] = { 58, 0, 5, 2, 0, 0, 1, 0, 151, 20 };
	struct addr a = address("fe80::11:22ff:fe33:4455"), all = address("ff02::6a");
	uint8_t frame[SHARED_FRAME_BYTES];

	(void)state;
	assert_int_equal(shared_frame_router(frame, &a, own), 14 + 40 + 8 + 8);
	assert_memory_equal(frame, head, sizeof(head));
	assert_memory_equal(frame + 22, a.bytes, 16);
	assert_memory_equal(frame + 38, all.bytes, 16);
	assert_memory_equal(frame + 54, hop, sizeof(hop));
	/* The pseudo header has the length of the message alone. */
	assert_int_equal(rest(8 + 58 + (uint16_t)~rest(0, frame + 62, 8), frame + 22, 32), 0);
}

/* By: printf 'dprd buckets 1:web' | openssl dgst -sha256 -mac HMAC -macopt hexkey:000102...1f */
static void test_key(void **state)
{
	uint8_t cluster_key[32];
	uint64_t key[2], other[2];
	unsigned i;

	(void)state;
	for (i = 0; i < 32; i++)
		cluster_key[i] = (uint8_t)i;
	shared_key(cluster_key, "web", key);
	assert_true(key[0] == 0x7633289d926ef7a3 && key[1] == 0xd1c96bf609f61481);
	shared_key(cluster_key, "wed", other);
	assert_true(key[0] != other[0] && key[1] != other[1]);
	cluster_key[31] ^= 1;
	shared_key(cluster_key, "web", other);
	assert_true(key[0] != other[0] && key[1] != other[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arp),       cmocka_unit_test(test_advertisement),
		cmocka_unit_test(test_router_v4), cmocka_unit_test(test_router_v6),
		cmocka_unit_test(test_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
