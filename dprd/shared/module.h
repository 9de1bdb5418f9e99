/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * shared/module.h - talks to the kernel module dprd_biactive: generic netlink, one request and one answer.
 *
 * Every call opens a new socket and belongs to the network namespace of its thread. It needs CAP_NET_ADMIN. All return
 * 0 or -errno; -ENOENT: the kernel has no such module.
 */
#ifndef DPRD_SHARED_MODULE_H
#define DPRD_SHARED_MODULE_H

#include "dprd/base/addr.h"
#include "kernel-patch/biactive.h"
#include "kernel-patch/bucket.h"

struct shared_module_address {
	struct addr addr;
	uint8_t mac[6]; /* multicast; biactive_default_mac() makes the usual one */
};

struct shared_module_setup {
	uint32_t interface; /* its index */
	bool late; /* judge behind dprd's queue, not at the interface's ingress */
	bool nat; /* packets that the kernel's NAT forwards to servers behind this node are accepted, too */
	uint64_t key[2]; /* of bucket_hash() */
	uint32_t lease_uid; /* the user who may write the lease file beside root */
	unsigned count; /* 1..BIACTIVE_ADDRESSES_MAX */
	struct shared_module_address shared[BIACTIVE_ADDRESSES_MAX];
};

struct shared_module_state {
	bool configured; /* otherwise setup is zero */
	struct shared_module_setup setup; /* without the key; interface is 0 while the interface is away */
	char interface_name[16];
	bool has_lease; /* a lease was written; otherwise the next three are zero */
	uint64_t lease_until_ns, share_changed_ns; /* CLOCK_MONOTONIC */
	struct bucket_share share;
	uint64_t counters
		[BIACTIVE_COUNTER_COUNT]; /* by enum biactive_counter; only a reload of the module resets them */
};

/* "accept_socket" and so on; NULL when out of range. */
const char *shared_module_counter_name(unsigned counter);

/*
 * Replaces the whole configuration; no frame goes unjudged meanwhile, and leases stay. -ENODEV: no such
 * interface; -EINVAL: a value is out of range; -EOPNOTSUPP: nat, and the kernel has no connection tracking. On any
 * error the kernel has changed nothing.
 */
int shared_module_set(const struct shared_module_setup *setup);

int shared_module_get(struct shared_module_state *ret);

/* Removes the hooks and the lease. */
int shared_module_clear(void);

#endif
