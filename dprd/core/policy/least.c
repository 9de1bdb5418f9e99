// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * policy/least.c - the paper's deterministic rule: the node with the lowest load.
 *
 * All entry nodes send to the same node after the same announcement: with many nodes, and announcements that are old
 * compared with the life of a connection, the loads swing.
 */
#include "dprd/core/policy/policy.h"

static unsigned choose(const struct policy_input *input)
{
	return policy_lowest(input, 0, policy_load);
}

const struct policy policy_least = {
	.name = "least",
	.summary = "the paper's deterministic rule: the lowest load per weight",
	.threshold = true,
	.counts_all_sent = true,
	.choose = choose,
};
