/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * private.h - the state of the plane, shared by the files of this folder.
 */
#ifndef DPRD_PLANE_PRIVATE_H
#define DPRD_PLANE_PRIVATE_H

#include "dprd/cluster/state.h"

enum { PLANE_WHY_BYTES = 256 };

struct plane_decide;

struct plane {
	char why[PLANE_WHY_BYTES]; /* this plane */
	char unseen[PLANE_WHY_BYTES]; /* the member whose tunnel packets the programs do not see, and why; "": none */
	uint64_t living_told; /* members whose tunnel packets the programs take */
	struct plane_decide *ahead; /* Decide=auto or kernel; else NULL */
	bool waits; /* Plane=auto: dprd waits for interfaces that can carry the programs */
	size_t flow_bytes; /* of the file that holds the flow table; 0: nfqueue plane not open */
};

/* The verdicts that are made ahead; NULL: none. */
static inline struct plane_decide *plane_ahead(const struct dprd *d)
{
	return d->plane ? d->plane->ahead : NULL;
}

#endif
