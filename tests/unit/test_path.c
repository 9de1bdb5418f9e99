// SPDX-License-Identifier: GPL-2.0-or-later
/* path_syn.c finds the way to the node that a packet is to be forwarded to. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/queue/path_batch.h"
#include "dprd/queue/private.h"
#include "tests/unit/control_fixture.h"

enum { N2 = 1, OTHER_ID = 4711 };

static struct dprd d;
static struct queue queue;
static struct path path;

static int start(void **context)
{
	(void)context;
	fixture_start(&d);
	queue = (struct queue) { 0 };
	d.queue = &queue;
	path = (struct path) { .d = &d, .now_ms = d.table.published_ms };
	return 0;
}

static int stop(void **context)
{
	(void)context;
	fixture_stop(&d);
	return 0;
}

/* No packet goes to a node whose way is unknown, or to a former member. */
static void test_target(void **context)
{
	struct queued q = { .verdict = { .kind = VERDICT_FORWARD, .node_id = d.table.nodes[N2].id } };

	(void)context;
	q.packet.total_bytes = 1460;
	assert_true(path_find_way(&path, &q));
	assert_int_equal(q.way.inner_mtu, 1480 - IPV4_HEADER_BYTES);
	assert_false(q.tell_too_big);
	q.packet.total_bytes++;
	assert_true(path_find_way(&path, &q));
	assert_true(q.tell_too_big);
	set_member_way(&d, N2, false, WAY_MTU_LEAST - 1);
	assert_false(path_find_way(&path, &q));
	q.verdict.node_id = OTHER_ID;
	assert_false(path_find_way(&path, &q));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_target, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
