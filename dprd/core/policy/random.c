// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * policy/random.c - stateless DPR: the client's port and address pick the node.
 *
 * Weighted rendezvous hashing: every node draws an exponential time from (flow, node), divided by its weight, and the
 * earliest wins. So a retransmit finds the same node without any memory, and a node gets a share by its weight. When a
 * node is added or removed, only the flows that it gets or had move.
 */
#include "dprd/core/policy/policy.h"

#include <math.h>

static double arrival_time(uint64_t flow_hash, const struct view_node *node)
{
	/* Half a step above zero: the logarithm of 0 would lose that node's draw. */
	double uniform = policy_uniform(policy_mix(flow_hash ^ policy_mix(node->node_id))) + 0x1p-54;

	return -log(uniform) / node->weight;
}

static unsigned choose(const struct policy_input *input)
{
	double earliest = INFINITY;
	unsigned best = 0;

	for (unsigned i = 0; i < policy_count(input->view); i++) {
		const struct view_node *node = &input->view->nodes[i];
		double here;

		if (policy_weight(node) <= 0)
			continue;
		here = arrival_time(input->flow_hash, node);
		if (here < earliest) {
			earliest = here;
			best = i;
		}
	}
	return best;
}

const struct policy policy_random = {
	.name = "random",
	.summary = "stateless: a keyed hash of the client's port and address picks the node, by weight",
	.choose = choose,
};
