// SPDX-License-Identifier: GPL-2.0-or-later
/* Makes each frame a packet of the next flow (livegen.c), and sends it. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "tests/bench/livegen.h"

/* Set by livegen.c. */
uint8_t headers[LIVEGEN_FRAME_BYTES]; /* checksums zero, source address and port the first flow's */
uint32_t ip_sum, tcp_sum; /* of headers[], without address and port of the source; not folded */
uint32_t flow_count, interface;
uint32_t next_flow;

static __always_inline void write_be16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static __always_inline void write_checksum(uint8_t *at, uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	write_be16(at, ~sum);
}

SEC("xdp")
int livegen_next(struct xdp_md *context)
{
	uint8_t *frame = (uint8_t *)(long)context->data;
	uint32_t flow = next_flow, source, port;

	if (frame + LIVEGEN_FRAME_BYTES > (uint8_t *)(long)context->data_end)
		return XDP_DROP;
	next_flow = flow + 1 < flow_count ? flow + 1 : 0;
	source = LIVEGEN_SOURCES | (flow & (LIVEGEN_SOURCE_COUNT - 1));
	port = LIVEGEN_PORTS + flow / LIVEGEN_SOURCE_COUNT;
	/* The whole frame is written: the former packet's way has changed it. */
	__builtin_memcpy(frame, headers, LIVEGEN_FRAME_BYTES);
	write_be16(frame + LIVEGEN_IP + 12, source >> 16);
	write_be16(frame + LIVEGEN_IP + 14, source & 0xffff);
	write_be16(frame + LIVEGEN_TCP, port);
	write_checksum(frame + LIVEGEN_IP + 10, ip_sum + (source >> 16) + (source & 0xffff));
	write_checksum(frame + LIVEGEN_TCP + 16, tcp_sum + (source >> 16) + (source & 0xffff) + port);
	return (int)bpf_redirect(interface, 0);
}

char _license[] SEC("license") = "GPL";
