// SPDX-License-Identifier: GPL-2.0-or-later
/* policy.c - shared by the policies: the estimated load, drawing by weight. */
#include "dprd/core/policy/policy.h"

#include <math.h>

/* Below this many connections per unit of weight a queue is too short to be worth a tunnel. */
#define MAX_LOAD_AUTO_FLOOR 2.0

/* Connections were sent evenly within the age of the node's load: returns the share of them that is still open. */
static double open_share(const struct view_node *node, double life_s)
{
	double ages;

	/* Without connections the share is 0; the exponential would be the most expensive step of a decision. */
	if (life_s <= 0 || (!(node->sent + node->reserved) && node->sent_before_per_s <= 0))
		return 0;
	ages = node->age_ms / 1000.0 / life_s;
	return ages < 1e-6 ? 1 : -expm1(-ages) / ages;
}

void policy_count_sent(const struct policy *policy, const struct load_view *view)
{
	double arrivals_per_s = 0, loads = 0, life_s;

	if (policy->counts_all_sent) {
		for (unsigned i = 1; i < policy_count(view); i++)
			view->nodes[i].sent_open = (double)view->nodes[i].sent + view->nodes[i].reserved;
		return;
	}
	for (unsigned i = 0; i < policy_count(view); i++) {
		arrivals_per_s += view->nodes[i].arrivals_per_s;
		loads += view->nodes[i].load;
	}
	life_s = arrivals_per_s > 0 ? loads / arrivals_per_s : INFINITY;
	for (unsigned i = 1; i < policy_count(view); i++) {
		struct view_node *node = &view->nodes[i];
		double sent = (double)node->sent + node->reserved;
		double more = sent - node->sent_before_per_s * node->age_ms / 1000;

		node->sent_open = fmax(-node->load, more * open_share(node, life_s));
	}
}

double policy_load(const struct view_node *node)
{
	/* Self may have weight 0: it takes nothing from others but still has a load. */
	return (node->load + node->sent_open) / (node->weight > 0 ? node->weight : 1);
}

double policy_weight(const struct view_node *node)
{
	return node->eligible && node->weight > 0 ? node->weight : 0;
}

unsigned policy_count(const struct load_view *view)
{
	return view->count < POLICY_NODES_MAX ? view->count : POLICY_NODES_MAX;
}

double policy_max_load_auto(const struct load_view *view)
{
	double load = 0, weight = 0, mean;

	for (unsigned i = 0; i < policy_count(view); i++) {
		const struct view_node *node = &view->nodes[i];

		if (i > 0 && policy_weight(node) <= 0)
			continue;
		load += node->load;
		weight += node->weight > 0 ? node->weight : 1;
	}
	mean = weight > 0 ? load / weight : 0;
	return mean > MAX_LOAD_AUTO_FLOOR ? mean : MAX_LOAD_AUTO_FLOOR;
}

unsigned policy_draw(const double *weight, unsigned count, uint64_t random)
{
	double total = 0, point;
	unsigned last = 0;

	for (unsigned i = 0; i < count; i++)
		total += weight[i];
	point = policy_uniform(random) * total;
	for (unsigned i = 0; i < count; i++) {
		if (weight[i] <= 0)
			continue;
		last = i;
		if (point < weight[i])
			return i;
		point -= weight[i];
	}
	/* Rounding may leave a rest behind the last node. */
	return last;
}

unsigned policy_lowest(const struct policy_input *input, unsigned first, double (*score)(const struct view_node *node))
{
	const struct load_view *view = input->view;
	uint64_t random = input->random;
	unsigned best = 0, ties = 0;
	double lowest = 0;

	for (unsigned i = first; i < policy_count(view); i++) {
		double here;

		if (policy_weight(&view->nodes[i]) <= 0)
			continue;
		here = score(&view->nodes[i]);
		if (ties == 0 || here < lowest) {
			best = i;
			lowest = here;
			ties = 1;
		} else if (here <= lowest && best != 0) {
			/*
			 * The k-th of equal nodes replaces the kept one with probability 1/k, so that all of them are
			 * equally likely.
			 */
			random = policy_mix(random);
			if (policy_uniform(random) * ++ties < 1)
				best = i;
		}
	}
	return best;
}

double policy_uniform(uint64_t random)
{
	/* 53 bits: as many as a double holds, so that 1 is never reached. */
	return (double)(random >> 11) * 0x1p-53;
}

uint64_t policy_mix(uint64_t seed)
{
	seed += 0x9e3779b97f4a7c15;
	seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9;
	seed = (seed ^ seed >> 27) * 0x94d049bb133111eb;
	return seed ^ seed >> 31;
}
