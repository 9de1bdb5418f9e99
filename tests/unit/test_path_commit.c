// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A verdict is remembered and counted once, when it is final: "dprctl why", the counters, the rate of new flows and the
 * loads say only what happened to a SYN. The kernel's part (sockets, set, sending) is played by the test.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "dprd/host/flowset.h"
#include "dprd/host/socket_lookup.h"
#include "dprd/host/tunnel.h"
#include "loadcast/sample.h"
#include "tests/unit/control_fixture.h"
#include "tests/unit/packets.h"

/* The behaviour of the kernel in this test. */
static struct {
	enum socket_found found;
	bool set_fails, send_fails, first_send_fails;
	unsigned reads; /* of the kernel's counts */
	unsigned late_ms; /* how long the set takes */
	unsigned sent, waiting[TUNNEL_PACKETS_MAX];
} kernel;

static int fake_find(struct socket_lookup *lookup, const struct flow_key *keys, unsigned count,
		     enum socket_found *found)
{
	(void)lookup;
	(void)keys;
	for (unsigned i = 0; i < count; i++)
		found[i] = kernel.found;
	return 0;
}

static int fake_change(struct flowset *set, enum flowset_change change, const struct flow_key *keys, unsigned count)
{
	(void)set;
	(void)keys;
	(void)count;
	usleep(kernel.late_ms * 1000);
	return kernel.set_fails && change != FLOWSET_REMOVE ? -EINVAL : 0;
}

static bool fake_add(struct tunnel *t, const struct addr *destination, const void *head, unsigned head_bytes,
		     const void *body, unsigned body_bytes, unsigned tag)
{
	(void)t;
	(void)destination;
	(void)head;
	(void)head_bytes;
	(void)body;
	(void)body_bytes;
	kernel.waiting[kernel.sent++] = tag;
	return true;
}

static void fake_flush(struct tunnel *t, void (*failed)(void *context, unsigned tag, int error), void *context)
{
	unsigned i;

	(void)t;
	for (i = 0; i < kernel.sent && (kernel.send_fails || (kernel.first_send_fails && !i)); i++)
		failed(context, kernel.waiting[i], ENOBUFS);
}

static bool fake_room(const struct tunnel *t, unsigned packets, unsigned bytes)
{
	(void)t;
	(void)packets;
	(void)bytes;
	return true;
}

static uint8_t *fake_scratch(struct tunnel *t, unsigned bytes)
{
	static uint8_t room[4096];
	static unsigned used;

	(void)t;
	used = used + bytes > sizeof(room) ? bytes : used + bytes;
	return room + used - bytes;
}

static void fake_read(struct dprd *dprd)
{
	(void)dprd;
	kernel.reads++;
}

#define socket_lookup_find fake_find
#define queue_read_answers fake_read
#define flowset_change fake_change
#define tunnel_add fake_add
#define tunnel_flush fake_flush
#define tunnel_has_room fake_room
#define tunnel_scratch fake_scratch
#include "dprd/queue/private.h"
#include "dprd/queue/path.c" // NOLINT(bugprone-suspicious-include)
#include "dprd/queue/path_send.c" // NOLINT(bugprone-suspicious-include)

enum { N2 = 1, SYNS = 3 };

static struct dprd d;
static struct queue queue;
static struct batch batch;
static uint8_t bytes[SYNS][sizeof(v4_syn)];

/* n1 drains, so that all goes to n2, the only one that may get connections. */
static int start(void **context)
{
	(void)context;
	fixture_start(&d);
	queue = (struct queue) { 0 };
	d.queue = &queue;
	d.sampler = sampler_new(&d.config);
	assert_non_null(d.sampler);
	d.draining = true;
	memset(&batch, 0, sizeof(batch));
	memset(&kernel, 0, sizeof(kernel));
	batch.from_decide = true;
	return 0;
}

static int stop(void **context)
{
	(void)context;
	sampler_free(d.sampler);
	fixture_stop(&d);
	return 0;
}

/* SYNs come by the queue: the first comes from port 40000, each next one from step ports above. */
static void receive_apart(unsigned count, unsigned step)
{
	for (unsigned i = 0; i < count; i++) {
		memcpy(bytes[i], v4_syn, sizeof(v4_syn));
		bytes[i][21] = (uint8_t)(bytes[i][21] + i * step);
		batch.packets[i] = (struct queued) { .bytes = bytes[i], .captured = sizeof(bytes[i]) };
	}
	batch.count = count;
	batch.received_ms = clock_now_ms();
	path_batch(&d, &batch, (struct flowset *)&kernel, (struct socket_lookup *)&kernel, (struct tunnel *)&kernel);
}

/* SYNs of different clients, from port 40000 on. */
static void receive(unsigned count)
{
	receive_apart(count, 1);
}

/* A SYN and copies of it, in one batch. */
static void receive_copies(void)
{
	receive_apart(SYNS, 0);
}

/* The one decision that is remembered about a client's port. */
static const struct why_record *why(unsigned port)
{
	unsigned cursor = 0;
	const struct why_record *found =
		why_find(d.why, &batch.packets[0].packet.key.client, htons((uint16_t)port), &cursor);

	assert_non_null(found);
	assert_null(why_find(d.why, &batch.packets[0].packet.key.client, htons((uint16_t)port), &cursor));
	return found;
}

/* Nothing says that the SYN was forwarded: it was served here, for this reason. */
static void assert_served(enum reason reason)
{
	const struct why_record *record = why(40000);

	assert_int_equal(batch.packets[0].verdict.kind, VERDICT_SERVE);
	assert_int_equal(record->verdict.kind, VERDICT_SERVE);
	assert_int_equal(record->verdict.reason, reason);
	assert_int_equal(d.counters.reason[reason], 1);
	assert_int_equal(d.counters.reason[REASON_DRAINING], 0);
	assert_int_equal(d.counters.flows_made, 0);
	assert_int_equal(d.new_flows, 0);
	assert_int_equal(d.flows_reserved, 0);
	assert_int_equal(d.view_nodes[N2].sent, 0);
	assert_int_equal(d.view_nodes[N2].reserved, 0);
	assert_true(d.outcomes.forwarded[N2][0] == 0);
	assert_false(flow_find(d.flows, &batch.packets[0].packet.key, NULL));
}

static void test_forwarded(void **context)
{
	struct flow flow;

	(void)context;
	receive(1);
	assert_int_equal(kernel.sent, 1);
	assert_int_equal(why(40000)->verdict.kind, VERDICT_FORWARD);
	assert_int_equal(why(40000)->verdict.reason, REASON_DRAINING);
	assert_int_equal(d.counters.reason[REASON_DRAINING], 1);
	assert_int_equal(d.counters.flows_made, 1);
	assert_int_equal(d.new_flows, 1);
	assert_int_equal(d.flows_reserved, 0);
	assert_int_equal(d.view_nodes[N2].sent, 1);
	assert_int_equal(d.view_nodes[N2].reserved, 0);
	assert_true(flow_find(d.flows, &batch.packets[0].packet.key, &flow));
	assert_int_equal(flow.node_id, member_id("n2"));
	assert_true(d.outcomes.forwarded[N2][0] == 1 && d.outcomes.forwarded[N2][1] == 0);
}

static uint64_t counted(unsigned from, unsigned to)
{
	uint64_t sum = 0;

	while (from < to)
		sum += d.decision_times.count[from++];
	return sum;
}

/* The kernel takes 20 ms to learn of the flows: that is the time of each SYN of the batch. */
static void test_decision_times(void **context)
{
	struct decision_times times = { 0 };
	unsigned i;

	(void)context;
	kernel.late_ms = 20;
	receive(3);
	assert_int_equal(counted(0, 11), 0);
	assert_int_equal(counted(11, DECISION_BUCKETS + 1), 3);
	assert_true(d.decision_times.sum_us >= 60000);
	/* A bucket has what is no longer than its name says. */
	for (i = 0; i <= DECISION_BUCKETS; i++)
		decision_times_add(&times, ((uint64_t)DECISION_LEAST_US << i) - (i % 2), i + 1);
	for (i = 0; i <= DECISION_BUCKETS; i++)
		assert_int_equal(times.count[i], i + 1);
	decision_times_add(&times, 17, 1);
	assert_int_equal(times.count[1], 3);
	decision_times_add(&times, UINT64_C(1) << 40, 1);
	assert_int_equal(times.count[DECISION_BUCKETS], DECISION_BUCKETS + 2);
}

static void test_local_socket(void **context)
{
	(void)context;
	kernel.found = SOCKET_OWNS;
	receive(1);
	assert_served(REASON_LOCAL_SOCKET);
	assert_int_equal(kernel.sent, 0);
}

static void test_set_fails(void **context)
{
	(void)context;
	kernel.set_fails = true;
	receive(1);
	assert_served(REASON_FORWARD_FAILED);
	assert_int_equal(kernel.sent, 0);
	assert_int_equal(d.counters.set_errors, 1);
}

static void test_send_fails(void **context)
{
	(void)context;
	kernel.send_fails = true;
	receive(1);
	assert_served(REASON_FORWARD_FAILED);
	assert_int_equal(d.counters.tunnel_errors, 1);
}

/* The decisions of one batch know of each other, before any of them is final. */
static void test_reserved(void **context)
{
	(void)context;
	d.config.max_new_flows_per_s = 2;
	receive(3);
	assert_int_equal(why(40000)->peers[0].sent, 0);
	assert_int_equal(why(40001)->peers[0].sent, 1);
	assert_int_equal(why(40002)->verdict.reason, REASON_RATE_GUARD);
	assert_int_equal(d.counters.flows_made, 2);
	assert_int_equal(d.view_nodes[N2].sent, 2);
}

/* A withdrawn flow does not count against the flows that may be made in this second. */
static void test_withdrawn(void **context)
{
	(void)context;
	d.config.max_new_flows_per_s = 1;
	kernel.send_fails = true;
	receive(1);
	assert_served(REASON_FORWARD_FAILED);
	kernel.send_fails = false;
	/* A copy of the first SYN would stay here. */
	receive(2);
	assert_int_equal(batch.packets[0].verdict.reason, REASON_LOCAL_SOCKET);
	assert_int_equal(batch.packets[1].verdict.reason, REASON_DRAINING);
	assert_int_equal(d.counters.flows_made, 1);
}

static void assert_verdict(unsigned i, enum verdict_kind kind, enum reason reason)
{
	assert_int_equal(batch.packets[i].verdict.kind, kind);
	assert_int_equal(batch.packets[i].verdict.reason, reason);
}

static void assert_verdicts(enum verdict_kind kind, enum reason first, enum reason copies)
{
	for (unsigned i = 0; i < SYNS; i++)
		assert_verdict(i, kind, i ? copies : first);
}

static void test_copies_forwarded(void **context)
{
	(void)context;
	receive_copies();
	assert_verdicts(VERDICT_FORWARD, REASON_DRAINING, REASON_SAME_SYN);
	assert_int_equal(kernel.sent, SYNS);
	assert_int_equal(d.counters.flows_made, 1);
}

/* A copy goes where its SYN goes. The node would answer one, and the former target the other (I3). */
static void test_copies_of_local_socket(void **context)
{
	(void)context;
	kernel.found = SOCKET_OWNS;
	receive_copies();
	assert_verdicts(VERDICT_SERVE, REASON_LOCAL_SOCKET, REASON_LOCAL_SOCKET);
	assert_int_equal(kernel.sent, 0);
	assert_int_equal(d.counters.reason[REASON_LOCAL_SOCKET], SYNS);
	assert_int_equal(d.counters.reason[REASON_SAME_SYN], 0);
}

/* The node's address gets no answer any more. A copy goes nowhere, as the node may have got the SYN; a new one stays. */
static void test_copy_without_neighbour(void **context)
{
	(void)context;
	receive(1);
	assert_verdict(0, VERDICT_FORWARD, REASON_DRAINING);
	d.ways.member[N2][0].next_hop.unanswered = true;
	receive(2);
	assert_verdict(0, VERDICT_DROP, REASON_NO_TUNNEL);
	assert_verdict(1, VERDICT_SERVE, REASON_NO_PEER);
	assert_int_equal(kernel.sent, 1);
	assert_true(flow_find(d.flows, &batch.packets[0].packet.key, NULL));
}

static void test_copies_when_set_fails(void **context)
{
	(void)context;
	kernel.set_fails = true;
	receive_copies();
	assert_verdicts(VERDICT_SERVE, REASON_FORWARD_FAILED, REASON_FORWARD_FAILED);
	assert_int_equal(kernel.sent, 0);
}

static void test_copies_when_late(void **context)
{
	(void)context;
	kernel.late_ms = IN_HAND_MS + 50;
	receive_copies();
	assert_verdicts(VERDICT_DROP, REASON_LATE_SYN, REASON_LATE_SYN);
	assert_int_equal(kernel.sent, 0);
}

/* The SYN cannot be sent, but its copies left: they are answered, and the SYN must not be. */
static void test_copies_when_send_fails(void **context)
{
	(void)context;
	kernel.first_send_fails = true;
	receive_copies();
	assert_int_equal(batch.packets[0].verdict.kind, VERDICT_DROP);
	assert_int_equal(batch.packets[1].verdict.kind, VERDICT_FORWARD);
	assert_true(flow_find(d.flows, &batch.packets[0].packet.key, NULL));
}

/* This node serves the SYN, then it drains. */
static void receive_served(void)
{
	d.draining = false;
	d.config.max_load_auto = false;
	d.config.max_load = 1e9;
	receive(1);
	assert_int_equal(batch.packets[0].verdict.kind, VERDICT_SERVE);
	d.draining = true;
}

/* The SYN was served so many ms ago. */
static void age_served(uint64_t ms)
{
	for (unsigned i = 0; i < ANSWERED_PLACES; i++) {
		if (queue.served[i])
			queue.served[i] = (queue.served[i] & ~(uint64_t)ANSWERED_TICK_MASK) |
					  ((queue.served[i] - (ms * 1000000 >> FLOW_TICK_SHIFT)) & ANSWERED_TICK_MASK);
	}
}

/* The network doubled a SYN. The first copy may not have reached the stack yet, so there may be no socket. */
static void test_copy_comes_soon(void **context)
{
	(void)context;
	receive_served();
	receive(1);
	assert_int_equal(batch.packets[0].verdict.reason, REASON_LOCAL_SOCKET);
	assert_int_equal(d.counters.reason[REASON_LOCAL_SOCKET], 1);
	assert_int_equal(d.counters.flows_made, 0);
	/* Another client's SYN is none. */
	receive(2);
	assert_int_equal(batch.packets[1].verdict.reason, REASON_DRAINING);
}

/*
 * A copy of the client's, and no socket shows that its SYN was answered. While the stack drops SYNs, it may have been
 * dropped: another node gets a chance.
 */
static void test_copy_of_a_dropped_syn(void **context)
{
	(void)context;
	receive_served();
	age_served(1000);
	queue.drops_ms = clock_now_ms();
	receive(1);
	assert_int_equal(batch.packets[0].verdict.reason, REASON_DRAINING);
	assert_int_equal(kernel.reads, 1);
}

/* The stack drops none. The server is in another network namespace, where dprd finds no sockets: with a proxy or not. */
static void test_copy_of_a_container(void **context)
{
	static const enum socket_found found[] = { SOCKET_NONE, SOCKET_OTHER };

	(void)context;
	for (unsigned i = 0; i < 2; i++) {
		kernel.found = found[i];
		queue.drops_ms = i ? clock_now_ms() - QUEUE_COUNTS_MS - 1000 : clock_now_ms();
		receive_served();
		age_served(ANSWERED_MS - 100);
		receive(1);
		assert_int_equal(batch.packets[0].verdict.reason, REASON_LOCAL_SOCKET);
		assert_int_equal(kernel.sent, 0);
	}
	age_served(ANSWERED_MS + 100);
	receive(1);
	assert_int_equal(batch.packets[0].verdict.reason, REASON_DRAINING);
}

/* The listener sends SYN cookies: an answered SYN has no socket. */
static void test_copy_of_a_cookie(void **context)
{
	(void)context;
	receive_served();
	age_served(1000);
	queue.cookies_ms = queue.drops_ms = clock_now_ms();
	receive(1);
	assert_int_equal(batch.packets[0].verdict.reason, REASON_LOCAL_SOCKET);
	queue.cookies_ms -= QUEUE_COUNTS_MS + 1000;
	age_served(1000);
	receive(1);
	assert_int_equal(batch.packets[0].verdict.reason, REASON_DRAINING);
}

/* The kernel's counts are read only for a copy. */
static void test_no_copy(void **context)
{
	(void)context;
	receive(SYNS);
	assert_int_equal(kernel.reads, 0);
}

/* A packet without a hop left is not tunnelled, RFC 2003 3.1. A SYN is served here. */
static void test_no_hop_left(void **context)
{
	(void)context;
	memcpy(bytes[0], v4_syn, sizeof(v4_syn));
	bytes[0][8] = 0;
	batch.packets[0] = (struct queued) { .bytes = bytes[0], .captured = sizeof(bytes[0]) };
	batch.count = 1;
	batch.received_ms = clock_now_ms();
	path_batch(&d, &batch, (struct flowset *)&kernel, (struct socket_lookup *)&kernel, (struct tunnel *)&kernel);
	assert_served(REASON_FORWARD_FAILED);
}

/* A real server behind this node, reached by NAT, gets all that this node would serve, or its part. */
static void start_backend(const char *serve_here)
{
	static struct config_errors errors;
	char text[2 * sizeof(fixture_config)];

	snprintf(text, sizeof(text), "%s[Backends]\nServeHere=%s\n[Backend \"b1\"]\nAddress=10.1.0.21\n",
		 fixture_config, serve_here);
	assert_int_equal(config_parse("test.conf", text, strlen(text), NULL, &d.config, &errors), 0);
	d.table.nodes[d.table.count++] =
		(struct node_load) { .id = config_own_backend(&d.config, 0)->id, .flags = NODE_BACKEND, .weight = 1 };
	ways_reconfigure(&d.ways, &d.config, NULL);
	backend_reconfigure(&d, NULL);
	d.draining = false;
	d.minority = true;
}

static void test_real_server(void **context)
{
	(void)context;
	start_backend("no");
	receive(1);
	assert_int_equal(why(40000)->verdict.reason, REASON_BACKEND);
	assert_int_equal(d.counters.flows_made, 1);
	assert_int_equal(d.backends.chosen[0], 1);
	assert_int_equal(backend_connections(&d), 1);
}

static void test_real_server_withdrawn(void **context)
{
	(void)context;
	start_backend("no");
	kernel.set_fails = true;
	receive(1);
	assert_served(REASON_FORWARD_FAILED);
	assert_int_equal(d.backends.chosen[0], 0);
	assert_int_equal(backend_connections(&d), 0);
}

/* This node served the SYN, since the real server failed; a copy does not follow the server when that is well again. */
static void test_copy_and_real_server(void **context)
{
	struct node_load *server;

	(void)context;
	start_backend("yes");
	server = &d.table.nodes[d.table.count - 1];
	server->weight = 0;
	receive(1);
	assert_int_equal(batch.packets[0].verdict.kind, VERDICT_SERVE);
	server->weight = 1;
	d.config.serve_here = false;
	/* No socket shows that the SYN was served. */
	kernel.found = SOCKET_OTHER;
	queue.drops_ms = clock_now_ms();
	receive(1);
	assert_int_equal(batch.packets[0].verdict.reason, REASON_LOCAL_SOCKET);
	assert_int_equal(batch.packets[0].backend_mark, BACKEND_MARK_SELF);
	receive(2);
	assert_int_equal(batch.packets[1].verdict.reason, REASON_BACKEND);
	/* A copy of the client's, and the stack sends SYN cookies. */
	age_served(1000);
	queue.cookies_ms = clock_now_ms();
	receive(1);
	assert_int_equal(batch.packets[0].verdict.reason, REASON_LOCAL_SOCKET);
	assert_int_equal(backend_connections(&d), 1);
}

/* A member whose connections get no answer is tried with one SYN; the others of the batch stay here. */
static void test_one_trial(void **context)
{
	unsigned i, forwarded = 0;

	(void)context;
	d.outcomes.member[N2][0] = (struct outcome) { .rest_ms = OUTCOME_REST_MS };
	receive(SYNS);
	for (i = 0; i < SYNS; i++)
		forwarded += batch.packets[i].verdict.kind == VERDICT_FORWARD;
	assert_int_equal(forwarded, 1);
	assert_int_equal(d.counters.reason[REASON_NO_PEER], SYNS - 1);
	/* The way is chosen anew for another port, while the trial is in hand. */
	d.outcomes.member[N2][0] = (struct outcome) { .rest_ms = OUTCOME_REST_MS };
	d.view_nodes[N2].reserved = 1;
	view_select(&d, false, htons(80), SERVICE_PRESENT);
	assert_false(d.view_nodes[N2].eligible);
	d.view_nodes[N2].reserved = 0;
	view_select(&d, false, htons(80), SERVICE_PRESENT);
	assert_true(d.view_nodes[N2].eligible);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_forwarded, start, stop),
		cmocka_unit_test_setup_teardown(test_decision_times, start, stop),
		cmocka_unit_test_setup_teardown(test_local_socket, start, stop),
		cmocka_unit_test_setup_teardown(test_set_fails, start, stop),
		cmocka_unit_test_setup_teardown(test_send_fails, start, stop),
		cmocka_unit_test_setup_teardown(test_reserved, start, stop),
		cmocka_unit_test_setup_teardown(test_one_trial, start, stop),
		cmocka_unit_test_setup_teardown(test_withdrawn, start, stop),
		cmocka_unit_test_setup_teardown(test_copy_without_neighbour, start, stop),
		cmocka_unit_test_setup_teardown(test_copies_forwarded, start, stop),
		cmocka_unit_test_setup_teardown(test_copies_of_local_socket, start, stop),
		cmocka_unit_test_setup_teardown(test_copies_when_set_fails, start, stop),
		cmocka_unit_test_setup_teardown(test_copies_when_late, start, stop),
		cmocka_unit_test_setup_teardown(test_copies_when_send_fails, start, stop),
		cmocka_unit_test_setup_teardown(test_copy_comes_soon, start, stop),
		cmocka_unit_test_setup_teardown(test_copy_of_a_dropped_syn, start, stop),
		cmocka_unit_test_setup_teardown(test_copy_of_a_container, start, stop),
		cmocka_unit_test_setup_teardown(test_copy_of_a_cookie, start, stop),
		cmocka_unit_test_setup_teardown(test_no_copy, start, stop),
		cmocka_unit_test_setup_teardown(test_no_hop_left, start, stop),
		cmocka_unit_test_setup_teardown(test_real_server, start, stop),
		cmocka_unit_test_setup_teardown(test_real_server_withdrawn, start, stop),
		cmocka_unit_test_setup_teardown(test_copy_and_real_server, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
