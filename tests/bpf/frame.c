// SPDX-License-Identifier: GPL-2.0-or-later
/* frame.c - facts of a finished frame (craft.h). */
#include <stdio.h>

#include "tests/bpf/craft.h"
#include "tests/unit/oracle.h"

unsigned frame_datagram_bytes(const struct frame *frame)
{
	const uint8_t *ip = frame->bytes + FRAME_ETHERNET_BYTES;

	return ip[0] >> 4 == 6 ? 40u + ip[4] * 256u + ip[5] : ip[2] * 256u + ip[3];
}

static bool sums_good(const uint8_t *ip)
{
	bool v6 = ip[0] >> 4 == 6;
	unsigned protocol = v6 ? ip[6] : ip[9];

	if (!v6 && !oracle_ipv4_header_good(ip))
		return false;
	if (protocol == 4 || protocol == 41)
		return sums_good(ip + (v6 ? 40 : 20));
	return oracle_transport_good(ip);
}

bool frame_sums_good(const struct frame *frame)
{
	return sums_good(frame->bytes + FRAME_ETHERNET_BYTES);
}

void frame_print(const char *title, const struct frame *frame, const struct frame *other)
{
	unsigned i, k;

	printf("# %s, %u bytes\n", title, frame->length);
	for (i = 0; i < frame->length; i += 16) {
		printf("#  %4u", i);
		for (k = i; k < i + 16 && k < frame->length; k++) {
			bool same = !other || (k < other->length && other->bytes[k] == frame->bytes[k]);

			printf(same ? " %02x " : "<%02x>", frame->bytes[k]);
		}
		printf("\n");
	}
}
