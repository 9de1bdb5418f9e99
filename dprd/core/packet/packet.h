/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * packet.h - turns bytes into struct packet: the one parser of every plane. Pure, header only.
 *
 * It reads nothing beyond the captured length and checks all lengths in the headers against each other. A packet that
 * it does not understand gets a kind of enum packet_kind and stays untouched. INLINE steps are also called alone by
 * callers that need few of the fields: the compiler leaves out the rest. The BPF programs call packet_parse_family(),
 * which does not look behind IP options and extension headers; packet_parse() does. RFC 791, RFC 8200, RFC 9293, RFC
 * 792, RFC 4443; RFC 2003 and RFC 2473 for the tunnel.
 */
#ifndef DPRD_PACKET_H
#define DPRD_PACKET_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "dprd/base/addr.h"
#include "dprd/base/inline.h"

enum packet_limits {
	IPV4_HEADER_BYTES = 20,
	IPV6_HEADER_BYTES = 40,
	IPV6_EXTENSIONS_MAX = 8, /* extension headers of a packet that the parser looks behind */
	IPV6_EXTENSION_BYTES = 8, /* of the shortest one */
	TCP_HEADER_BYTES = 20,
	TCP_HEADER_BYTES_MAX = 60, /* with all options that fit */
	ICMP_HEADER_BYTES = 8,
	ICMP_QUOTED_TCP_BYTES = 8, /* ports and sequence number: RFC 792 promises no more */
};

enum ip_protocol {
	PROTO_HOP_BY_HOP = 0,
	PROTO_ICMP = 1,
	PROTO_IPIP = 4,
	PROTO_TCP = 6,
	PROTO_IPV6 = 41,
	PROTO_ROUTING = 43,
	PROTO_FRAGMENT = 44,
	PROTO_ICMPV6 = 58,
	PROTO_DESTINATION = 60,
};

enum tcp_flags {
	TCP_FIN = 0x01,
	TCP_SYN = 0x02,
	TCP_RST = 0x04,
	TCP_PSH = 0x08,
	TCP_ACK = 0x10,
	TCP_URG = 0x20,
	TCP_CWR = 0x80,
};

enum packet_kind {
	PACKET_TCP, /* key, flags, sequence are set */
	PACKET_ICMP_ERROR, /* key is that of the quoted packet, turned to the client's direction */
	PACKET_TUNNEL, /* protocol 4 or 41: inner, inner_bytes are set */
	PACKET_FRAGMENT,
	PACKET_OPTIONS, /* IPv4 options or IPv6 extension headers, and the parser did not look for TCP behind them */
	PACKET_OTHER, /* another protocol, or ICMP that is not an error */
	PACKET_TRUNCATED, /* shorter than its headers say */
	PACKET_MALFORMED,
};

/* The connection, seen from the client. */
struct flow_key {
	struct addr client, service;
	be16 client_port, service_port;
};

struct packet {
	enum packet_kind kind;
	bool v6;
	uint8_t protocol;
	uint8_t ttl;
	uint8_t tos; /* traffic class */
	bool dont_fragment; /* always true for IPv6 */
	uint16_t header_bytes; /* of the IP header; of TCP with the options or extension headers in front */
	uint32_t total_bytes; /* of the datagram, by its own header */
	struct addr source, destination;
	struct flow_key key;
	uint8_t tcp_flags;
	uint16_t tcp_header_bytes;
	uint32_t tcp_sequence; /* host order */
	uint32_t inner_bytes;
	const uint8_t *inner; /* PACKET_TUNNEL: the packet within; PACKET_ICMP_ERROR: the quoted one */
};

static inline uint16_t to_be16(uint16_t value)
{
	return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? value : __builtin_bswap16(value);
}

static inline uint32_t to_be32(uint32_t value)
{
	return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? value : __builtin_bswap32(value);
}

static inline uint16_t read_be16(const uint8_t *p)
{
	return to_be16(load_u16(p));
}

static inline uint32_t read_be32(const uint8_t *p)
{
	return to_be32(load_u32(p));
}

static inline void write_be16(uint8_t *p, uint32_t value)
{
	store_u16(p, to_be16((uint16_t)value));
}

static inline void write_be32(uint8_t *p, uint32_t value)
{
	store_u32(p, to_be32(value));
}

static inline bool packet_is_syn(const struct packet *packet)
{
	return packet->kind == PACKET_TCP && (packet->tcp_flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN)) == TCP_SYN;
}

/* True for TCP behind IPv4 options or IPv6 extension headers. */
static inline bool packet_has_options(const struct packet *packet)
{
	return packet->header_bytes > (packet->v6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES);
}

/*
 * The readable part of a datagram, from bytes to end, and the length of the datagram. They differ only in the kernel,
 * where a packet lies in pieces and only the first piece can be read.
 */
struct packet_bytes {
	const uint8_t *bytes, *end;
	uint32_t length;
};

/* True when count bytes from at on can be read. */
static inline bool packet_has(const struct packet_bytes *b, uint32_t at, uint32_t count)
{
	return b->bytes + at + count <= b->end;
}

INLINE int packet_parse_v4(const struct packet_bytes *b, struct packet *p)
{
	const uint8_t *bytes = b->bytes;

	if (b->length < IPV4_HEADER_BYTES || !packet_has(b, 0, IPV4_HEADER_BYTES))
		return PACKET_TRUNCATED;
	p->header_bytes = (uint16_t)((bytes[0] & 0x0f) * 4);
	p->total_bytes = read_be16(bytes + 2);
	if (p->header_bytes < IPV4_HEADER_BYTES || p->total_bytes < p->header_bytes)
		return PACKET_MALFORMED;
	p->tos = bytes[1];
	p->ttl = bytes[8];
	p->protocol = bytes[9];
	p->dont_fragment = bytes[6] & 0x40;
	p->source = addr_from_v4(load_u32(bytes + 12));
	p->destination = addr_from_v4(load_u32(bytes + 16));
	if (p->header_bytes > IPV4_HEADER_BYTES)
		return PACKET_OPTIONS;
	return read_be16(bytes + 6) & 0x3fff ? PACKET_FRAGMENT : 0;
}

INLINE int packet_parse_v6(const struct packet_bytes *b, struct packet *p)
{
	const uint8_t *bytes = b->bytes;

	if (b->length < IPV6_HEADER_BYTES || !packet_has(b, 0, IPV6_HEADER_BYTES))
		return PACKET_TRUNCATED;
	p->v6 = true;
	p->header_bytes = IPV6_HEADER_BYTES;
	p->total_bytes = IPV6_HEADER_BYTES + (uint32_t)read_be16(bytes + 4);
	p->tos = (uint8_t)(bytes[0] << 4 | bytes[1] >> 4);
	p->protocol = bytes[6];
	p->ttl = bytes[7];
	p->dont_fragment = true;
	p->source = addr_from_v6(bytes + 8);
	p->destination = addr_from_v6(bytes + 24);
	if (p->protocol == PROTO_FRAGMENT)
		return PACKET_FRAGMENT;
	return p->protocol == PROTO_HOP_BY_HOP || p->protocol == PROTO_ROUTING || p->protocol == PROTO_DESTINATION
		       ? PACKET_OPTIONS
		       : 0;
}

/* The service sent the quoted packet of an ICMP error, so its reversed tuple is the client's. */
static inline enum packet_kind packet_parse_quoted(const struct packet_bytes *quoted, uint32_t header_bytes,
						   struct packet *p)
{
	const uint8_t *tcp = quoted->bytes + header_bytes;
	struct packet inner = { 0 };

	if (quoted->length < header_bytes)
		return PACKET_OTHER;
	if (!packet_has(quoted, 0, header_bytes))
		return PACKET_TRUNCATED;
	if (quoted->bytes[0] >> 4 != (p->v6 ? 6 : 4) ||
	    (p->v6 ? packet_parse_v6(quoted, &inner) : packet_parse_v4(quoted, &inner)) || inner.protocol != PROTO_TCP)
		return PACKET_OTHER;
	if (quoted->length < header_bytes + ICMP_QUOTED_TCP_BYTES ||
	    !packet_has(quoted, header_bytes, ICMP_QUOTED_TCP_BYTES))
		return PACKET_TRUNCATED;
	/* An error goes to the sender of the quoted packet; any other is forged or went astray. */
	if (!addr_equal(&inner.source, &p->destination))
		return PACKET_OTHER;
	p->key.client = inner.destination;
	p->key.service = inner.source;
	p->key.service_port = load_u16(tcp);
	p->key.client_port = load_u16(tcp + 2);
	p->inner = quoted->bytes;
	p->inner_bytes = quoted->length;
	return PACKET_ICMP_ERROR;
}

static inline bool icmp_is_error(const struct packet *p, uint8_t type)
{
	if (p->v6)
		return type >= 1 && type <= 4;
	return type == 3 || type == 11 || type == 12;
}

INLINE enum packet_kind packet_parse_tcp(const struct packet_bytes *payload, uint32_t header_bytes, struct packet *p)
{
	const uint8_t *tcp = payload->bytes;

	if (payload->length < TCP_HEADER_BYTES || !packet_has(payload, 0, TCP_HEADER_BYTES))
		return PACKET_TRUNCATED;
	p->tcp_header_bytes = (uint16_t)((tcp[12] >> 4) * 4);
	/* A value below the least one wraps around, so that one comparison checks both limits. */
	if ((uint32_t)p->tcp_header_bytes - TCP_HEADER_BYTES > p->total_bytes - header_bytes - TCP_HEADER_BYTES)
		return PACKET_MALFORMED;
	p->key.client = p->source;
	p->key.service = p->destination;
	p->key.client_port = load_u16(tcp);
	p->key.service_port = load_u16(tcp + 2);
	p->tcp_sequence = read_be32(tcp + 4);
	p->tcp_flags = tcp[13];
	return PACKET_TCP;
}

/* Parses the bytes behind an IP header of header_bytes, which is a constant to the compiler. */
INLINE enum packet_kind packet_parse_payload(const struct packet_bytes *b, uint32_t header_bytes, struct packet *p)
{
	struct packet_bytes payload = { .bytes = b->bytes + header_bytes, .end = b->end }, quoted;

	/* Bytes behind the datagram (link padding) are not part of it. */
	payload.length = (b->length < p->total_bytes ? b->length : p->total_bytes) - header_bytes;
	if (p->protocol == PROTO_TCP)
		return packet_parse_tcp(&payload, header_bytes, p);
	if (p->protocol == (p->v6 ? PROTO_IPV6 : PROTO_IPIP)) {
		p->inner = payload.bytes;
		p->inner_bytes = payload.length;
		return PACKET_TUNNEL;
	}
	if (p->protocol != (p->v6 ? PROTO_ICMPV6 : PROTO_ICMP) || payload.length < ICMP_HEADER_BYTES)
		return PACKET_OTHER;
	if (!packet_has(&payload, 0, ICMP_HEADER_BYTES))
		return PACKET_TRUNCATED;
	if (!icmp_is_error(p, payload.bytes[0]))
		return PACKET_OTHER;
	quoted.bytes = payload.bytes + ICMP_HEADER_BYTES;
	quoted.end = payload.end;
	quoted.length = payload.length - ICMP_HEADER_BYTES;
	return packet_parse_quoted(&quoted, header_bytes, p);
}

/*
 * Parses the readable part of a datagram of this family. PACKET_TRUNCATED for a datagram that is long enough: the
 * caller must make more of it readable.
 */
INLINE enum packet_kind packet_parse_family(const struct packet_bytes *b, bool v6, struct packet *p)
{
	int problem;

	memset(p, 0, sizeof(*p));
	problem = v6 ? packet_parse_v6(b, p) : packet_parse_v4(b, p);
	if (problem)
		return p->kind = (enum packet_kind)problem;
	return p->kind = packet_parse_payload(b, v6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES, p);
}

/* The same for either family. */
static inline enum packet_kind packet_parse_bytes(const struct packet_bytes *b, struct packet *p)
{
	int version = packet_has(b, 0, 1) ? b->bytes[0] >> 4 : 0;

	if (version == 4)
		return packet_parse_family(b, false, p);
	if (version == 6)
		return packet_parse_family(b, true, p);
	memset(p, 0, sizeof(*p));
	return p->kind = packet_has(b, 0, 1) ? PACKET_MALFORMED : PACKET_TRUNCATED;
}

/* --- TCP behind options, extension headers or a fragment header --- */

/* Copies bytes of a datagram to *to; false: it has no such bytes. */
typedef bool packet_load_fn(const void *datagram, uint32_t at, uint8_t *to, uint32_t bytes);

/*
 * Steps over the IPv6 extension header of protocol *next, which begins with these bytes. Returns its length, and sets
 * *next to the protocol behind it; 0: TCP does not stand behind it, or is not for this node.
 */
INLINE uint32_t packet_step(uint8_t *next, const uint8_t header[IPV6_EXTENSION_BYTES])
{
	uint8_t protocol = *next;

	*next = header[0];
	if (protocol == PROTO_FRAGMENT)
		return read_be16(header + 2) & 0xfff8 ? 0 : IPV6_EXTENSION_BYTES;
	/* The destination is not the last one while segments are left. */
	if (protocol == PROTO_ROUTING && header[3])
		return 0;
	if (protocol != PROTO_HOP_BY_HOP && protocol != PROTO_ROUTING && protocol != PROTO_DESTINATION)
		return 0;
	return IPV6_EXTENSION_BYTES * (1 + (uint32_t)header[1]);
}

INLINE uint32_t packet_tcp_place_v6(packet_load_fn *load, const void *datagram, bool *ret_fragment)
{
	uint8_t next, header[IPV6_EXTENSION_BYTES];
	uint32_t at = IPV6_HEADER_BYTES, bytes;
	int i;

	if (!load(datagram, 6, &next, 1))
		return 0;
#ifdef __bpf__
#pragma clang loop unroll(disable)
#endif
	for (i = 0; i < IPV6_EXTENSIONS_MAX && next != PROTO_TCP; i++) {
		*ret_fragment = *ret_fragment || next == PROTO_FRAGMENT;
		if (!load(datagram, at, header, sizeof(header)))
			return 0;
		bytes = packet_step(&next, header);
		if (!bytes)
			return 0;
		at += bytes;
	}
	return next == PROTO_TCP ? at : 0;
}

INLINE uint32_t packet_tcp_place_v4(packet_load_fn *load, const void *datagram, bool *ret_fragment)
{
	uint8_t header[IPV4_HEADER_BYTES];

	if (!load(datagram, 0, header, sizeof(header)) || header[9] != PROTO_TCP || read_be16(header + 6) & 0x1fff)
		return 0;
	*ret_fragment = header[6] & 0x20;
	return (header[0] & 0x0f) * 4u;
}

/*
 * The place of the TCP header in a datagram of kind PACKET_OPTIONS or PACKET_FRAGMENT; 0: none begins in it.
 * *ret_fragment: it is in the first fragment.
 */
INLINE uint32_t packet_tcp_place(packet_load_fn *load, const void *datagram, bool v6, bool *ret_fragment)
{
	*ret_fragment = false;
	return v6 ? packet_tcp_place_v6(load, datagram, ret_fragment)
		  : packet_tcp_place_v4(load, datagram, ret_fragment);
}

static inline bool packet_load(const void *datagram, uint32_t at, uint8_t *to, uint32_t bytes)
{
	const struct packet_bytes *b = datagram;

	if (at > b->length || bytes > b->length - at || !packet_has(b, at, bytes))
		return false;
	memcpy(to, b->bytes + at, bytes);
	return true;
}

enum ip_option {
	IPV4_END = 0,
	IPV4_NOP = 1,
	IPV4_SECURITY = 0x82,
	IPV4_LOOSE_ROUTE = 0x83,
	IPV4_LABEL = 0x86,
	IPV4_STRICT_ROUTE = 0x89,
	IPV6_PAD = 0,
	IPV6_LABEL = 7,
	IPV6_MUST_KNOW = 0xc0, /* a bit of these: who does not know the option must not take the packet */
};

/* True when TCP behind these IPv4 options may be taken as if they were not there. */
static inline bool packet_options_harmless_v4(const uint8_t *options, uint32_t bytes)
{
	uint32_t at = 0;

	while (at < bytes && options[at] != IPV4_END) {
		uint8_t kind = options[at];

		if (kind == IPV4_NOP) {
			at++;
			continue;
		}
		/* Behind an option without a sound length nothing can be read. */
		if (at + 1 >= bytes || options[at + 1] < 2 || kind == IPV4_LOOSE_ROUTE || kind == IPV4_STRICT_ROUTE ||
		    kind == IPV4_SECURITY || kind == IPV4_LABEL)
			return false;
		at += options[at + 1];
	}
	return true;
}

/* The same for the options of one hop-by-hop or destination header. */
static inline bool packet_options_harmless_v6(const uint8_t *options, uint32_t bytes)
{
	uint32_t at = 0;

	while (at < bytes) {
		uint8_t kind = options[at];

		if (kind == IPV6_PAD) {
			at++;
			continue;
		}
		if (at + 1 >= bytes || kind & IPV6_MUST_KNOW || kind == IPV6_LABEL)
			return false;
		at += 2 + (uint32_t)options[at + 1];
	}
	return at == bytes;
}

/* The same for all between the IP header and TCP, which begins at end. The caller has walked through the headers. */
static inline bool packet_is_harmless(const struct packet_bytes *b, const struct packet *p, uint32_t end)
{
	uint8_t kind = p->protocol;
	uint32_t at;

	if (!p->v6)
		return packet_options_harmless_v4(b->bytes + IPV4_HEADER_BYTES, end - IPV4_HEADER_BYTES);
	for (at = IPV6_HEADER_BYTES; at < end;) {
		const uint8_t *header = b->bytes + at;
		uint32_t bytes = IPV6_EXTENSION_BYTES * (1 + (uint32_t)header[1]);

		if (kind != PROTO_ROUTING && !packet_options_harmless_v6(header + 2, bytes - 2))
			return false;
		kind = header[0];
		at += bytes;
	}
	return true;
}

/*
 * Parses TCP behind options or extension headers that may be left out. Any other packet stays PACKET_OPTIONS: one with a
 * source route, a security label or an option that the receiver has to know.
 */
static inline enum packet_kind packet_parse_behind(const struct packet_bytes *b, struct packet *p)
{
	struct packet_bytes payload = *b;
	bool fragment;
	uint32_t at = packet_tcp_place(packet_load, b, p->v6, &fragment);

	if (fragment)
		return p->kind = PACKET_FRAGMENT;
	if (!at || at > p->total_bytes || at > b->length || !packet_has(b, 0, at) || !packet_is_harmless(b, p, at))
		return p->kind;
	payload.bytes += at;
	payload.length = (b->length < p->total_bytes ? b->length : p->total_bytes) - at;
	p->header_bytes = (uint16_t)at;
	p->protocol = PROTO_TCP;
	return p->kind = packet_parse_tcp(&payload, at, p);
}

/*
 * Parses a datagram of which length bytes were captured into *p, which points into bytes. Returns p->kind. They may be
 * fewer than the datagram has, as long as they hold the headers (a short copy range).
 */
static inline enum packet_kind packet_parse(const uint8_t *bytes, uint32_t length, struct packet *p)
{
	const struct packet_bytes whole = { .bytes = bytes, .end = bytes + length, .length = length };

	return packet_parse_bytes(&whole, p) == PACKET_OPTIONS ? packet_parse_behind(&whole, p) : p->kind;
}

#endif
