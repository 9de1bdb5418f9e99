// SPDX-License-Identifier: GPL-2.0-or-later
/* asks.c tells decide() how many flows may be made, and whether flows to a node are still useful. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/cluster/asks.h"
#include "tests/unit/control_fixture.h"

enum { N1, N2, N3, N4, MOST = 10, OTHER_ID = 4711 };

static struct dprd d;
static struct asks asks;

static int start(void **context)
{
	(void)context;
	fixture_start(&d);
	d.config.max_new_flows_per_s = MOST;
	assert_true(addr_parse("fd00::11", &d.config.member[d.config.self].cluster_v6));
	assert_true(addr_parse("fd00::12", &d.config.member[N2].cluster_v6));
	set_member_way(&d, N2, true, 1460);
	asks = (struct asks) { .d = &d, .now_ms = d.table.published_ms };
	return 0;
}

static int stop(void **context)
{
	(void)context;
	fixture_stop(&d);
	return 0;
}

/* The limit holds in each second, however SYNs come. */
static void test_rate(void **context)
{
	uint64_t now_ms = 5000000;
	unsigned second, made;

	(void)context;
	for (second = 0; second < 3; second++) {
		for (made = 0; made < MOST; made++) {
			assert_int_equal(asks_new_flows_left(&d, now_ms + made * 90), MOST - made);
			d.new_flows++;
		}
		assert_int_equal(asks_new_flows_left(&d, now_ms + 950), 0);
		assert_int_equal(asks_new_flows_left(&d, now_ms + 999), 0);
		now_ms += 1000;
	}
}

static bool is_alive(unsigned member, uint32_t age_ms)
{
	d.table.nodes[member].age_ms = age_ms;
	return asks_node_alive(&asks, d.table.nodes[member].id);
}

/* A flow is kept for DeadPeerTimeout=; silence that was not measured proves nothing. */
static void test_alive(void **context)
{
	const unsigned timeout_ms = d.config.dead_peer_timeout_ms;

	(void)context;
	assert_true(is_alive(N4, timeout_ms - 1));
	assert_false(is_alive(N4, timeout_ms));
	assert_true(is_alive(N4, LOAD_AGE_NEVER_MS));
	assert_true(is_alive(N2, 0));
	/* The age counts until now, not until the table was written. */
	asks.now_ms += timeout_ms;
	assert_false(is_alive(N2, 0));
	assert_false(asks_node_alive(&asks, OTHER_ID));
	d.table_valid = false;
	assert_true(is_alive(N2, 0));
	assert_false(asks_node_alive(&asks, OTHER_ID));
}

/* A copy of a SYN goes to a node that is heard now and can take it out of the tunnel. */
static void test_takes_copies(void **context)
{
	const uint32_t n2 = d.table.nodes[N2].id;

	(void)context;
	d.table.nodes[N2].age_ms = d.config.dead_periods * d.config.period_ms;
	assert_true(asks_node_takes_copies(&asks, n2));
	d.ways.member[N2][0].next_hop.unanswered = true;
	assert_false(asks_node_takes_copies(&asks, n2));
	d.ways.member[N2][0].next_hop.unanswered = false;
	asks.now_ms++;
	assert_false(asks_node_takes_copies(&asks, n2));
	asks.now_ms--;
	d.table.nodes[N2].flags &= ~(uint32_t)NODE_DPRD_UP;
	assert_false(asks_node_takes_copies(&asks, n2));
	assert_false(asks_node_takes_copies(&asks, OTHER_ID));
}

/* Connections of one family get no answer: copies of its SYNs go elsewhere, also while the node is to be tried. */
static void test_copies_without_answer(void **context)
{
	const uint32_t n2 = d.table.nodes[N2].id;

	(void)context;
	d.table.nodes[N2].age_ms = 0;
	d.outcomes.member[N2][1] = (struct outcome) { .rest_ms = OUTCOME_REST_MS };
	assert_true(asks_node_takes_copies(&asks, n2));
	asks.v6 = true;
	assert_false(asks_node_takes_copies(&asks, n2));
	d.outcomes.member[N2][1].rest_ms = 0;
	assert_true(asks_node_takes_copies(&asks, n2));
}

/* The same when the node says that packets of this family do not arrive there. */
static void test_copies_do_not_arrive(void **context)
{
	const uint32_t n2 = d.table.nodes[N2].id;

	(void)context;
	d.table.nodes[N2].age_ms = 0;
	d.probes.way[N2][0].lost_ms = 1;
	assert_false(asks_node_takes_copies(&asks, n2));
	asks.v6 = true;
	assert_true(asks_node_takes_copies(&asks, n2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_rate, start, stop),
		cmocka_unit_test_setup_teardown(test_alive, start, stop),
		cmocka_unit_test_setup_teardown(test_takes_copies, start, stop),
		cmocka_unit_test_setup_teardown(test_copies_without_answer, start, stop),
		cmocka_unit_test_setup_teardown(test_copies_do_not_arrive, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
