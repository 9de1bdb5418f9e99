/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * encap.h - writes the outer header, the alias, smaller segments and the too-big message: every byte that dprd writes
 * into a packet, on every plane. Pure, header only.
 *
 * RFC 2003 (4 in 4), RFC 2473 (6 in 6), RFC 6040 (ECN), RFC 1624 (incremental checksums),
 * RFC 1191 and RFC 8201 (too big).
 */
#ifndef DPRD_ENCAP_H
#define DPRD_ENCAP_H

#include "dprd/base/inline.h"
#include "dprd/core/packet/packet.h"

enum {
	ENCAP_V4_BYTES = IPV4_HEADER_BYTES,
	ENCAP_V6_BYTES = IPV6_HEADER_BYTES,
	ENCAP_TTL = 64, /* of the outer header, for the tunnel's path, RFC 2003 3.1 */
	/*
	 * Upper byte of the identification (IPv4), or of the lower 16 bits of the flow label (IPv6), of the outer header:
	 * this SYN may be sent back. The lower byte says how good the sender's best other choice is:
	 * decide_alternative_code().
	 */
	ENCAP_MAY_RETURN = 0xa700,
	/* In each flow label that is a hash: none of them is taken for ENCAP_MAY_RETURN. */
	ENCAP_FLOW_LABEL = 0x80000,
	TOO_BIG_BYTES_MAX = 1280,
	TOO_BIG_V4_BYTES_MAX = 576, /* RFC 1812 4.3.2.3 */
};

static inline unsigned encap_bytes(bool v6)
{
	return v6 ? ENCAP_V6_BYTES : ENCAP_V4_BYTES;
}

/* One's complement sum over bytes, added to sum; fold with checksum_fold(). RFC 1071. */
static inline uint32_t checksum_add(uint32_t sum, const uint8_t *bytes, uint32_t length)
{
	uint32_t i;

	for (i = 0; i + 1 < length; i += 2) {
		sum += read_be16(bytes + i);
		sum = (sum & 0xffff) + (sum >> 16);
	}
	if (length & 1)
		sum += (uint32_t)bytes[length - 1] << 8;
	return (sum & 0xffff) + (sum >> 16);
}

static inline uint16_t checksum_fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/*
 * Updates the checksum at *field after length bytes (even, word-aligned in the sum) changed from old to new. RFC 1624
 * eqn 3.
 */
static inline void checksum_replace(uint8_t *field, const uint8_t *old, const uint8_t *new, uint32_t length)
{
	uint32_t sum = (uint16_t)~read_be16(field);
	uint32_t i;

	for (i = 0; i < length; i += 2)
		sum += (uint16_t)~read_be16(old + i) + (uint32_t)read_be16(new + i);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	write_be16(field, (uint16_t)~sum);
}

/* Sum of the pseudo header for an upper-layer packet of length bytes. RFC 9293 3.1, RFC 8200 8.1. */
static inline uint32_t checksum_pseudo(bool v6, const uint8_t *ip, uint8_t protocol, uint32_t length)
{
	uint32_t sum = v6 ? checksum_add(0, ip + 8, 32) : checksum_add(0, ip + 12, 8);

	sum += protocol + (length >> 16) + (length & 0xffff);
	return (sum & 0xffff) + (sum >> 16);
}

static inline void write_ipv4_header(uint8_t *ip, uint32_t total_bytes, uint8_t tos, bool dont_fragment, uint16_t id,
				     uint8_t protocol, be32 source, be32 destination)
{
	uint32_t words[5] = { to_be32(0x45000000 | (uint32_t)tos << 16 | (total_bytes & 0xffff)),
			      to_be32((uint32_t)id << 16 | (dont_fragment ? 0x4000 : 0)),
			      to_be32((uint32_t)ENCAP_TTL << 24 | (uint32_t)protocol << 16), source, destination };
	uint64_t sum = 0;
	int i;

	/* A one's complement sum of whole words, in any byte order. RFC 1071 2 (B), (C). */
	for (i = 0; i < 5; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	for (i = 0; i < 5; i++)
		store_u32(ip + 4 * i, words[i]);
	store_u16(ip + 10, (uint16_t)~sum);
}

static inline void write_ipv6_header(uint8_t *ip, uint32_t payload_bytes, uint8_t traffic_class, uint32_t flow_label,
				     uint8_t protocol, const struct addr *source, const struct addr *destination)
{
	int i;

	store_u32(ip, to_be32(0x60000000 | (uint32_t)traffic_class << 20 | flow_label));
	store_u32(ip + 4, to_be32(payload_bytes << 16 | (uint32_t)protocol << 8 | ENCAP_TTL));
	for (i = 0; i < 4; i++) {
		store_u32(ip + 8 + 4 * i, source->words[i]);
		store_u32(ip + 24 + 4 * i, destination->words[i]);
	}
}

/*
 * The identification (IPv4) or the flow label (IPv6) of the outer header: sign, which is ENCAP_MAY_RETURN with a code, or
 * 0. In place of 0 a flow label is a hash of the connection: routers that have several ways of equal cost choose by it,
 * and all packets of the connection go the same way (RFC 6438).
 */
static inline uint32_t encap_outer_id(const struct packet *inner, bool v6, uint32_t sign)
{
	const uint32_t *client = inner->key.client.words;
	uint32_t hash;

	if (sign || !v6)
		return sign;
	hash = (client[0] ^ client[1] ^ client[2] ^ client[3] ^ inner->key.service.words[3]) * 0x9e3779b1u;
	hash = (hash ^ inner->key.client_port ^ (uint32_t)inner->key.service_port << 16) * 0x85ebca6bu;
	return ENCAP_FLOW_LABEL | hash >> 13;
}

/*
 * Writes the outer header for an inner packet of inner->total_bytes into outer (encap_bytes() bytes). The traffic class
 * with ECN is copied from the inner packet (RFC 6040 4.1 normal mode). DF is always set (RFC 2003 5.1): a router that
 * cut the tunnel packet would tell nobody, and the node takes no fragments; so it must say that the path is narrow. With
 * DF the identification means nothing to others (RFC 6864 4.1). id: encap_outer_id().
 */
static inline void encap_write_family(uint8_t *outer, bool v6, const struct packet *inner, const struct addr *source,
				      const struct addr *destination, uint32_t id)
{
	if (v6)
		write_ipv6_header(outer, inner->total_bytes, inner->tos, id, PROTO_IPV6, source, destination);
	else
		write_ipv4_header(outer, IPV4_HEADER_BYTES + inner->total_bytes, inner->tos, true, (uint16_t)id,
				  PROTO_IPIP, addr_v4(source), addr_v4(destination));
}

/* The same, for the family of inner. sign: as of encap_outer_id(). */
static inline void encap_write(uint8_t *outer, const struct packet *inner, const struct addr *source,
			       const struct addr *destination, uint16_t sign)
{
	encap_write_family(outer, inner->v6, inner, source, destination, encap_outer_id(inner, inner->v6, sign));
}

static inline uint32_t encap_id(const uint8_t *outer, bool v6)
{
	return v6 ? read_be32(outer) & 0xfffff : read_be16(outer + 4);
}

/* True when the node that wrote this outer header would take the SYN within back. */
static inline bool encap_may_return(const uint8_t *outer, bool v6)
{
	return (encap_id(outer, v6) & ~0xffU) == ENCAP_MAY_RETURN;
}

/* The code that such an outer header carries. */
static inline uint8_t encap_alternative(const uint8_t *outer, bool v6)
{
	return (uint8_t)encap_id(outer, v6);
}

/*
 * True when the checksum of a whole IPv4 header is right; IPv6 has none. The kernel does not check the header that takes
 * the place of a queued packet's.
 */
static inline bool encap_header_checksum_good(const uint8_t *bytes, const struct packet *packet)
{
	return packet->v6 || checksum_fold(checksum_add(0, bytes, (bytes[0] & 0x0f) * 4u)) == 0;
}

/*
 * Sets the inner ECN field after decapsulation by RFC 6040 figure 4, and mends the inner header's checksum. Returns
 * false when the packet must be dropped (outer CE, inner Not-ECT).
 */
static inline bool encap_decapsulate_ecn(uint8_t *inner, const struct packet *inner_packet, uint8_t outer_tos)
{
	uint8_t outer_ecn = outer_tos & 3, inner_ecn = inner_packet->tos & 3, ecn = inner_ecn;
	uint8_t old[2];

	if (outer_ecn == 3) {
		if (inner_ecn == 0)
			return false;
		ecn = 3;
	} else if (outer_ecn == 1 && inner_ecn == 2) {
		ecn = 1;
	}
	if (ecn == inner_ecn)
		return true;
	memcpy(old, inner, 2);
	if (inner_packet->v6) {
		inner[1] = (uint8_t)((inner[1] & 0xcf) | ecn << 4);
	} else {
		inner[1] = (uint8_t)((inner[1] & 0xfc) | ecn);
		checksum_replace(inner + 10, old, inner, 2);
	}
	return true;
}

/*
 * Takes IPv4 options or IPv6 extension headers out of a TCP packet, as packet_parse() allows it: TCP does not need them.
 * Returns where the packet begins now, further behind in the same bytes, and changes *packet. The transport's checksum
 * does not cover them. An IPv4 header that was damaged stays damaged.
 */
static inline uint8_t *encap_without_options(uint8_t *bytes, struct packet *packet)
{
	uint16_t header_bytes = packet->v6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES;
	uint16_t options = (uint16_t)(packet->header_bytes - header_bytes);
	bool good = encap_header_checksum_good(bytes, packet);
	uint8_t *ip = bytes + options;

	memmove(ip, bytes, header_bytes);
	packet->total_bytes -= options;
	packet->header_bytes = header_bytes;
	if (packet->v6) {
		write_be16(ip + 4, packet->total_bytes - IPV6_HEADER_BYTES);
		ip[6] = PROTO_TCP;
		return ip;
	}
	ip[0] = 0x45;
	write_be16(ip + 2, packet->total_bytes);
	memset(ip + 10, 0, 2);
	write_be16(ip + 10, checksum_fold(checksum_add(0, ip, IPV4_HEADER_BYTES)) ^ (good ? 0 : 1));
	return ip;
}

/*
 * Counts one hop without an outer header (RFC 1812 5.3.1): lowers the TTL or hop limit and updates the checksum. False:
 * no hop is left, and nothing was changed.
 */
static inline bool encap_use_hop(uint8_t *ip, bool v6)
{
	uint8_t *hops = v6 ? ip + 7 : ip + 8, old[2];

	if (*hops <= 1)
		return false;
	memcpy(old, ip + 8, 2);
	--*hops;
	if (!v6)
		checksum_replace(ip + 10, old, ip + 8, 2);
	return true;
}

/*
 * Replaces the source or destination address of an IP header. Updates the header's checksum and, when l4_checksum is
 * given, the transport's.
 */
static inline void encap_rewrite_address(uint8_t *ip, bool v6, bool destination, const struct addr *to,
					 uint8_t *l4_checksum)
{
	uint32_t bytes = v6 ? 16 : 4;
	uint8_t *field = v6 ? ip + (destination ? 24 : 8) : ip + (destination ? 16 : 12);
	const uint8_t *new = v6 ? to->bytes : to->bytes + 12;
	uint8_t old[16];

	memcpy(old, field, bytes);
	memcpy(field, new, bytes);
	if (!v6)
		checksum_replace(ip + 10, old, new, bytes);
	if (l4_checksum)
		checksum_replace(l4_checksum, old, new, bytes);
}

/*
 * Makes a decapsulated packet local under an alias: rewrites the destination of the packet, and in an ICMP error also
 * the source of the quoted one, so that the stack finds the socket. Checksums are changed by the difference, never
 * computed anew: a damaged packet must not look sound. packet is a PACKET_TCP or a PACKET_ICMP_ERROR; bytes holds all
 * of it, packet->total_bytes.
 */
static inline void encap_to_alias(uint8_t *bytes, const struct packet *packet, const struct addr *alias)
{
	uint8_t *payload = bytes + packet->header_bytes;
	uint8_t *quoted = payload + ICMP_HEADER_BYTES;
	uint32_t quoted_bytes = packet->v6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES;
	uint8_t old[IPV6_HEADER_BYTES];

	if (packet->kind == PACKET_TCP) {
		encap_rewrite_address(bytes, packet->v6, true, alias, payload + 16);
		return;
	}
	/* Only ICMPv6 sums a pseudo header; ICMP does not. */
	encap_rewrite_address(bytes, packet->v6, true, alias, packet->v6 ? payload + 2 : NULL);
	memcpy(old, quoted, quoted_bytes);
	encap_rewrite_address(quoted, packet->v6, false, alias, NULL);
	checksum_replace(payload + 2, old, quoted, quoted_bytes);
}

/*
 * True when the TCP checksum of a whole packet is right. Ask this before encap_segment(): its fresh checksums would
 * make a damaged payload look sound.
 */
static inline bool encap_tcp_checksum_good(const uint8_t *bytes, const struct packet *packet)
{
	uint32_t length = packet->total_bytes - packet->header_bytes;
	uint32_t sum = checksum_pseudo(packet->v6, bytes, PROTO_TCP, length);

	return checksum_fold(checksum_add(sum, bytes + packet->header_bytes, length)) == 0;
}

/*
 * Flags of a segment whose payload begins start bytes into the packet's. FIN and PSH go to the last segment, CWR to the
 * first (RFC 3168 6.1.2); the urgent pointer counts from the sequence number.
 */
static inline void encap_segment_flags(uint8_t *tcp, uint32_t start, bool last)
{
	uint32_t urgent = read_be16(tcp + 18);

	if (!last)
		tcp[13] &= (uint8_t) ~(TCP_FIN | TCP_PSH);
	if (start)
		tcp[13] &= (uint8_t)~TCP_CWR;
	if (!(tcp[13] & TCP_URG))
		return;
	if (urgent <= start)
		tcp[13] &= (uint8_t)~TCP_URG;
	write_be16(tcp + 18, urgent > start ? urgent - start : 0);
}

/*
 * Writes one smaller segment of a TCP packet that is too big for the tunnel: copies the headers and at most payload_max
 * bytes (not 0) of payload from *offset; sets sequence, length, checksums and flags. Returns its total bytes and moves
 * *offset on. The caller ends when *offset is the payload's length. bytes: the whole packet, not a SYN (which takes a
 * sequence number). out must hold the headers and payload_max bytes. id_step is added to the IPv4 identification.
 */
static inline uint32_t encap_segment(const uint8_t *bytes, const struct packet *packet, uint32_t *offset,
				     uint32_t payload_max, uint16_t id_step, uint8_t *out)
{
	uint32_t headers = (uint32_t)packet->header_bytes + packet->tcp_header_bytes;
	uint32_t payload = packet->total_bytes - headers - *offset;
	uint8_t *tcp = out + packet->header_bytes;
	uint32_t total;
	bool last = payload <= payload_max;

	if (!last)
		payload = payload_max;
	total = headers + payload;
	memcpy(out, bytes, headers);
	memcpy(out + headers, bytes + headers + *offset, payload);
	if (packet->v6) {
		write_be16(out + 4, total - IPV6_HEADER_BYTES);
	} else {
		write_be16(out + 2, total);
		write_be16(out + 4, (uint16_t)(read_be16(out + 4) + id_step));
		write_be16(out + 10, 0);
		write_be16(out + 10, checksum_fold(checksum_add(0, out, packet->header_bytes)));
	}
	write_be32(tcp + 4, packet->tcp_sequence + *offset);
	encap_segment_flags(tcp, *offset, last);
	*offset += payload;
	write_be16(tcp + 16, 0);
	write_be16(tcp + 16,
		   checksum_fold(checksum_add(checksum_pseudo(packet->v6, out, PROTO_TCP, total - packet->header_bytes),
					      tcp, total - packet->header_bytes)));
	return total;
}

/*
 * Writes the headers of the "too big" message about packet, from its destination to its source, with the MTU that fits
 * the tunnel. Quoted bytes of the packet follow; their sum (checksum_add()) is quoted_sum. out: encap_bytes() +
 * ICMP_HEADER_BYTES.
 */
INLINE void encap_too_big_header(uint8_t *out, const struct packet *packet, uint32_t quoted, uint32_t quoted_sum,
				 uint32_t mtu)
{
	uint32_t length = ICMP_HEADER_BYTES + quoted;
	uint8_t *icmp = out + (packet->v6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES);

	store_u32(icmp, 0);
	write_be32(icmp + 4, mtu);
	if (packet->v6) {
		write_ipv6_header(out, length, 0, 0, PROTO_ICMPV6, &packet->destination, &packet->source);
		icmp[0] = 2;
		quoted_sum += checksum_pseudo(true, out, PROTO_ICMPV6, length);
	} else {
		write_ipv4_header(out, IPV4_HEADER_BYTES + length, 0, false, 0, PROTO_ICMP,
				  addr_v4(&packet->destination), addr_v4(&packet->source));
		icmp[0] = 3;
		icmp[1] = 4;
		write_be16(icmp + 4, 0);
	}
	write_be16(icmp + 2, checksum_fold(checksum_add(quoted_sum, icmp, ICMP_HEADER_BYTES)));
}

/*
 * Writes the whole message. Returns the bytes written to out (at most TOO_BIG_BYTES_MAX). captured: bytes of the packet
 * that can be read.
 */
static inline uint32_t encap_too_big(const uint8_t *bytes, const struct packet *packet, uint32_t captured, uint32_t mtu,
				     uint8_t *out)
{
	uint32_t limit = packet->v6 ? TOO_BIG_BYTES_MAX : TOO_BIG_V4_BYTES_MAX;
	uint32_t headers = encap_bytes(packet->v6) + ICMP_HEADER_BYTES;
	uint32_t quoted = captured < packet->total_bytes ? captured : packet->total_bytes;

	if (quoted > limit - headers)
		quoted = limit - headers;
	memcpy(out + headers, bytes, quoted);
	encap_too_big_header(out, packet, quoted, checksum_add(0, out + headers, quoted), mtu);
	return headers + quoted;
}

#endif
