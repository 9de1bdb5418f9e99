// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * policy/li.c - loads interpreted by their age: water filling.
 *
 * About K = arrivals per second * mean age connections come to the cluster before loads that show them are announced.
 * Poured onto the nodes like water, they fill the low ones up to one level W per unit of weight:
 *
 *   sum over nodes of max(0, weight * W - load) = K        p = max(0, weight * W - load) / K
 *
 * With fresh loads (K = 1) this chooses the least loaded node; with old loads it draws by weight. There is no
 * parameter.
 */
#include "dprd/core/policy/policy.h"

#include <math.h>

/* 2^32 / golden ratio, odd. */
#define GOLDEN_SECTION 2654435769U

/*
 * Level W for these loads and weights; nodes of weight 0 are left out. A node above the level of the remaining nodes
 * gets nothing and is taken out; each round lowers the level. Every round takes out all nodes above the mean, so a few
 * rounds are enough.
 */
static double water_level(const double *load, const double *weight, unsigned count, double water)
{
	double level = INFINITY;

	for (unsigned round = 0; round <= count; round++) {
		double loads = 0, weights = 0, before = level;

		for (unsigned i = 0; i < count; i++) {
			if (weight[i] <= 0 || load[i] >= weight[i] * before)
				continue;
			loads += load[i];
			weights += weight[i];
		}
		if (weights <= 0)
			return before;
		level = (loads + water) / weights;
		if (level >= before)
			break;
	}
	return level;
}

/*
 * Walks through all shares in steps of the golden section instead of drawing: it meets each share as often, but more
 * evenly, which helps most when the loads are old. A random number sets the start.
 */
static uint64_t next_draw(const struct policy_input *input)
{
	if (!input->state->next)
		input->state->next = (uint32_t)input->random | 1;
	input->state->next += GOLDEN_SECTION;
	return (uint64_t)input->state->next << 32 | (uint32_t)input->random;
}

static unsigned choose(const struct policy_input *input)
{
	const struct load_view *view = input->view;
	double load[POLICY_NODES_MAX] = { 0 }, weight[POLICY_NODES_MAX];
	double arrivals_per_s = 0, age_s = 0, water, level;
	unsigned count = policy_count(view), peers = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct view_node *node = &view->nodes[i];

		weight[i] = policy_weight(node);
		arrivals_per_s += node->arrivals_per_s;
		load[i] = node->load + node->sent_open;
		if (i > 0 && weight[i] > 0) {
			age_s += node->age_ms / 1000.0;
			peers++;
		}
	}
	water = peers ? fmax(1, arrivals_per_s * age_s / peers) : 1;
	level = water_level(load, weight, count, water);
	for (unsigned i = 0; i < count; i++)
		weight[i] = weight[i] > 0 ? fmax(0, weight[i] * level - load[i]) : 0;
	return policy_draw(weight, count, next_draw(input));
}

const struct policy policy_li = {
	.name = "li",
	.summary = "water filling by the age of the loads, with what was sent since",
	.threshold = true,
	.keeps_state = true,
	.choose = choose,
};
