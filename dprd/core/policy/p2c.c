// SPDX-License-Identifier: GPL-2.0-or-later
/* policy/p2c.c - draws two different nodes by weight; the less loaded one serves. */
#include "dprd/core/policy/policy.h"

static unsigned choose(const struct policy_input *input)
{
	const struct load_view *view = input->view;
	unsigned count = policy_count(view), first, second;
	double weight[POLICY_NODES_MAX];

	for (unsigned i = 0; i < count; i++)
		weight[i] = policy_weight(&view->nodes[i]);
	first = policy_draw(weight, count, input->random);
	weight[first] = 0;
	second = policy_draw(weight, count, policy_mix(input->random));
	/* Without a second node the draw returns 0: that may be an ineligible self. */
	if (weight[second] <= 0)
		return first;
	return policy_load(&view->nodes[second]) < policy_load(&view->nodes[first]) ? second : first;
}

const struct policy policy_p2c = {
	.name = "p2c",
	.summary = "two nodes drawn by weight, the less loaded one of them",
	.threshold = true,
	.choose = choose,
};
