/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * share_world.h - nodes that run loadcast/core/share.c in simulated time, on a network that loses and delays messages.
 * Their kernels go on by the lease while the announcer stands still or is dead.
 */
#ifndef TESTS_UNIT_SHARE_WORLD_H
#define TESTS_UNIT_SHARE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "loadcast/core/share.h"

enum {
	WORLD_NODES = 5,
	WORLD_PERIOD_MS = 200,
	WORLD_STEP_MS = 10,
	WORLD_FLIGHT = 4096, /* messages under way at most */
	WORLD_BUCKETS = 97, /* buckets that are checked; a prime, so that all orders occur */
	WORLD_DELAY_MS = 40, /* of a message, at most */
};

struct world_word {
	uint64_t arrives_ms;
	unsigned from, to;
	uint64_t sent_ms, echo_sent_ms; /* echo: of the receiver's newest */
	uint32_t run, echo_run; /* runs of the announcers, so that no node takes an echo of a former life for its own */
	uint32_t weight, grant, period_ms;
	uint64_t refused;
	bool echoed, asks;
};

struct world_node {
	bool alive; /* the kernel */
	bool running; /* the announcer; false: it stands still or is dead */
	uint64_t blind_until_ms; /* until then the announcer cannot reach the kernel, which keeps what it has */
	uint32_t run, weight;
	struct share share;
	struct bucket_share applied, kernel;
	uint64_t until_ms, next_ms, announced_ms;
	uint64_t heard_sent_ms[WORLD_NODES]; /* newest message of that sender */
	uint32_t heard_run[WORLD_NODES];
	uint64_t waiting; /* members that asked, a bit each */
	bool speak; /* has news */
};

struct world {
	struct config config[WORLD_NODES];
	unsigned count;
	struct world_node node[WORLD_NODES];
	uint64_t now_ms, random;
	double loss;
	bool cut[WORLD_NODES][WORLD_NODES]; /* from, to */
	struct world_word flight[WORLD_FLIGHT];
	unsigned in_flight;
	unsigned owned, doubles; /* owned: of the checked buckets, in the last step; doubles: of all steps */
	unsigned nobodys_ms[WORLD_BUCKETS], longest_ms; /* time without an owner: up to now; the longest ever */
	uint64_t sent;
};

static inline uint64_t world_random(struct world *w)
{
	return bucket_mix(w->random += 0x9e3779b97f4a7c15ull);
}

static inline bool world_chance(struct world *w, double probability)
{
	return (double)(world_random(w) >> 11) * 0x1p-53 < probability;
}

static inline void world_send(struct world *w, unsigned from, unsigned to, bool asks)
{
	struct world_node *n = &w->node[from];
	uint64_t refused = 0;

	for (unsigned i = 0; i < w->count; i++)
		refused |= share_refuses(&n->share, i, w->now_ms) ? 1ULL << i : 0;
	if (w->cut[from][to] || world_chance(w, w->loss) || w->in_flight == WORLD_FLIGHT)
		return;
	w->sent++;
	w->flight[w->in_flight++] = (struct world_word) {
		.arrives_ms = w->now_ms + world_random(w) % WORLD_DELAY_MS,
		.from = from,
		.to = to,
		.sent_ms = w->now_ms,
		.run = n->run,
		.weight = share_announced(&n->share),
		.grant = n->share.peer[to].granted,
		.period_ms = n->share.config->period_ms,
		.echoed = n->heard_sent_ms[to] != 0,
		.echo_sent_ms = n->heard_sent_ms[to],
		.echo_run = n->heard_run[to],
		.refused = refused,
		.asks = asks && share_asks(&n->share, to, w->now_ms),
	};
}

static inline void world_announce(struct world *w, unsigned from)
{
	for (unsigned to = 0; to < w->count; to++) {
		if (to != from)
			world_send(w, from, to, true);
	}
	share_sent(&w->node[from].share, w->now_ms);
	w->node[from].announced_ms = w->now_ms;
}

/* Does as sharing_step() and the daemon. */
static inline void world_step_node(struct world *w, unsigned i)
{
	struct world_node *n = &w->node[i];
	uint32_t before[WORLD_NODES], used = n->share.used;
	unsigned period_ms = share_period_ms(&n->share, w->now_ms);
	bool speak = n->speak, is_blind = w->now_ms < n->blind_until_ms;
	struct bucket_share next;

	share_want(&n->share, is_blind ? 0 : n->weight, w->now_ms);
	speak |= share_tick(&n->share, w->now_ms) || n->waiting;
	for (unsigned k = 0; k < w->count; k++)
		before[k] = n->share.peer[k].granted;
	share_fill(&n->share, w->now_ms, &next);
	share_applied(&n->share, &next);
	if (!is_blind) {
		n->kernel = next;
		n->until_ms = share_until_ms(&n->share);
		share_give_place_up(&n->share);
	}
	speak |= used != n->share.used;
	for (unsigned k = 0; k < w->count; k++)
		speak |= before[k] != n->share.peer[k].granted;
	if (w->now_ms >= n->next_ms) {
		n->next_ms = w->now_ms + period_ms / 2 + world_random(w) % (period_ms + 1);
		world_announce(w, i);
		speak = false;
	} else if (speak && w->now_ms >= n->announced_ms + share_ask_ms(&n->share) / 2) {
		world_announce(w, i);
		n->waiting = 0;
		speak = false;
	}
	n->speak = speak;
}

static inline void world_hear(struct world *w, const struct world_word *word)
{
	struct world_node *n = &w->node[word->to];
	const struct share_said said = {
		.weight = word->weight,
		.grant = word->echo_run == n->run ? word->grant : 0,
		.refused = word->refused,
		.period_ms = word->period_ms,
		.echoed = word->echoed && word->echo_run == n->run,
		.echo_sent_ms = word->echo_sent_ms,
	};

	/*
	 * Messages that were overtaken, or come from a former run: loadcast/core/table.c sorts these out by sequence
	 * and epoch.
	 */
	if (word->run < n->heard_run[word->from] ||
	    (word->run == n->heard_run[word->from] && word->sent_ms <= n->heard_sent_ms[word->from]))
		return;
	n->heard_run[word->from] = word->run;
	n->heard_sent_ms[word->from] = word->sent_ms;
	if (word->asks)
		n->waiting |= 1ULL << word->from;
	share_hear(&n->share, word->from, &said, w->now_ms);
}

/* A process that stood still finds its messages when it goes on. */
static inline void world_deliver(struct world *w)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < w->in_flight; i++) {
		struct world_word word = w->flight[i];
		struct world_node *n = &w->node[word.to];

		if (word.arrives_ms > w->now_ms || (n->alive && !n->running && n->run))
			w->flight[kept++] = word;
		else if (n->alive && n->running)
			world_hear(w, &word);
	}
	w->in_flight = kept;
}

static inline bool world_owns(const struct world *w, unsigned i, uint32_t bucket)
{
	const struct world_node *n = &w->node[i];

	return n->alive && w->now_ms < n->until_ms && bucket_owner(&n->kernel, bucket) == n->kernel.self_id;
}

static inline void world_count(struct world *w)
{
	w->owned = 0;
	for (unsigned b = 0; b < WORLD_BUCKETS; b++) {
		unsigned owners = 0;

		for (unsigned i = 0; i < w->count; i++)
			owners += world_owns(w, i, b * 677 % BUCKETS);
		w->owned += owners > 0;
		w->nobodys_ms[b] = owners ? 0 : w->nobodys_ms[b] + WORLD_STEP_MS;
		if (w->nobodys_ms[b] > w->longest_ms)
			w->longest_ms = w->nobodys_ms[b];
		if (owners > 1 && !w->doubles++)
			print_message("         at %llu ms two nodes own bucket %u\n", (unsigned long long)w->now_ms,
				      b * 677 % BUCKETS);
	}
}

static inline void world_run(struct world *w, unsigned ms)
{
	for (uint64_t end_ms = w->now_ms + ms; w->now_ms < end_ms;) {
		w->now_ms += WORLD_STEP_MS;
		world_deliver(w);
		for (unsigned i = 0; i < w->count; i++) {
			if (w->node[i].alive && w->node[i].running)
				world_step_node(w, i);
		}
		world_count(w);
	}
}

/* A start of the announcer: it has no memory, and ends the lease that its former self left. */
static inline void world_start(struct world *w, unsigned i)
{
	static uint32_t runs;
	struct world_node *n = &w->node[i];
	uint32_t weight = n->weight ? n->weight : w->config[i].member[i].weight;

	*n = (struct world_node) { .alive = true, .running = true, .run = ++runs, .weight = weight };
	share_init(&n->share, &w->config[i], w->now_ms);
}

/* The announcer dies and starts at once; dprd hands over the kernel part only blind_ms later. */
static inline void world_restart_blind(struct world *w, unsigned i, unsigned blind_ms)
{
	const struct world_node former = w->node[i];

	world_start(w, i);
	w->node[i].kernel = former.kernel;
	w->node[i].until_ms = former.until_ms;
	w->node[i].blind_until_ms = w->now_ms + blind_ms;
	share_keep_place(&w->node[i].share, w->now_ms + SHARE_LEASE_PERIODS * w->config[i].period_ms);
}

static inline void world_make(struct world *w, unsigned count, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->count = count;
	w->random = seed;
	w->now_ms = 1000000;
	for (unsigned i = 0; i < count; i++) {
		struct config *c = &w->config[i];

		c->self = i;
		c->member_count = count;
		c->period_ms = WORLD_PERIOD_MS;
		for (unsigned k = 0; k < count; k++) {
			snprintf(c->member[k].name, sizeof(c->member[k].name), "n%u", k + 1);
			c->member[k].id = member_id(c->member[k].name);
			c->member[k].weight = 100;
		}
	}
	for (unsigned i = 0; i < count; i++)
		world_start(w, i);
}

/* A reload with another Period=; the first announcement follows at once. */
static inline void world_reload(struct world *w, unsigned i, unsigned period_ms)
{
	struct config former = w->config[i];

	w->node[i].share.config = &former;
	w->config[i].period_ms = period_ms;
	share_reconfigure(&w->node[i].share, &w->config[i], w->now_ms);
	w->node[i].next_ms = w->now_ms;
}

/*
 * A node that stood still goes on, and finds a reload. deaf: earlier messages are lost, as with messages in its former
 * sockets.
 */
static inline void world_go_on(struct world *w, unsigned i, unsigned period_ms, bool deaf)
{
	unsigned kept = 0;

	for (unsigned k = 0; k < w->in_flight; k++) {
		if (!deaf || w->flight[k].to != i || w->flight[k].arrives_ms > w->now_ms)
			w->flight[kept++] = w->flight[k];
	}
	w->in_flight = kept;
	w->node[i].running = true;
	world_reload(w, i, period_ms);
}

static uint64_t world_seeds;

/* Setup of the group of tests: each run has new seeds, so that many runs see many worlds. */
static inline int world_begin(void **state)
{
	const char *given = getenv("UNIT_SEED");
	struct timespec now;

	(void)state;
	clock_gettime(CLOCK_REALTIME, &now);
	world_seeds = given ? strtoull(given, NULL, 10) : (uint64_t)now.tv_sec << 32 ^ (uint64_t)now.tv_nsec;
	print_message("UNIT_SEED=%llu\n", (unsigned long long)world_seeds);
	return 0;
}

static inline uint64_t world_seed(void)
{
	return bucket_mix(world_seeds += 0x9e3779b97f4a7c15ull);
}

/* A third of all rounds. UNIT_LONG: all; UNIT_SHORT, for valgrind, which takes a hundred times as long: the least. */
static inline unsigned world_rounds(unsigned all, unsigned least)
{
	return getenv("UNIT_SHORT") ? least : getenv("UNIT_LONG") ? all : all / 3;
}

static inline double world_share_of(const struct world *w, unsigned i)
{
	unsigned owned = 0;

	for (uint32_t b = 0; b < BUCKETS; b += 16)
		owned += world_owns(w, i, b);
	return owned / (BUCKETS / 16.0);
}

#endif
