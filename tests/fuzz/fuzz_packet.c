// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Any bytes go through the parser. An accepted packet goes through all rewriting, under the same conditions as in
 * path.c. Input: two bytes of choices, then a datagram.
 */
#include <stdio.h>
#include <stdlib.h>

#include "dprd/core/packet/encap.h"
#include "tests/unit/oracle.h"

enum {
	CHOICE_MEND = 1 << 0, /* make the checksums good first: few random packets have good ones */
	SEGMENTS_MAX = 200,
};

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct addr peers[2] = { { .bytes = { [10] = 0xff, [11] = 0xff, 198, 51, 100, 2 } },
				      { .bytes = { 0x20, 0x01, 0x0d, 0xb8, [15] = 2 } } };
static const struct addr aliases[2] = { { .bytes = { [10] = 0xff, [11] = 0xff, 127, 200, 0xff, 0xff } },
					{ .bytes = { 0xfd, [6] = 0xff, 0xff, [15] = 9 } } };

static uint8_t *copy_of(const uint8_t *bytes, size_t length)
{
	uint8_t *copy = malloc(length);

	CHECK(copy);
	memcpy(copy, bytes, length);
	return copy;
}

/* The promises of the parser about every packet. */
static void check_parsed(const uint8_t *bytes, uint32_t length, const struct packet *p)
{
	uint32_t all = p->total_bytes < length ? p->total_bytes : length;

	CHECK(p->kind <= PACKET_MALFORMED);
	if (p->kind == PACKET_TUNNEL || p->kind == PACKET_ICMP_ERROR) {
		CHECK(p->inner >= bytes + p->header_bytes);
		CHECK(p->inner + p->inner_bytes == bytes + all);
	} else {
		CHECK(!p->inner && !p->inner_bytes);
	}
	if (p->kind != PACKET_TCP)
		return;
	CHECK(p->protocol == PROTO_TCP && p->header_bytes >= (p->v6 ? 40 : 20));
	CHECK(p->v6 || p->header_bytes == (bytes[0] & 0x0f) * 4);
	CHECK(all >= p->header_bytes + 20u);
	CHECK(p->tcp_header_bytes >= 20 && p->tcp_header_bytes <= 60);
	CHECK(p->total_bytes >= (uint32_t)p->header_bytes + p->tcp_header_bytes);
	CHECK(addr_equal(&p->key.client, &p->source) && addr_equal(&p->key.service, &p->destination));
}

/* Sets good checksums in a whole TCP packet or ICMP error. */
static void mend(uint8_t *bytes, const struct packet *p)
{
	uint8_t *payload = bytes + p->header_bytes, *field = payload + (p->kind == PACKET_TCP ? 16 : 2);
	uint32_t length = p->total_bytes - p->header_bytes;
	uint64_t sum;

	memset(field, 0, 2);
	sum = oracle_sum(payload, length);
	if (p->protocol != PROTO_ICMP)
		sum += p->protocol + length + oracle_sum(bytes + (p->v6 ? 8 : 12), p->v6 ? 32 : 8);
	write_be16(field, (uint32_t)(65535 - sum % 65535));
	if (!p->v6) {
		memset(bytes + 10, 0, 2);
		write_be16(bytes + 10, (uint32_t)(65535 - oracle_sum(bytes, p->header_bytes) % 65535));
	}
}

static void check_outer(const struct packet *p)
{
	uint8_t outer[ENCAP_V6_BYTES];
	struct packet seen;

	if (!p->v6 && p->total_bytes > 65535 - ENCAP_V4_BYTES)
		return;
	encap_write(outer, p, &aliases[p->v6], &peers[p->v6], 7);
	CHECK(p->v6 || oracle_ipv4_header_good(outer));
	CHECK(packet_parse(outer, encap_bytes(p->v6), &seen) == PACKET_TUNNEL);
	CHECK(seen.v6 == p->v6 && seen.tos == p->tos && seen.dont_fragment);
	CHECK(p->v6 || seen.total_bytes == p->total_bytes + ENCAP_V4_BYTES);
	CHECK(addr_equal(&seen.destination, &peers[p->v6]));
}

static void check_segments(const uint8_t *bytes, const struct packet *p, uint32_t payload_max)
{
	uint32_t headers = (uint32_t)p->header_bytes + p->tcp_header_bytes, payload = p->total_bytes - headers;
	uint32_t offset = 0, before = 0;
	uint8_t *out;

	if (payload / payload_max > SEGMENTS_MAX)
		payload_max = payload / SEGMENTS_MAX + 1;
	out = malloc(headers + payload_max);
	CHECK(out);
	while (offset < payload) {
		uint32_t total = encap_segment(bytes, p, &offset, payload_max, 1, out);
		struct packet s;

		CHECK(offset > before && offset <= payload && total == headers + offset - before);
		CHECK(packet_parse(out, total, &s) == PACKET_TCP && s.total_bytes == total);
		CHECK(oracle_good(out));
		CHECK(memcmp(out + headers, bytes + headers + before, offset - before) == 0);
		CHECK(s.tcp_sequence == p->tcp_sequence + before && s.header_bytes == p->header_bytes);
		CHECK(memcmp(&s.key, &p->key, sizeof(s.key)) == 0);
		CHECK((s.tcp_flags & (TCP_FIN | TCP_PSH)) ==
		      (offset == payload ? p->tcp_flags & (TCP_FIN | TCP_PSH) : 0));
		before = offset;
	}
	free(out);
}

static void check_too_big(const uint8_t *bytes, const struct packet *p, uint32_t captured)
{
	uint8_t *out = malloc(TOO_BIG_BYTES_MAX);
	struct packet error;
	uint32_t length;

	CHECK(out);
	length = encap_too_big(bytes, p, captured, 1400, out);
	CHECK(length <= (p->v6 ? 1280 : 576));
	packet_parse(out, length, &error);
	CHECK(error.total_bytes == length && error.v6 == p->v6);
	CHECK(oracle_good(out));
	CHECK(addr_equal(&error.destination, &p->source));
	free(out);
}

/* From the tunnel to the own stack: sound packets stay sound, damaged ones damaged. */
static void check_decapsulated(const uint8_t *bytes, const struct packet *p, uint8_t outer_tos)
{
	uint8_t *copy = copy_of(bytes, p->total_bytes);
	bool good = oracle_transport_good(bytes), header_good = p->v6 || oracle_ipv4_header_good(bytes);
	struct packet after;

	if (encap_decapsulate_ecn(copy, p, outer_tos)) {
		encap_to_alias(copy, p, &aliases[p->v6]);
		CHECK(oracle_transport_good(copy) == good);
		CHECK(p->v6 || oracle_ipv4_header_good(copy) == header_good);
		CHECK(packet_parse(copy, p->total_bytes, &after) == p->kind);
		CHECK(addr_equal(&after.destination, &aliases[p->v6]));
		CHECK(addr_equal(&after.key.service, &aliases[p->v6]));
		CHECK(addr_equal(&after.key.client, &p->key.client));
	} else {
		CHECK((outer_tos & 3) == 3 && (p->tos & 3) == 0);
		CHECK(memcmp(copy, bytes, p->total_bytes) == 0);
	}
	free(copy);
}

/* Options are left out of a packet in which nothing else changes. */
static void check_without_options(const uint8_t *bytes, const struct packet *p)
{
	bool good = oracle_transport_good(bytes), header_good = p->v6 || oracle_ipv4_header_good(bytes);
	uint8_t *copy = copy_of(bytes, p->total_bytes), *plain;
	struct packet after, left = *p;

	plain = encap_without_options(copy, &left);
	CHECK(plain + left.total_bytes == copy + p->total_bytes);
	CHECK(packet_parse(plain, left.total_bytes, &after) == PACKET_TCP && !packet_has_options(&after));
	CHECK(memcmp(&after.key, &p->key, sizeof(after.key)) == 0 && after.tcp_sequence == p->tcp_sequence);
	CHECK(oracle_transport_good(plain) == good);
	CHECK(p->v6 || oracle_ipv4_header_good(plain) == header_good);
	free(copy);
}

static void check_packet(uint8_t *bytes, uint32_t length, const uint8_t choices[2], unsigned depth)
{
	struct packet p, inner;
	bool whole;

	packet_parse(bytes, length, &p);
	check_parsed(bytes, length, &p);
	whole = length >= p.total_bytes;
	if (p.kind == PACKET_TUNNEL && depth == 0) {
		uint8_t *copy = copy_of(p.inner, p.inner_bytes);

		check_packet(copy, p.inner_bytes, choices, 1);
		packet_parse(copy, p.inner_bytes, &inner);
		if (inner.v6 == p.v6 && inner.total_bytes == p.inner_bytes &&
		    (inner.kind == PACKET_TCP || inner.kind == PACKET_ICMP_ERROR))
			check_decapsulated(copy, &inner, p.tos);
		free(copy);
	}
	if (p.kind != PACKET_TCP && p.kind != PACKET_ICMP_ERROR)
		return;
	check_outer(&p);
	if (whole && choices[0] & CHOICE_MEND) {
		mend(bytes, &p);
		CHECK(oracle_good(bytes));
	}
	if (p.kind != PACKET_TCP)
		return;
	check_too_big(bytes, &p, length);
	if (!whole)
		return;
	if (packet_has_options(&p))
		check_without_options(bytes, &p);
	CHECK(encap_tcp_checksum_good(bytes, &p) == oracle_transport_good(bytes));
	if (!(p.tcp_flags & TCP_SYN))
		check_segments(bytes, &p, 1u + choices[1] * 8u);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes;

	if (size < 2 || size > 1 << 17)
		return 0;
	bytes = copy_of(data + 2, size - 2);
	check_packet(bytes, (uint32_t)size - 2, data, 0);
	free(bytes);
	return 0;
}
