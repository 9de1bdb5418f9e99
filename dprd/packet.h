/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * packet.h - bytes to struct packet: the one parser of every plane. Pure, header only.
 *
 * Nothing is read beyond the captured length, and nothing is believed that the lengths in the
 * headers do not bear out. What is not understood is named by enum packet_kind and left alone.
 * RFC 791, RFC 8200, RFC 9293, RFC 792, RFC 4443; RFC 2003 and RFC 2473 for the tunnel.
 */
#ifndef DPRD_PACKET_H
#define DPRD_PACKET_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "dprd/base/addr.h"

enum packet_limits {
	IPV4_HEADER_BYTES = 20,
	IPV6_HEADER_BYTES = 40,
	TCP_HEADER_BYTES = 20,
	ICMP_HEADER_BYTES = 8,
	ICMP_QUOTED_TCP_BYTES = 8, /* ports and sequence number: all that RFC 792 promises */
};

enum ip_protocol { PROTO_ICMP = 1, PROTO_IPIP = 4, PROTO_TCP = 6, PROTO_IPV6 = 41, PROTO_ICMPV6 = 58 };

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
	PACKET_OPTIONS, /* IPv4 options or IPv6 extension headers */
	PACKET_OTHER, /* another protocol, or ICMP that is not an error */
	PACKET_TRUNCATED, /* shorter than its own headers say */
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
	uint16_t header_bytes; /* of the IP header */
	uint32_t total_bytes; /* of the datagram, by its own header */
	struct addr source, destination;
	struct flow_key key;
	uint8_t tcp_flags;
	uint32_t tcp_sequence; /* host order */
	uint16_t tcp_header_bytes;
	const uint8_t *inner; /* PACKET_TUNNEL: the packet within; PACKET_ICMP_ERROR: the quoted one */
	uint32_t inner_bytes;
};

static inline uint16_t read_be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t read_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline void write_be16(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

static inline void write_be32(uint8_t *p, uint32_t value)
{
	write_be16(p, value >> 16);
	write_be16(p + 2, value);
}

static inline bool packet_is_syn(const struct packet *packet)
{
	return packet->kind == PACKET_TCP && (packet->tcp_flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN)) == TCP_SYN;
}

/*
 * The IP header alone: family, lengths, addresses, protocol. 0, or the kind that names why not. The
 * datagram may be cut off behind its header, as in an ICMP error or by the copy range.
 */
static inline int packet_parse_ip(const uint8_t *bytes, uint32_t length, struct packet *p)
{
	memset(p, 0, sizeof(*p));
	if (length < 1)
		return PACKET_TRUNCATED;
	if (bytes[0] >> 4 == 4) {
		if (length < IPV4_HEADER_BYTES)
			return PACKET_TRUNCATED;
		p->header_bytes = (uint16_t)((bytes[0] & 0x0f) * 4);
		p->total_bytes = read_be16(bytes + 2);
		if (p->header_bytes < IPV4_HEADER_BYTES || p->total_bytes < p->header_bytes)
			return PACKET_MALFORMED;
		p->tos = bytes[1];
		p->ttl = bytes[8];
		p->protocol = bytes[9];
		p->dont_fragment = bytes[6] & 0x40;
		p->source = addr_from_v4(*(const be32 *)memcpy(&(be32) { 0 }, bytes + 12, 4));
		p->destination = addr_from_v4(*(const be32 *)memcpy(&(be32) { 0 }, bytes + 16, 4));
		if (p->header_bytes > IPV4_HEADER_BYTES)
			return PACKET_OPTIONS;
		if (read_be16(bytes + 6) & 0x3fff)
			return PACKET_FRAGMENT;
	} else if (bytes[0] >> 4 == 6) {
		if (length < IPV6_HEADER_BYTES)
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
		if (p->protocol == 44)
			return PACKET_FRAGMENT;
		if (p->protocol == 0 || p->protocol == 43 || p->protocol == 60)
			return PACKET_OPTIONS;
	} else {
		return PACKET_MALFORMED;
	}
	return 0;
}

/* The quoted packet of an ICMP error was sent by the service: its tuple reversed is the client's. */
static inline enum packet_kind packet_parse_quoted(const uint8_t *quoted, uint32_t length, struct packet *p)
{
	struct packet inner;
	const uint8_t *tcp;

	if (packet_parse_ip(quoted, length, &inner) || inner.protocol != PROTO_TCP || inner.v6 != p->v6)
		return PACKET_OTHER;
	if (length < (uint32_t)inner.header_bytes + ICMP_QUOTED_TCP_BYTES)
		return PACKET_TRUNCATED;
	/* An error about a packet that was not sent from the address it reports to is forged or lost. */
	if (!addr_equal(&inner.source, &p->destination))
		return PACKET_OTHER;
	tcp = quoted + inner.header_bytes;
	p->key.client = inner.destination;
	p->key.service = inner.source;
	memcpy(&p->key.service_port, tcp, 2);
	memcpy(&p->key.client_port, tcp + 2, 2);
	p->inner = quoted;
	p->inner_bytes = length;
	return PACKET_ICMP_ERROR;
}

static inline bool icmp_is_error(const struct packet *p, uint8_t type)
{
	if (p->v6)
		return type >= 1 && type <= 4;
	return type == 3 || type == 11 || type == 12;
}

/*
 * Parses a whole datagram of length captured bytes into *p; p points into bytes. Returns p->kind.
 * captured may be less than the datagram as long as it holds the headers (a short copy range).
 */
static inline enum packet_kind packet_parse(const uint8_t *bytes, uint32_t length, struct packet *p)
{
	int problem = packet_parse_ip(bytes, length, p);
	const uint8_t *payload;
	uint32_t left;

	if (problem)
		return p->kind = (enum packet_kind)problem;
	payload = bytes + p->header_bytes;
	/* Bytes behind the datagram (link padding) are not part of it. */
	left = (length < p->total_bytes ? length : p->total_bytes) - p->header_bytes;
	p->kind = PACKET_OTHER;
	if (p->protocol == PROTO_TCP) {
		if (left < TCP_HEADER_BYTES)
			return p->kind = PACKET_TRUNCATED;
		p->tcp_header_bytes = (uint16_t)((payload[12] >> 4) * 4);
		if (p->tcp_header_bytes < TCP_HEADER_BYTES ||
		    p->total_bytes < (uint32_t)p->header_bytes + p->tcp_header_bytes)
			return p->kind = PACKET_MALFORMED;
		p->key.client = p->source;
		p->key.service = p->destination;
		memcpy(&p->key.client_port, payload, 2);
		memcpy(&p->key.service_port, payload + 2, 2);
		p->tcp_sequence = read_be32(payload + 4);
		p->tcp_flags = payload[13];
		p->kind = PACKET_TCP;
	} else if (p->protocol == (p->v6 ? PROTO_ICMPV6 : PROTO_ICMP)) {
		if (left >= ICMP_HEADER_BYTES && icmp_is_error(p, payload[0]))
			p->kind = packet_parse_quoted(payload + ICMP_HEADER_BYTES, left - ICMP_HEADER_BYTES, p);
	} else if (p->protocol == (p->v6 ? PROTO_IPV6 : PROTO_IPIP)) {
		p->inner = payload;
		p->inner_bytes = left;
		p->kind = PACKET_TUNNEL;
	}
	return p->kind;
}

#endif
