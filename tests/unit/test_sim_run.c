// SPDX-License-Identifier: GPL-2.0-or-later
/* The laws of every run of the simulator: no connection is lost, a seed repeats a run, dprd's code decides. */
#include <errno.h>

#include "tests/unit/sim_setups.h"

enum { SOME = 20000 };

static bool same(const struct sim_result *a, const struct sim_result *b)
{
	return a->fingerprint == b->fingerprint && a->completed == b->completed && a->forwarded == b->forwarded &&
	       fabs(a->mean_s - b->mean_s) <= 0 && fabs(a->imbalance - b->imbalance) <= 0;
}

static void seeds(void **state)
{
	(void)state;
	for (const struct policy *const *p = policies; *p; p++) {
		struct sim_setup setup = sim_plain(6, *p, SOME);
		struct sim_result first = sim_go(&setup), again = sim_go(&setup), other;

		assert_true(same(&first, &again));
		setup.seed++;
		other = sim_go(&setup);
		assert_true(first.fingerprint != other.fingerprint);
		assert_int_equal(first.forwarded > 0, *p != &policy_local);
	}
}

/* A server that fails at once gets little more than its part of the connections; without the rule it gets most. */
static void fails_fast(void **state)
{
	struct sim_setup setup = sim_plain(4, &policy_li, 0);
	double percent[2];

	(void)state;
	setup.workers = 64;
	setup.service_mean_s = 0.2;
	setup.load = 0.1;
	setup.seconds = 100;
	setup.warmup_s = 40;
	setup.failure_count = 1;
	setup.failure[0] = (struct sim_failure) { .at_s = 40, .node = 3, .fate = SIM_FAILS };
	for (unsigned i = 0; i < 2; i++) {
		struct sim_result r;

		setup.suspicion = i;
		r = sim_go(&setup);
		assert_int_equal(r.completed_since, r.completed);
		percent[i] = 100.0 * (double)r.errors / (double)r.completed_since;
	}
	assert_in_range((unsigned)percent[0], 45, 75);
	assert_in_range((unsigned)percent[1], 25, 36);
}

/* A node that is really faster than its peers, from the beginning on, is never suspected: the same run to the bit. */
static void is_really_faster(void **state)
{
	static const double times[] = { 2, 4, 10 };

	(void)state;
	for (unsigned i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		struct sim_setup setup = sim_plain(4, &policy_li, SOME);
		struct sim_result with, without;

		setup.service_mean_s = 0.05;
		setup.capacity[3] = times[i];
		sim_warm_up(&setup);
		with = sim_go(&setup);
		setup.suspicion = false;
		without = sim_go(&setup);
		assert_true(same(&with, &without));
	}
}

/* Every policy gets the same arrivals, works and entry nodes: the busy time is nearly the same to the bit. */
static void same_work_for_all(void **state)
{
	struct sim_setup setup = sim_plain(6, &policy_local, SOME);
	struct sim_result local, li;

	(void)state;
	setup.load = 0.3;
	local = sim_go(&setup);
	setup.policy = &policy_li;
	li = sim_go(&setup);
	assert_int_equal(local.arrived, li.arrived);
	assert_true(fabs(local.utilisation - li.utilisation) < 0.002);
	assert_true(li.mean_s < local.mean_s);
}

static unsigned calls;

static unsigned choose_same(const struct policy_input *input)
{
	calls++;
	return policy_li.choose(input);
}

/* The policy li without the connections that it sent since. */
static unsigned choose_without_sent(const struct policy_input *input)
{
	for (unsigned i = 0; i < input->view->count; i++)
		input->view->nodes[i].sent_open = 0;
	return policy_li.choose(input);
}

/* The policy li with all loads taken as new. */
static unsigned choose_without_age(const struct policy_input *input)
{
	for (unsigned i = 0; i < input->view->count; i++)
		input->view->nodes[i].age_ms = 0;
	return policy_li.choose(input);
}

/* The policy's own code decides: the same code gives the same run, a changed one another run. */
static void policy_code(void **state)
{
	struct policy mine = policy_li;
	struct sim_setup setup = sim_plain(8, &policy_li, SOME);
	struct sim_result real, wrapped, without_sent, without_age;

	(void)state;
	setup.period_s = 20;
	setup.hop_s = 0.01;
	setup.max_load_auto = false; /* 0: every connection that is not better off here is the policy's */
	real = sim_go(&setup);
	setup.policy = &mine;
	mine.choose = choose_same;
	calls = 0;
	wrapped = sim_go(&setup);
	assert_true(calls > 0);
	assert_true(same(&real, &wrapped));
	mine.choose = choose_without_sent;
	without_sent = sim_go(&setup);
	mine.choose = choose_without_age;
	without_age = sim_go(&setup);
	assert_false(same(&real, &without_sent));
	assert_false(same(&real, &without_age));
	print_message("         mean %.2f s, without sent %.2f s, without age %.2f s\n", real.mean_s,
		      without_sent.mean_s, without_age.mean_s);
	assert_true(without_age.mean_s > 1.02 * real.mean_s);
}

/* One table for all, one for each node, and the tables of loadcast itself give the same run. */
static void tables_agree(void **state)
{
	const enum sim_tables kinds[] = { SIM_TABLES_SHARED, SIM_TABLES_OWN, SIM_TABLES_REAL };
	struct sim_result results[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct sim_setup setup = sim_plain(8, &policy_li, SOME);

		setup.service_mean_s = 0.1;
		setup.period_s = 0.25;
		setup.warmup_s = 1;
		setup.tables = kinds[i];
		results[i] = sim_go(&setup);
	}
	assert_true(same(&results[0], &results[1]));
	assert_true(same(&results[1], &results[2]));
}

/* The tables agree also with loss, deaths and births: on the nodes that are heard, echo, and may get connections. */
static void tables_agree_in_trouble(void **state)
{
	const enum sim_tables kinds[] = { SIM_TABLES_OWN, SIM_TABLES_REAL };
	struct sim_result results[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct sim_setup setup = sim_plain(8, &policy_least, SOME);

		setup.service_mean_s = 0.1;
		setup.period_s = 0.25;
		setup.warmup_s = 1;
		setup.loss = 0.5;
		setup.tables = kinds[i];
		/* Most come back before their silence is noticed: their former life still counts. */
		while (setup.failure_count < 48) {
			unsigned at = setup.failure_count / 2, node = at % 7;

			setup.failure[setup.failure_count++] = (struct sim_failure) { 5 + at, node, false };
			setup.failure[setup.failure_count++] =
				(struct sim_failure) { 5 + at + (at % 4 == 3 ? 0.9 : 0.05), node, true };
		}
		results[i] = sim_go(&setup);
		assert_true(results[i].lost > 0);
		assert_true(results[i].refused > 0);
	}
	assert_true(same(&results[0], &results[1]));
	assert_int_equal(results[0].lost, results[1].lost);
	assert_int_equal(results[0].refused, results[1].refused);
}

/* After its silence was noticed, nothing goes to a dead node; after it announces again, all is as before. */
static void death(void **state)
{
	struct sim_setup setup = sim_plain(5, &policy_li, SOME);
	struct sim_result longer, shorter, revived;

	(void)state;
	setup.connections = 0;
	setup.service_mean_s = 0.1;
	setup.period_s = 0.2;
	setup.load = 0.5;
	setup.warmup_s = 0;
	assert_true(value_skew("1:1:0:1:1", 5, setup.share)); /* it is no entry node: nothing else is lost */
	setup.failure_count = 1;
	setup.failure[0] = (struct sim_failure) { 10, 2, false };
	setup.seconds = 12;
	shorter = sim_go(&setup);
	setup.seconds = 60;
	longer = sim_go(&setup);
	assert_true(longer.lost > 0);
	assert_int_equal(shorter.lost, longer.lost);
	assert_int_equal(longer.refused, 0);
	/* Five nodes speak each 0.2 s, one of them for 10 of 60 s. */
	assert_in_range(longer.announcements, 1220, 1280);
	/* It would be noticed later, and cost more. */
	setup.dead_periods = 20;
	assert_true(sim_go(&setup).lost > 2 * longer.lost);
	setup.dead_periods = 5;
	setup.warmup_s = 20;
	assert_true(sim_go(&setup).utilisation_least <= 0);
	setup.failure_count = 2;
	setup.failure[1] = (struct sim_failure) { 15, 2, true };
	revived = sim_go(&setup);
	assert_int_equal(revived.lost, 0);
	assert_true(revived.utilisation_least > 0.1);
}

static double seen_rate;

/* Notes the own rate of the first member, and sends everything to a peer. */
static unsigned choose_peer(const struct policy_input *input)
{
	if (input->view->nodes[0].member == 0)
		seen_rate = input->view->nodes[0].arrivals_per_s;
	return input->view->nodes[1].eligible ? 1 : 0;
}

/* Connections through a node that dies are lost, though their serving node lives. */
static void death_of_entry(void **state)
{
	struct policy away = { .name = "away", .choose = choose_peer };
	struct sim_setup setup = sim_plain(2, &away, SOME);
	struct sim_result r;

	(void)state;
	assert_true(value_skew("1:0", 2, setup.share));
	setup.connections = 0;
	setup.seconds = 20;
	setup.warmup_s = 0;
	setup.service_mean_s = 0.001;
	setup.load = 0.1;
	setup.hop_s = 1;
	setup.dead_periods = 100;
	setup.failure_count = 1;
	setup.failure[0] = (struct sim_failure) { 10, 0, false };
	r = sim_go(&setup);
	/* 200 per s: a second of them is under way, and ten seconds of them come to a dead node. */
	assert_in_range(r.lost, 150, 250);
	assert_in_range(r.refused, 1800, 2200);
	/* The rate that it tells is measured, and found again after a death. */
	assert_true(seen_rate > 150 && seen_rate < 250);
	setup.failure_count = 2;
	setup.failure[1] = (struct sim_failure) { 11, 0, true };
	setup.seconds = 22;
	seen_rate = 0;
	sim_go(&setup);
	assert_true(seen_rate > 150 && seen_rate < 250);
}

/* A dprd that starts anew loses no connection; it forgets the rate of its arrivals, and finds it again. */
static void restart(void **state)
{
	struct policy away = { .name = "away", .choose = choose_peer };
	struct sim_setup setup = sim_plain(2, &away, SOME);
	struct sim_result r;

	(void)state;
	assert_true(value_skew("1:0", 2, setup.share));
	setup.connections = 0;
	setup.warmup_s = 0;
	setup.service_mean_s = 0.001;
	setup.load = 0.1;
	setup.failure_count = 1;
	setup.failure[0] = (struct sim_failure) { 10.2, 0, SIM_RESTARTS };
	setup.seconds = 10.8;
	sim_go(&setup);
	assert_true(seen_rate <= 0);
	setup.seconds = 20;
	r = sim_go(&setup);
	assert_true(seen_rate > 150 && seen_rate < 250);
	assert_int_equal(r.lost + r.refused, 0);
	assert_int_equal(r.completed, r.arrived);
	/* The same with the policy of all: the connections that it sent count for nothing afterwards. */
	setup = sim_plain(16, &policy_li, SOME);
	setup.period_s = 1;
	setup.failure_count = 1;
	setup.failure[0] = (struct sim_failure) { 20.5, 0, SIM_FAILS };
	setup.fail_times = 1;
	r = sim_go(&setup);
	setup.failure[0].fate = SIM_RESTARTS;
	assert_int_not_equal(sim_go(&setup).fingerprint, r.fingerprint);
}

/* With old loads the second look pays; a node without another peer, or whose policy ignores loads, does not do it. */
static void second_look(void **state)
{
	struct sim_setup setup = sim_plain(16, &policy_li, SOME);
	struct sim_result without, with;

	(void)state;
	setup.period_s = 20;
	setup.second_look = false;
	without = sim_go(&setup);
	assert_int_equal(without.sent_back, 0);
	setup.second_look = true;
	with = sim_go(&setup);
	assert_int_equal(with.arrived, without.arrived);
	assert_in_range(with.sent_back, with.arrived / 10, with.forwarded);
	assert_in_range(with.chosen_again, with.sent_back / 2, with.sent_back);
	assert_true(with.mean_s < 0.95 * without.mean_s);
	/* Each connection is decided when it comes, when it landed, and when it came back. */
	assert_in_range(with.decisions, with.all_arrived + with.forwarded, 3 * with.all_arrived);
	setup.policy = &policy_random;
	assert_int_equal(sim_go(&setup).sent_back, 0);
	setup.policy = &policy_li;
	setup.max_load_auto = false;
	setup.max_load = 1e9;
	assert_int_equal(sim_go(&setup).sent_back, 0);
	setup.max_load = 0;
	setup.nodes = 2;
	assert_true(value_skew("uniform", 2, setup.share));
	with = sim_go(&setup);
	assert_true(with.forwarded > 0);
	assert_int_equal(with.sent_back, 0);
}

/*
 * Nearly all connections come to one node, which therefore knows nearly all connections of the others: it need not add
 * its own connections to the loads that they announce.
 */
static void one_entry_node(void **state)
{
	struct sim_setup setup = sim_plain(4, &policy_li, 40000);
	double evenly_s;

	(void)state;
	setup.period_s = 5;
	evenly_s = sim_go(&setup).mean_s;
	assert_true(value_skew("97:1:1:1", 4, setup.share));
	sim_warm_up(&setup);
	assert_true(sim_go(&setup).mean_s < evenly_s * (1.07 + sim_slack(0.01)));
}

/* Tables that are never full change nothing; small ones keep connections where they came. */
static void flow_tables(void **state)
{
	struct sim_setup setup = sim_plain(4, &policy_random, SOME / 2);
	struct sim_result without, large, small;

	(void)state;
	setup.service_mean_s = 0.001;
	setup.warmup_s = 0;
	without = sim_go(&setup);
	assert_int_equal(without.reasons[REASON_TABLE_FULL], 0);
	setup.flows = 65536;
	large = sim_go(&setup);
	assert_true(same(&without, &large));
	setup.flows = 64;
	small = sim_go(&setup);
	assert_true(small.reasons[REASON_TABLE_FULL] > 0);
	assert_int_equal(small.reasons[REASON_CHOSEN], small.forwarded);
	assert_true(small.forwarded < large.forwarded);
}

static uint32_t seen_age_ms;

static unsigned choose_noting_age(const struct policy_input *input)
{
	for (unsigned i = 1; i < input->view->count; i++)
		if (input->view->nodes[i].age_ms > seen_age_ms)
			seen_age_ms = input->view->nodes[i].age_ms;
	return policy_least.choose(input);
}

/* A node that looks rarely sees loads as late as if they had been announced late. */
static void tick(void **state)
{
	struct sim_setup setup = sim_plain(8, &policy_least, SOME);
	struct policy noting = policy_least;
	double prompt_s, late_s;

	(void)state;
	setup.period_s = 0.05;
	prompt_s = sim_go(&setup).mean_s;
	setup.tick_s = 10;
	late_s = sim_go(&setup).mean_s;
	print_message("         mean %.2f s; with a look every 10 s %.2f s\n", prompt_s, late_s);
	assert_true(late_s > 1.2 * prompt_s);
	/* As dprd does, it does not know that: ages are those of the last look. */
	noting.choose = choose_noting_age;
	setup.policy = &noting;
	seen_age_ms = 0;
	sim_go(&setup);
	assert_in_range(seen_age_ms, 30, 80);
}

static bool stop_half_way(void *context, double done)
{
	double *most = context;

	assert_true(done >= *most && done <= 1);
	*most = done;
	return done < 0.5;
}

static void progress(void **state)
{
	struct sim_setup setup = sim_plain(4, &policy_local, 10 * SOME);
	struct sim_result r;
	double most = 0;

	(void)state;
	assert_int_equal(sim_run(&setup, stop_half_way, &most, &r), -EINTR);
	assert_true(most >= 0.5 && most < 1);
}

/* Bursts of connections that stay open, at one entry of idle nodes: how full the fullest node is, in proportion. */
static void bursts(void **state)
{
	static const struct {
		unsigned nodes, connections, entries;
		double span_s, most;
	} cases[] = {
		{ 3, 60, 1, 0, 1.15 },      { 3, 120, 1, 0.2, 1.15 },  { 8, 120, 1, 0, 1.15 },
		{ 8, 120, 1, 0.1, 1.15 },   { 16, 1000, 1, 0, 1.15 },  { 16, 1000, 1, 0.05, 1.15 },
		{ 16, 1000, 1, 0.2, 1.15 }, { 16, 1000, 1, 1, 1.15 },  { 3, 1000, 2, 0, 1.2 },
		{ 8, 1000, 2, 0, 1.2 },     { 16, 1000, 2, 0, 1.2 },   { 8, 1000, 8, 0, 1.2 },
		{ 16, 1000, 16, 0, 1.2 },   { 3, 60, 1, 0.2, 1.15 },   { 8, 120, 1, 0.4, 1.15 },
		{ 8, 1000, 1, 0.05, 1.15 }, { 8, 1000, 1, 0.2, 1.15 }, { 16, 1000, 1, 3.3, 1.15 },
	};
	enum { SEEDS = 10 };

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		double sum = 0;

		for (unsigned seed = 0; seed < SEEDS; seed++) {
			struct sim_setup setup = sim_plain(cases[i].nodes, &policy_li, 0);

			setup.load = 0;
			setup.seconds = 1;
			setup.warmup_s = 0;
			setup.seed = seed + 1;
			setup.period_s = 0.2;
			setup.tick_s = 0.05;
			setup.delay_s = setup.hop_s = 0.0002;
			setup.burst.connections = cases[i].connections;
			setup.burst.entries = cases[i].entries;
			setup.burst.span_s = cases[i].span_s;
			sum += sim_go(&setup).burst_ratio;
		}
		print_message("         %u on %u, %u entries, %.2f s: %.3f\n", cases[i].connections, cases[i].nodes,
			      cases[i].entries, cases[i].span_s, sum / SEEDS);
		assert_true(sum / SEEDS >= 1 && sum / SEEDS <= cases[i].most);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fails_fast),     cmocka_unit_test(is_really_faster),
		cmocka_unit_test(seeds),          cmocka_unit_test(same_work_for_all),
		cmocka_unit_test(policy_code),    cmocka_unit_test(tables_agree),
		cmocka_unit_test(death),          cmocka_unit_test(tables_agree_in_trouble),
		cmocka_unit_test(death_of_entry), cmocka_unit_test(second_look),
		cmocka_unit_test(restart),        cmocka_unit_test(one_entry_node),
		cmocka_unit_test(flow_tables),    cmocka_unit_test(tick),
		cmocka_unit_test(progress),       cmocka_unit_test(bursts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
