// SPDX-License-Identifier: GPL-2.0-or-later
/* The simulator against queueing theory: the exactly known results must come out. */
#include "tests/unit/sim_setups.h"

enum { MANY = 200000 };

/* Mean response time of M/M/c in service times (Erlang C). */
static double mmc(unsigned servers, double load)
{
	double offered = servers * load, term = 1, sum = 0, wait;

	for (unsigned i = 0; i < servers; i++) {
		sum += term;
		term *= offered / (i + 1);
	}
	wait = term / (1 - load) / (sum + term / (1 - load));
	return 1 + wait / (servers * (1 - load));
}

/* Mean response time of M/G/1 FIFO in service times (Pollaczek, Khinchin); square: E[S^2] / E[S]^2. */
static double mg1(double load, double square)
{
	return 1 + load * square / 2 / (1 - load);
}

static void one_worker(void **state)
{
	struct sim_setup setup = sim_plain(4, &policy_local, MANY);
	struct sim_result r;

	(void)state;
	r = sim_go(&setup);
	assert_near("M/M/1 at 0.8, mean", r.mean_s, mmc(1, 0.8), sim_slack(0.04));
	/* Response times are exponential, so percentiles are known, too. */
	assert_near("M/M/1 at 0.8, median", r.p50_s, log(2) * mmc(1, 0.8), sim_slack(0.04));
	assert_near("M/M/1 at 0.8, 99 %", r.p99_s, log(100) * mmc(1, 0.8), sim_slack(0.08));
	assert_near("utilisation", r.utilisation, 0.8, sim_slack(0.01));
	/* Little's law, measured on both sides by other means. */
	assert_near("open = arrivals * response", r.open_mean, 0.8 * r.mean_s, sim_slack(0.01));
	assert_int_equal(r.forwarded, 0);
}

static void many_workers(void **state)
{
	struct sim_setup setup = sim_plain(2, &policy_local, MANY);

	(void)state;
	setup.workers = 4;
	sim_warm_up(&setup);
	assert_near("M/M/4 at 0.8", sim_go(&setup).mean_s, mmc(4, 0.8), sim_slack(0.03));
	setup.workers = 16;
	sim_warm_up(&setup);
	assert_near("M/M/16 at 0.8", sim_go(&setup).mean_s, mmc(16, 0.8), sim_slack(0.02));
	/* Sharing or waiting: the number of connections is the same, and so by Little their mean time. */
	setup.workers = 4;
	sim_warm_up(&setup);
	setup.service = SIM_PS;
	assert_near("M/M/4 shared at 0.8", sim_go(&setup).mean_s, mmc(4, 0.8), sim_slack(0.03));
}

static void other_laws(void **state)
{
	struct sim_setup setup = sim_plain(4, &policy_local, MANY);

	(void)state;
	setup.load = 0.7;
	setup.law.kind = SIM_LAW_DET;
	assert_near("M/D/1 at 0.7", sim_go(&setup).mean_s, mg1(0.7, 1), sim_slack(0.02));
	assert_true(value_law("lognormal:0.8", &setup.law));
	assert_near("lognormal service at 0.7", sim_go(&setup).mean_s, mg1(0.7, exp(0.64)), sim_slack(0.03));
	/* A shared server depends only on the mean of the law. */
	setup.service = SIM_PS;
	assert_near("lognormal, shared", sim_go(&setup).mean_s, mmc(1, 0.7), sim_slack(0.03));
	assert_true(value_law("pareto:1.5:100", &setup.law));
	assert_near("heavy tail, shared", sim_go(&setup).mean_s, mmc(1, 0.7), sim_slack(0.05));
	setup.law.kind = SIM_LAW_DET;
	assert_near("constant, shared", sim_go(&setup).mean_s, mmc(1, 0.7), sim_slack(0.02));
}

/* Poisson arrivals that are split at random stay Poisson: M/M/1 on every node, though nearly all are forwarded. */
static void split_by_lot(void **state)
{
	struct sim_setup setup = sim_plain(8, &policy_random, MANY);
	struct sim_result r;

	(void)state;
	setup.load = 0.7;
	r = sim_go(&setup);
	assert_near("random at 0.7", r.mean_s, mmc(1, 0.7), sim_slack(0.03));
	assert_near("forwarded", (double)r.forwarded / (double)r.arrived, 7 / 8.0, sim_slack(0.01));
	/* Served counts of Poisson streams: the index is near 1 by their variance. */
	assert_true(r.jain > 0.99 && r.jain < 1);
	/* A hop is added once to a forwarded connection. */
	setup.hop_s = 0.5;
	assert_near("with a hop", sim_go(&setup).mean_s, r.mean_s + 0.5 * 7 / 8.0, sim_slack(0.02));
}

/* In turn: every node has an arrival stream of rate / n; Erlang arrivals wait less. */
static void in_turn(void **state)
{
	struct sim_setup setup = sim_plain(4, &policy_rr, MANY);

	(void)state;
	/* All arrivals at one entry: a node gets each fourth, E4/M/1. The root of x = E[exp(-mu(1-x)A)]. */
	assert_true(value_skew("1:0:0:0", 4, setup.share));
	setup.load = 0.8;
	{
		double x = 0.5;

		for (unsigned i = 0; i < 1000; i++)
			x = pow(3.2 / (3.2 + 1 - x), 4);
		assert_near("E4/M/1 at 0.8", sim_go(&setup).mean_s, 1 / (1 - x), sim_slack(0.03));
	}
}

/* Two nodes are drawn and the emptier one serves, without a threshold, as in the theory. */
static void two_choices(void **state)
{
	struct policy plain = policy_p2c;
	struct sim_setup setup = sim_plain(200, &plain, MANY);
	double theory = 0, load = 0.8;

	(void)state;
	plain.threshold = false;
	setup.period_s = 0.02;
	setup.jitter = 0;
	setup.connections = sim_fewer(60000);
	setup.warmup_s = sim_expected_s(&setup) / 5;
	for (unsigned i = 1; i < 12; i++)
		theory += pow(load, pow(2, i) - 2);
	assert_near("two choices of 200 at 0.8", sim_go(&setup).mean_s, theory, sim_slack(0.03));
}

/* The shortest queue, known at once: better than two choices, no better than one queue for all. */
static void shortest_queue(void **state)
{
	struct sim_setup setup = sim_plain(16, &policy_lc, MANY);
	double mean_s;

	(void)state;
	setup.period_s = 0.01;
	setup.connections = sim_fewer(100000);
	sim_warm_up(&setup);
	mean_s = sim_go(&setup).mean_s;
	print_message("         shortest of 16 at 0.8: %.3f\n", mean_s);
	assert_true(mean_s > mmc(16, 0.8) * (1 - sim_slack(0.01)));
	assert_true(mean_s < 1.4);
	/* Old tables spoil it. */
	setup.period_s = 50;
	assert_true(sim_go(&setup).mean_s > 3);
}

static void unequal_nodes(void **state)
{
	struct sim_setup setup = sim_plain(4, &policy_wrr, MANY);
	struct sim_result r, blind;

	(void)state;
	assert_true(value_per_node("1:3", 4, setup.capacity));
	assert_true(value_per_node("1:3", 4, setup.weight));
	sim_warm_up(&setup);
	r = sim_go(&setup);
	assert_true(r.jain > 0.999);
	assert_true(r.utilisation_most - r.utilisation_least < sim_slack(0.03));
	assert_near("utilisation", r.utilisation, 0.8, sim_slack(0.01));
	/* Round robin gives the slow ones as much as the fast ones: more than they can serve. */
	setup.policy = &policy_rr;
	setup.connections /= 10;
	sim_warm_up(&setup);
	blind = sim_go(&setup);
	assert_true(blind.utilisation_most > 0.97);
	assert_true(blind.mean_s > 5 * r.mean_s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_worker),     cmocka_unit_test(many_workers),  cmocka_unit_test(other_laws),
		cmocka_unit_test(split_by_lot),   cmocka_unit_test(in_turn),       cmocka_unit_test(two_choices),
		cmocka_unit_test(shortest_queue), cmocka_unit_test(unequal_nodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
