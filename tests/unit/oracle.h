/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * oracle.h - checksums of a whole packet, computed in another way than in encap.h: they share no code, so that a
 * mistake is not made twice.
 */
#ifndef TESTS_UNIT_ORACLE_H
#define TESTS_UNIT_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True for a sum that is a multiple of 65535 and not 0: RFC 1071 calls it good. */
static inline bool oracle_sums_up(uint64_t sum)
{
	return sum && sum % 65535 == 0;
}

static inline uint64_t oracle_sum(const uint8_t *bytes, size_t length)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < length; i++)
		sum += (uint64_t)bytes[i] << (i % 2 ? 0 : 8);
	return sum;
}

static inline bool oracle_ipv4_header_good(const uint8_t *ip)
{
	return oracle_sums_up(oracle_sum(ip, (size_t)(ip[0] & 0x0f) * 4));
}

/* The checksum of the TCP, ICMP or ICMPv6 within a whole IPv4 or IPv6 packet. */
static inline bool oracle_transport_good(const uint8_t *ip)
{
	bool v6 = ip[0] >> 4 == 6;
	size_t header = v6 ? 40 : (size_t)(ip[0] & 0x0f) * 4, length;
	uint8_t protocol = v6 ? ip[6] : ip[9];
	uint64_t sum;

	/* hop by hop, routing, destination */
	while (v6 && (protocol == 0 || protocol == 43 || protocol == 60)) {
		protocol = ip[header];
		header += 8 + 8 * (size_t)ip[header + 1];
	}
	length = (v6 ? 40 + (size_t)ip[4] * 256 + ip[5] : (size_t)ip[2] * 256 + ip[3]) - header;
	sum = oracle_sum(ip + header, length);

	if (protocol != 1) /* ICMP alone has no pseudo header */
		sum += (v6 ? oracle_sum(ip + 8, 32) : oracle_sum(ip + 12, 8)) + protocol + length;
	return oracle_sums_up(sum);
}

static inline bool oracle_good(const uint8_t *ip)
{
	return (ip[0] >> 4 == 6 || oracle_ipv4_header_good(ip)) && oracle_transport_good(ip);
}

#endif
