// SPDX-License-Identifier: GPL-2.0-or-later
/* Flows whose node is silent or was removed. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/upkeep/expire.c" // NOLINT(bugprone-suspicious-include)
#include "tests/unit/control_fixture.h"

enum { N1, N2, N3, N4, FLOWS = 600 };

static struct dprd d;
static uint64_t now_ms;

static int start(void **context)
{
	unsigned i;

	(void)context;
	fixture_start(&d);
	/* With programs the kernel has no set to change. */
	d.fastpath = (struct fastpath *)&d;
	now_ms = d.table.published_ms;
	/* More flows than one message to the kernel holds. */
	for (i = 0; i < FLOWS; i++)
		assert_true(fixture_flow(&d, "203.0.113.7", (uint16_t)(1 + i), i % 2 ? "n2" : "n3", TCP_ACK));
	return 0;
}

static int stop(void **context)
{
	(void)context;
	d.fastpath = NULL;
	fixture_stop(&d);
	return 0;
}

static unsigned flows_to(unsigned member)
{
	struct flow_key key = { .service_port = htons(80) };
	unsigned i, count = 0;
	struct flow flow;

	addr_parse("203.0.113.7", &key.client);
	addr_parse("192.0.2.11", &key.service);
	for (i = 0; i < FLOWS; i++) {
		key.client_port = htons((uint16_t)(1 + i));
		count += flow_find(d.flows, &key, &flow) && flow.node_id == d.config.member[member].id;
	}
	return count;
}

static void tick(void)
{
	struct gone gone = { .d = &d };

	remove_dead_peers(&d, &gone, now_ms);
}

/* Its flows go, and no other's. */
static void test_dead_peer(void **context)
{
	(void)context;
	d.table.nodes[N2].age_ms = d.config.dead_peer_timeout_ms - 1;
	tick();
	assert_int_equal(flows_to(N2), FLOWS / 2);
	now_ms++;
	tick();
	assert_int_equal(flows_to(N2), 0);
	assert_int_equal(flows_to(N3), FLOWS / 2);
	assert_int_equal(d.counters.flows_dead_peer, FLOWS / 2);
}

/* An old table, of a loadcast that is gone, proves nothing against a peer. */
static void test_deaf(void **context)
{
	unsigned i;

	(void)context;
	for (i = 0; i < d.table.count; i++)
		d.table.nodes[i].age_ms = d.config.dead_peer_timeout_ms;
	now_ms += d.config.dead_peer_timeout_ms / 2;
	tick();
	now_ms += d.config.dead_peer_timeout_ms * 10ULL;
	tick();
	assert_int_equal(flows_to(N2) + flows_to(N3), FLOWS);
	/* loadcast works again, and the peers are still silent. */
	d.table.published_ms = now_ms;
	tick();
	assert_int_equal(flows_to(N2) + flows_to(N3), 0);
}

/* The table of a loadcast that has just started proves nothing either. */
static void test_never_heard(void **context)
{
	(void)context;
	d.table.nodes[N2].age_ms = LOAD_AGE_NEVER_MS;
	tick();
	assert_int_equal(flows_to(N2), FLOWS / 2);
	d.table.nodes[N2].age_ms = d.config.dead_peer_timeout_ms;
	d.table_valid = false;
	tick();
	assert_int_equal(flows_to(N2), FLOWS / 2);
}

static void test_forget(void **context)
{
	(void)context;
	mutex_lock(&d.lock);
	expire_node(&d, d.config.member[N3].id);
	mutex_unlock(&d.lock);
	assert_int_equal(flows_to(N3), 0);
	assert_int_equal(flows_to(N2), FLOWS / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_dead_peer, start, stop),
		cmocka_unit_test_setup_teardown(test_deaf, start, stop),
		cmocka_unit_test_setup_teardown(test_never_heard, start, stop),
		cmocka_unit_test_setup_teardown(test_forget, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
