/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inside.h - networks of this node alone, such as those of its containers and virtual machines. Pure, header only.
 *
 * A peer cannot answer a client there: its own route for such an address leads nowhere, or to containers of its own. So
 * this node serves these clients itself.
 */
#ifndef DPRD_INSIDE_H
#define DPRD_INSIDE_H

#include "dprd/base/addr.h"

enum { INSIDE_NETWORKS_MAX = 64 }; /* a power of two */

struct inside_network {
	uint32_t prefix[4], mask[4]; /* words as in struct addr */
};

struct inside {
	uint32_t count;
	uint32_t left_out; /* this many more are not known */
	struct inside_network network[INSIDE_NETWORKS_MAX];
};

static inline bool inside_network_has(const struct inside_network *n, const struct addr *address)
{
	return !(((address->words[0] & n->mask[0]) ^ n->prefix[0]) | ((address->words[1] & n->mask[1]) ^ n->prefix[1]) |
		 ((address->words[2] & n->mask[2]) ^ n->prefix[2]) | ((address->words[3] & n->mask[3]) ^ n->prefix[3]));
}

static inline bool inside_has(const struct inside *inside, const struct addr *address)
{
	uint32_t i;

#ifdef __bpf__
#pragma clang loop unroll(disable)
#endif
	for (i = 0; i < INSIDE_NETWORKS_MAX && i < inside->count; i++) {
		if (inside_network_has(&inside->network[i], address))
			return true;
	}
	return false;
}

/* The network of this address with this many leading bits; an IPv4 prefix has 96 more. */
static inline struct inside_network inside_network_of(const struct addr *address, unsigned bits)
{
	struct inside_network n;
	struct addr mask = { .words = { 0 } };
	unsigned i;

	for (i = 0; i < 128 && i < bits; i++)
		mask.bytes[i / 8] |= (uint8_t)(0x80 >> i % 8);
	for (i = 0; i < 4; i++) {
		n.mask[i] = mask.words[i];
		n.prefix[i] = address->words[i] & mask.words[i];
	}
	return n;
}

#endif
