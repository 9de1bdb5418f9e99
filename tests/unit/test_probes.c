// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Probes: to whom they go and in which form, whose have come, and what the status file says. The kernel's part (sockets,
 * sets, routes) is played by the test.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/host/known_client.h"
#include "dprd/host/probed.h"
#include "dprd/host/tunnel.h"
#include "tests/unit/control_fixture.h"

enum { N1, N2, N3, SENT_MAX = 4 }; /* the first ones are kept */

/* The behaviour of the kernel in this test. */
static struct {
	int read_error;
	const char *heard, *heard_full; /* a local address; NULL: none */
	uint32_t age_ms;
	const char *client, *later; /* that have a connection here, in the order of the kernel */
	const char *without_route; /* no route for answers from this address */
	unsigned sent;
	struct packet packet[SENT_MAX];
	uint8_t bytes[SENT_MAX][2048];
} kernel;

static struct addr address(const char *text)
{
	struct addr a = { .words = { 0 } };

	assert_true(addr_parse(text, &a));
	return a;
}

static int fake_read(bool v6, bool full, probed_fn *item, void *context)
{
	const char *heard = full ? kernel.heard_full : kernel.heard;
	struct addr local;

	if (heard && (strchr(heard, ':') != NULL) == v6 && !kernel.read_error) {
		local = address(heard);
		item(context, &local, kernel.age_ms);
	}
	return kernel.read_error;
}

static bool fake_client(uint16_t port, bool v6, known_client_fn *fits, void *context, struct addr *ret)
{
	const char *const clients[] = { kernel.client, kernel.later };

	(void)port;
	for (unsigned i = 0; i < 2; i++) {
		struct addr client;

		if (!clients[i] || (strchr(clients[i], ':') != NULL) != v6)
			continue;
		client = address(clients[i]);
		if (!fits(context, &client))
			continue;
		*ret = client;
		return true;
	}
	return false;
}

static int fake_neighbour(struct mnl_socket *socket, const struct addr *source, const struct addr *destination,
			  struct neighbour *ret)
{
	struct addr without = kernel.without_route ? address(kernel.without_route) : (struct addr) { .words = { 0 } };

	(void)socket;
	(void)destination;
	*ret = (struct neighbour) { .interface = 1 };
	return addr_equal(source, &without) ? -ENETUNREACH : 0;
}

static bool fake_add(struct tunnel *t, const struct addr *destination, const void *head, unsigned head_bytes,
		     const void *body, unsigned body_bytes, unsigned tag)
{
	(void)t;
	(void)destination;
	(void)body;
	(void)tag;
	assert_int_equal(body_bytes, 0);
	assert_true(head_bytes <= sizeof(kernel.bytes[0]));
	if (kernel.sent < SENT_MAX) {
		memcpy(kernel.bytes[kernel.sent], head, head_bytes);
		packet_parse(kernel.bytes[kernel.sent], head_bytes, &kernel.packet[kernel.sent]);
	}
	kernel.sent++;
	return true;
}

static uint8_t *fake_scratch(struct tunnel *t, unsigned bytes)
{
	static uint8_t room[4096];

	(void)t;
	assert_true(bytes <= sizeof(room));
	return room;
}

static bool fake_room(const struct tunnel *t, unsigned packets, unsigned bytes)
{
	(void)t;
	(void)packets;
	(void)bytes;
	return true;
}

static void fake_flush(struct tunnel *t, void (*failed)(void *context, unsigned tag, int error), void *context)
{
	(void)t;
	(void)failed;
	(void)context;
}

#define probed_read fake_read
#define known_client_find fake_client
#define neighbour_find fake_neighbour
#define tunnel_add fake_add
#define tunnel_scratch fake_scratch
#define tunnel_has_room fake_room
#define tunnel_flush fake_flush
#include "dprd/cluster/probes.c" // NOLINT(bugprone-suspicious-include)

static struct dprd d;
static uint64_t now_ms;
static int any; /* its address stands for sockets that the test never uses */

static int start(void **context)
{
	(void)context;
	fixture_start(&d);
	memset(&kernel, 0, sizeof(kernel));
	d.probes.tunnel = (struct tunnel *)(void *)&any;
	d.ways.neighbours = (struct mnl_socket *)(void *)&any;
	now_ms = 1000000;
	return 0;
}

static int stop(void **context)
{
	(void)context;
	fixture_stop(&d);
	return 0;
}

static void say_flags(unsigned member, uint32_t flags)
{
	mutex_lock(&d.lock);
	probes_judge(&d, member, flags, now_ms);
	mutex_unlock(&d.lock);
}

static bool allowed(unsigned member)
{
	bool allows;

	mutex_lock(&d.lock);
	allows = probes_allow(&d, member, false);
	mutex_unlock(&d.lock);
	return allows;
}

/* Lets time pass. The number of ticks with news. */
static unsigned pass(unsigned ms)
{
	unsigned news = 0;

	for (unsigned i = 0; i < ms; i += 50) {
		now_ms += 50;
		news += probes_tick(&d, now_ms);
	}
	return news;
}

static struct status_proofs status(void)
{
	struct status_proofs s;

	probes_status(&d, &s);
	return s;
}

static bool is_among(const struct proofs_nodes *nodes, const char *name)
{
	for (unsigned i = 0; i < nodes->count; i++) {
		if (nodes->id[i] == member_id(name))
			return true;
	}
	return false;
}

/* Probes go to members that want them, in a tunnel, in the name of a client as soon as one is known. */
static void test_sends(void **context)
{
	struct addr cluster = address("10.0.0.11"), client = address("203.0.113.9"), service = address("192.0.2.11"),
		    n2;
	struct packet inner;

	(void)context;
	pass(1000);
	assert_int_equal(kernel.sent, 0);
	say_flags(N2, NODE_HEARD | NODE_DPRD_UP | NODE_TAKES_PROBES);
	say_flags(N3, NODE_HEARD | NODE_DPRD_UP);
	d.probes.sent = 1; /* no full-size one yet */
	pass(200);
	assert_int_equal(kernel.sent, 1);
	n2 = address("10.0.0.12");
	assert_int_equal(kernel.packet[0].kind, PACKET_TUNNEL);
	assert_true(addr_equal(&kernel.packet[0].source, &cluster) && addr_equal(&kernel.packet[0].destination, &n2));
	packet_parse(kernel.packet[0].inner, kernel.packet[0].inner_bytes, &inner);
	assert_true(packet_is_probe(&inner));
	assert_true(addr_equal(&inner.source, &cluster) && addr_equal(&inner.destination, &service));
	kernel.client = "203.0.113.9";
	pass(CLIENT_SOON_MS);
	kernel.sent = 0;
	d.probes.sent = PROOF_FULL_EACH;
	pass(200);
	assert_int_equal(kernel.sent, 2);
	packet_parse(kernel.packet[0].inner, kernel.packet[0].inner_bytes, &inner);
	assert_true(addr_equal(&inner.source, &client));
	/* A full-size one takes the whole path. */
	assert_int_equal(kernel.packet[1].total_bytes, 1480);
	assert_true(d.counters.probes_sent >= 18);
	/* The member is silent, or port 9 is a service. */
	kernel.sent = 0;
	say_flags(N2, NODE_DPRD_UP | NODE_TAKES_PROBES);
	pass(400);
	assert_int_equal(kernel.sent, 0);
	say_flags(N2, NODE_HEARD | NODE_DPRD_UP | NODE_TAKES_PROBES);
	d.config.port[1] = PROBE_PORT;
	pass(400);
	assert_int_equal(kernel.sent, 0);
	assert_int_equal(status().probes, PROBES_NONE);
}

/* This node stood still and sent no probes: that they do not arrive is not the way's fault. What was lost stays so. */
static void test_gap(void **context)
{
	const uint32_t good = NODE_HEARD | NODE_DPRD_UP | NODE_TAKES_PROBES, lost = good | NODE_UNPROVEN_V4;

	(void)context;
	say_flags(N2, good);
	pass(PROOF_STEADY_MS + 200);
	now_ms += PROOF_LATE_MS;
	pass(50);
	say_flags(N2, lost);
	assert_false(allowed(N2));
	now_ms += PROOF_SEND_MANY_MS + PROOF_LATE_MS;
	pass(PROOF_STEADY_MS);
	say_flags(N2, lost);
	assert_false(allowed(N2));
	say_flags(N2, good);
	assert_true(allowed(N2));
	now_ms += PROOF_SEND_MANY_MS + PROOF_LATE_MS;
	pass(PROOF_STEADY_MS);
	say_flags(N2, lost);
	assert_true(allowed(N2));
	pass(50);
	say_flags(N2, lost);
	assert_false(allowed(N2));
}

/* Not every address is a client's. */
static void test_clients(void **context)
{
	static const char *const none[] = { "127.0.0.1", "169.254.1.1", "10.0.0.12", "192.0.2.12",
					    "224.0.0.1", "fe80::1",     "::1",       "2001:db8::12" };
	struct addr client;

	(void)context;
	for (unsigned i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		client = address(none[i]);
		assert_false(is_client(&d, &client));
	}
	client = address("2001:db8:c::9");
	assert_true(is_client(&d, &client));
	client = address("fd12::9");
	assert_true(is_client(&d, &client));
	d.inside.count = 1;
	d.inside.network[0] = inside_network_of(&client, 64);
	assert_false(is_client(&d, &client));
}

static bool is_from(const char *client)
{
	struct addr wanted = address(client);

	return addr_equal(&d.probes.client[0].address, &wanted);
}

/* A host on the way has banned a client. The way is not lost for the others. */
static void test_banned_client(void **context)
{
	const uint32_t well = NODE_HEARD | NODE_DPRD_UP | NODE_TAKES_PROBES;

	(void)context;
	kernel.client = "203.0.113.9";
	say_flags(N2, well);
	pass(CLIENT_SOON_MS);
	assert_true(is_from("203.0.113.9"));
	/* There is no other client: it may as well be the way. */
	say_flags(N2, well | NODE_UNPROVEN_V4);
	pass(2 * CLIENT_SOON_MS);
	assert_false(allowed(N2));
	assert_true(is_from("203.0.113.9"));
	kernel.later = "203.0.113.10";
	pass(CLIENT_SOON_MS);
	assert_true(is_from("203.0.113.10"));
	/* It helps, so it stays. */
	say_flags(N2, well);
	assert_true(allowed(N2));
	pass(2 * CLIENT_LATER_MS);
	assert_true(is_from("203.0.113.10"));
	/* And back, when that does not help. */
	say_flags(N2, well | NODE_UNPROVEN_V4);
	pass(CLIENT_SOON_MS);
	assert_true(is_from("203.0.113.9"));
	pass(CLIENT_SOON_MS);
	assert_true(is_from("203.0.113.10"));
}

static void test_hears(void **context)
{
	(void)context;
	kernel.heard = kernel.heard_full = "192.0.2.12";
	assert_int_equal(pass(200), 1);
	assert_int_equal(status().probes, PROBES_WANTED);
	assert_int_equal(status().unproven[0].count, 0);
	pass(PROOF_LEARN_MS + 100);
	assert_int_equal(status().probes, PROBES_JUDGED);
	/* The cluster has no IPv6 addresses of its own: nothing is expected there. */
	assert_int_equal(status().unproven[1].count, 0);
	assert_false(is_among(&status().unproven[0], "n1") || is_among(&status().unproven[0], "n2"));
	assert_true(is_among(&status().unproven[0], "n3") && is_among(&status().unproven[0], "n4"));
	kernel.heard_full = NULL;
	pass(PROOF_FULL_LEARN_MS);
	assert_true(is_among(&status().narrow[0], "n2"));
	kernel.heard = NULL;
	assert_true(pass(1000) > 0);
	assert_true(is_among(&status().unproven[0], "n2"));
	assert_int_equal(status().narrow[0].count, 0);
	/* The sets cannot be read, as after the ruleset was flushed: nothing is known. */
	kernel.read_error = -ENOENT;
	assert_true(pass(200) > 0);
	assert_int_equal(status().probes, PROBES_NONE);
	assert_int_equal(pass(1000), 0);
	kernel.read_error = 0;
	pass(200);
	assert_int_equal(status().probes, PROBES_WANTED);
}

/* With one address each, a probe for a peer's address arrives at its alias. */
static void test_hears_alias(void **context)
{
	char text[ADDR_TEXT_BYTES];
	struct addr alias;

	(void)context;
	for (unsigned i = 0; i < d.config.member_count; i++)
		d.config.member[i].own_cluster_address = false;
	config_place_aliases(&d.config);
	alias = config_alias(&d.config, N3, 0);
	assert_false(addr_is_zero(&alias));
	kernel.heard = addr_format(&alias, text);
	pass(PROOF_LEARN_MS + 200);
	assert_false(is_among(&status().unproven[0], "n3"));
	assert_true(is_among(&status().unproven[0], "n2"));
}

/* Probes come, but answers to n2's clients would have no route, while those to own clients have. */
static void test_mute(void **context)
{
	(void)context;
	kernel.heard = "192.0.2.12";
	kernel.client = "203.0.113.9";
	pass(PROOF_LEARN_MS + CLIENT_SOON_MS);
	assert_false(is_among(&status().unproven[0], "n2"));
	kernel.without_route = "192.0.2.12";
	pass(ANSWERS_MS + 100);
	assert_true(is_among(&status().unproven[0], "n2"));
	kernel.without_route = NULL;
	pass(ANSWERS_MS + 100);
	assert_false(is_among(&status().unproven[0], "n2"));
	/* This node cannot answer the client at all: that is no fault of the way. */
	kernel.without_route = "192.0.2.11";
	pass(ANSWERS_MS + 100);
	assert_false(is_among(&status().unproven[0], "n2"));
}

/* Full-size packets do not arrive there: smaller ones are tried, one size at a time, until they do. */
static void test_narrows(void **context)
{
	const uint32_t well = NODE_HEARD | NODE_DPRD_UP | NODE_TAKES_PROBES;

	(void)context;
	say_flags(N2, well);
	pass(1000);
	assert_int_equal(d.ways.limit[N2][0].mtu, 0);
	say_flags(N2, well | NODE_NARROW_V4);
	pass(200);
	assert_int_equal(d.ways.limit[N2][0].mtu, 1420);
	pass(NARROW_MS - 400);
	assert_int_equal(d.ways.limit[N2][0].mtu, 1420);
	set_member_way(&d, N2, false, 1420);
	pass(400);
	assert_int_equal(d.ways.limit[N2][0].mtu, 1280);
	say_flags(N2, well);
	set_member_way(&d, N2, false, 1280);
	pass(3 * NARROW_MS);
	assert_int_equal(d.ways.limit[N2][0].mtu, 1280);
	say_flags(N2, well | NODE_NARROW_V4);
	pass(2 * NARROW_MS);
	set_member_way(&d, N2, false, 576);
	pass(2 * NARROW_MS);
	assert_int_equal(d.ways.limit[N2][0].mtu, 576);
	assert_true(d.probes.way[N2][0].stuck);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sends, start, stop),
		cmocka_unit_test_setup_teardown(test_gap, start, stop),
		cmocka_unit_test_setup_teardown(test_clients, start, stop),
		cmocka_unit_test_setup_teardown(test_banned_client, start, stop),
		cmocka_unit_test_setup_teardown(test_hears, start, stop),
		cmocka_unit_test_setup_teardown(test_hears_alias, start, stop),
		cmocka_unit_test_setup_teardown(test_mute, start, stop),
		cmocka_unit_test_setup_teardown(test_narrows, start, stop),
	};

	return cmocka_run_group_tests_name("probes", tests, NULL, NULL);
}
