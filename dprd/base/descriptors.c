// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/base/descriptors.h"

#include <limits.h>
#include <sys/resource.h>

unsigned descriptors_want(unsigned count)
{
	struct rlimit limit, raised;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return UINT_MAX;
	raised = limit;
	if (raised.rlim_cur < count)
		raised.rlim_cur = raised.rlim_max < count ? raised.rlim_max : count;
	if (raised.rlim_cur != limit.rlim_cur && setrlimit(RLIMIT_NOFILE, &raised) == 0)
		limit = raised;
	return limit.rlim_cur < UINT_MAX ? (unsigned)limit.rlim_cur : UINT_MAX;
}
