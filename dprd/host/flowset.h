/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flowset.h - the kernel's set of forwarded flows (nftables set, by netlink). Not thread-safe: one per thread.
 */
#ifndef DPRD_FLOWSET_H
#define DPRD_FLOWSET_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/core/packet/packet.h"

struct flowset;

struct flowset *flowset_new(void); /* NULL with errno set */
void flowset_free(struct flowset *set); /* NULL is fine */
enum flowset_change {
	FLOWSET_REMOVE,
	FLOWSET_ADD, /* its packets wait while dprd is away */
	FLOWSET_ADD_NAT, /* its packets go on: the kernel's NAT knows their way */
};
/*
 * Adds or removes the tuples in one transaction per family. It is no error to add a tuple that is there, or to remove
 * one that is not. 0, or -errno: nothing of that family was changed (-ENOENT: the table is gone).
 */
int flowset_change(struct flowset *set, enum flowset_change change, const struct flow_key *keys, unsigned count);
/* True when the table exists. Cheap. */
bool flowset_present(struct flowset *set);
/* How many packets a counter of the table has seen. 0 or -errno; -ENOENT: there is none. */
int flowset_counter(struct flowset *set, const char *name, uint64_t *ret_packets);
/*
 * True when the table has this chain. (nft(8) reads all flows of the set before it lists a chain: that takes seconds in
 * which the main thread waits.)
 */
bool flowset_chain_present(struct flowset *set, const char *chain);

#endif
