/* SPDX-License-Identifier: GPL-2.0-or-later */
/* own_ways.h - ways as ways_refresh() would leave them, with path MTUs that a test chooses. */
#ifndef TESTS_UNIT_OWN_WAYS_H
#define TESTS_UNIT_OWN_WAYS_H

#include "dprd/cluster/state.h"

/* mtu: of the path; 0: no route. */
static inline void set_member_way(struct dprd *d, unsigned member, bool v6, unsigned mtu)
{
	const struct way_facts facts = { .mtu = mtu };

	d->ways.member[member][v6] = way_to_member(&d->config, member, v6, &facts);
}

static inline void set_backend_way(struct dprd *d, unsigned own, bool v6, unsigned mtu)
{
	const struct way_facts facts = { .mtu = mtu, .next_hop = { .interface = 1, .ethernet = true, .known = true } };

	d->ways.backend[own][v6] = way_to_backend(&d->config, own, v6, &facts);
}

#endif
