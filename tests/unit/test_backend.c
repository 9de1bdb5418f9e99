// SPDX-License-Identifier: GPL-2.0-or-later
/* Tests of dprd/cluster/backend.c: the choice of a real server behind a node, and the facts known of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>
#include <stdlib.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/cluster/state.h"
#include "tests/unit/own_ways.h"

enum { DRAWS = 600, PLACES = 256, AHEAD = 6 };

static const char head[] = "[Cluster]\nName=web\n[Node]\nName=n1\n[Flows]\nMaxFlows=1024\nMaxHalfOpen=256\n";
static const char members[] = "[Member \"n1\"]\nService=192.0.2.11 2001:db8::11\nCluster=10.0.0.11 fd00::11\n"
			      "Weight=2\n[Member \"n2\"]\nService=192.0.2.12\nCluster=10.0.0.12\n";
/* Real servers of three kinds; the last one belongs to another node. */
static const char backends[] = "[Backend \"a\"]\nAddress=10.1.0.21 fd01::21\n"
			       "[Backend \"b\"]\nAddress=10.1.0.22\nWeight=3\n"
			       "[Backend \"c\"]\nAddress=10.1.0.23\nForm=direct\n"
			       "[Backend \"d\"]\nAddress=10.1.0.24\nNode=n2\n";

/* The load table of n1: its own web server and every real server work. */
static void fill_table(struct dprd *d)
{
	unsigned own;

	d->table = (struct load_table) { .count = 1, .published_ms = clock_now_ms(), .period_ms = 200 };
	d->table.nodes[0] = (struct node_load) { .id = d->config.member[0].id, .weight = 2 };
	for (own = 0; own < d->config.own_backend_count; own++)
		d->table.nodes[d->table.count++] = (struct node_load) { .id = config_own_backend(&d->config, own)->id,
									.flags = NODE_BACKEND,
									.weight = 1 };
	d->table_valid = true;
}

static struct node_load *node_of(struct dprd *d, unsigned own)
{
	return &d->table.nodes[1 + own];
}

static void read_text(struct dprd *d, const char *common, const char *own)
{
	static struct config_errors errors;
	char text[2048];

	snprintf(text, sizeof(text), "%s%s%s%s", head, common, members, own);
	if (config_parse("test.conf", text, strlen(text), NULL, &d->config, &errors))
		fail_msg("%s", errors.text[0]);
}

/* common: the text of the section [Backends]; "": the defaults. */
static struct dprd *start(const char *common)
{
	struct dprd *d = calloc(1, sizeof(*d));
	void *memory;

	assert_non_null(d);
	assert_true(sodium_init() >= 0);
	read_text(d, common, backends);
	d->lock = (struct mutex)MUTEX_INITIALIZER;
	d->flow_limits = (struct flow_limits) { .max_confirmed = 1024,
						.max_half_open = 256,
						.syn_timeout_ms = 60000,
						.idle_timeout_ms = 60000,
						.fin_timeout_ms = 60000,
						.rst_timeout_ms = 60000,
						.hash_key = { 1, 2 } };
	memory = aligned_alloc(sizeof(struct flow_bucket), flow_table_bytes(&d->flow_limits));
	assert_non_null(memory);
	d->flows = flow_table_init(memory, &d->flow_limits);
	fill_table(d);
	ways_reconfigure(&d->ways, &d->config, NULL);
	backend_reconfigure(d, NULL);
	d->backends.policy_state[0].placed = d->backends.policy_state[1].placed = true;
	set_backend_way(d, 2, false, 1500);
	backend_refresh(d);
	return d;
}

static void stop(struct dprd *d)
{
	free(d->flows);
	pthread_mutex_destroy(&d->lock.mutex);
	free(d);
}

/* count[0]: the node itself, count[1 + own]: a backend. */
static void draw(struct dprd *d, bool v6, unsigned count[5])
{
	unsigned i;

	memset(count, 0, 5 * sizeof(*count));
	for (i = 0; i < DRAWS; i++)
		count[1 + backend_choose(d, v6, policy_mix(i))]++;
}

static struct flow_key flow_to(struct dprd *d, unsigned own, uint16_t port, uint8_t flags)
{
	struct flow_key key = { .client_port = htons(port), .service_port = htons(80) };
	struct flow evicted, flow;

	assert_true(addr_parse("203.0.113.9", &key.client));
	assert_true(addr_parse("192.0.2.11", &key.service));
	assert_true(flow_add(d->flows, &key, config_own_backend(&d->config, own)->id, 7, clock_flow_ms(), &evicted));
	if (flags && flow_find(d->flows, &key, &flow))
		flow_touch(d->flows, &flow, flags, clock_flow_ms());
	return key;
}

/* As path_commit() leaves it: a connection whose flow is in the table. */
static void make_connection(struct dprd *d, unsigned own, const struct flow_key *key)
{
	backend_reserve(d, own, key, true);
	d->backends.chosen[own]++;
}

static void recount(struct dprd *d)
{
	do
		backend_refresh(d);
	while (d->backends.cursor);
}

static void test_round_robin(void **state)
{
	struct dprd *d = start("[Backends]\nPolicy=rr\n");
	unsigned count[5];

	(void)state;
	draw(d, false, count);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(count[i], DRAWS / 4);
	assert_int_equal(count[4], 0);
	stop(d);
}

static void test_weights(void **state)
{
	struct dprd *d = start("[Backends]\nPolicy=wrr\n");
	unsigned count[5];

	(void)state;
	draw(d, false, count);
	assert_in_range(count[0], DRAWS * 2 / 7, DRAWS * 2 / 7 + 1);
	assert_in_range(count[1], DRAWS / 7, DRAWS / 7 + 1);
	assert_in_range(count[2], DRAWS * 3 / 7, DRAWS * 3 / 7 + 1);
	assert_in_range(count[3], DRAWS / 7, DRAWS / 7 + 1);
	stop(d);
}

static void test_family(void **state)
{
	struct dprd *d = start("[Backends]\nPolicy=rr\nServeHere=no\n");
	unsigned count[5];

	(void)state;
	/* Only "a" has an IPv6 address. */
	draw(d, true, count);
	assert_int_equal(count[1], DRAWS);
	draw(d, false, count);
	assert_int_equal(count[0], 0);
	assert_int_equal(count[1], DRAWS / 3);
	stop(d);
}

static void test_least_connections(void **state)
{
	struct dprd *d = start("[Backends]\nPolicy=lc\n");
	struct flow_key key;

	(void)state;
	d->backends.served_here = 5;
	for (uint16_t i = 0; i < 3; i++) {
		key = flow_to(d, 0, (uint16_t)(1000 + i), 0);
		make_connection(d, 0, &key);
		key = flow_to(d, 2, (uint16_t)(2000 + i), 0);
		make_connection(d, 2, &key);
	}
	assert_int_equal(backend_choose(d, false, 1), 1);
	for (uint16_t i = 0; i < 6; i++) {
		key = flow_to(d, 1, (uint16_t)(3000 + i), 0);
		make_connection(d, 1, &key);
	}
	assert_int_equal(backend_connections(d), 12);
	/* The count notices ended connections: a falls below c. */
	flow_to(d, 0, 1000, 0x11);
	for (uint16_t i = 1; i < 3; i++) {
		struct flow flow;

		key.client_port = htons((uint16_t)(1000 + i));
		assert_true(flow_find(d->flows, &key, &flow));
		flow_touch(d->flows, &flow, 0x11, clock_flow_ms());
	}
	recount(d);
	recount(d);
	assert_int_equal(d->backends.connections[0], 0);
	assert_int_equal(d->backends.connections[2], 3);
	assert_int_equal(backend_choose(d, false, 1), 0);
	stop(d);
}

static void test_own_connections_count(void **state)
{
	struct dprd *d = start("[Backends]\nPolicy=wlc\n");
	unsigned count[5];

	(void)state;
	/* The node counts its own connections at once, per weight of two. */
	d->backends.connections[0] = d->backends.connections[2] = 2;
	d->backends.connections[1] = 6;
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(backend_choose(d, false, i), -1);
	draw(d, false, count);
	assert_true(count[0] < DRAWS);
	stop(d);
}

static void test_health(void **state)
{
	struct dprd *d = start("[Backends]\nPolicy=rr\n");
	struct backend_status status;
	unsigned count[5];

	(void)state;
	d->rules_changed = false;
	backend_refresh(d);
	assert_false(d->rules_changed);
	node_of(d, 0)->state = NODE_UNHEALTHY;
	d->table.nodes[0].flags = NODE_SERVER_DOWN;
	backend_refresh(d);
	assert_true(d->rules_changed);
	backend_status(d, 0, &status);
	assert_string_equal(status.why_not, "unhealthy");
	assert_false(backend_takes(d, 0, false));
	assert_false(backend_serves_here(d));
	draw(d, false, count);
	assert_int_equal(count[0] + count[1], 0);
	assert_int_equal(count[2], DRAWS / 2);
	/* No real server is left: the node itself serves, also when it should not. */
	node_of(d, 1)->state = node_of(d, 2)->state = NODE_UNHEALTHY;
	backend_refresh(d);
	assert_int_equal(backend_choose(d, false, 3), -1);
	stop(d);
}

static void test_why_not(void **state)
{
	struct dprd *d = start("");
	struct backend_status status;

	(void)state;
	d->table.count = 2;
	d->config.backend[0].weight = 0;
	set_backend_way(d, 2, false, 0);
	backend_refresh(d);
	backend_status(d, 0, &status);
	assert_string_equal(status.why_not, "weight 0");
	backend_status(d, 1, &status);
	assert_string_equal(status.why_not, "not checked yet");
	fill_table(d);
	backend_refresh(d);
	backend_status(d, 1, &status);
	assert_null(status.why_not);
	backend_status(d, 2, &status);
	assert_string_equal(status.why_not, "no way to it");
	stop(d);
}

static void test_choices_without_dprd(void **state)
{
	struct dprd *d = start("");
	uint8_t choice[PLACES];
	unsigned count[5] = { 0 };

	(void)state;
	assert_true(backend_choices(d, false, choice, PLACES));
	for (unsigned i = 0; i < PLACES; i++) {
		uint32_t id = flow_table_node_id(d->flows, choice[i]);
		int own = config_own_backend_by_id(&d->config, id);

		assert_true(own >= 0 || id == d->config.member[0].id);
		count[1 + own]++;
	}
	/* Weights 2, 1, 3, 1. */
	assert_in_range(count[0], PLACES * 2 / 7, PLACES * 2 / 7 + 1);
	assert_in_range(count[2], PLACES * 3 / 7, PLACES * 3 / 7 + 1);
	assert_in_range(count[1], PLACES / 7, PLACES / 7 + 1);
	d->table.nodes[0].flags = NODE_SERVER_DOWN;
	for (unsigned own = 0; own < 3; own++)
		node_of(d, own)->state = NODE_UNHEALTHY;
	backend_refresh(d);
	assert_true(backend_choices(d, false, choice, PLACES));
	for (unsigned i = 0; i < PLACES; i++)
		assert_int_equal(choice[i], 0);
	stop(d);
}

/* Counting goes on while connections are made before and behind its cursor. */
static void test_count_in_parts(void **state)
{
	struct dprd *d = start("");
	struct backend_status status;
	struct flow_key key;

	(void)state;
	for (uint16_t i = 0; i < 200; i++) {
		/* The count is then halfway through the table. */
		d->backends.cursor = i == 100 ? flow_slots(d->flows) / 2 : d->backends.cursor;
		if (i == 100)
			d->backends.counted[1] = 0;
		key = flow_to(d, 1, (uint16_t)(4000 + i), 0);
		make_connection(d, 1, &key);
	}
	backend_status(d, 1, &status);
	assert_int_equal(status.connections, 200);
	assert_int_equal(status.chosen, 200);
	recount(d);
	recount(d);
	backend_status(d, 1, &status);
	assert_int_equal(status.connections, 200);
	stop(d);
}

/* Connections that a server may have forgotten when it failed do not count until a packet of them comes. */
static void test_count_after_a_failure(void **state)
{
	struct dprd *d = start("");
	struct flow_key key = flow_to(d, 1, 4000, 0);
	struct flow flow;

	(void)state;
	make_connection(d, 1, &key);
	recount(d);
	recount(d);
	assert_int_equal(d->backends.connections[1], 1);
	node_of(d, 1)->state = NODE_UNHEALTHY;
	/* Times are kept in ticks. */
	usleep(40000);
	recount(d);
	node_of(d, 1)->state = NODE_ACTIVE;
	recount(d);
	recount(d);
	assert_int_equal(d->backends.connections[1], 0);
	assert_true(flow_find(d->flows, &key, &flow));
	usleep(40000);
	flow_touch(d->flows, &flow, 0x10, clock_flow_ms());
	recount(d);
	recount(d);
	assert_int_equal(d->backends.connections[1], 1);
	stop(d);
}

static void test_made_behind_the_count(void **state)
{
	struct dprd *d = start("");
	unsigned slots = flow_slots(d->flows);
	struct flow_key key;

	(void)state;
	/* The count has passed all slots except the last: flows made now lie behind it. */
	d->backends.cursor = slots - 1;
	for (uint16_t i = 0; i < 50; i++) {
		key = flow_to(d, 1, (uint16_t)(4000 + i), 0);
		make_connection(d, 1, &key);
	}
	backend_refresh(d);
	assert_int_equal(d->backends.cursor, 0);
	assert_int_equal(d->backends.connections[1], 50);
	stop(d);
}

/* ---- Decide=kernel: choices ahead ---- */

static const struct schedule_entry served[AHEAD] = {
	{ .reason = REASON_LOCAL_POLICY },
	{ .reason = REASON_NO_PEER },
	{ .reason = REASON_CHOSEN, .view_index = 1 },
	{ .reason = REASON_LOWEST_LOAD },
	{ .reason = REASON_RATE_GUARD },
	{ .reason = REASON_MINORITY },
};
static struct backend_ahead ahead;

/* The choices in their order: 'n' the node itself, 'a' to 'c' its real servers, '-' no choice was needed. */
static const char *names(const struct dprd *d)
{
	static char text[AHEAD + 1];

	for (unsigned i = 0; i < AHEAD; i++) {
		int own = config_own_backend_by_id(&d->config, ahead.node_id[i]);

		text[i] = own >= 0 ? (char)('a' + own) : ahead.node_id[i] == d->config.member[0].id ? 'n' : '-';
	}
	return text;
}

static void test_ahead_in_turn(void **state)
{
	struct dprd *d = start("[Backends]\nPolicy=rr\n");

	(void)state;
	backend_ahead_make(d, false, 1, served, AHEAD, &ahead);
	assert_string_equal(names(d), "ab-c-n");
	backend_ahead_make(d, false, 1, served, 2, &ahead);
	assert_int_equal(backend_connections(d), 0); /* so far */
	backend_ahead_make(d, false, 1, served, AHEAD, &ahead);
	assert_string_equal(names(d), "ab-c-n");
	/* Two choices were used: it goes on behind them. */
	backend_ahead_count(d, false, &ahead, 2);
	backend_choose(d, true, 1); /* the other family has its own order */
	assert_int_equal(d->backends.connections[0], 1);
	assert_int_equal(d->backends.chosen[1], 1);
	backend_ahead_make(d, false, 1, served, AHEAD, &ahead);
	assert_string_equal(names(d), "cn-a-b");
	assert_int_equal(backend_choose(d, false, 1), 2);
	backend_ahead_make(d, true, 1, served, AHEAD, &ahead);
	assert_int_equal(strspn(names(d), "an-"), AHEAD);
	stop(d);
}

static void test_ahead_least_connections(void **state)
{
	struct dprd *d = start("[Backends]\nPolicy=lc\nServeHere=no\n");

	(void)state;
	d->backends.connections[0] = 2;
	d->backends.connections[1] = 1;
	d->backends.connections[2] = 3;
	backend_ahead_make(d, false, 1, served, AHEAD, &ahead);
	/* b, then a and b in any order, then any: each choice counts those before it. */
	assert_int_equal(names(d)[0], 'b');
	assert_int_equal(names(d)[1] + names(d)[3], 'a' + 'b');
	assert_int_equal(d->backends.connections[1], 1);
	d->backends.cursor = 1;
	backend_ahead_count(d, false, &ahead, 4);
	assert_int_equal(backend_connections(d), 6 + 3);
	assert_int_equal(d->backends.connections[1], 3);
	assert_int_equal(d->backends.counted[1], 1); /* half of them */
	/* No server takes connections: the node itself serves, also when it should not. */
	for (unsigned own = 0; own < 3; own++)
		node_of(d, own)->state = NODE_UNHEALTHY;
	backend_refresh(d);
	backend_ahead_make(d, false, 1, served, AHEAD, &ahead);
	assert_string_equal(names(d), "nn-n-n");
	stop(d);
}

/* The configuration may have changed when a choice is counted. */
static void test_ahead_of_a_reload(void **state)
{
	static struct config former;
	struct dprd *d = start("[Backends]\nPolicy=rr\n");

	(void)state;
	backend_ahead_make(d, false, 1, served, AHEAD, &ahead);
	former = d->config;
	read_text(d, "", "[Backend \"b\"]\nAddress=10.1.0.22\n");
	ways_reconfigure(&d->ways, &d->config, &former);
	backend_reconfigure(d, &former);
	backend_ahead_count(d, false, &ahead, AHEAD);
	assert_int_equal(d->backends.chosen[0], 1);
	assert_int_equal(backend_connections(d), 1);
	assert_int_equal((int)d->backends.served_here, 1);
	stop(d);
}

/* A connection that was not to be is not counted, wherever the count is. */
static void test_withdrawn(void **state)
{
	struct dprd *d = start("");
	struct flow_key key;

	(void)state;
	for (uint16_t i = 0; i < 200; i++) {
		struct flow flow;

		d->backends.cursor = flow_slots(d->flows) / 2;
		key = flow_to(d, 1, (uint16_t)(4000 + i), 0);
		backend_reserve(d, 1, &key, true);
		backend_reserve(d, 1, &key, false);
		assert_int_equal(d->backends.connections[1], 0);
		assert_int_equal(d->backends.counted[1], 0);
		assert_true(flow_find(d->flows, &key, &flow));
		flow_remove(d->flows, &flow);
	}
	recount(d);
	assert_int_equal(backend_connections(d), 0);
	stop(d);
}

static void test_reload(void **state)
{
	static struct config former;
	struct dprd *d = start("");
	struct flow_key key = flow_to(d, 1, 4000, 0);

	(void)state;
	make_connection(d, 1, &key);
	former = d->config;
	read_text(d, "", "[Backend \"c\"]\nAddress=10.1.0.23\nForm=direct\n[Backend \"b\"]\nAddress=10.1.0.22\n");
	ways_reconfigure(&d->ways, &d->config, &former);
	backend_reconfigure(d, &former);
	assert_int_equal(d->backends.chosen[1], 1);
	assert_int_equal(d->backends.connections[1], 1);
	assert_int_equal(d->backends.chosen[0], 0);
	read_text(d, "", "");
	former = d->config;
	ways_reconfigure(&d->ways, &d->config, &former);
	backend_reconfigure(d, &former);
	assert_int_equal(backend_choose(d, false, 1), -1);
	assert_int_equal(backend_connections(d), 0);
	stop(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_robin),
		cmocka_unit_test(test_weights),
		cmocka_unit_test(test_family),
		cmocka_unit_test(test_least_connections),
		cmocka_unit_test(test_own_connections_count),
		cmocka_unit_test(test_health),
		cmocka_unit_test(test_why_not),
		cmocka_unit_test(test_choices_without_dprd),
		cmocka_unit_test(test_count_in_parts),
		cmocka_unit_test(test_count_after_a_failure),
		cmocka_unit_test(test_made_behind_the_count),
		cmocka_unit_test(test_ahead_in_turn),
		cmocka_unit_test(test_ahead_least_connections),
		cmocka_unit_test(test_ahead_of_a_reload),
		cmocka_unit_test(test_withdrawn),
		cmocka_unit_test(test_reload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
