// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * policy/wrr.c - round robin by weight, smooth: weights 5 1 1 give a a b a c a a, never five in a row.
 *
 * In every turn each node gains its weight; the node with the most serves and pays the sum of all weights.
 */
#include "dprd/core/policy/policy.h"

enum { FIRST_TURNS = 16 }; /* per node: so that the start is at any place of a long cycle of uneven weights, too */

static unsigned turn(const struct policy_input *input)
{
	double *current = input->state->current_weight, total = 0;
	const struct load_view *view = input->view;
	unsigned best = 0;
	bool found = false;

	for (unsigned i = 0; i < policy_count(view); i++) {
		double weight = policy_weight(&view->nodes[i]);

		/* A node that was away starts from 0, so that it comes back without a burst. */
		if (weight <= 0) {
			current[i] = 0;
			continue;
		}
		total += weight;
		current[i] += weight;
		if (!found || current[i] > current[best])
			best = i;
		found = true;
	}
	if (found)
		current[best] -= total;
	return best;
}

static unsigned choose(const struct policy_input *input)
{
	unsigned skipped =
		input->state->placed ? 0 : (unsigned)(input->random % (FIRST_TURNS * policy_count(input->view)));

	input->state->placed = true;
	while (skipped--)
		turn(input);
	return turn(input);
}

const struct policy policy_wrr = {
	.name = "wrr",
	.summary = "round robin in proportion to the weights",
	.keeps_state = true,
	.choose = choose,
};
