// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_standby_forward.c - the standby process and packets of forwarded flows. n1, the entry node of packets.h, judges;
 * n2 and n3 are its peers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/queue/standby_forward.h"
#include "tests/unit/packets.h"

#define MEMBER(n)                                                                    \
	"[Member \"n" n "\"]\nService=198.51.100." n "\nService=2001:db8:5::" n "\n" \
	"Cluster=192.168.0." n "\nCluster=fd00::" n "\n"
#define CLUSTER "[Cluster]\nName=web\n" MEMBER("1") MEMBER("2") MEMBER("3")

enum { NOW_MS = 5000000, N1 = 0, N2, ALL = 7, OTHER_SEQUENCE = 77 };

static struct standby_members members;
static struct flow_table *flows;
static void *memory;
static size_t memory_bytes;
static struct standby_way way;

static const struct flow_limits limits = {
	.max_confirmed = 1000,
	.max_half_open = 100,
	.syn_timeout_ms = 60000,
	.idle_timeout_ms = 60000,
	.fin_timeout_ms = 60000,
	.rst_timeout_ms = 60000,
	.hash_key = { 1, 2 },
};

static int start(void **state)
{
	struct config_errors errors;
	unsigned member;

	(void)state;
	members = (struct standby_members) { .living = ALL };
	if (config_parse("test", CLUSTER, strlen(CLUSTER), "n1", &members.config, &errors) != 0)
		fail_msg("%s", errors.text[0]);
	for (member = 0; member < 3; member++)
		members.inner_mtu[member][0] = members.inner_mtu[member][1] = 1460;
	memory_bytes = flow_table_bytes(&limits);
	memory = aligned_alloc(sizeof(struct flow_bucket), memory_bytes);
	assert_non_null(memory);
	assert_non_null(flow_table_init(memory, &limits));
	flows = flow_table_share(memory, memory_bytes);
	assert_ptr_equal(flows, memory);
	return 0;
}

static int end(void **state)
{
	(void)state;
	free(memory);
	return 0;
}

static struct packet parsed(const uint8_t *bytes, size_t count)
{
	struct packet packet;

	packet_parse(bytes, (uint32_t)count, &packet);
	return packet;
}

#define PARSED(bytes) parsed(bytes, sizeof(bytes))

static enum standby_fate judge(const struct packet *packet)
{
	memset(&way, 0xff, sizeof(way));
	return standby_judge_forward(flows, &members, packet, &way);
}

/* Makes the flow of this SYN, then moves it on by packets with these flags. */
static void make_flow(const struct packet *syn, uint32_t node_id, uint8_t flags)
{
	struct flow evicted, flow;

	assert_true(flow_add(flows, &syn->key, node_id, syn->tcp_sequence, NOW_MS, &evicted));
	assert_true(flow_find(flows, &syn->key, &flow));
	if (flags)
		flow_touch(flows, &flow, flags, NOW_MS + 1);
}

static void test_no_flow(void **state)
{
	struct packet syn = PARSED(v4_syn), data = PARSED(v6_data), error = PARSED(v4_frag_needed);

	(void)state;
	assert_int_equal(judge(&syn), STANDBY_PASS);
	assert_int_equal(judge(&data), STANDBY_PASS);
	/* That queue never has such packets. */
	assert_int_equal(judge(&error), STANDBY_DROP);
}

static void test_sent_on(void **state)
{
	const struct packet syns[] = { PARSED(v4_syn), PARSED(v6_syn) }, datas[] = { PARSED(v4_data), PARSED(v6_data) };
	const uint8_t states[] = { 0, TCP_ACK, TCP_ACK | TCP_FIN, TCP_RST };
	unsigned v6, i;

	(void)state;
	for (v6 = 0; v6 < 2; v6++) {
		for (i = 0; i < sizeof(states); i++) {
			make_flow(&syns[v6], members.config.member[N2].id, states[i]);
			assert_int_equal(judge(&datas[v6]), STANDBY_SEND);
			assert_int_equal(way.member, N2);
			/* A copy of the SYN that made it. */
			assert_int_equal(judge(&syns[v6]), STANDBY_SEND);
			assert_int_equal(way.member, N2);
		}
	}
}

/* RFC 2003 3.1. And a packet with options waits for dprd. */
static void test_no_hop_left(void **state)
{
	struct packet syn = PARSED(v4_syn), data = PARSED(v4_data);

	(void)state;
	make_flow(&syn, members.config.member[N2].id, TCP_ACK);
	data.ttl = 1;
	assert_int_equal(judge(&data), STANDBY_SEND);
	data.ttl = 0;
	assert_int_equal(judge(&data), STANDBY_DROP);
	data.ttl = 1;
	data.header_bytes += 4;
	assert_int_equal(judge(&data), STANDBY_DROP);
}

/*
 * Another SYN: from the client of an ended flow, or one that gave the first SYN up; and within an established
 * connection.
 */
static void test_another_syn(void **state)
{
	struct packet first = PARSED(v4_syn), other = first;

	(void)state;
	other.tcp_sequence += OTHER_SEQUENCE;
	make_flow(&first, members.config.member[N2].id, 0);
	assert_int_equal(judge(&other), STANDBY_SERVE);
	assert_true(flow_same_sequence(&way.flow, first.tcp_sequence));
	make_flow(&first, members.config.member[N2].id, TCP_ACK);
	assert_int_equal(judge(&other), STANDBY_SEND);
	make_flow(&first, members.config.member[N2].id, TCP_ACK | TCP_FIN);
	assert_int_equal(judge(&other), STANDBY_SERVE);
	make_flow(&first, members.config.member[N2].id, TCP_RST);
	assert_int_equal(judge(&other), STANDBY_SERVE);
}

/* A new connection does not wait for a dead node; a present one stays with its node. */
static void test_node_is_dead(void **state)
{
	struct packet syn = PARSED(v6_syn), data = PARSED(v6_data);

	(void)state;
	members.living &= ~(1U << N2);
	make_flow(&syn, members.config.member[N2].id, TCP_ACK);
	assert_int_equal(judge(&syn), STANDBY_SERVE);
	assert_int_equal(judge(&data), STANDBY_SEND);
}

static void test_no_way(void **state)
{
	struct packet syn = PARSED(v4_syn), data = PARSED(v4_data);

	(void)state;
	make_flow(&syn, members.config.member[N2].id, TCP_ACK);
	data.total_bytes = 1460;
	assert_int_equal(judge(&data), STANDBY_SEND);
	data.total_bytes++;
	assert_int_equal(judge(&data), STANDBY_DROP);
	members.inner_mtu[N2][0] = 0;
	assert_int_equal(judge(&syn), STANDBY_DROP);
	/* A flow to a real server, or to a former member. */
	make_flow(&syn, 4711, TCP_ACK);
	assert_int_equal(judge(&syn), STANDBY_DROP);
	make_flow(&syn, members.config.member[N1].id, TCP_ACK);
	assert_int_equal(judge(&syn), STANDBY_PASS);
}

/* Memory that is not a flow table, or of another version, is not used. */
static void test_shared_table(void **state)
{
	(void)state;
	assert_null(flow_table_share(memory, memory_bytes - 1));
	assert_null(flow_table_share(memory, 16));
	memset(memory, 0, 4);
	assert_null(flow_table_share(memory, memory_bytes));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_flow, start, end),
		cmocka_unit_test_setup_teardown(test_sent_on, start, end),
		cmocka_unit_test_setup_teardown(test_no_hop_left, start, end),
		cmocka_unit_test_setup_teardown(test_another_syn, start, end),
		cmocka_unit_test_setup_teardown(test_node_is_dead, start, end),
		cmocka_unit_test_setup_teardown(test_no_way, start, end),
		cmocka_unit_test_setup_teardown(test_shared_table, start, end),
	};

	return cmocka_run_group_tests_name("standby_forward", tests, NULL, NULL);
}
