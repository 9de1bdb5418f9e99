// SPDX-License-Identifier: GPL-2.0-or-later
/* policy/lc.c - least connections: the lowest estimated load, without regard to weights. */
#include "dprd/core/policy/policy.h"

static double unweighted_load(const struct view_node *node)
{
	return node->load + node->sent_open;
}

static unsigned choose(const struct policy_input *input)
{
	return policy_lowest(input, 0, unweighted_load);
}

const struct policy policy_lc = {
	.name = "lc",
	.summary = "least connections, without weights and without MaxLoad",
	.counts_all_sent = true,
	.choose = choose,
};
