// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * policy/inverse.c - the paper's probabilistic rule: draws a peer with a probability inverse to its load.
 *
 * As in the paper, the choice is among the other nodes: because of its own load, this node has decided already not to
 * serve. The new connection is counted with each load, so that idle peers have a finite share: p ~ weight / (load per
 * weight + 1).
 */
#include "dprd/core/policy/policy.h"

static unsigned choose(const struct policy_input *input)
{
	const struct load_view *view = input->view;
	double share[POLICY_NODES_MAX] = { 0 };

	for (unsigned i = 1; i < policy_count(view); i++)
		share[i] = policy_weight(&view->nodes[i]) / (policy_load(&view->nodes[i]) + 1);
	return policy_draw(share, policy_count(view), input->random);
}

const struct policy policy_inverse = {
	.name = "inverse",
	.summary = "the paper's probabilistic rule: a peer drawn in inverse proportion to its load",
	.threshold = true,
	.choose = choose,
};
