// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/base/status.h"

#include <errno.h>

#include "dprd/base/smallfile.h"

int status_publish(const char *path, struct dprd_status *status)
{
	status->magic = STATUS_MAGIC;
	status->version = STATUS_VERSION;
	return smallfile_replace(path, status, sizeof(*status));
}

static bool proofs_ok(const struct status_proofs *proofs)
{
	unsigned v6;

	for (v6 = 0; v6 < 2; v6++) {
		if (proofs->unproven[v6].count > PROOFS_NODES_MAX || proofs->narrow[v6].count > PROOFS_NODES_MAX)
			return false;
	}
	return proofs->probes <= PROBES_JUDGED;
}

int status_read(const char *path, struct dprd_status *ret)
{
	int size = smallfile_read(path, ret, sizeof(*ret), NULL);

	if (size == -EFBIG)
		return -EINVAL;
	if (size < 0)
		return size;
	if (size != (int)sizeof(*ret) || ret->magic != STATUS_MAGIC || ret->version != STATUS_VERSION ||
	    ret->draining > 1 || ret->elsewhere > 1 || !proofs_ok(&ret->proofs) || ret->port_count > STATUS_PORTS_MAX)
		return -EINVAL;
	return 0;
}
