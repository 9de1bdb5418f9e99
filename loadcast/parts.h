/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * parts.h - what the daemon has for a configuration, and replaces as a whole when that is read again.
 */
#ifndef LOADCAST_PARTS_H
#define LOADCAST_PARTS_H

#include "loadcast/backends.h"
#include "loadcast/loadcast.h"
#include "loadcast/mcast.h"
#include "loadcast/sample.h"

struct parts {
	struct setup *setup;
	struct mcast *mcast;
	struct sampler *sampler;
	struct server_probes *servers;
};

/* All or nothing; what is wrong is logged. 0 or -EINVAL. */
int parts_make(const struct options *options, struct parts *ret);
void parts_free(struct parts *p);

#endif
