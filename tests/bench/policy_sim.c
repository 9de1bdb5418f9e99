// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * policy_sim - what the policies do with loads that are old: a simulation that asks decide() itself.
 *
 * n nodes are entry and server at once. Connections come as a Poisson stream, unevenly over the
 * nodes (n = 3: 4/6 to the first; else 30 % and 15 % to the first two); they last 1 on average,
 * exponentially, and each node serves one at a time, so that a node with q of them is as slow as one
 * that shares itself among q. Announcements come every T +- 10 %, to all, without loss; forwarding
 * takes no time. Printed: mean response time / 99.9th percentile of connections at a node / forwarded.
 * At load 0.85 a single queue, and so every blind draw, has 1 / (1 - 0.85) = 6.7.
 *
 * usage: policy_sim [LOAD [SEED]]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dprd/decide.h"

enum { NODES_MAX = 64, QUEUE_MAX = 100000, PERIODS = 200, LIVES_MIN = 20000 };

struct setup {
	const struct policy *policy;
	unsigned node_count;
	double load; /* of the cluster: arrivals per service capacity */
	double period; /* of announcements, in mean lives of a connection */
	double max_load; /* 0: auto */
};

/* One node: what it really has, what it last said, and what it thinks of the others. */
struct sim_node {
	unsigned queue, announced;
	double announced_at, next_at, arrivals;
	unsigned sent[NODES_MAX];
	struct view_node view[NODES_MAX];
	struct policy_state state;
};

struct result {
	double response, forwarded;
	unsigned queue_999;
};

static struct sim_node nodes[NODES_MAX];
static unsigned long seen[QUEUE_MAX];
static uint64_t random_state;

static uint64_t next_random(void)
{
	return policy_mix(random_state++);
}

static double uniform(void)
{
	return policy_uniform(next_random());
}

static bool always(void *context, uint32_t node_id)
{
	(void)context;
	(void)node_id;
	return true;
}

static double share_of(unsigned node, unsigned count)
{
	if (count == 3)
		return node == 0 ? 4.0 / 6 : 1.0 / 6;
	return node == 0 ? 0.3 : node == 1 ? 0.15 : 0.55 / (count - 2);
}

static void start(const struct setup *setup)
{
	memset(nodes, 0, sizeof(nodes));
	memset(seen, 0, sizeof(seen));
	for (unsigned i = 0; i < setup->node_count; i++) {
		nodes[i].arrivals = setup->load * setup->node_count * share_of(i, setup->node_count);
		nodes[i].next_at = uniform() * setup->period;
	}
}

static void announce(const struct setup *setup, unsigned who, double now)
{
	for (unsigned i = 0; i < setup->node_count; i++)
		nodes[i].sent[who] = 0;
	nodes[who].announced = nodes[who].queue;
	nodes[who].announced_at = now;
	nodes[who].next_at = now + setup->period * (0.9 + 0.2 * uniform());
}

/* The node that serves a connection that came to entry. Node ids are indices + 1; a life is a second. */
static unsigned place(const struct setup *setup, struct flow_table *flows, unsigned entry, double now)
{
	static const uint64_t hash_key[2] = { 1, 2 };
	struct sim_node *self = &nodes[entry];
	const struct load_view view = { .count = setup->node_count, .nodes = self->view };
	const struct decide_env env = {
		.flows = flows,
		.view = &view,
		.policy = setup->policy,
		.policy_state = &self->state,
		.hash_key = hash_key,
		.max_load_auto = setup->max_load <= 0,
		.max_load = setup->max_load,
		.random = next_random(),
		.node_alive = always,
		.node_eligible = always,
	};
	struct packet syn = { .kind = PACKET_TCP, .tcp_flags = TCP_SYN };
	struct verdict verdict;
	uint64_t client = next_random();

	memcpy(syn.key.client.bytes, &client, sizeof(client));
	for (unsigned i = 0; i < setup->node_count; i++) {
		unsigned member = i == 0 ? entry : i <= entry ? i - 1 : i;
		const struct sim_node *node = &nodes[member];

		self->view[i] = (struct view_node) {
			.member = (uint16_t)member,
			.node_id = member + 1,
			.eligible = true,
			.age_ms = i == 0 ? 0 : (uint32_t)(1000 * (now - node->announced_at)),
			.sent = self->sent[member],
			.load = i == 0 ? node->queue : node->announced,
			.weight = 1,
			.arrivals_per_s = node->arrivals,
		};
	}
	verdict = decide(&env, &syn);
	if (verdict.kind != VERDICT_FORWARD)
		return entry;
	self->sent[verdict.node_id - 1]++;
	return verdict.node_id - 1;
}

/* The index that point falls into, when each node takes as much of the line as arrivals, or 1 if busy. */
static unsigned pick(const struct setup *setup, double point, bool busy)
{
	unsigned last = 0;

	for (unsigned i = 0; i < setup->node_count; i++) {
		double part = busy ? nodes[i].queue > 0 : nodes[i].arrivals;

		if (part <= 0)
			continue;
		last = i;
		if (point < part)
			break;
		point -= part;
	}
	return last;
}

static unsigned percentile_999(void)
{
	unsigned long total = 0, below = 0;
	unsigned queue = 0;

	for (unsigned i = 0; i < QUEUE_MAX; i++)
		total += seen[i];
	while (queue < QUEUE_MAX - 1 && (below += seen[queue]) < 0.999 * (double)total)
		queue++;
	return queue;
}

static struct result simulate(const struct setup *setup, struct flow_table *flows)
{
	double now = 0, end = fmax(LIVES_MIN, PERIODS * setup->period), begin = end / 5, area = 0;
	double arrivals = setup->load * setup->node_count;
	unsigned long arrived = 0, forwarded = 0;

	start(setup);
	while (now < end) {
		unsigned busy = 0, open = 0, first = 0;
		double step, point;

		for (unsigned i = 0; i < setup->node_count; i++) {
			busy += nodes[i].queue > 0;
			open += nodes[i].queue;
			if (nodes[i].next_at < nodes[first].next_at)
				first = i;
		}
		step = -log(1 - uniform()) / (arrivals + busy);
		point = uniform() * (arrivals + busy);
		if (now + step > nodes[first].next_at)
			step = nodes[first].next_at - now;
		now += step;
		if (now > begin)
			area += open * step;
		if (now >= nodes[first].next_at) {
			announce(setup, first, now);
		} else if (point < arrivals) {
			unsigned entry = pick(setup, point, false), server = place(setup, flows, entry, now);

			nodes[server].queue++;
			if (now > begin) {
				arrived++;
				forwarded += server != entry;
				for (unsigned i = 0; i < setup->node_count; i++)
					seen[nodes[i].queue < QUEUE_MAX ? nodes[i].queue : QUEUE_MAX - 1]++;
			}
		} else {
			nodes[pick(setup, point - arrivals, true)].queue--;
		}
	}
	/* Little: open connections = arrivals per time * response time. */
	return (struct result) { area / (double)arrived, (double)forwarded / (double)arrived, percentile_999() };
}

int main(int argc, char **argv)
{
	static const unsigned counts[] = { 3, 16, 48 };
	static const double periods[] = { 1, 20, 100 }, max_loads[] = { 0, 2, 6 };
	const struct flow_limits limits = { .max_confirmed = 1, .max_half_open = 1 };
	double load = argc > 1 ? strtod(argv[1], NULL) : 0.85;
	void *memory = aligned_alloc(sizeof(struct flow_bucket), flow_table_bytes(&limits));
	struct flow_table *flows;

	if (!memory || !(load > 0 && load < 1)) {
		fprintf(stderr, "usage: policy_sim [LOAD [SEED]]: 0 < LOAD < 1\n");
		free(memory);
		return 2;
	}
	flows = flow_table_init(memory, &limits);
	random_state = policy_mix(argc > 2 ? strtoull(argv[2], NULL, 10) : 1);
	printf("%-9s %-8s", "policy", "MaxLoad");
	for (unsigned n = 0; n < 3; n++)
		for (unsigned t = 0; t < 3; t++)
			printf(" | n=%-2u T=%-7.0f", counts[n], periods[t]);
	printf("\n");
	for (const struct policy *const *p = policies; *p; p++)
		for (unsigned m = 0; m < ((*p)->threshold ? 3 : 1) && *p != &policy_local; m++) {
			printf("%-9s %-8s", (*p)->name, !(*p)->threshold ? "-" : m == 0 ? "auto" : m == 1 ? "2" : "6");
			for (unsigned n = 0; n < 3; n++)
				for (unsigned t = 0; t < 3; t++) {
					struct setup setup = { *p, counts[n], load, periods[t], max_loads[m] };
					struct result r = simulate(&setup, flows);

					printf(" | %4.1f/%3u %2.0f%%", r.response, r.queue_999, 100 * r.forwarded);
					fflush(stdout);
				}
			printf("\n");
		}
	free(memory);
	return 0;
}
