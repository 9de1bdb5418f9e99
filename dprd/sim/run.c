// SPDX-License-Identifier: GPL-2.0-or-later
/* run.c - the loop: takes the next event and carries it out. */
#include "dprd/sim/run.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* dprd's TICK_MS */
#define SUSPICION_S 0.05

enum {
	STREAM_ARRIVALS = 1, /* purposes of the streams */
	STREAM_WORKS,
	STREAM_ENTRIES,
	STREAM_PERIODS,
	STREAM_NODES = 1000,
	PROGRESS_EVENTS = 8192, /* between two calls of progress */
};

/* A uniform number around 1, by the jitter. */
static double period_s(struct run *run)
{
	const struct sim_setup *setup = run->setup;

	return setup->period_s * (1 - setup->jitter + 2 * setup->jitter * random_uniform(&run->periods));
}

static bool run_init(struct run *run, const struct sim_setup *setup)
{
	uint32_t timers = servers_timers(setup);

	*run = (struct run) {
		.setup = setup,
		.landings = { .element_bytes = sizeof(struct landing) },
		.arrivals_per_s = sim_arrivals_per_s(setup),
		.first_announcer = timers,
		.rate_timer = timers + setup->nodes,
		.suspicion_timer = timers + setup->nodes + 1,
		.begin_timer = timers + setup->nodes + 2,
		.failure_timer = timers + setup->nodes + 3,
		.end_s = setup->seconds > 0 ? setup->seconds : INFINITY,
		.arrivals_left = !(setup->load > 0)   ? 0
				 : setup->connections ? setup->connections
						      : UINT64_MAX,
		.nodes = calloc(setup->nodes, sizeof(*run->nodes)),
	};
	random_start(&run->arrivals, setup->seed, STREAM_ARRIVALS);
	random_start(&run->works, setup->seed, STREAM_WORKS);
	random_start(&run->entries, setup->seed, STREAM_ENTRIES);
	random_start(&run->periods, setup->seed, STREAM_PERIODS);
	law_start(&run->law, &setup->law);
	alias_start(&run->alias, setup->share, setup->nodes);
	burst_init(run);
	return run->nodes && place_init(run) && timers_init(&run->timers, timers + setup->nodes + 4) &&
	       servers_init(&run->servers, setup, &run->pool, &run->timers) && knowledge_init(&run->knowledge, setup) &&
	       stats_init(&run->stats, setup);
}

static void run_free(struct run *run)
{
	stats_free(&run->stats);
	knowledge_free(&run->knowledge);
	servers_free(&run->servers);
	timers_free(&run->timers);
	place_free(run);
	pool_free(&run->pool);
	ring_free(&run->landings);
	burst_free(run);
	free(run->nodes);
}

static void start(struct run *run)
{
	for (unsigned i = 0; i < run->setup->nodes; i++) {
		struct node *node = &run->nodes[i];

		node->alive = true;
		node->random_state = policy_mix(policy_mix(run->setup->seed) + STREAM_NODES + i);
		node->arrivals_per_1000_s = (uint32_t)(1000 * run->setup->share[i] * run->arrivals_per_s);
		/* Nodes are out of step from the beginning. */
		timer_set(&run->timers, run->first_announcer + i, run->setup->period_s * random_uniform(&run->periods));
	}
	timer_set(&run->timers, run->rate_timer, 1);
	if (run->setup->suspicion)
		timer_set(&run->timers, run->suspicion_timer, SUSPICION_S);
	timer_set(&run->timers, run->begin_timer, run->setup->warmup_s);
	if (run->setup->failure_count)
		timer_set(&run->timers, run->failure_timer, run->setup->failure[0].at_s);
	run->next_arrival_s = random_exponential(&run->arrivals) / run->arrivals_per_s;
}

static void give_up(struct run *run, uint32_t connection)
{
	if (run->pool.connection[connection].held) {
		burst_lose(run, connection);
		return;
	}
	run->stats.result.all_ended++;
	pool_give(&run->pool, connection);
}

static void lose(void *context, uint32_t connection)
{
	struct run *run = context;
	const struct connection *c = &run->pool.connection[connection];

	run->stats.result.lost += !c->held && stats_counts(&run->stats, c->arrived_s);
	give_up(run, connection);
}

static void begin_service(struct run *run, uint32_t connection)
{
	struct connection *c = &run->pool.connection[connection];
	unsigned node = c->server, open = run->servers.server[node].open;

	if (!run->nodes[node].alive) {
		lose(run, connection);
		return;
	}
	run->nodes[node].accepted++;
	if (run->nodes[node].fails) {
		c->error = true;
		c->work_s /= run->setup->fail_times;
	}
	if (c->held) {
		burst_hold(run, connection);
		return;
	}
	stats_change_open(&run->stats, node, open, open + 1, run->now_s);
	run->out_of_memory |= !server_begin(&run->servers, node, connection, run->now_s);
}

static void forward(struct run *run, uint32_t connection, unsigned to)
{
	struct landing *landing = ring_push(&run->landings);

	if (!landing) {
		run->out_of_memory = true;
		return;
	}
	run->pool.connection[connection].server = (uint16_t)to;
	*landing = (struct landing) { .at_s = run->now_s + run->setup->hop_s, .connection = connection };
}

/* A connection has come to its entry node, which is alive or not. */
static void arrive(struct run *run, uint32_t connection)
{
	struct sim_result *r = &run->stats.result;
	struct connection *c = &run->pool.connection[connection];
	bool counts = !c->held && stats_counts(&run->stats, run->now_s);
	unsigned to;

	if (!run->nodes[c->entry].alive) {
		r->refused += counts;
		give_up(run, connection);
		return;
	}
	run->nodes[c->entry].syns++;
	to = place_new(run, connection);
	if (to == c->entry) {
		begin_service(run, connection);
		return;
	}
	r->forwarded += counts;
	forward(run, connection, to);
}

static void on_arrival(struct run *run)
{
	uint32_t connection = pool_take(&run->pool);
	struct sim_result *r = &run->stats.result;
	struct connection *c;

	if (connection == CONNECTION_NONE) {
		run->out_of_memory = true;
		return;
	}
	c = &run->pool.connection[connection];
	c->number = r->all_arrived++;
	c->arrived_s = run->now_s;
	c->work_s = run->setup->service_mean_s * law_draw(&run->law, &run->works);
	c->entry = c->server = (uint16_t)alias_draw(&run->alias, &run->entries);
	r->arrived += stats_counts(&run->stats, run->now_s);
	run->next_arrival_s = run->now_s + random_exponential(&run->arrivals) / run->arrivals_per_s;
	run->arrivals_left--;
	arrive(run, connection);
}

static void on_burst(struct run *run)
{
	uint32_t connection = burst_step(run);

	if (connection != CONNECTION_NONE)
		arrive(run, connection);
}

static void on_landing(struct run *run)
{
	const struct landing *landing = ring_first(&run->landings);
	uint32_t connection = landing->connection;
	struct connection *c = &run->pool.connection[connection];
	unsigned to = c->server;

	ring_pop(&run->landings);
	/* Packets of a client whose entry node has died go nowhere. */
	if (!run->nodes[c->entry].alive || !run->nodes[to].alive) {
		lose(run, connection);
		return;
	}
	if (c->returning)
		to = place_again(run, connection);
	else if (run->setup->second_look && !c->looked && place_returns(run, connection))
		to = c->entry;
	if (to == c->server)
		begin_service(run, connection);
	else
		forward(run, connection, to);
}

static void on_end_of_service(struct run *run, uint32_t timer)
{
	uint32_t connection = server_end(&run->servers, timer, run->now_s);
	const struct connection *c = &run->pool.connection[connection];
	unsigned open = run->servers.server[c->server].open;

	stats_change_open(&run->stats, c->server, open + 1, open, run->now_s);
	if (c->lost) {
		lose(run, connection);
		return;
	}
	if (c->forwarded)
		place_ended(run, connection);
	stats_complete(&run->stats, c, run->now_s);
	run->stats.result.all_ended++;
	pool_give(&run->pool, connection);
}

/* dprd/tick.c */
static void on_suspicion(struct run *run)
{
	for (unsigned i = 0; i < run->setup->nodes; i++) {
		struct node *node = &run->nodes[i];
		struct suspicion_facts facts = {
			.accepted = node->accepted,
			.served = node->accepted,
			.open = run->servers.server[i].open + run->servers.server[i].held,
			.arrivals_per_s = node->arrivals_per_1000_s / 1000.0,
		};

		if (!node->alive)
			continue;
		knowledge_add_others(&run->knowledge, i, run->now_s, run->view_nodes, &facts);
		suspicion_tick(&node->suspicion, &facts, knowledge_ms(run->now_s));
	}
	timer_set(&run->timers, run->suspicion_timer, run->now_s + SUSPICION_S);
}

static void on_announcement(struct run *run, unsigned node)
{
	run->out_of_memory |= !knowledge_announce(&run->knowledge, node, place_load(run, node),
						  run->nodes[node].arrivals_per_1000_s, run->now_s);
	timer_set(&run->timers, run->first_announcer + node, run->now_s + period_s(run));
}

/* dprd/tick.c: half from the last second, half from the past. */
static void on_second(struct run *run)
{
	for (unsigned i = 0; i < run->setup->nodes; i++) {
		struct node *node = &run->nodes[i];
		uint32_t rate = (uint32_t)((node->syns - node->syns_at_rate) * 1000);

		node->syns_at_rate = node->syns;
		node->arrivals_per_1000_s = node->arrivals_per_1000_s / 2 + rate / 2;
	}
	place_expire(run);
	timer_set(&run->timers, run->rate_timer, run->now_s + 1);
}

static void kill_node(struct run *run, unsigned node)
{
	unsigned open = run->servers.server[node].open;

	if (!run->nodes[node].alive)
		return;
	stats_change_open(&run->stats, node, open, 0, run->now_s);
	server_clear(&run->servers, node, run->now_s, lose, run);
	stats_change_alive(&run->stats, false, run->now_s);
	run->servers.server[node].held = 0;
	run->servers.server[node].held_from_s = run->now_s;
	run->nodes[node].alive = false;
	timer_stop(&run->timers, run->first_announcer + node);
	knowledge_kill(&run->knowledge, node);
	/* Clients for which it forwarded are cut off; the servers go on without result. */
	for (unsigned i = 0; i < run->setup->nodes; i++)
		server_cut_off(&run->servers, i, (uint16_t)node);
}

/* A dprd restarts, and knows nothing about the former one. */
static void restart_dprd(struct run *run, unsigned node)
{
	run->nodes[node].arrivals_per_1000_s = 0;
	run->nodes[node].syns_at_rate = run->nodes[node].syns;
	run->nodes[node].suspicion = (struct suspicion) { 0 };
	*run->nodes[node].state = (struct policy_state) { 0 };
	knowledge_forget_sent(&run->knowledge, node);
}

static void revive_node(struct run *run, unsigned node)
{
	if (run->nodes[node].alive)
		return;
	run->nodes[node].alive = true;
	restart_dprd(run, node);
	place_forget_all(run, node);
	knowledge_revive(&run->knowledge, node);
	stats_change_alive(&run->stats, true, run->now_s);
	timer_set(&run->timers, run->first_announcer + node, run->now_s + period_s(run));
}

static void on_failure(struct run *run)
{
	const struct sim_failure *failure = &run->setup->failure[run->failures_done++];

	if (failure->fate == SIM_REVIVES)
		revive_node(run, failure->node);
	else if (failure->fate == SIM_DIES)
		kill_node(run, failure->node);
	else if (failure->fate == SIM_FAILS)
		run->nodes[failure->node].fails = true;
	else if (run->nodes[failure->node].alive)
		restart_dprd(run, failure->node);
	if (run->failures_done < run->setup->failure_count)
		timer_set(&run->timers, run->failure_timer, run->setup->failure[run->failures_done].at_s);
	else
		timer_stop(&run->timers, run->failure_timer);
}

static void on_timer(struct run *run, uint32_t timer)
{
	if (timer < run->first_announcer) {
		on_end_of_service(run, timer);
	} else if (timer < run->rate_timer) {
		on_announcement(run, timer - run->first_announcer);
	} else if (timer == run->rate_timer) {
		on_second(run);
	} else if (timer == run->suspicion_timer) {
		on_suspicion(run);
	} else if (timer == run->begin_timer) {
		timer_stop(&run->timers, timer);
		if (run->arrivals_left)
			stats_begin(&run->stats, &run->servers, run->now_s);
	} else {
		on_failure(run);
	}
}

/* Takes the earliest event; among equal times arrivals come last. */
static void step(struct run *run)
{
	uint32_t timer = timers_next(&run->timers);
	double timer_s = timer == TIMER_OFF ? INFINITY : timers_next_s(&run->timers);
	double flight_s = knowledge_next_s(&run->knowledge);
	const struct landing *landing = ring_first(&run->landings);
	double landing_s = landing ? landing->at_s : INFINITY;
	double arrival_s = run->arrivals_left ? run->next_arrival_s : INFINITY, burst_s = burst_next_s(run);
	double first_s = fmin(fmin(flight_s, landing_s), fmin(timer_s, fmin(burst_s, arrival_s)));

	run->now_s = first_s;
	if (flight_s <= first_s) {
		knowledge_deliver(&run->knowledge);
	} else if (landing_s <= first_s) {
		on_landing(run);
	} else if (timer_s <= first_s) {
		on_timer(run, timer);
	} else if (burst_s <= first_s) {
		on_burst(run);
	} else {
		on_arrival(run);
	}
}

static double share_done(const struct run *run)
{
	double by_count =
		run->setup->connections ? (double)run->stats.result.all_arrived / (double)run->setup->connections : 0;
	double by_time = run->setup->seconds > 0 ? run->now_s / run->setup->seconds : 0;

	return fmin(1, fmax(by_count, by_time));
}

/* True when progress ended the run. */
static bool loop(struct run *run, sim_progress_fn *progress, void *context)
{
	struct sim_result *r = &run->stats.result;
	unsigned events = 0;

	while (!run->out_of_memory && (run->arrivals_left || r->all_ended < r->all_arrived || burst_under_way(run))) {
		if (run->arrivals_left && run->next_arrival_s > run->end_s)
			run->arrivals_left = 0;
		if (!run->arrivals_left && run->stats.measuring)
			stats_end(&run->stats, &run->servers, run->now_s);
		step(run);
		if (++events == PROGRESS_EVENTS) {
			events = 0;
			if (progress && !progress(context, share_done(run)))
				return true;
		}
	}
	return false;
}

int sim_run(const struct sim_setup *setup, sim_progress_fn *progress, void *context, struct sim_result *ret)
{
	struct run *run = calloc(1, sizeof(*run));
	bool ended = false;
	int error = 0;

	if (!run)
		return -ENOMEM;
	if (!run_init(run, setup)) {
		error = -ENOMEM;
	} else {
		start(run);
		ended = loop(run, progress, context);
		error = run->out_of_memory ? -ENOMEM : ended ? -EINTR : 0;
		run->stats.result.announcements = run->knowledge.announcements;
		stats_result(&run->stats, ret);
	}
	run_free(run);
	free(run);
	return error;
}
