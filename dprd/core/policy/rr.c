// SPDX-License-Identifier: GPL-2.0-or-later
/* policy/rr.c - nodes take turns in the order of the configuration file. */
#include "dprd/core/policy/policy.h"

static unsigned choose(const struct policy_input *input)
{
	const struct load_view *view = input->view;
	unsigned next = 0, lowest = 0;
	bool found = false, found_next = false;

	if (!input->state->placed)
		input->state->next = view->nodes[input->random % policy_count(view)].member;
	input->state->placed = true;
	/* The next member after the one that served last; after the last member, the first one. */
	for (unsigned i = 0; i < policy_count(view); i++) {
		const struct view_node *node = &view->nodes[i];

		if (policy_weight(node) <= 0)
			continue;
		if (!found || node->member < view->nodes[lowest].member)
			lowest = i;
		found = true;
		if (node->member <= input->state->next)
			continue;
		if (!found_next || node->member < view->nodes[next].member)
			next = i;
		found_next = true;
	}
	if (!found)
		return 0;
	if (!found_next)
		next = lowest;
	input->state->next = view->nodes[next].member;
	return next;
}

const struct policy policy_rr = {
	.name = "rr",
	.summary = "one node after the other, whatever their loads and weights",
	.keeps_state = true,
	.choose = choose,
};
