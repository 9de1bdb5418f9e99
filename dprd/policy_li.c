// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * policy_li.c - loads interpreted by their age: water filling.
 *
 * Until the loads were announced anew, about K = arrivals per second * mean age connections will
 * have come to the cluster without showing in them. Poured onto the nodes like water, they fill the
 * low ones up to one level W per unit of weight:
 *
 *   sum over nodes of max(0, weight * W - load) = K        p = max(0, weight * W - load) / K
 *
 * Fresh loads (K = 1) make it the least loaded, old ones a draw by weight; nothing to be set.
 */
#include "dprd/policy.h"

#include <math.h>

/*
 * The part of what was sent evenly over the last age_s that is still open, when connections last
 * life_s on average. Without it the own increments of a long period pile up into a load that no
 * longer exists.
 */
static double share_alive(double age_s, double life_s)
{
	double ages = life_s > 0 ? age_s / life_s : INFINITY;

	return ages < 1e-6 ? 1 : -expm1(-ages) / ages;
}

/*
 * Level W for these loads and weights; nodes of weight 0 are left out. A node above the level of all
 * that are in gets nothing and leaves; each round lowers the level. Every round takes out all that
 * stand above the mean, so that a handful of rounds ends it.
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

static unsigned choose(const struct policy_input *input)
{
	const struct load_view *view = input->view;
	double load[POLICY_NODES_MAX] = { 0 }, weight[POLICY_NODES_MAX];
	double arrivals_per_s = 0, loads = 0, age_s = 0, water, level, life_s;
	unsigned count = policy_count(view), peers = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct view_node *node = &view->nodes[i];

		weight[i] = policy_weight(node);
		arrivals_per_s += node->arrivals_per_s;
		loads += node->load;
		if (i > 0 && weight[i] > 0) {
			age_s += node->age_ms / 1000.0;
			peers++;
		}
	}
	/* Little's law: the mean life of a connection, when the load counts connections. */
	life_s = arrivals_per_s > 0 ? loads / arrivals_per_s : INFINITY;
	for (unsigned i = 0; i < count; i++)
		load[i] =
			view->nodes[i].load + view->nodes[i].sent * share_alive(view->nodes[i].age_ms / 1000.0, life_s);
	water = peers ? fmax(1, arrivals_per_s * age_s / peers) : 1;
	level = water_level(load, weight, count, water);
	for (unsigned i = 0; i < count; i++)
		weight[i] = weight[i] > 0 ? fmax(0, weight[i] * level - load[i]) : 0;
	return policy_draw(weight, count, input->random);
}

const struct policy policy_li = {
	.name = "li",
	.summary = "water filling by the age of the loads, with what was sent since",
	.threshold = true,
	.choose = choose,
};
