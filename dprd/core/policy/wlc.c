// SPDX-License-Identifier: GPL-2.0-or-later
/* policy/wlc.c - weighted least connections: the lowest estimated load per weight, for every connection. */
#include "dprd/core/policy/policy.h"

static unsigned choose(const struct policy_input *input)
{
	return policy_lowest(input, 0, policy_load);
}

const struct policy policy_wlc = {
	.name = "wlc",
	.summary = "weighted least connections, without MaxLoad",
	.counts_all_sent = true,
	.choose = choose,
};
