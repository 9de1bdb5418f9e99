// SPDX-License-Identifier: GPL-2.0-or-later
/* policy/list.c - the list of all policies. */
#include "dprd/core/policy/policy.h"

#include <stddef.h>
#include <string.h>

const struct policy *const policies[] = {
	&policy_li,  &policy_p2c, &policy_least, &policy_inverse, &policy_random, &policy_rr,
	&policy_wrr, &policy_lc,  &policy_wlc,   &policy_local,   NULL,
};

const struct policy *policy_find(const char *name)
{
	for (const struct policy *const *p = policies; *p; p++)
		if (strcmp((*p)->name, name) == 0)
			return *p;
	return NULL;
}
