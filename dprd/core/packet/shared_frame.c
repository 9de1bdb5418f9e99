// SPDX-License-Identifier: GPL-2.0-or-later
/* shared_frame.c - frames about shared addresses, byte by byte. */
#include "dprd/core/packet/shared_frame.h"

enum {
	ETHERNET_BYTES = 14,
	ARP_BYTES = 28,
	ARP_REQUEST = 1,
	ND_ADVERTISEMENT_BYTES = 32, /* with the option */
	MRD_BYTES = 8,
	IGMP_MRD = 0x30,
	ICMPV6_MRD = 151,
	PROTO_IGMP = 2,
};

static uint32_t sum(uint32_t before, const uint8_t *bytes, unsigned count)
{
	unsigned i;

	for (i = 0; i + 1 < count; i += 2)
		before += read_be16(bytes + i);
	return before;
}

static uint16_t fold(uint32_t total)
{
	total = (total & 0xffff) + (total >> 16);
	return (uint16_t) ~((total & 0xffff) + (total >> 16));
}

static uint8_t *ethernet(uint8_t *frame, const uint8_t to[6], const uint8_t from[6], uint16_t type)
{
	memset(frame, 0, SHARED_FRAME_BYTES);
	memcpy(frame, to, 6);
	memcpy(frame + 6, from, 6);
	write_be16(frame + 12, type);
	return frame + ETHERNET_BYTES;
}

static unsigned announce_v4(uint8_t *frame, const struct addr *address, const uint8_t shared[6], const uint8_t own[6])
{
	static const uint8_t all[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	static const uint8_t head[8] = { 0, 1, 8, 0, 6, 4, 0, ARP_REQUEST };
	uint8_t *arp = ethernet(frame, all, own, 0x0806);

	memcpy(arp, head, sizeof(head));
	memcpy(arp + 8, shared, 6);
	memcpy(arp + 14, address->bytes + 12, 4);
	memcpy(arp + 24, address->bytes + 12, 4);
	return ETHERNET_BYTES + ARP_BYTES;
}

/* Writes version 6, payload length, next header, hop limit and addresses; returns the place behind them. */
static uint8_t *ipv6(uint8_t *ip, unsigned payload_bytes, uint8_t next, uint8_t hops, const uint8_t source[16],
		     const uint8_t destination[16])
{
	ip[0] = 0x60;
	write_be16(ip + 4, payload_bytes);
	ip[6] = next;
	ip[7] = hops;
	memcpy(ip + 8, source, 16);
	memcpy(ip + 24, destination, 16);
	return ip + IPV6_HEADER_BYTES;
}

/* The checksum covers the pseudo header (RFC 8200, 8.1) and the message. */
static void icmpv6_checksum(const uint8_t *ip, uint8_t *icmp, unsigned bytes)
{
	write_be16(icmp + 2, fold(sum(sum(bytes + PROTO_ICMPV6, ip + 8, 32), icmp, bytes)));
}

static unsigned announce_v6(uint8_t *frame, const struct addr *address, const uint8_t shared[6], const uint8_t own[6])
{
	static const uint8_t all_nodes[16] = { 0xff, 0x02, [15] = 1 };
	static const uint8_t to[6] = { 0x33, 0x33, 0, 0, 0, 1 };
	uint8_t *ip = ethernet(frame, to, own, 0x86dd);
	uint8_t *icmp = ipv6(ip, ND_ADVERTISEMENT_BYTES, PROTO_ICMPV6, 255, address->bytes, all_nodes);

	icmp[0] = 136;
	icmp[4] = 0x20; /* override */
	memcpy(icmp + 8, address->bytes, 16);
	icmp[24] = 2; /* target link-layer address, one unit of eight bytes */
	icmp[25] = 1;
	memcpy(icmp + 26, shared, 6);
	icmpv6_checksum(ip, icmp, ND_ADVERTISEMENT_BYTES);
	return ETHERNET_BYTES + IPV6_HEADER_BYTES + ND_ADVERTISEMENT_BYTES;
}

unsigned shared_frame_announce(uint8_t frame[SHARED_FRAME_BYTES], const struct addr *address, const uint8_t shared[6],
			       const uint8_t own[6])
{
	return addr_is_v4(address) ? announce_v4(frame, address, shared, own)
				   : announce_v6(frame, address, shared, own);
}

/*
 * Goes to 224.0.0.106 with TTL 1 and the option router alert (RFC 2113). The node is not a querier: the last two fields
 * are 0.
 */
static unsigned router_v4(uint8_t *frame, const struct addr *source, const uint8_t own[6])
{
	static const uint8_t to[6] = { 0x01, 0x00, 0x5e, 0, 0, 0x6a }, group[4] = { 224, 0, 0, 106 };
	static const uint8_t alert[4] = { 148, 4, 0, 0 };
	uint8_t *ip = ethernet(frame, to, own, 0x0800);
	unsigned header_bytes = IPV4_HEADER_BYTES + sizeof(alert);
	uint8_t *igmp = ip + header_bytes;

	ip[0] = (uint8_t)(0x40 | header_bytes / 4);
	ip[1] = 0xc0;
	write_be16(ip + 2, header_bytes + MRD_BYTES);
	ip[6] = 0x40;
	ip[8] = 1;
	ip[9] = PROTO_IGMP;
	memcpy(ip + 12, source->bytes + 12, 4);
	memcpy(ip + 16, group, 4);
	memcpy(ip + 20, alert, sizeof(alert));
	write_be16(ip + 10, fold(sum(0, ip, header_bytes)));
	igmp[0] = IGMP_MRD;
	igmp[1] = SHARED_ADVERTISEMENT_S;
	write_be16(igmp + 2, fold(sum(0, igmp, MRD_BYTES)));
	return ETHERNET_BYTES + header_bytes + MRD_BYTES;
}

/* Goes to ff02::6a with hop limit 1, with the hop-by-hop option router alert (RFC 2711, value 0: MLD). */
static unsigned router_v6(uint8_t *frame, const struct addr *source, const uint8_t own[6])
{
	static const uint8_t all_snoopers[16] = { 0xff, 0x02, [15] = 0x6a };
	static const uint8_t to[6] = { 0x33, 0x33, 0, 0, 0, 0x6a };
	static const uint8_t alert[8] = { PROTO_ICMPV6, 0, 5, 2, 0, 0, 1, 0 };
	uint8_t *ip = ethernet(frame, to, own, 0x86dd);
	uint8_t *hop = ipv6(ip, sizeof(alert) + MRD_BYTES, 0, 1, source->bytes, all_snoopers);
	uint8_t *icmp = hop + sizeof(alert);

	memcpy(hop, alert, sizeof(alert));
	icmp[0] = ICMPV6_MRD;
	icmp[1] = SHARED_ADVERTISEMENT_S;
	icmpv6_checksum(ip, icmp, MRD_BYTES);
	return ETHERNET_BYTES + IPV6_HEADER_BYTES + sizeof(alert) + MRD_BYTES;
}

unsigned shared_frame_router(uint8_t frame[SHARED_FRAME_BYTES], const struct addr *source, const uint8_t own[6])
{
	return addr_is_v4(source) ? router_v4(frame, source, own) : router_v6(frame, source, own);
}
