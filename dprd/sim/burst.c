// SPDX-License-Identifier: GPL-2.0-or-later
/* burst.c - connections that arrive in a short time and stay open, and how evenly the nodes hold them. */
#include <math.h>

#include "dprd/sim/run.h"

/* Numbers of connections are 40 bits wide: those of a burst are in the upper half. */
#define FIRST_NUMBER (1ULL << 39)

enum { STREAM_BURST = 101 };

/* A connection that stays open for a time. */
struct hold {
	double until_s;
	uint32_t connection;
};

void burst_init(struct run *run)
{
	const struct sim_burst *burst = &run->setup->burst;
	struct random_stream random;

	run->burst = (struct burst) {
		.left = burst->connections,
		.next_s = burst->connections ? burst->at_s : INFINITY,
		.holds = { .element_bytes = sizeof(struct hold) },
	};
	random_start(&random, run->setup->seed, STREAM_BURST);
	if (burst->connections && burst->at_s < 0)
		run->burst.next_s = run->setup->period_s * (SIM_BURST_PERIODS - 1 + random_uniform(&random));
}

void burst_free(struct run *run)
{
	ring_free(&run->burst.holds);
}

static double hold_ends_s(const struct run *run)
{
	const struct hold *hold = ring_first(&run->burst.holds);

	return hold ? hold->until_s : INFINITY;
}

double burst_next_s(const struct run *run)
{
	return fmin(run->burst.next_s, hold_ends_s(run));
}

bool burst_under_way(const struct run *run)
{
	return run->burst.left || run->burst.placing;
}

static uint32_t arrive(struct run *run)
{
	const struct sim_burst *burst = &run->setup->burst;
	uint32_t connection = pool_take(&run->pool);
	unsigned index = burst->connections - run->burst.left;
	struct connection *c;

	if (connection == CONNECTION_NONE) {
		run->out_of_memory = true;
		return connection;
	}
	c = &run->pool.connection[connection];
	c->number = FIRST_NUMBER + index;
	c->arrived_s = run->now_s;
	c->held = true;
	c->entry = c->server = (uint16_t)(index % burst->entries);
	run->burst.left--;
	run->burst.placing++;
	run->burst.next_s = INFINITY;
	/* From the first one to the last one there are connections - 1 equal steps. */
	if (run->burst.left)
		run->burst.next_s = run->now_s + burst->span_s / (burst->connections - 1);
	return connection;
}

static void let_go(struct run *run)
{
	const struct hold *hold = ring_first(&run->burst.holds);
	struct connection *c = &run->pool.connection[hold->connection];

	if (hold->until_s - run->setup->burst.hold_s >= run->servers.server[c->server].held_from_s)
		run->servers.server[c->server].held--;
	pool_give(&run->pool, hold->connection);
	ring_pop(&run->burst.holds);
}

uint32_t burst_step(struct run *run)
{
	if (run->burst.next_s <= hold_ends_s(run))
		return arrive(run);
	let_go(run);
	return CONNECTION_NONE;
}

/* Held connections per unit of weight: the fullest node, in proportion to all. */
static double ratio(const struct run *run)
{
	double fullest = 0, held = 0, weight = 0;

	for (unsigned i = 0; i < run->setup->nodes; i++) {
		if (!run->nodes[i].alive || run->setup->weight[i] <= 0)
			continue;
		fullest = fmax(fullest, run->servers.server[i].held / run->setup->weight[i]);
		held += run->servers.server[i].held;
		weight += run->setup->weight[i];
	}
	return held > 0 ? fullest / (held / weight) : 0;
}

static void placed(struct run *run)
{
	run->burst.placing--;
	if (!burst_under_way(run))
		run->stats.result.burst_ratio = ratio(run);
}

void burst_hold(struct run *run, uint32_t connection)
{
	const struct connection *c = &run->pool.connection[connection];
	struct hold *hold;

	run->servers.server[c->server].held++;
	if (run->setup->burst.hold_s > 0) {
		hold = ring_push(&run->burst.holds);
		if (hold)
			*hold = (struct hold) { .until_s = run->now_s + run->setup->burst.hold_s,
						.connection = connection };
		run->out_of_memory |= !hold;
	}
	placed(run);
}

void burst_lose(struct run *run, uint32_t connection)
{
	pool_give(&run->pool, connection);
	placed(run);
}
