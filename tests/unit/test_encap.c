// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "dprd/core/packet/encap.h"
#include "tests/unit/oracle.h"
#include "tests/unit/packets.h"

enum { ROUNDS = 20000, JUMBO_BYTES = 9000 };

static uint64_t random_state;

/* SplitMix64: one seed, printed at the start, makes the whole run. */
static uint32_t random_below(uint32_t limit)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (uint32_t)((z ^ z >> 31) >> 32) % limit;
}

static void fill_random(uint8_t *bytes, size_t length)
{
	size_t i;

	for (i = 0; i < length; i++)
		bytes[i] = (uint8_t)random_below(256);
}

static struct addr address(const char *text)
{
	struct addr a = { 0 };

	assert_true(addr_parse(text, &a));
	return a;
}

static struct packet parse(const uint8_t *bytes, size_t length, enum packet_kind kind)
{
	struct packet p;

	assert_int_equal(packet_parse(bytes, (uint32_t)length, &p), kind);
	return p;
}

/* A packet like v4_data or v6_data with payload bytes of random data and good checksums. */
static struct packet make_data(uint8_t *bytes, bool v6, uint32_t payload)
{
	const uint8_t *from = v6 ? v6_data : v4_data;
	uint32_t header = v6 ? 40 : 20, total = header + 32 + payload;
	uint8_t *checksum = bytes + header + 16;

	memcpy(bytes, from, header + 32);
	fill_random(bytes + header + 32, payload);
	write_be16(bytes + (v6 ? 4 : 2), v6 ? total - 40 : total);
	if (!v6) {
		write_be16(bytes + 10, 0);
		write_be16(bytes + 10, (uint32_t)(65535 - oracle_sum(bytes, 20) % 65535));
	}
	write_be16(checksum, 0);
	write_be16(checksum, (uint32_t)(65535 - (oracle_sum(bytes + header, total - header) + 6 + total - header +
						 oracle_sum(bytes + (v6 ? 8 : 12), v6 ? 32 : 8)) %
							65535));
	assert_true(oracle_good(bytes));
	return parse(bytes, total, PACKET_TCP);
}

static void outer_headers_are_golden(void **state)
{
	struct packet syn4 = parse(v4_syn, sizeof(v4_syn), PACKET_TCP);
	struct packet syn6 = parse(v6_syn, sizeof(v6_syn), PACKET_TCP);
	struct addr from4 = address("198.51.100.1"), to4 = address("198.51.100.2");
	struct addr from6 = address("2001:db8:5::1"), to6 = address("2001:db8:5::2");
	uint8_t outer[ENCAP_V6_BYTES];

	(void)state;
	assert_int_equal(encap_bytes(false), 20);
	assert_int_equal(encap_bytes(true), 40);
	encap_write(outer, &syn4, &from4, &to4, 0xbeef);
	assert_memory_equal(outer, v4_tunnel, 20);
	encap_write_family(outer, true, &syn6, &from6, &to6, 0);
	assert_memory_equal(outer, v6_tunnel, 40);
}

/* DF and the whole traffic class are copied, the TTL is not. RFC 2003 3.1, RFC 6040 4.1. */
static void outer_headers_follow_the_inner(void **state)
{
	struct addr from4 = address("198.51.100.1"), to4 = address("198.51.100.2");
	struct addr from6 = address("2001:db8:5::1"), to6 = address("2001:db8:5::2");
	uint8_t outer[ENCAP_V6_BYTES];
	struct packet inner, seen;
	unsigned tos;

	(void)state;
	for (tos = 0; tos < 256; tos++) {
		inner = parse(v4_syn, sizeof(v4_syn), PACKET_TCP);
		inner.tos = (uint8_t)tos;
		inner.dont_fragment = tos & 1;
		encap_write(outer, &inner, &from4, &to4, (uint16_t)(tos * 257));
		assert_true(oracle_ipv4_header_good(outer));
		assert_int_equal(packet_parse(outer, 20, &seen), PACKET_TUNNEL);
		assert_int_equal(seen.tos, tos);
		assert_int_equal(seen.ttl, 64);
		assert_true(seen.dont_fragment);
		assert_int_equal(read_be16(outer + 4), tos * 257);
		inner = parse(v6_syn, sizeof(v6_syn), PACKET_TCP);
		inner.tos = (uint8_t)tos;
		encap_write(outer, &inner, &from6, &to6, (uint16_t)(tos * 257));
		assert_int_equal(read_be32(outer) & 0xfffff, encap_outer_id(&inner, true, tos * 257));
		assert_int_equal(packet_parse(outer, 40, &seen), PACKET_TUNNEL);
		assert_int_equal(seen.tos, tos);
		assert_int_equal(seen.ttl, 64);
		assert_int_equal(seen.total_bytes, 120);
	}
}

/* One node writes a mark with a code, the other reads both; nothing else is taken for the mark. */
static void mark_of_a_syn_that_may_return(void **state)
{
	struct addr from4 = address("198.51.100.1"), to4 = address("198.51.100.2");
	struct addr from6 = address("2001:db8:5::1"), to6 = address("2001:db8:5::2");
	struct packet syn4 = parse(v4_syn, sizeof(v4_syn), PACKET_TCP);
	struct packet syn6 = parse(v6_syn, sizeof(v6_syn), PACKET_TCP);
	uint8_t outer[ENCAP_V6_BYTES];

	(void)state;
	syn6.tos = 0xff;
	for (unsigned id = 0; id <= UINT16_MAX; id++) {
		bool marked = id >> 8 == ENCAP_MAY_RETURN >> 8;

		encap_write(outer, &syn4, &from4, &to4, (uint16_t)id);
		assert_int_equal(encap_may_return(outer, false), marked);
		assert_int_equal(encap_alternative(outer, false), id & 0xff);
		encap_write(outer, &syn6, &from6, &to6, (uint16_t)id);
		assert_int_equal(encap_may_return(outer, true), marked);
		if (id)
			assert_int_equal(encap_alternative(outer, true), id & 0xff);
	}
	/* All 20 bits of the label count. */
	encap_write(outer, &syn6, &from6, &to6, ENCAP_MAY_RETURN);
	outer[1] ^= 1;
	assert_false(encap_may_return(outer, true));
}

/*
 * RFC 6438: all packets of a connection have one label, those of different connections nearly always different ones. No
 * label is taken for the mark.
 */
static void flow_labels(void **state)
{
	const struct packet syn = parse(v6_syn, sizeof(v6_syn), PACKET_TCP);
	const struct packet data = parse(v6_data, sizeof(v6_data), PACKET_TCP);
	const struct packet error = parse(v6_too_big, sizeof(v6_too_big), PACKET_ICMP_ERROR);
	static bool seen[1 << 20];
	struct packet other = syn;
	unsigned label, different = 0;

	(void)state;
	label = encap_outer_id(&syn, true, 0);
	assert_int_equal(encap_outer_id(&data, true, 0), label);
	assert_int_equal(encap_outer_id(&error, true, 0), label);
	assert_int_equal(encap_outer_id(&syn, true, ENCAP_MAY_RETURN | 9), ENCAP_MAY_RETURN | 9);
	assert_int_equal(encap_outer_id(&syn, false, 0), 0);
	memset(seen, 0, sizeof(seen));
	for (unsigned port = 0; port <= UINT16_MAX; port++) {
		other.key.client_port = to_be16((uint16_t)port);
		label = encap_outer_id(&other, true, 0);
		assert_true(label >> 19 == 1);
		different += !seen[label];
		seen[label] = true;
	}
	/* Chance would give 61,600 of 524,288 labels. */
	assert_true(different > 50000);
	other = syn;
	other.key.client.bytes[7] ^= 1;
	assert_int_not_equal(encap_outer_id(&other, true, 0), encap_outer_id(&syn, true, 0));
}

static void assert_without_options(const uint8_t *plain, uint32_t length, unsigned behind, const uint8_t *options,
				   unsigned bytes, uint8_t first)
{
	uint8_t packet[256], *left;
	bool v6 = plain[0] >> 4 == 6;
	struct packet p;

	memcpy(packet, plain, behind);
	memcpy(packet + behind, options, bytes);
	memcpy(packet + behind + bytes, plain + behind, length - behind);
	if (v6) {
		packet[6] = first;
		write_be16(packet + 4, length + bytes - 40);
	} else {
		packet[0] = (uint8_t)(0x45 + bytes / 4);
		write_be16(packet + 2, length + bytes);
		memset(packet + 10, 0, 2);
		write_be16(packet + 10, (uint32_t)(65535 - oracle_sum(packet, behind + bytes) % 65535));
	}
	assert_true(oracle_good(packet));
	p = parse(packet, length + bytes, PACKET_TCP);
	left = encap_without_options(packet, &p);
	assert_ptr_equal(left, packet + bytes);
	assert_int_equal(p.total_bytes, length);
	assert_false(packet_has_options(&p));
	assert_memory_equal(left, plain, length);
}

/* Without its options the packet is as if it never had any; a damaged header stays damaged. */
static void options_are_left_out(void **state)
{
	static const uint8_t v4[] = { 7, 7, 4, 0, 0, 0, 0, 1, 1, 1, 1, 0 };
	static const uint8_t v6[] = { 60, 0, 1, 4, 0, 0, 0, 0, 6, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
	uint8_t damaged[64] = { 0 };
	struct packet p;

	(void)state;
	assert_without_options(v4_data, sizeof(v4_data), 20, v4, sizeof(v4), 0);
	assert_without_options(v6_data, sizeof(v6_data), 40, v6, sizeof(v6), 0);
	assert_without_options(v6_data, sizeof(v6_data), 40, v6 + 8, 16, 60);
	memcpy(damaged, v4_syn, 20);
	memset(damaged + 20, 1, 4);
	memcpy(damaged + 24, v4_syn + 20, 40);
	damaged[0] = 0x46;
	damaged[3] += 4;
	p = parse(damaged, sizeof(damaged), PACKET_TCP);
	assert_false(oracle_ipv4_header_good(encap_without_options(damaged, &p)));
}

/* A damaged IPv4 header is recognised, wherever the damage is, and also with options. */
static void header_checksums(void **state)
{
	struct packet syn6 = parse(v6_syn, sizeof(v6_syn), PACKET_TCP);
	uint8_t bytes[128];
	struct packet p = make_data(bytes, false, 20);

	(void)state;
	assert_true(encap_header_checksum_good(bytes, &p));
	for (unsigned bit = 32; bit < 160; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(encap_header_checksum_good(bytes, &p));
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	memmove(bytes + 24, bytes + 20, 60);
	memset(bytes + 20, 1, 4);
	bytes[0] = 0x46;
	assert_false(encap_header_checksum_good(bytes, &p));
	memset(bytes + 10, 0, 2);
	write_be16(bytes + 10, (uint32_t)(65535 - oracle_sum(bytes, 24) % 65535));
	assert_true(encap_header_checksum_good(bytes, &p));
	assert_true(encap_header_checksum_good(v6_syn, &syn6));
}

enum { NOT_ECT = 0, ECT_1 = 1, ECT_0 = 2, CE = 3, DROP = -1 };

/* RFC 6040 figure 4: rows are the inner field, columns the outer one. */
static const int ecn_after[4][4] = {
	[NOT_ECT] = { [NOT_ECT] = NOT_ECT, [ECT_0] = NOT_ECT, [ECT_1] = NOT_ECT, [CE] = DROP },
	[ECT_0] = { [NOT_ECT] = ECT_0, [ECT_0] = ECT_0, [ECT_1] = ECT_1, [CE] = CE },
	[ECT_1] = { [NOT_ECT] = ECT_1, [ECT_0] = ECT_1, [ECT_1] = ECT_1, [CE] = CE },
	[CE] = { [NOT_ECT] = CE, [ECT_0] = CE, [ECT_1] = CE, [CE] = CE },
};

static void ecn_one(bool v6, unsigned inner_ecn, unsigned outer_ecn, uint8_t dscp)
{
	uint8_t bytes[128], before[128];
	struct packet p = make_data(bytes, v6, 20), after;
	uint8_t tos = (uint8_t)(dscp << 2 | inner_ecn);
	int expected = ecn_after[inner_ecn][outer_ecn];

	if (v6) {
		bytes[0] = (uint8_t)(0x60 | tos >> 4);
		bytes[1] = (uint8_t)(tos << 4 | (bytes[1] & 0x0f));
	} else {
		bytes[1] = tos;
		write_be16(bytes + 10, 0);
		write_be16(bytes + 10, (uint32_t)(65535 - oracle_sum(bytes, 20) % 65535));
	}
	p = parse(bytes, p.total_bytes, PACKET_TCP);
	memcpy(before, bytes, sizeof(before));
	/* The outer DSCP must not leak in. */
	assert_int_equal(encap_decapsulate_ecn(bytes, &p, (uint8_t)(0xa4 | outer_ecn)), expected != DROP);
	assert_true(oracle_good(bytes));
	if (expected == DROP)
		return;
	after = parse(bytes, p.total_bytes, PACKET_TCP);
	assert_int_equal(after.tos, dscp << 2 | expected);
	/* Nothing else has changed: the flow label, the payload. */
	if (v6) {
		before[0] = bytes[0];
		before[1] = (uint8_t)((before[1] & 0x0f) | (bytes[1] & 0xf0));
	} else {
		before[1] = bytes[1];
		memcpy(before + 10, bytes + 10, 2);
	}
	assert_memory_equal(before, bytes, p.total_bytes);
}

static void ecn_follows_rfc_6040(void **state)
{
	unsigned inner, outer, dscp;

	(void)state;
	for (inner = 0; inner < 4; inner++) {
		for (outer = 0; outer < 4; outer++) {
			for (dscp = 0; dscp < 64; dscp++) {
				ecn_one(false, inner, outer, (uint8_t)dscp);
				ecn_one(true, inner, outer, (uint8_t)dscp);
			}
		}
	}
}

static struct addr random_address(bool v6)
{
	struct addr a = addr_from_v4(0);
	unsigned skip = v6 ? 0 : 12, i;

	fill_random(a.bytes + skip, 16 - skip);
	/* Sums at the edge of one's complement arithmetic are where incremental updates go wrong. */
	for (i = skip; i < 16; i += 2) {
		if (random_below(4) == 0)
			memset(a.bytes + i, random_below(2) ? 0xff : 0, 2);
	}
	return a;
}

static void alias_keeps_tcp_checksums(void **state)
{
	static uint8_t bytes[2048], before[2048];
	unsigned i;

	(void)state;
	for (i = 0; i < ROUNDS; i++) {
		bool v6 = i & 1;
		struct packet p = make_data(bytes, v6, random_below(1400)), after;
		struct addr alias = random_address(v6);
		bool damaged = random_below(8) == 0;

		/* The damage stays behind the header's length. */
		if (damaged)
			bytes[p.total_bytes - 1 - random_below(16)] ^= (uint8_t)(1 + random_below(255));
		assert_int_equal(oracle_transport_good(bytes), !damaged);
		memcpy(before, bytes, p.total_bytes);
		encap_to_alias(bytes, &p, &alias);
		/* A sound packet stays sound, and a damaged one must not be mended. */
		assert_int_equal(oracle_transport_good(bytes), !damaged);
		assert_true(v6 || oracle_ipv4_header_good(bytes));
		after = parse(bytes, p.total_bytes, PACKET_TCP);
		assert_true(addr_equal(&after.destination, &alias));
		assert_true(addr_equal(&after.source, &p.source));
		memcpy(before + (v6 ? 24 : 16), alias.bytes + (v6 ? 0 : 12), v6 ? 16 : 4);
		memcpy(before + p.header_bytes + 16, bytes + p.header_bytes + 16, 2);
		if (!v6)
			memcpy(before + 10, bytes + 10, 2);
		assert_memory_equal(before, bytes, p.total_bytes);
	}
}

static void alias_keeps_icmp_checksums(void **state)
{
	uint8_t bytes[128];
	unsigned i;

	(void)state;
	for (i = 0; i < ROUNDS; i++) {
		bool v6 = i & 1, damaged = random_below(8) == 0;
		size_t length = v6 ? sizeof(v6_too_big) : sizeof(v4_frag_needed), header = v6 ? 40 : 20;
		struct addr alias = random_address(v6);
		struct packet p, after;

		memcpy(bytes, v6 ? v6_too_big : v4_frag_needed, length);
		assert_true(oracle_good(bytes));
		if (damaged) /* the next hop's MTU, of all bytes */
			bytes[header + 7] ^= (uint8_t)(1 + random_below(255));
		p = parse(bytes, length, PACKET_ICMP_ERROR);
		encap_to_alias(bytes, &p, &alias);
		assert_int_equal(oracle_transport_good(bytes), !damaged);
		assert_true(v6 || (oracle_ipv4_header_good(bytes) && oracle_ipv4_header_good(bytes + 28)));
		after = parse(bytes, length, PACKET_ICMP_ERROR);
		assert_true(addr_equal(&after.destination, &alias));
		assert_true(addr_equal(&after.key.service, &alias));
		assert_true(addr_equal(&after.key.client, &p.key.client));
		assert_memory_equal(&after.key.client_port, &p.key.client_port, 4);
	}
}

static void checksum_check_sees_damage(void **state)
{
	static uint8_t bytes[2048];
	unsigned i;

	(void)state;
	for (i = 0; i < ROUNDS / 10; i++) {
		struct packet p = make_data(bytes, i & 1, random_below(1400));
		uint32_t at = p.header_bytes + random_below(p.total_bytes - p.header_bytes);
		uint8_t was = bytes[at];

		assert_true(encap_tcp_checksum_good(bytes, &p));
		bytes[at] ^= (uint8_t)(1 << random_below(8));
		assert_false(encap_tcp_checksum_good(bytes, &p));
		bytes[at] = was;
	}
}

/* Cuts a packet and checks every piece against the whole. Returns how many there were. */
static unsigned check_segments(const uint8_t *bytes, const struct packet *p, uint32_t payload_max)
{
	static uint8_t out[JUMBO_BYTES + 200];
	uint32_t headers = (uint32_t)p->header_bytes + p->tcp_header_bytes, payload = p->total_bytes - headers;
	uint32_t offset = 0, before = 0;
	unsigned count = 0;

	while (offset < payload) {
		uint32_t total = encap_segment(bytes, p, &offset, payload_max, (uint16_t)count, out);
		struct packet s = parse(out, total, PACKET_TCP);
		bool last = offset == payload;

		assert_int_equal(offset - before, last ? payload - before : payload_max);
		assert_int_equal(s.total_bytes, total);
		assert_int_equal(total, headers + offset - before);
		assert_true(oracle_good(out));
		assert_int_equal(s.tcp_sequence, p->tcp_sequence + before);
		assert_memory_equal(out + headers, bytes + headers + before, offset - before);
		assert_memory_equal(&s.key, &p->key, sizeof(s.key));
		assert_int_equal(s.tos, p->tos);
		assert_int_equal(s.ttl, p->ttl);
		assert_int_equal(s.dont_fragment, p->dont_fragment);
		/* Acknowledgement, window and options are copied. */
		assert_memory_equal(out + p->header_bytes + 8, bytes + p->header_bytes + 8, 5);
		assert_memory_equal(out + p->header_bytes + 14, bytes + p->header_bytes + 14, 2);
		assert_memory_equal(out + p->header_bytes + 20, bytes + p->header_bytes + 20, p->tcp_header_bytes - 20);
		assert_int_equal(s.tcp_flags & (TCP_FIN | TCP_PSH), last ? p->tcp_flags & (TCP_FIN | TCP_PSH) : 0);
		assert_int_equal(s.tcp_flags & TCP_CWR, before ? 0 : p->tcp_flags & TCP_CWR);
		assert_int_equal(s.tcp_flags & 0x56, p->tcp_flags & 0x56); /* SYN RST ACK ECE */
		if (!p->v6)
			assert_int_equal(read_be16(out + 4), (uint16_t)(read_be16(bytes + 4) + count));
		before = offset;
		count++;
	}
	return count;
}

static void segments_make_up_the_packet(void **state)
{
	static uint8_t bytes[JUMBO_BYTES + 200];
	unsigned i;

	(void)state;
	for (i = 0; i < ROUNDS / 20; i++) {
		uint32_t payload = 1 + random_below(JUMBO_BYTES), payload_max = 1 + random_below(payload + 10);
		struct packet p = make_data(bytes, i & 1, payload);

		if (payload / payload_max > 100)
			payload_max = payload / 100 + 1;
		bytes[p.header_bytes + 13] = (uint8_t)(TCP_ACK | random_below(256));
		bytes[p.header_bytes + 13] &= (uint8_t)~TCP_URG;
		p = parse(bytes, p.total_bytes, PACKET_TCP);
		assert_int_equal(check_segments(bytes, &p, payload_max), (payload + payload_max - 1) / payload_max);
	}
	for (i = 1; i < 20; i++) { /* 1460 bytes into exactly n pieces, both families */
		struct packet p = make_data(bytes, i & 1, 1460);

		assert_int_equal(check_segments(bytes, &p, (1460 + i - 1) / i), i);
	}
}

/* The urgent pointer counts from the sequence number: it moves with it, and ends. RFC 9293 3.8.5. */
static void segments_keep_the_urgent_point(void **state)
{
	static const uint16_t expected[] = { 250, 150, 50, 0 };
	uint8_t bytes[600], out[600];
	struct packet p = make_data(bytes, false, 400);
	uint32_t offset = 0;
	unsigned i;

	(void)state;
	bytes[20 + 13] |= TCP_URG;
	write_be16(bytes + 20 + 18, 250);
	p = parse(bytes, p.total_bytes, PACKET_TCP);
	for (i = 0; i < 4; i++) {
		encap_segment(bytes, &p, &offset, 100, 0, out);
		assert_true(oracle_good(out));
		assert_int_equal(read_be16(out + 20 + 18), expected[i]);
		assert_int_equal(!!(out[20 + 13] & TCP_URG), expected[i] != 0);
	}
	assert_int_equal(offset, 400);
}

static void check_too_big(bool v6, uint32_t payload, uint32_t captured)
{
	static uint8_t bytes[JUMBO_BYTES + 200], out[TOO_BIG_BYTES_MAX];
	struct packet p = make_data(bytes, v6, payload), error;
	uint32_t header = v6 ? 40 : 20, limit = v6 ? 1280 : 576, quoted, length;

	if (captured > p.total_bytes)
		captured = p.total_bytes;
	quoted = captured < limit - header - 8 ? captured : limit - header - 8;
	memset(out, 0xaa, sizeof(out));
	length = encap_too_big(bytes, &p, captured, v6 ? 1460 : 1480, out);
	assert_int_equal(length, header + 8 + quoted);
	assert_true(oracle_good(out));
	assert_memory_equal(out + header + 8, bytes, quoted);
	/* Type, code and the field of the MTU: RFC 1191 4, RFC 4443 3.2. */
	if (v6)
		assert_memory_equal(out + 40 + 4, "\x00\x00\x05\xb4", 4);
	else
		assert_memory_equal(out + 20 + 4, "\x00\x00\x05\xc8", 4);
	assert_int_equal(out[header], v6 ? 2 : 3);
	assert_int_equal(out[header + 1], v6 ? 0 : 4);
	packet_parse(out, length, &error);
	assert_int_equal(error.total_bytes, length);
	assert_true(addr_equal(&error.source, &p.destination));
	assert_true(addr_equal(&error.destination, &p.source));
}

static void too_big_says_how_big(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < ROUNDS / 40; i++)
		check_too_big(i & 1, random_below(JUMBO_BYTES), 72 + random_below(JUMBO_BYTES));
	for (i = 72; i < 1400; i++) { /* every length around the limits, odd and even */
		check_too_big(false, 1448, i);
		check_too_big(true, 1428, i);
	}
}

/* RFC 1624's own example, and the corner that its first equation gets wrong. */
static void incremental_update_follows_rfc_1624(void **state)
{
	uint8_t field[2] = { 0xdd, 0x2f };

	(void)state;
	checksum_replace(field, (const uint8_t *)"\x55\x55", (const uint8_t *)"\x32\x85", 2);
	assert_int_equal(read_be16(field), 0x0000);
	assert_int_equal(checksum_fold(checksum_add(0, (const uint8_t *)"\x00\x01\xf2\x03\xf4\xf5\xf6\xf7", 8)),
			 (uint16_t)~0xddf2); /* RFC 1071 3 */
	assert_int_equal(checksum_fold(checksum_add(0, (const uint8_t *)"\x01\x02\x03", 3)), (uint16_t)~0x0402);
}

static int seed(void **state)
{
	const char *given = getenv("UNIT_SEED");

	(void)state;
	random_state = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
	print_message("UNIT_SEED=%llu\n", (unsigned long long)random_state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(outer_headers_are_golden),      cmocka_unit_test(outer_headers_follow_the_inner),
		cmocka_unit_test(mark_of_a_syn_that_may_return), cmocka_unit_test(flow_labels),
		cmocka_unit_test(options_are_left_out),          cmocka_unit_test(header_checksums),
		cmocka_unit_test(ecn_follows_rfc_6040),          cmocka_unit_test(alias_keeps_tcp_checksums),
		cmocka_unit_test(alias_keeps_icmp_checksums),    cmocka_unit_test(checksum_check_sees_damage),
		cmocka_unit_test(segments_make_up_the_packet),   cmocka_unit_test(segments_keep_the_urgent_point),
		cmocka_unit_test(too_big_says_how_big),          cmocka_unit_test(incremental_update_follows_rfc_1624),
	};

	return cmocka_run_group_tests(tests, seed, NULL);
}
