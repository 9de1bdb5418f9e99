// SPDX-License-Identifier: GPL-2.0-or-later
/* The ring of decisions: their order, the fields that are kept, and the records that fall out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/core/decide/why.h"

static struct why_ring *ring;
static struct view_node nodes[8];
static struct load_view view = { .nodes = nodes };
static struct decide_env env = { .view = &view, .policy = &policy_li, .min_advantage = 1.5 };

static int start(void **context)
{
	(void)context;
	ring = calloc(1, sizeof(*ring));
	assert_non_null(ring);
	for (unsigned i = 0; i < 8; i++)
		nodes[i] = (struct view_node) {
			.node_id = 100 + i,
			.eligible = i != 3,
			.load = 80 - 10.0 * i,
			.sent = i,
			.age_ms = 7 * i,
			.weight = 2,
		};
	view.count = 8;
	return 0;
}

static int stop(void **context)
{
	(void)context;
	free(ring);
	return 0;
}

static struct packet syn_from(const char *client, uint16_t port)
{
	struct packet p = { .kind = PACKET_TCP, .tcp_flags = TCP_SYN, .tcp_sequence = port + 1U };

	assert_true(addr_parse(client, &p.key.client));
	p.key.client_port = htons(port);
	return p;
}

static void remember(const char *client, uint16_t port, uint64_t now_ms)
{
	const struct verdict served = { .kind = VERDICT_SERVE, .reason = REASON_BELOW_MAX_LOAD };
	const struct packet p = syn_from(client, port);

	why_remember(ring, now_ms, &p, &served, &env, 12.5);
}

static const struct why_record *find(const char *client, uint16_t port, unsigned *cursor)
{
	struct addr a;

	assert_true(addr_parse(client, &a));
	return why_find(ring, &a, htons(port), cursor);
}

static void test_empty(void **context)
{
	unsigned cursor = 0;

	(void)context;
	assert_null(find("192.0.2.1", 0, &cursor));
	assert_int_equal(cursor, 0);
}

static void test_record(void **context)
{
	const struct verdict forwarded = {
		.kind = VERDICT_FORWARD, .reason = REASON_CHOSEN, .node_id = 102, .view_index = 2
	};
	const struct packet p = syn_from("2001:db8::7", 4000);
	static const uint32_t order[] = { 102, 107, 106, 105 };
	const struct why_record *record;
	unsigned cursor = 0;

	(void)context;
	why_remember(ring, 55, &p, &forwarded, &env, 12.5);
	record = find("2001:db8::7", 4000, &cursor);
	assert_non_null(record);
	assert_int_equal(record->at_ms, 55);
	assert_int_equal(record->syn_sequence, 4001);
	assert_int_equal(record->verdict.reason, REASON_CHOSEN);
	assert_ptr_equal(record->policy, &policy_li);
	assert_true(record->own_load == 40 && record->max_load == 12.5F && record->min_advantage == 1.5F);
	/* The chosen peer comes first, then the others from the lowest load. */
	assert_int_equal(record->peer_count, WHY_PEERS);
	for (unsigned i = 0; i < WHY_PEERS; i++) {
		const struct why_peer *peer = &record->peers[i];
		unsigned index = order[i] - 100;

		assert_int_equal(peer->node_id, order[i]);
		assert_int_equal(peer->age_ms, 7 * index);
		assert_int_equal(peer->sent, index);
		assert_true(peer->load == (float)policy_load(&nodes[index]));
		assert_true(peer->eligible);
	}
}

static void test_few_peers(void **context)
{
	const struct why_record *record;
	unsigned cursor = 0;

	(void)context;
	view.count = 4;
	nodes[3].load = 0; /* the lowest, but not eligible */
	remember("192.0.2.1", 1, 1);
	record = find("192.0.2.1", 1, &cursor);
	assert_non_null(record);
	assert_int_equal(record->peer_count, 3);
	assert_int_equal(record->peers[0].node_id, 102);
	assert_int_equal(record->peers[1].node_id, 101);
	assert_int_equal(record->peers[2].node_id, 103);
	assert_false(record->peers[2].eligible);
	view.count = 1;
	remember("192.0.2.1", 2, 2);
	cursor = 0;
	record = find("192.0.2.1", 2, &cursor);
	assert_non_null(record);
	assert_int_equal(record->peer_count, 0);
}

static void test_find(void **context)
{
	const struct why_record *record;
	unsigned cursor = 0;

	(void)context;
	remember("192.0.2.1", 10, 0); /* time 0 also counts as used */
	remember("192.0.2.2", 10, 2);
	remember("192.0.2.1", 11, 3);
	remember("192.0.2.1", 10, 4);
	for (unsigned expected = 4; expected > 0; expected--) {
		if (expected == 2)
			continue;
		record = find("192.0.2.1", 0, &cursor);
		assert_non_null(record);
		assert_int_equal(record->at_ms, expected);
	}
	assert_int_equal(cursor, 4);
	assert_null(find("192.0.2.1", 0, &cursor));
	assert_int_equal(cursor, 4);
	cursor = 1;
	record = find("192.0.2.1", 10, &cursor);
	assert_non_null(record);
	assert_int_equal(record->at_ms, 1);
	cursor = 0;
	assert_null(find("192.0.2.1", 12, &cursor));
	assert_null(find("192.0.2.3", 0, &cursor));
}

static void test_wraps(void **context)
{
	const struct why_record *record;
	unsigned cursor = 0;

	(void)context;
	for (unsigned i = 1; i <= 2 * WHY_RECORDS + 5; i++)
		remember("192.0.2.1", (uint16_t)(i % 60000), i);
	for (unsigned i = 0; i < WHY_RECORDS; i++) {
		record = find("192.0.2.1", 0, &cursor);
		assert_non_null(record);
		assert_int_equal(record->at_ms, 2 * WHY_RECORDS + 5 - i);
	}
	assert_null(find("192.0.2.1", 0, &cursor));
	assert_int_equal(cursor, WHY_RECORDS);
	/* A caller's wrong cursor cannot lead out of the ring. */
	cursor = 0xffffffff;
	assert_null(find("192.0.2.1", 0, &cursor));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_empty), TEST(test_record), TEST(test_few_peers), TEST(test_find), TEST(test_wraps),
	};

	return cmocka_run_group_tests_name("why", tests, NULL, NULL);
}
