/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tap.h - Ethernet interfaces whose other end is a file descriptor of the test: the kernel receives frames written to
 * it, with the programs in between, and its own frames can be read.
 */
#ifndef TESTS_BPF_TAP_H
#define TESTS_BPF_TAP_H

#include "tests/bpf/craft.h"

struct tap {
	int fd;
	unsigned interface;
};

/* The offload with which a frame comes from the device. */
struct tap_offload {
	bool sum_missing; /* the TCP checksum is still to be made: the field holds the pseudo header's sum */
	unsigned gso_bytes; /* of TCP payload in each segment; 0: one packet */
	/* This many bytes can be read at once, the others lie in pages; 0: all. Only for frames of a page and more. */
	unsigned linear;
};

/* A new interface, up, with this hardware address (its last byte, behind 02:00:00:00:00). */
struct tap tap_new(const char *name, uint8_t hardware);

/* Makes the kernel receive the frame. */
void tap_send(const struct tap *tap, const struct frame *frame, const struct tap_offload *offload);

/* The next frame that the kernel sent to a host, except ARP and IPv6's own messages; false: none within wait_ms. */
bool tap_receive(const struct tap *tap, struct frame *ret, int wait_ms);

#endif
