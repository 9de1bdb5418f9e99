/* SPDX-License-Identifier: GPL-2.0-or-later */
/* livegen.h - frames of the packet generator, for its program in the kernel and the one that starts it. */
#ifndef TESTS_BENCH_LIVEGEN_H
#define TESTS_BENCH_LIVEGEN_H

#include <stdint.h>

enum {
	LIVEGEN_IP = 14,
	LIVEGEN_TCP = 34,
	LIVEGEN_FRAME_BYTES = 54,
	LIVEGEN_SOURCES = 0xc6120000, /* 198.18.0.0/16: no network of the world uses it (RFC 2544) */
	LIVEGEN_SOURCE_COUNT = 256,
	LIVEGEN_PORTS = 1024, /* the first one */
	LIVEGEN_FLOWS_MAX = 1 << 24,
};

#endif
