// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The way from the load table to the view of decide(): nodes that may get connections, their weights, and peers whose
 * tunnel packets are taken.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/control_fixture.h"

enum { N1, N2, N3, N4 };

static struct dprd d;
static struct load_table table;
static uint64_t now_ms;

static int start(void **context)
{
	(void)context;
	fixture_start(&d);
	/* The own load is not read here. */
	d.config.factors.connections = 0;
	now_ms = clock_now_ms() + 10 * (uint64_t)DECAPSULATE_GRACE_MS;
	table = d.table;
	return 0;
}

static int stop(void **context)
{
	(void)context;
	fixture_stop(&d);
	return 0;
}

/* loadcast publishes its table after this time. */
static void published(uint64_t later_ms)
{
	now_ms += later_ms;
	table.published_ms = now_ms;
	view_refresh(&d, &table, false, now_ms);
}

/* The table is missing after this time. */
static void missing(uint64_t later_ms)
{
	now_ms += later_ms;
	view_refresh(&d, NULL, true, now_ms);
}

static const char *why_not(unsigned member)
{
	const char *why;

	view_member_eligible(&d, member, now_ms, &why);
	return why ? why : "";
}

static void test_living_ends(void **context)
{
	(void)context;
	published(0);
	assert_true(view_member_living(&d, N2, now_ms));
	table.nodes[N2].age_ms = DECAPSULATE_GRACE_MS - 1;
	published(DECAPSULATE_GRACE_MS - 1);
	assert_true(view_member_living(&d, N2, now_ms));
	assert_false(view_member_living(&d, N2, now_ms + 1));
	table.nodes[N2].age_ms = 0;
	published(1000);
	assert_true(view_member_living(&d, N2, now_ms));
}

/* loadcast is stopped, and its directory removed with the table; or it is started again and has heard no node. */
static void test_living_without_loadcast(void **context)
{
	const uint64_t all = 0xf;

	(void)context;
	published(0);
	missing(5000);
	assert_string_equal(why_not(N2), "no load table");
	assert_int_equal(view_living(&d, now_ms), all);
	table.nodes[N2].age_ms = LOAD_AGE_NEVER_MS;
	table.nodes[N2].flags = 0;
	published(5000);
	assert_string_equal(why_not(N2), "never heard");
	assert_int_equal(view_living(&d, now_ms), all);
	/* n4 was silent for 3.2 s before. */
	missing(DECAPSULATE_GRACE_MS - 10100);
	assert_int_equal(view_living(&d, now_ms), all);
	missing(200);
	assert_false(view_member_living(&d, N2, now_ms));
}

/* A dprd that has just started treats nodes as alive that were there before. */
static void test_living_at_the_start(void **context)
{
	(void)context;
	missing(0);
	assert_true(view_member_living(&d, N3, now_ms));
	missing(DECAPSULATE_GRACE_MS - 1);
	assert_true(view_member_living(&d, N3, now_ms));
	missing(1);
	assert_false(view_member_living(&d, N3, now_ms));
}

/* The configuration names other members in another order: the times at which they were heard stay with each member. */
static void test_living_after_a_reload(void **context)
{
	struct member n3, n4;

	(void)context;
	published(0);
	missing(DECAPSULATE_GRACE_MS);
	assert_int_equal(view_living(&d, now_ms), 0);
	n3 = d.config.member[N3];
	n4 = d.config.member[N4];
	d.config.member[N3] = n4;
	d.config.member[N3].id = member_id("n5");
	d.config.member[N4] = n3;
	missing(50);
	assert_true(view_member_living(&d, N3, now_ms));
	assert_false(view_member_living(&d, N4, now_ms));
}

static void test_weight(void **context)
{
	(void)context;
	d.config.member[N2].weight = 10;
	table.nodes[N2].weight = 2;
	published(0);
	assert_int_equal(d.view_nodes[N2].weight, 2);
	table.nodes[N2].weight = 20;
	published(100);
	assert_int_equal(d.view_nodes[N2].weight, 10);
	table.nodes[N2].weight = 0;
	published(100);
	assert_string_equal(why_not(N2), "weight 0");
	assert_int_equal(view_weight(&d.config.member[N2], NULL), 10);
}

static void test_self(void **context)
{
	(void)context;
	published(0);
	assert_string_equal(why_not(N1), "");
	assert_true(d.view_nodes[0].eligible);
	table.nodes[N1].state = NODE_UNHEALTHY;
	published(100);
	assert_string_equal(why_not(N1), "unhealthy");
	assert_false(d.view_nodes[0].eligible);
	table.nodes[N1].state = NODE_ACTIVE;
	d.draining = true;
	published(100);
	assert_string_equal(why_not(N1), "draining");
	assert_false(d.view_nodes[0].eligible);
}

/* Each condition that keeps a peer from getting connections, one by one; nothing else does. */
static void test_why_not(void **context)
{
	const uint32_t good = NODE_HEARD | NODE_ECHOES | NODE_DPRD_UP;
	const struct {
		uint32_t flags, state, age_ms;
		const char *why;
	} cases[] = {
		{ good, NODE_ACTIVE, 0, "" },
		{ good | NODE_CONFIG_DIFFERS, NODE_ACTIVE, 0, "" },
		{ good & ~(uint32_t)NODE_HEARD, NODE_ACTIVE, 0, "not heard" },
		{ good & ~(uint32_t)NODE_ECHOES, NODE_ACTIVE, 0, "does not hear this node" },
		{ good & ~(uint32_t)NODE_DPRD_UP, NODE_ACTIVE, 0, "its dprd is not running" },
		{ good | NODE_CONFLICT, NODE_ACTIVE, 0, "two hosts use its name" },
		{ good, NODE_DRAINING, 0, "draining" },
		{ good, NODE_UNHEALTHY, 0, "unhealthy" },
		{ good, NODE_ACTIVE, d.config.dead_periods * d.config.period_ms, "" },
		{ good, NODE_ACTIVE, d.config.dead_periods * d.config.period_ms + 1, "not heard" },
		{ good, NODE_ACTIVE, LOAD_AGE_NEVER_MS, "never heard" },
	};
	unsigned i;

	(void)context;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		table.nodes[N2].flags = cases[i].flags;
		table.nodes[N2].state = cases[i].state;
		table.nodes[N2].age_ms = cases[i].age_ms;
		published(100);
		assert_string_equal(why_not(N2), cases[i].why);
		assert_int_equal(d.view_nodes[N2].eligible, !*cases[i].why);
	}
	table.nodes[N2] = (struct node_load) { .id = member_id("n2"), .flags = good, .weight = 1 };
	set_member_way(&d, N2, false, 0);
	set_member_way(&d, N2, true, 0);
	published(100);
	assert_string_equal(why_not(N2), "no route to it");
	set_member_way(&d, N2, false, WAY_MTU_LEAST - 1);
	published(100);
	assert_string_equal(why_not(N2), "path to it too narrow");
	/* A way of one family is enough; connections of the other family do not go there. */
	assert_true(addr_parse("fd00::11", &d.config.member[N1].cluster_v6));
	assert_true(addr_parse("fd00::12", &d.config.member[N2].cluster_v6));
	set_member_way(&d, N2, true, 1460);
	published(100);
	assert_string_equal(why_not(N2), "");
	view_select(&d, false, 0, SERVICE_PRESENT);
	assert_false(d.view_nodes[N2].eligible);
	/* The address is there, and no host has it. */
	d.ways.member[N2][1].next_hop.unanswered = true;
	published(100);
	assert_string_equal(why_not(N2), "no host answers for its address");
}

/* Connections to a node get no answer: those of that family do not go there, or none when no family is left. */
static void test_no_answer(void **context)
{
	(void)context;
	published(0);
	d.outcomes.member[N2][1] = (struct outcome) { .rest_ms = OUTCOME_REST_MS, .until_ms = UINT64_MAX };
	published(0);
	assert_string_equal(why_not(N2), "");
	view_select(&d, false, 0, SERVICE_PRESENT);
	assert_true(d.view_nodes[N2].eligible);
	d.outcomes.member[N2][0] = d.outcomes.member[N2][1];
	view_select(&d, false, 0, SERVICE_PRESENT);
	assert_false(d.view_nodes[N2].eligible);
	assert_string_equal(why_not(N2), "its connections get no answer");
	/* The time has come to try it. */
	d.outcomes.member[N2][0].until_ms = 0;
	view_select(&d, false, 0, SERVICE_PRESENT);
	assert_true(d.view_nodes[N2].eligible);
}

/* Connections sent to a peer count until its announced load has them, also those of which dprd learns later. */
static void test_sent(void **context)
{
	(void)context;
	table.nodes[N2].age_ms = 20;
	table.nodes[N2].sequence++;
	published(100);
	view_count_sent(&d, N2, false, 3, now_ms);
	assert_int_equal(d.view_nodes[N2].sent, 3);
	view_count_sent(&d, N2, false, 5, now_ms - 30);
	assert_int_equal(d.view_nodes[N2].sent, 3);
	view_count_sent(&d, N2, false, 2, now_ms - 20);
	assert_int_equal(d.view_nodes[N2].sent, 5);
	published(10);
	assert_int_equal(d.view_nodes[N2].sent, 5);
	view_count_sent(&d, N2, false, 4, now_ms);
	/* News that was heard in between. */
	table.nodes[N2].age_ms = 15;
	table.nodes[N2].sequence++;
	published(10);
	assert_int_equal(d.view_nodes[N2].sent, 4);
	table.nodes[N2].sequence++;
	published(100);
	assert_int_equal(d.view_nodes[N2].sent, 0);
}

/* The peer says that packets of one family do not arrive there. */
static void test_no_arrival(void **context)
{
	(void)context;
	d.probes.tunnel = (struct tunnel *)(void *)&d; /* never used here */
	d.outcomes.member[N2][1] = (struct outcome) { .rest_ms = OUTCOME_REST_MOST_MS, .until_ms = UINT64_MAX };
	table.nodes[N2].flags |= NODE_TAKES_PROBES | NODE_UNPROVEN_V6;
	published(0);
	assert_string_equal(why_not(N2), "");
	assert_true(d.probes.wanted[N2]);
	assert_true(view_way_works(&d, N2, false, now_ms));
	/* It was heard just now, and this node had no time to send it some. */
	assert_true(probes_allow(&d, N2, true));
	published(PROOF_STEADY_MS);
	assert_false(probes_allow(&d, N2, true));
	table.nodes[N2].flags |= NODE_UNPROVEN_V4;
	published(200);
	assert_string_equal(why_not(N2), "packets do not arrive there");
	assert_int_equal(d.counters.ways_lost, 0);
	published(1000);
	assert_int_equal(d.counters.ways_lost, 2);
	published(1000);
	assert_int_equal(d.counters.ways_lost, 2);
	/* It is silent, or its dprd starts: nothing new. */
	table.nodes[N2].flags &= ~(uint32_t)NODE_HEARD;
	published(200);
	table.nodes[N2].flags |= NODE_HEARD;
	assert_false(probes_allow(&d, N2, false));
	/* Packets arrive: a long rest ends, too, since it came of the lost way. */
	table.nodes[N2].flags &= ~(uint32_t)(NODE_UNPROVEN_V4 | NODE_UNPROVEN_V6);
	published(200);
	assert_string_equal(why_not(N2), "");
	assert_true(probes_allow(&d, N2, true));
	assert_int_equal(d.outcomes.member[N2][1].rest_ms, 0);
	/* On a proven way connections may still fail. */
	d.outcomes.member[N2][0] = (struct outcome) { .rest_ms = OUTCOME_REST_MS, .until_ms = UINT64_MAX };
	published(200);
	assert_string_equal(why_not(N2), "its connections get no answer");
	d.outcomes.member[N2][0].rest_ms = 0;
	/* This node has no probes for the family: their absence says nothing. */
	d.probes.tunnel = NULL;
	table.nodes[N2].flags |= NODE_UNPROVEN_V4;
	published(200);
	assert_true(view_way_works(&d, N2, false, now_ms));
}

static void test_rate(void **context)
{
	unsigned i;

	(void)context;
	for (i = 0; i < 20; i++) {
		d.counters.syns += 300;
		view_count_arrivals(&d, 1500);
	}
	assert_in_range(d.arrivals_per_1000_s, 199000, 200000);
	for (i = 0; i < 3; i++)
		view_count_arrivals(&d, 1000);
	assert_in_range(d.arrivals_per_1000_s, 24000, 25000);
}

/* dprd forwards its clients' connections when its agent wants a drain, as when dprctl does. */
static void test_agent(void **context)
{
	(void)context;
	published(100);
	assert_false(view_drains(&d));
	table.nodes[N1].agent = AGENT_WANTS_DRAIN;
	published(100);
	assert_true(view_drains(&d));
	assert_string_equal(why_not(N1), "draining");
	table.nodes[N1].agent = AGENT_WANTS_MAINT;
	published(100);
	assert_true(view_drains(&d));
	table.nodes[N1].agent = AGENT_SAYS_DOWN;
	published(100);
	assert_false(view_drains(&d));
	table.nodes[N1].agent = AGENT_WANTS_ALL;
	published(100);
	d.draining = true;
	assert_true(view_drains(&d));
	d.draining = false;
}

/* Sends connections, and hears a load 50 ms later that was counted age_ms before. Returns those that are not in it. */
static unsigned sent_before_news(unsigned connections, uint32_t age_ms)
{
	view_count_sent(&d, N2, false, connections, now_ms);
	table.nodes[N2].sequence++;
	table.nodes[N2].sample.age_ms = age_ms;
	published(50);
	return d.view_nodes[N2].sent;
}

static void test_sent_since_the_count(void **context)
{
	(void)context;
	table.nodes[N2].age_ms = 0;
	published(0);
	assert_int_equal(sent_before_news(3, 0), 0);
	assert_int_equal(d.view_nodes[N2].age_ms, 0);
	assert_int_equal(sent_before_news(4, 60), 4);
	assert_int_equal(d.view_nodes[N2].age_ms, 60);
	/* Those of the former time, too. */
	assert_int_equal(sent_before_news(5, 105), 9);
	assert_int_equal(sent_before_news(6, 40), 0);
	/* The peer is heard all the same. */
	table.nodes[N2].sample.age_ms = LOAD_COUNT_AGE_MAX_MS;
	published(1);
	assert_false(d.minority);
	assert_string_equal(why_not(N2), "");
	/* A load that is older than a number can say. */
	table.nodes[N2].age_ms = LOAD_AGE_NEVER_MS - 2;
	published(0);
	assert_true(d.view_nodes[N2].age_ms == LOAD_AGE_NEVER_MS);
}

/* All nodes see how much of its weight a node holds back, itself included. */
static void test_held_weight(void **context)
{
	(void)context;
	table.nodes[N2].weight = d.config.member[N2].weight = 4;
	table.nodes[N2].held_permille = 900;
	table.nodes[N1].held_permille = 250;
	published(100);
	assert_true(d.view_nodes[N2].weight > 0.399 && d.view_nodes[N2].weight < 0.401);
	assert_true(d.view_nodes[0].weight > 0.749 * d.config.member[N1].weight &&
		    d.view_nodes[0].weight < 0.751 * d.config.member[N1].weight);
	assert_string_equal(why_not(N2), "");
	table.nodes[N2].held_permille = 0;
	d.config.member[N1].weight = 0;
	published(100);
	assert_true(d.view_nodes[N2].weight >= 4);
	assert_true(d.view_nodes[0].weight >= 1);
}

/* A service address that came by a reload goes only to peers with the same file, until all members have it. */
static void test_fresh_service(void **context)
{
	const uint32_t good = NODE_HEARD | NODE_ECHOES | NODE_DPRD_UP;

	(void)context;
	set_member_way(&d, N2, false, 1480);
	table.port_count = d.config.port_count;
	memcpy(table.port, d.config.port, sizeof(table.port));
	for (unsigned i = 0; i < d.config.member_count; i++)
		table.nodes[i] = (struct node_load) { .id = d.config.member[i].id, .flags = good, .weight = 1 };
	table.count = d.config.member_count;
	d.config.fresh_services = 1;
	d.config.file_hash = 5;
	/* loadcast has the former file. */
	table.file_hash = 4;
	published(100);
	assert_non_null(view_ports_differ(&d));
	view_select(&d, false, 0, SERVICE_FRESH);
	assert_false(d.view_nodes[N2].eligible);
	view_select(&d, false, 0, SERVICE_PRESENT);
	assert_true(d.view_nodes[N2].eligible);
	table.file_hash = 5;
	table.nodes[N2].flags = good | NODE_CONFIG_DIFFERS;
	published(100);
	view_select(&d, false, 0, SERVICE_FRESH);
	assert_false(d.view_nodes[N2].eligible);
	assert_int_equal(d.config.fresh_services, 1);
	assert_non_null(view_ports_differ(&d));
	table.nodes[N2].flags = good;
	table.nodes[N3].flags = 0;
	published(100);
	view_select(&d, false, 0, SERVICE_FRESH);
	assert_true(d.view_nodes[N2].eligible);
	view_select(&d, false, 0, SERVICE_FORMER);
	assert_false(d.view_nodes[N2].eligible);
	assert_int_equal(d.config.fresh_services, 1);
	/* n3 is away: it is no choice for any address. It may come back with the former file. */
	assert_null(view_ports_differ(&d));
	table.nodes[N3].flags = good | NODE_CONFIG_DIFFERS;
	published(100);
	assert_string_equal(view_ports_differ(&d), "a service address is new, and not all members have read it");
	table.nodes[N3].flags = good;
	published(100);
	assert_int_equal(d.config.fresh_services, 0);
	assert_null(view_ports_differ(&d));
}

/* A port that fails takes a node out for that port alone. */
static void test_ports(void **context)
{
	const be16 first = htons(d.config.port[0]), second = htons(8080), foreign = htons(9);

	(void)context;
	d.config.port_count = 2;
	set_member_way(&d, N2, false, 1480);
	set_member_way(&d, N3, false, 1480);
	d.config.port[1] = 8080;
	table.port_count = 1;
	table.port[0] = d.config.port[0];
	published(100);
	/* loadcast has not read the new file yet. */
	assert_non_null(view_ports_differ(&d));
	view_select(&d, false, first, SERVICE_PRESENT);
	assert_true(d.view_nodes[N2].eligible);
	view_select(&d, false, second, SERVICE_PRESENT);
	assert_false(d.view_nodes[N2].eligible);
	table.port_count = 2;
	table.port[1] = 8080;
	published(100);
	assert_null(view_ports_differ(&d));
	assert_false(view_own_server_fails(&d, 0) || view_own_server_fails(&d, first));
	table.nodes[N3] = table.nodes[N2];
	table.nodes[N3].id = member_id("n3");
	table.nodes[N2].ports_down = 2;
	published(100);
	assert_non_null(view_ports_differ(&d));
	/* A node that is not heard, such as one that is switched off, is no choice for any port. */
	table.nodes[N2].flags &= ~(uint32_t)NODE_HEARD;
	published(100);
	assert_null(view_ports_differ(&d));
	table.nodes[N2].flags |= NODE_HEARD;
	published(100);
	assert_string_equal(why_not(N2), "");
	view_select(&d, false, second, SERVICE_PRESENT);
	assert_false(d.view_nodes[N2].eligible);
	assert_true(d.view_nodes[N3].eligible);
	view_select(&d, false, first, SERVICE_PRESENT);
	assert_true(d.view_nodes[N2].eligible);
	view_select(&d, false, foreign, SERVICE_PRESENT);
	assert_false(d.view_nodes[N2].eligible || d.view_nodes[N3].eligible);
	view_select(&d, false, 0, SERVICE_PRESENT);
	assert_true(d.view_nodes[N2].eligible);
	assert_false(view_own_server_fails(&d, 0));
	/* The same of this node. */
	table.nodes[N2].ports_down = 0;
	table.nodes[N1].ports_down = 1;
	published(100);
	assert_non_null(view_ports_differ(&d));
	assert_true(view_own_server_fails(&d, 0) && view_own_server_fails(&d, first));
	assert_false(view_own_server_fails(&d, second) || view_own_server_fails(&d, foreign));
	table.nodes[N1].state = NODE_UNHEALTHY;
	published(100);
	assert_true(view_own_server_fails(&d, second) && view_own_server_fails(&d, foreign));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_living_ends, start, stop),
		cmocka_unit_test_setup_teardown(test_living_without_loadcast, start, stop),
		cmocka_unit_test_setup_teardown(test_living_at_the_start, start, stop),
		cmocka_unit_test_setup_teardown(test_living_after_a_reload, start, stop),
		cmocka_unit_test_setup_teardown(test_weight, start, stop),
		cmocka_unit_test_setup_teardown(test_self, start, stop),
		cmocka_unit_test_setup_teardown(test_why_not, start, stop),
		cmocka_unit_test_setup_teardown(test_no_arrival, start, stop),
		cmocka_unit_test_setup_teardown(test_no_answer, start, stop),
		cmocka_unit_test_setup_teardown(test_rate, start, stop),
		cmocka_unit_test_setup_teardown(test_sent, start, stop),
		cmocka_unit_test_setup_teardown(test_ports, start, stop),
		cmocka_unit_test_setup_teardown(test_fresh_service, start, stop),
		cmocka_unit_test_setup_teardown(test_held_weight, start, stop),
		cmocka_unit_test_setup_teardown(test_agent, start, stop),
		cmocka_unit_test_setup_teardown(test_sent_since_the_count, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
