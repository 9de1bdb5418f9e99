/* SPDX-License-Identifier: GPL-2.0-or-later */
/* known.h - finds addresses and ports of the cluster. */
#ifndef DPRD_BPF_KNOWN_H
#define DPRD_BPF_KNOWN_H

#include "dprd/bpf/layout.h"

/*
 * Looks at the places behind that of the hash. dprd chose a seed with which addresses are rarely there, so this is a
 * separate function.
 */
static __attribute__((noinline)) const struct fastpath_address *
known_elsewhere(const struct fastpath_tables *t, uint32_t at, uint64_t high, uint64_t low)
{
	const struct addr address = { .words = { (uint32_t)high, high >> 32, (uint32_t)low, low >> 32 } };
	uint32_t i;

#pragma clang loop unroll(disable)
	for (i = 1; i < FASTPATH_PROBES; i++) {
		const struct fastpath_address *found = &t->address[(at + i) & (FASTPATH_ADDRESSES - 1)];

		if (!found->roles)
			return NULL;
		if (addr_equal(&found->address, &address))
			return found;
	}
	return NULL;
}

INLINE const struct fastpath_address *known_at(const struct fastpath_tables *t, uint32_t at, const struct addr *address)
{
	const struct fastpath_address *found = &t->address[at & (FASTPATH_ADDRESSES - 1)];
	const uint32_t *words = address->words;

	if (LIKELY(addr_equal(&found->address, address)))
		return found;
	if (!found->roles)
		return NULL;
	return known_elsewhere(t, at, words[0] | (uint64_t)words[1] << 32, words[2] | (uint64_t)words[3] << 32);
}

/*
 * The entry of an address that belongs to the cluster in nearly all packets. NULL, or an entry without roles: it does
 * not.
 */
INLINE const struct fastpath_address *known_own(const struct fastpath_tables *t, const struct addr *address)
{
	return known_at(t, fastpath_address_hash(address, t->seed), address);
}

/* The entry of an address that belongs to a client in nearly all packets. NULL: it does not belong to the cluster. */
INLINE const struct fastpath_address *known_client(const struct fastpath_tables *t, const struct addr *address)
{
	uint32_t at = fastpath_address_hash(address, t->seed);

	return t->occupied[at / 64] >> at % 64 & 1 ? known_at(t, at, address) : NULL;
}

/* The index of a service port. -1: it is not one. */
INLINE int known_port(const struct fastpath_tables *t, be16 port)
{
	int i;

	if (LIKELY(t->port_count && t->port[0] == port))
		return 0;
#pragma clang loop unroll(disable)
	for (i = 1; i < FASTPATH_PORTS && i < (int)t->port_count; i++) {
		if (t->port[i] == port)
			return i;
	}
	return -1;
}

#endif
