// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_live_backend.c - real servers and fellow nodes with attached programs (live.h): targets of packets when the
 * kernel fills in hardware addresses, packets in pieces, large ones, and packets for the own stack.
 *
 * Layout: own cluster addresses. The kernel knows n2's cluster address by n3's hardware address.
 */
#include "tests/bpf/live.h"

enum { WAIT_MS = 10000, LARGE_BYTES = 3500 };

#define CONFIRMED "confirmed n2 isn 5 age 3"

static struct live live;

static int have_site(void **state)
{
	(void)state;
	if (live.client.fd)
		return 0;
	live = live_new();
	plane_command("ip addr add 10.0.0.1/24 dev cluster && ip addr add fd00::1/64 dev cluster nodad");
	plane_command("ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:03 dev cluster nud permanent && "
		      "ip neigh add fd00::2 lladdr 02:00:00:00:00:03 dev cluster nud permanent");
	plane_command("for a in 198.51.100.1/32 198.51.100.200/32 2001:db8:5::1/128 2001:db8:5::200/128; do "
		      "ip addr add $a dev lo || exit 1; done");
	live_attach(0);
	return 0;
}

static unsigned variant_of(void **state)
{
	return (unsigned)(uintptr_t)*state;
}

static void prepare(unsigned variant, const char *flow, const char *way)
{
	live_prepare(&live, variant);
	site_add_flow(variant, flow);
	site_way(variant, way);
}

/* Sends in at one interface and expects out at the other. */
static void check_sent(unsigned variant, const char *line, const char *expected_line, const struct tap_offload *offload)
{
	struct frame in = live_make(variant, line, NULL), expected = live_make(variant, expected_line, NULL);

	tap_send(&live.client, &in, offload);
	live_expect(&live.cluster, &expected);
	live_expect_counted(variant, "flow");
}

static void test_direct(void **state)
{
	prepare(variant_of(state), CONFIRMED, "direct");
	check_sent(variant_of(state), "ip cl>s1 | tcp 40000>80 P. | data 100",
		   "eth me>n2 | ip cl>s1 ttl 62 | tcp 40000>80 P. | data 100", NULL);
	live_expect_nothing(&live);
}

/* The next hop is the way's, not the packet's own destination; and the packet uses no hop. */
static void test_direct_next_hop(void **state)
{
	static const char *const ways[] = { "direct stale", "direct unknown" };
	unsigned i;

	for (i = 0; i < 2; i++) {
		prepare(variant_of(state), CONFIRMED, ways[i]);
		check_sent(variant_of(state), "ip cl>s1 | tcp 40000>80 P. | data 100",
			   "eth me>n3 | ip cl>s1 ttl 62 | tcp 40000>80 P. | data 100", NULL);
	}
}

/* Only a few bytes can be read before the program asks for more. */
static void test_direct_in_pieces(void **state)
{
	struct tap_offload offload = { .linear = 14 };

	prepare(variant_of(state), CONFIRMED, "direct mtu 9000");
	for (; offload.linear < 160; offload.linear += 3)
		check_sent(variant_of(state), "ip cl>s1 | tcp 40000>80 P. | data 5000",
			   "eth me>n2 | ip cl>s1 ttl 62 | tcp 40000>80 P. | data 5000", &offload);
}

/* The checksum is made when the packet leaves. */
static void test_direct_missing_sum(void **state)
{
	const struct tap_offload offload = { .sum_missing = true };

	prepare(variant_of(state), CONFIRMED, "direct");
	check_sent(variant_of(state), "ip cl>s1 | tcp 40000>80 P. | data 333",
		   "eth me>n2 | ip cl>s1 ttl 62 | tcp 40000>80 P. | data 333", &offload);
}

/* Segments as long as the network takes leave as they are, each one hop further. */
static void test_direct_large(void **state)
{
	unsigned variant = variant_of(state), headers = variant & SITE_V6 ? 60 : 40, payload = 0;
	const struct tap_offload offload = { .gso_bytes = 1500 - headers };
	struct frame in = live_make(variant, "ip cl>s1 | tcp 40000>80 P. seq 7 | data 3500", NULL), got;

	prepare(variant, CONFIRMED, "direct");
	tap_send(&live.client, &in, &offload);
	while (payload < LARGE_BYTES && tap_receive(&live.cluster, &got, WAIT_MS)) {
		unsigned bytes = got.length - FRAME_ETHERNET_BYTES - headers;

		assert_true(frame_sums_good(&got));
		assert_true(bytes == offload.gso_bytes || payload + bytes == LARGE_BYTES);
		assert_int_equal(got.bytes[FRAME_ETHERNET_BYTES + (variant & SITE_V6 ? 7 : 8)], 62);
		assert_memory_equal(got.bytes + FRAME_ETHERNET_BYTES + headers,
				    in.bytes + FRAME_ETHERNET_BYTES + headers + payload, bytes);
		payload += bytes;
	}
	assert_int_equal(payload, LARGE_BYTES);
	live_expect_counted(variant, "flow");
}

/* A packet to a fellow node goes back to the network that it came from, though the fellow's tunnel leads elsewhere. */
static void test_fellow(void **state)
{
	unsigned variant = variant_of(state);
	struct frame in = live_make(variant, "eth gw>all | ip cl>sh | tcp 40000>80 P. | data 100", NULL), expected;

	prepare(variant, CONFIRMED " to sh", "fellow");
	site_shared_frames(variant, live.client.interface, true);
	expected = live_make(variant, "eth me>n4 | ip cl>sh ttl 62 | tcp 40000>80 P. | data 100", NULL);
	tap_send(&live.client, &in, NULL);
	live_expect(&live.client, &expected);
	site_shared_frames(variant, live.cluster.interface, true);
	expected = live_make(variant, "eth me>n2 | tunnel c1>c2 | *", &in);
	tap_send(&live.client, &in, NULL);
	live_expect(&live.cluster, &expected);
	live_expect_counted(variant, "flow*2");
	live_expect_nothing(&live);
}

/*
 * TCP does not answer a frame to all nodes. A packet left to NAT counts as a frame to this node: as there is no NAT
 * here, TCP answers a segment of an unknown connection with a reset.
 */
static void test_nat(void **state)
{
	unsigned variant = variant_of(state), tcp = FRAME_ETHERNET_BYTES + (variant & SITE_V6 ? 40 : 20);
	struct frame in = live_make(variant, "eth gw>all | ip cl>sh | tcp 40000>80 . seq 7 ack 77", NULL), got;

	live_prepare(&live, variant);
	site_shared_frames(variant, live.client.interface, true);
	tap_send(&live.client, &in, NULL);
	live_expect_nothing(&live);
	live_expect_counted(variant, "");
	prepare(variant, CONFIRMED " to sh", "nat 1");
	site_shared_frames(variant, live.client.interface, true);
	tap_send(&live.client, &in, NULL);
	if (!tap_receive(&live.client, &got, WAIT_MS))
		fail_msg("no reset");
	assert_int_equal(got.bytes[tcp + 13], 4);
	live_expect_counted(variant, "flow");
}

#define BOTH(test_)                                                      \
	{ "v4: " #test_, test_, have_site, NULL, NULL },                 \
	{                                                                \
		"v6: " #test_, test_, have_site, NULL, (void *)(SITE_V6) \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_direct),
		BOTH(test_direct_next_hop),
		BOTH(test_direct_in_pieces),
		BOTH(test_direct_missing_sum),
		BOTH(test_direct_large),
		BOTH(test_fellow),
		BOTH(test_nat),
	};

	return fixture_main("live backend", NULL, 0, tests, sizeof(tests) / sizeof(tests[0]));
}
