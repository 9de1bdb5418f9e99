/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probe.h - the packet that proves a way to a peer: a SYN between two discard ports, which no client sends. Pure, header
 * only.
 *
 * It goes to a service address of its sender in the form of a forwarded connection, so whatever would stop that stops
 * it, too. Behind the firewall's first rules the serving node drops it, and notes for which address it came.
 */
#ifndef DPRD_PROBE_H
#define DPRD_PROBE_H

#include "dprd/core/packet/encap.h"

enum {
	PROBE_PORT = 9, /* discard (RFC 863): of the service, and of the client of a small probe */
	PROBE_FULL_PORT = 10, /* of the client of a probe that is as large as packets on this way may be */
	PROBE_FULL_BYTES_MAX = 9000, /* the queue of the nfqueue plane takes no packet much larger */
};

static inline unsigned probe_bytes(bool v6)
{
	return (v6 ? (unsigned)IPV6_HEADER_BYTES : (unsigned)IPV4_HEADER_BYTES) + TCP_HEADER_BYTES;
}

/* True for a probe, if port PROBE_PORT is no service. */
static inline bool packet_is_probe(const struct packet *packet)
{
	return packet_is_syn(packet) && packet->key.service_port == to_be16(PROBE_PORT) &&
	       (packet->key.client_port == to_be16(PROBE_PORT) || packet->key.client_port == to_be16(PROBE_FULL_PORT));
}

/* Writes a probe of probe_bytes(), or of more bytes, all 0, for a full-size one. */
static inline void probe_write(uint8_t *out, bool v6, const struct addr *source, const struct addr *destination,
			       unsigned bytes)
{
	unsigned header_bytes = probe_bytes(v6) - TCP_HEADER_BYTES, tcp_bytes = bytes - header_bytes;
	uint8_t *tcp = out + header_bytes;

	memset(tcp, 0, tcp_bytes);
	write_be16(tcp, bytes > probe_bytes(v6) ? PROBE_FULL_PORT : PROBE_PORT);
	write_be16(tcp + 2, PROBE_PORT);
	tcp[12] = TCP_HEADER_BYTES / 4 << 4;
	tcp[13] = TCP_SYN;
	if (v6)
		write_ipv6_header(out, tcp_bytes, 0, 0, PROTO_TCP, source, destination);
	else
		write_ipv4_header(out, bytes, 0, true, 0, PROTO_TCP, addr_v4(source), addr_v4(destination));
	write_be16(tcp + 16,
		   checksum_fold(checksum_add(checksum_pseudo(v6, out, PROTO_TCP, tcp_bytes), tcp, tcp_bytes)));
}

#endif
