// SPDX-License-Identifier: GPL-2.0-or-later
/* policy/local.c - no balancing: every connection stays on the node to which DNS led it. */
#include "dprd/core/policy/policy.h"

static unsigned choose(const struct policy_input *input)
{
	(void)input;
	return 0;
}

const struct policy policy_local = {
	.name = "local",
	.summary = "no balancing: every connection stays on the node it reached",
	.choose = choose,
};
