// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "dprd/core/packet/packet.h"
#include "tests/unit/packets.h"

/* Parses a copy at the end of its own allocation: valgrind and sanitizers see a read past it. */
static enum packet_kind parse_exactly(const uint8_t *bytes, size_t length, struct packet *p)
{
	uint8_t *copy = malloc(length ? length : 1);
	enum packet_kind kind;

	assert_non_null(copy);
	memcpy(copy, bytes, length);
	kind = packet_parse(copy, (uint32_t)length, p);
	if (kind == PACKET_TUNNEL || kind == PACKET_ICMP_ERROR) {
		assert_true(p->inner >= copy && p->inner + p->inner_bytes <= copy + length);
		p->inner = bytes + (p->inner - copy);
	} else {
		assert_null(p->inner);
	}
	assert_int_equal(kind, p->kind);
	free(copy);
	return kind;
}

static struct addr address(const char *text)
{
	struct addr a = { 0 };

	assert_true(addr_parse(text, &a));
	return a;
}

static void assert_address(const struct addr *a, const char *text)
{
	char shown[ADDR_TEXT_BYTES];

	assert_string_equal(addr_format(a, shown), text);
}

static void assert_key(const struct flow_key *key, bool v6)
{
	assert_address(&key->client, v6 ? "2001:db8:c::10" : "192.0.2.10");
	assert_address(&key->service, v6 ? "2001:db8:5::1" : "198.51.100.1");
	assert_int_equal(key->client_port, htons(40000));
	assert_int_equal(key->service_port, htons(80));
}

static void v4_syn_is_read(void **state)
{
	struct packet p;

	(void)state;
	assert_int_equal(parse_exactly(v4_syn, sizeof(v4_syn), &p), PACKET_TCP);
	assert_false(p.v6);
	assert_int_equal(p.protocol, 6);
	assert_int_equal(p.ttl, 63);
	assert_int_equal(p.tos, 0);
	assert_true(p.dont_fragment);
	assert_int_equal(p.header_bytes, 20);
	assert_int_equal(p.total_bytes, 60);
	assert_int_equal(p.tcp_header_bytes, 40);
	assert_int_equal(p.tcp_sequence, 0x01020304);
	assert_int_equal(p.tcp_flags, TCP_SYN);
	assert_true(packet_is_syn(&p));
	assert_address(&p.source, "192.0.2.10");
	assert_address(&p.destination, "198.51.100.1");
	assert_key(&p.key, false);
}

static void v4_data_is_read(void **state)
{
	uint8_t may_fragment[sizeof(v4_data)];
	struct packet p;

	(void)state;
	assert_int_equal(parse_exactly(v4_data, sizeof(v4_data), &p), PACKET_TCP);
	assert_int_equal(p.tos, 0xb9);
	assert_int_equal(p.tcp_header_bytes, 32);
	assert_int_equal(p.tcp_sequence, 0xfffffff8);
	assert_int_equal(p.tcp_flags, TCP_FIN | TCP_PSH | TCP_ACK);
	assert_false(packet_is_syn(&p));
	memcpy(may_fragment, v4_data, sizeof(v4_data));
	may_fragment[6] = 0;
	assert_int_equal(parse_exactly(may_fragment, sizeof(may_fragment), &p), PACKET_TCP);
	assert_false(p.dont_fragment);
}

static void v6_is_read(void **state)
{
	struct packet p;

	(void)state;
	assert_int_equal(parse_exactly(v6_syn, sizeof(v6_syn), &p), PACKET_TCP);
	assert_true(p.v6);
	assert_int_equal(p.header_bytes, 40);
	assert_int_equal(p.total_bytes, 80);
	assert_int_equal(p.ttl, 63);
	assert_int_equal(p.tos, 0);
	assert_true(p.dont_fragment);
	assert_true(packet_is_syn(&p));
	assert_int_equal(p.tcp_sequence, 0x01020304);
	assert_key(&p.key, true);
	assert_int_equal(parse_exactly(v6_data, sizeof(v6_data), &p), PACKET_TCP);
	assert_int_equal(p.tos, 0xb9);
	assert_int_equal(p.total_bytes, 90);
	assert_int_equal(p.tcp_flags, TCP_FIN | TCP_PSH | TCP_ACK);
}

/* Only SYN counts: neither SYN-ACK nor nonsense; ECN set-up (ECE, CWR) and data do not matter. */
static void a_syn_is_a_bare_syn(void **state)
{
	uint8_t bytes[sizeof(v4_syn)];
	struct packet p;
	unsigned flags;

	(void)state;
	memcpy(bytes, v4_syn, sizeof(bytes));
	for (flags = 0; flags < 256; flags++) {
		bytes[33] = (uint8_t)flags;
		assert_int_equal(parse_exactly(bytes, sizeof(bytes), &p), PACKET_TCP);
		assert_int_equal(packet_is_syn(&p), (flags & 0x17) == 0x02);
	}
	p.kind = PACKET_OTHER;
	assert_false(packet_is_syn(&p));
}

static void errors_are_turned_to_the_client(void **state)
{
	struct packet p;

	(void)state;
	assert_int_equal(parse_exactly(v4_frag_needed, sizeof(v4_frag_needed), &p), PACKET_ICMP_ERROR);
	assert_key(&p.key, false);
	assert_address(&p.source, "203.0.113.9");
	assert_int_equal(p.inner_bytes, 28);
	assert_ptr_equal(p.inner, v4_frag_needed + 28);
	assert_int_equal(parse_exactly(v6_too_big, sizeof(v6_too_big), &p), PACKET_ICMP_ERROR);
	assert_key(&p.key, true);
	assert_address(&p.source, "2001:db8:f::9");
	assert_int_equal(p.inner_bytes, 60);
	assert_ptr_equal(p.inner, v6_too_big + 48);
}

/* RFC 792 promises 8 bytes of the quoted datagram's data, so 8 must do, and 7 must not. */
static void eight_quoted_bytes_are_enough(void **state)
{
	uint8_t v4[20 + 8 + 20 + 8], v6[40 + 8 + 40 + 8];
	struct packet p;

	(void)state;
	memcpy(v4, v4_frag_needed, sizeof(v4));
	assert_int_equal(parse_exactly(v4, sizeof(v4), &p), PACKET_ICMP_ERROR);
	v4[3] = 55;
	assert_int_equal(parse_exactly(v4, sizeof(v4), &p), PACKET_TRUNCATED);
	memcpy(v6, v6_too_big, sizeof(v6));
	v6[5] = 56;
	assert_int_equal(parse_exactly(v6, sizeof(v6), &p), PACKET_ICMP_ERROR);
	assert_key(&p.key, true);
	assert_int_equal(p.inner_bytes, 48);
	v6[5] = 55;
	assert_int_equal(parse_exactly(v6, sizeof(v6), &p), PACKET_TRUNCATED);
}

static void only_icmp_errors_count(void **state)
{
	uint8_t v4[sizeof(v4_frag_needed)], v6[sizeof(v6_too_big)];
	struct packet p;
	unsigned type;

	(void)state;
	memcpy(v4, v4_frag_needed, sizeof(v4));
	memcpy(v6, v6_too_big, sizeof(v6));
	for (type = 0; type < 256; type++) {
		v4[20] = v6[40] = (uint8_t)type;
		/* RFC 792: unreachable, time exceeded, parameter problem; RFC 4443: 1 to 4. */
		assert_int_equal(parse_exactly(v4, sizeof(v4), &p),
				 type == 3 || type == 11 || type == 12 ? PACKET_ICMP_ERROR : PACKET_OTHER);
		assert_int_equal(parse_exactly(v6, sizeof(v6), &p),
				 type >= 1 && type <= 4 ? PACKET_ICMP_ERROR : PACKET_OTHER);
	}
}

static void errors_about_others_are_left_alone(void **state)
{
	uint8_t v4[sizeof(v4_frag_needed)], v6[sizeof(v6_too_big)];
	struct packet p;

	(void)state;
#define WITH(bytes, from, at, value)                    \
	do {                                            \
		memcpy(bytes, from, sizeof(from));      \
		bytes[at] = value;                      \
		parse_exactly(bytes, sizeof(from), &p); \
	} while (0)
	WITH(v4, v4_frag_needed, 28 + 9, 17); /* quotes UDP */
	assert_int_equal(p.kind, PACKET_OTHER);
	WITH(v4, v4_frag_needed, 28 + 15, 7); /* quotes a packet of another sender */
	assert_int_equal(p.kind, PACKET_OTHER);
	WITH(v4, v4_frag_needed, 28 + 7, 1); /* quotes a later fragment: no ports */
	assert_int_equal(p.kind, PACKET_OTHER);
	WITH(v4, v4_frag_needed, 28, 0x46); /* quotes a packet with options */
	assert_int_equal(p.kind, PACKET_OTHER);
	WITH(v4, v4_frag_needed, 28, 0x65); /* quotes IPv6 within ICMPv4 */
	assert_int_equal(p.kind, PACKET_OTHER);
	WITH(v6, v6_too_big, 48 + 6, 17);
	assert_int_equal(p.kind, PACKET_OTHER);
	WITH(v6, v6_too_big, 48 + 23, 7);
	assert_int_equal(p.kind, PACKET_OTHER);
	WITH(v6, v6_too_big, 48 + 6, 44);
	assert_int_equal(p.kind, PACKET_OTHER);
	WITH(v6, v6_too_big, 48, 0x45);
	assert_int_equal(p.kind, PACKET_OTHER);
	WITH(v6, v6_too_big, 6, 1); /* ICMPv4 in IPv6 */
	assert_int_equal(p.kind, PACKET_OTHER);
}

static void tunnels_are_opened(void **state)
{
	struct packet p, inner;

	(void)state;
	assert_int_equal(parse_exactly(v4_tunnel, sizeof(v4_tunnel), &p), PACKET_TUNNEL);
	assert_address(&p.destination, "198.51.100.2");
	assert_ptr_equal(p.inner, v4_tunnel + 20);
	assert_int_equal(p.inner_bytes, 60);
	assert_int_equal(parse_exactly(p.inner, p.inner_bytes, &inner), PACKET_TCP);
	assert_key(&inner.key, false);
	assert_int_equal(parse_exactly(v6_tunnel, sizeof(v6_tunnel), &p), PACKET_TUNNEL);
	assert_int_equal(p.inner_bytes, 80);
	assert_int_equal(parse_exactly(p.inner, p.inner_bytes, &inner), PACKET_TCP);
	assert_key(&inner.key, true);
}

/* 4 in 6 and 6 in 4 are not dprd's tunnels; bytes behind the outer datagram do not count. */
static void tunnels_of_other_kinds_are_not(void **state)
{
	uint8_t v4[sizeof(v4_tunnel) + 6] = { 0 }, v6[sizeof(v6_tunnel)];
	struct packet p;

	(void)state;
	memcpy(v4, v4_tunnel, sizeof(v4_tunnel));
	assert_int_equal(parse_exactly(v4, sizeof(v4), &p), PACKET_TUNNEL);
	assert_int_equal(p.inner_bytes, 60);
	v4[9] = 41;
	assert_int_equal(parse_exactly(v4, sizeof(v4), &p), PACKET_OTHER);
	memcpy(v6, v6_tunnel, sizeof(v6_tunnel));
	v6[6] = 4;
	assert_int_equal(parse_exactly(v6, sizeof(v6), &p), PACKET_OTHER);
}

static void fragments_are_named(void **state)
{
	static const uint8_t marks[][2] = { { 0x20, 0 }, { 0, 1 }, { 0x1f, 0xff }, { 0x60, 0 }, { 0x20, 0x10 } };
	uint8_t v4[sizeof(v4_data)], v6[sizeof(v6_data)];
	struct packet p;
	size_t i;

	(void)state;
	memcpy(v4, v4_data, sizeof(v4));
	for (i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		memcpy(v4 + 6, marks[i], 2);
		assert_int_equal(parse_exactly(v4, sizeof(v4), &p), PACKET_FRAGMENT);
	}
	memcpy(v6, v6_data, sizeof(v6));
	v6[6] = 44;
	assert_int_equal(parse_exactly(v6, sizeof(v6), &p), PACKET_FRAGMENT);
}

enum { OPTIONS_MOST = 120 };

/* v4_data with these bytes of options. Returns its length. */
static size_t with_options(uint8_t *out, const uint8_t *options, unsigned bytes)
{
	memcpy(out, v4_data, 20);
	memcpy(out + 20, options, bytes);
	memcpy(out + 20 + bytes, v4_data + 20, sizeof(v4_data) - 20);
	out[0] = (uint8_t)(0x40 | (5 + bytes / 4));
	write_be16(out + 2, (uint32_t)sizeof(v4_data) + bytes);
	return sizeof(v4_data) + bytes;
}

/* v6_data with extension headers: the protocol of the first one, and all their bytes. */
static size_t with_extensions(uint8_t *out, uint8_t first, const uint8_t *headers, unsigned bytes)
{
	memcpy(out, v6_data, 40);
	memcpy(out + 40, headers, bytes);
	memcpy(out + 40 + bytes, v6_data + 40, sizeof(v6_data) - 40);
	out[6] = first;
	write_be16(out + 4, (uint32_t)sizeof(v6_data) - 40 + bytes);
	return sizeof(v6_data) + bytes;
}

static void assert_behind(const uint8_t *bytes, size_t length, bool v6, unsigned header_bytes)
{
	struct packet p;

	assert_int_equal(parse_exactly(bytes, length, &p), PACKET_TCP);
	assert_true(packet_has_options(&p));
	assert_int_equal(p.header_bytes, header_bytes);
	assert_int_equal(p.protocol, PROTO_TCP);
	assert_int_equal(p.total_bytes, length);
	assert_int_equal(p.tcp_sequence, 4294967288);
	assert_int_equal(p.tcp_flags, TCP_FIN | TCP_PSH | TCP_ACK);
	assert_int_equal(p.tcp_header_bytes, 32);
	assert_key(&p.key, v6);
}

static void tcp_behind_options_is_read(void **state)
{
	static const uint8_t record_route[] = { 1, 7, 7, 4, 0, 0, 0, 0 };
	uint8_t nothing[40], v4[sizeof(v4_data) + 40];
	struct packet p;
	unsigned i;

	(void)state;
	memset(nothing, 1, sizeof(nothing));
	for (i = 4; i <= 40; i += 4)
		assert_behind(v4, with_options(v4, nothing, i), false, 20 + i);
	assert_behind(v4, with_options(v4, record_route, sizeof(record_route)), false, 28);
	parse_exactly(v4_data, sizeof(v4_data), &p);
	assert_false(packet_has_options(&p));
}

static void tcp_behind_extension_headers_is_read(void **state)
{
	static const uint8_t one[] = { 6, 0, 1, 4, 0, 0, 0, 0 };
	/* hop by hop, routing without segments left, destination */
	static const uint8_t three[] = { 43, 0, 1, 4, 0, 0, 0, 0, 60, 2, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0,
					 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0 };
	uint8_t v6[sizeof(v6_data) + OPTIONS_MOST];

	(void)state;
	assert_behind(v6, with_extensions(v6, 0, one, sizeof(one)), true, 48);
	assert_behind(v6, with_extensions(v6, 60, one, sizeof(one)), true, 48);
	assert_behind(v6, with_extensions(v6, 0, three, sizeof(three)), true, 80);
}

/* The node would have to send such a packet on, or cannot read it: TCP is not looked for. */
static void options_are_named(void **state)
{
	static const uint8_t v4_options[][8] = {
		{ 0x83, 7, 4, 0, 0, 0, 0, 0 }, /* loose source route */
		{ 1, 0x89, 7, 4, 0, 0, 0, 0 }, /* strict source route */
		{ 0x82, 8, 0, 0, 0, 0, 0, 0 }, /* security */
		{ 0x86, 8, 0, 0, 0, 1, 1, 2 }, /* a label (CIPSO) */
		{ 1, 7, 0, 1, 1, 1, 1, 1 }, /* a length of 0 */
		{ 1, 1, 1, 1, 1, 1, 1, 7 }, /* no length */
	};
	static const uint8_t route[] = { 6, 0, 4, 1, 0, 0, 0, 0 }, udp[] = { 17, 0, 1, 4, 0, 0, 0, 0 };
	static const uint8_t endless[] = { 6, 255, 1, 4, 0, 0, 0, 0 };
	static const uint8_t v6_options[][8] = {
		{ 6, 0, 0x43, 4, 0, 0, 0, 0 }, /* a host that does not know it drops the packet */
		{ 6, 0, 0xc9, 4, 0, 0, 0, 0 }, /* a home address */
		{ 6, 0, 7, 4, 0, 0, 0, 0 }, /* a label (CALIPSO) */
		{ 6, 0, 1, 5, 0, 0, 0, 0 }, /* longer than its header */
		{ 6, 0, 1, 3, 0, 0, 0, 1 }, /* no length */
	};
	uint8_t many[72], v4[sizeof(v4_data) + 8], v6[sizeof(v6_data) + OPTIONS_MOST];
	struct packet p;
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(v4_options) / sizeof(v4_options[0]); i++)
		assert_int_equal(parse_exactly(v4, with_options(v4, v4_options[i], 8), &p), PACKET_OPTIONS);
	with_options(v4, v4_options[5], 8);
	v4[27] = 1;
	v4[9] = PROTO_ICMP;
	assert_int_equal(parse_exactly(v4, sizeof(v4), &p), PACKET_OPTIONS);
	for (i = 0; i < sizeof(v6_options) / sizeof(v6_options[0]); i++) {
		assert_int_equal(parse_exactly(v6, with_extensions(v6, 60, v6_options[i], 8), &p), PACKET_OPTIONS);
		assert_int_equal(parse_exactly(v6, with_extensions(v6, 0, v6_options[i], 8), &p), PACKET_OPTIONS);
	}
	assert_int_equal(parse_exactly(v6, with_extensions(v6, 43, route, sizeof(route)), &p), PACKET_OPTIONS);
	assert_int_equal(parse_exactly(v6, with_extensions(v6, 0, udp, sizeof(udp)), &p), PACKET_OPTIONS);
	assert_int_equal(parse_exactly(v6, with_extensions(v6, 0, endless, sizeof(endless)), &p), PACKET_OPTIONS);
	for (i = 0; i < sizeof(many); i += 8)
		memcpy(many + i, (const uint8_t[]) { 60, 0, 1, 4, 0, 0, 0, 0 }, 8);
	many[64] = 6;
	assert_int_equal(parse_exactly(v6, with_extensions(v6, 60, many, sizeof(many)), &p), PACKET_OPTIONS);
	many[56] = 6;
	assert_behind(v6, with_extensions(v6, 60, many, 64), true, 104);
}

static void fragments_behind_options_are_named(void **state)
{
	static const uint8_t nothing[] = { 1, 1, 1, 1 };
	static const uint8_t headers[] = { 44, 0, 1, 4, 0, 0, 0, 0, 6, 0, 0, 1, 0, 0, 0, 7 };
	uint8_t v4[sizeof(v4_data) + 4], v6[sizeof(v6_data) + OPTIONS_MOST];
	struct packet p;

	(void)state;
	with_options(v4, nothing, sizeof(nothing));
	v4[6] = 0x20;
	assert_int_equal(parse_exactly(v4, sizeof(v4), &p), PACKET_FRAGMENT);
	assert_int_equal(parse_exactly(v6, with_extensions(v6, 60, headers, sizeof(headers)), &p), PACKET_FRAGMENT);
}

/* The place of the TCP header, for callers who read a packet that they do not parse: only the first fragment has one. */
static void tcp_is_found_in_the_first_fragment(void **state)
{
	uint8_t bytes[sizeof(v6_data) + 8];
	static const uint8_t fragment[] = { 6, 0, 0, 1, 0, 0, 0, 7 };
	const struct packet_bytes v4 = { .bytes = bytes, .end = bytes + sizeof(v4_data), .length = sizeof(v4_data) };
	const struct packet_bytes v6 = { .bytes = bytes, .end = bytes + sizeof(bytes), .length = sizeof(bytes) };
	bool is_fragment;

	(void)state;
	memcpy(bytes, v4_data, sizeof(v4_data));
	assert_int_equal(packet_tcp_place(packet_load, &v4, false, &is_fragment), 20);
	assert_false(is_fragment);
	bytes[6] = 0x20;
	assert_int_equal(packet_tcp_place(packet_load, &v4, false, &is_fragment), 20);
	assert_true(is_fragment);
	bytes[7] = 3;
	assert_int_equal(packet_tcp_place(packet_load, &v4, false, &is_fragment), 0);
	with_extensions(bytes, 44, fragment, sizeof(fragment));
	assert_int_equal(packet_tcp_place(packet_load, &v6, true, &is_fragment), 48);
	assert_true(is_fragment);
	bytes[43] = 8;
	assert_int_equal(packet_tcp_place(packet_load, &v6, true, &is_fragment), 0);
}

/* Cut at every byte, a packet with options is never read past the cut, and TCP is known once its header is there. */
static void options_cut_anywhere(void **state)
{
	static const uint8_t three[] = { 60, 0, 1, 4, 0, 0, 0, 0, 60, 1, 1, 12, 0, 0, 0, 0,
					 0,  0, 0, 0, 0, 0, 0, 0, 6,  0, 1, 4,  0, 0, 0, 0 };
	uint8_t nothing[12], v4[sizeof(v4_data) + sizeof(nothing)], v6[sizeof(v6_data) + sizeof(three)];
	struct packet p;
	size_t length;

	(void)state;
	memset(nothing, 1, sizeof(nothing));
	with_options(v4, nothing, sizeof(nothing));
	with_extensions(v6, 0, three, sizeof(three));
	for (length = 0; length <= sizeof(v4); length++)
		assert_int_equal(parse_exactly(v4, length, &p) == PACKET_TCP, length >= 52);
	for (length = 0; length <= sizeof(v6); length++)
		assert_int_equal(parse_exactly(v6, length, &p) == PACKET_TCP, length >= 92);
}

static void lies_about_lengths_are_malformed(void **state)
{
	uint8_t v4[sizeof(v4_syn)];
	struct packet p;
	unsigned i;

	(void)state;
	memcpy(v4, v4_syn, sizeof(v4));
	for (i = 0; i < 5; i++) { /* header length */
		v4[0] = (uint8_t)(0x40 | i);
		assert_int_equal(parse_exactly(v4, sizeof(v4), &p), PACKET_MALFORMED);
	}
	for (i = 0; i < 16; i++) { /* version */
		v4[0] = (uint8_t)(i << 4 | 5);
		if (i != 4 && i != 6)
			assert_int_equal(parse_exactly(v4, sizeof(v4), &p), PACKET_MALFORMED);
	}
	memcpy(v4, v4_syn, sizeof(v4));
	v4[3] = 19; /* total length below the header's */
	assert_int_equal(parse_exactly(v4, sizeof(v4), &p), PACKET_MALFORMED);
	v4[3] = 39; /* no room for TCP */
	assert_int_equal(parse_exactly(v4, sizeof(v4), &p), PACKET_TRUNCATED);
	v4[3] = 59; /* TCP's options end behind the datagram */
	assert_int_equal(parse_exactly(v4, sizeof(v4), &p), PACKET_MALFORMED);
	v4[3] = 60;
	for (i = 0; i < 16; i++) { /* data offset */
		v4[32] = (uint8_t)(i << 4);
		assert_int_equal(parse_exactly(v4, sizeof(v4), &p), i < 5 || i > 10 ? PACKET_MALFORMED : PACKET_TCP);
	}
}

/*
 * A packet is cut at every byte: its kind is known as soon as its headers are complete, and no byte past the cut is
 * read.
 */
static void every_truncation(void **state)
{
	static const struct {
		const uint8_t *bytes;
		size_t length, least;
		enum packet_kind kind, cut;
	} cases[] = {
		{ v4_syn, sizeof(v4_syn), 40, PACKET_TCP, PACKET_TRUNCATED },
		{ v4_data, sizeof(v4_data), 40, PACKET_TCP, PACKET_TRUNCATED },
		{ v6_syn, sizeof(v6_syn), 60, PACKET_TCP, PACKET_TRUNCATED },
		{ v6_data, sizeof(v6_data), 60, PACKET_TCP, PACKET_TRUNCATED },
		{ v4_tunnel, sizeof(v4_tunnel), 20, PACKET_TUNNEL, PACKET_TRUNCATED },
		{ v6_tunnel, sizeof(v6_tunnel), 40, PACKET_TUNNEL, PACKET_TRUNCATED },
		{ v4_frag_needed, sizeof(v4_frag_needed), 56, PACKET_ICMP_ERROR, PACKET_OTHER },
		{ v6_too_big, sizeof(v6_too_big), 96, PACKET_ICMP_ERROR, PACKET_OTHER },
	};
	struct packet p;
	size_t i, length;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t header = cases[i].bytes[0] >> 4 == 6 ? 40 : 20;

		for (length = 0; length <= cases[i].length; length++) {
			enum packet_kind kind = parse_exactly(cases[i].bytes, length, &p);

			if (length >= cases[i].least)
				assert_int_equal(kind, cases[i].kind);
			else if (length < header)
				assert_int_equal(kind, PACKET_TRUNCATED);
			else
				assert_true(kind == PACKET_TRUNCATED || kind == cases[i].cut);
		}
	}
}

/* Padding of a short Ethernet frame is not part of the datagram. */
static void padding_is_ignored(void **state)
{
	uint8_t padded[sizeof(v4_frag_needed) + 40] = { 0 };
	struct packet p;

	(void)state;
	memcpy(padded, v4_frag_needed, sizeof(v4_frag_needed));
	assert_int_equal(parse_exactly(padded, sizeof(padded), &p), PACKET_ICMP_ERROR);
	assert_int_equal(p.inner_bytes, 28);
}

static void integers_keep_network_order(void **state)
{
	uint8_t bytes[4];

	(void)state;
	write_be32(bytes, 0x81929394);
	assert_int_equal(bytes[0], 0x81);
	assert_int_equal(bytes[3], 0x94);
	assert_int_equal(read_be32(bytes), 0x81929394);
	write_be16(bytes, 0x1f0e1);
	assert_int_equal(read_be16(bytes), 0xf0e1);
}

static void keys_of_the_families_differ(void **state)
{
	struct addr v4 = address("192.0.2.10"), v6 = address("2001:db8::c000:20a");

	(void)state;
	assert_true(addr_is_v4(&v4));
	assert_false(addr_is_v4(&v6));
	assert_false(addr_equal(&v4, &v6));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(v4_syn_is_read),
		cmocka_unit_test(v4_data_is_read),
		cmocka_unit_test(v6_is_read),
		cmocka_unit_test(a_syn_is_a_bare_syn),
		cmocka_unit_test(errors_are_turned_to_the_client),
		cmocka_unit_test(eight_quoted_bytes_are_enough),
		cmocka_unit_test(only_icmp_errors_count),
		cmocka_unit_test(errors_about_others_are_left_alone),
		cmocka_unit_test(tunnels_are_opened),
		cmocka_unit_test(tunnels_of_other_kinds_are_not),
		cmocka_unit_test(fragments_are_named),
		cmocka_unit_test(tcp_behind_options_is_read),
		cmocka_unit_test(tcp_behind_extension_headers_is_read),
		cmocka_unit_test(options_are_named),
		cmocka_unit_test(fragments_behind_options_are_named),
		cmocka_unit_test(tcp_is_found_in_the_first_fragment),
		cmocka_unit_test(options_cut_anywhere),
		cmocka_unit_test(lies_about_lengths_are_malformed),
		cmocka_unit_test(every_truncation),
		cmocka_unit_test(padding_is_ignored),
		cmocka_unit_test(integers_keep_network_order),
		cmocka_unit_test(keys_of_the_families_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
