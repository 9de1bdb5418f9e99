/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tap.h - Ethernet interfaces whose other end is a file descriptor of the test: what is written to it the kernel
 * receives, with the programs in between, and what the kernel sends can be read.
 */
#ifndef TESTS_BPF_TAP_H
#define TESTS_BPF_TAP_H

#include "tests/bpf/craft.h"

struct tap {
	int fd;
	unsigned interface;
};

/* How a frame comes from the device. */
struct tap_offload {
	bool sum_missing; /* the TCP checksum is still to be made: the field holds the pseudo header's sum */
	unsigned gso_bytes; /* of TCP payload in each segment; 0: one packet */
	/* So many bytes can be read at once, the others lie in pages; 0: all. Only for frames of a page and more. */
	unsigned linear;
};

/* A new interface, up, with this hardware address (its last byte, behind 02:00:00:00:00). */
struct tap tap_new(const char *name, uint8_t hardware);

/* The kernel receives the frame. */
void tap_send(const struct tap *tap, const struct frame *frame, const struct tap_offload *offload);

/* What the kernel sent next to a host; false: nothing within wait_ms. Without what IPv6 does by itself, and ARP. */
bool tap_receive(const struct tap *tap, struct frame *ret, int wait_ms);

#endif
