/* SPDX-License-Identifier: GPL-2.0-or-later */
/* parts.h - the objects that the daemon makes of a configuration, and replaces as a whole at a reload. */
#ifndef LOADCAST_PARTS_H
#define LOADCAST_PARTS_H

#include "loadcast/agent.h"
#include "loadcast/backends.h"
#include "loadcast/loadcast.h"
#include "loadcast/mcast.h"
#include "loadcast/sample.h"

struct parts {
	struct setup *setup;
	struct mcast *mcast;
	struct sampler *sampler;
	struct server_probes *servers;
	struct agent *agent;
};

/* All or nothing; errors are logged. Returns 0 or -EINVAL. */
int parts_make(const struct options *options, struct parts *ret);
void parts_free(struct parts *p);

#endif
