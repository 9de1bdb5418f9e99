// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_live.c - effects that a single run of a program cannot show, with attached programs (live.h): interfaces of
 * packets, hardware addresses that the kernel fills in, packets in pieces, unfinished checksums, large packets that
 * become segments.
 *
 * Layout: one address for each node.
 */
#include "tests/bpf/live.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ALIAS_V4 = SITE_ALIAS, WAIT_MS = 10000, LARGE_BYTES = 3500 };

#define CONFIRMED "confirmed n2 isn 5 age 3"
#define TO_N2 "eth me>n2 | tunnel c1>c2 | *"

static struct live live;

static int have_site(void **state)
{
	(void)state;
	if (live.client.fd)
		return 0;
	live = live_new();
	/* Sets n1's service address, the local addresses for its peers, and the routes. */
	plane_command("ip addr add 198.51.100.1/24 dev cluster && ip addr add 2001:db8:5::1/64 dev cluster nodad");
	plane_command("ip neigh add 198.51.100.2 lladdr 02:00:00:00:00:02 dev cluster nud permanent && "
		      "ip neigh add 2001:db8:5::2 lladdr 02:00:00:00:00:02 dev cluster nud permanent");
	plane_command("for a in 2 3 4 5 6 7; do ip addr add 198.18.211.$a/32 dev lo && "
		      "ip addr add fd64:7072:6400::$a/128 dev lo nodad || exit 1; done");
	live_attach(ALIAS_V4);
	return 0;
}

static unsigned variant_of(void **state)
{
	return (unsigned)(uintptr_t)*state;
}

/* --- the way out --- */

/* Sends in at one interface and expects out at the other. */
static void check_forwarded(unsigned variant, const char *line, const struct tap_offload *offload)
{
	struct frame in = live_make(variant, line, NULL), expected = live_make(variant, TO_N2, &in);

	tap_send(&live.client, &in, offload);
	live_expect(&live.cluster, &expected);
	live_expect_counted(variant, "flow");
}

static void test_forward(void **state)
{
	live_prepare(&live, variant_of(state));
	site_add_flow(variant_of(state), CONFIRMED);
	check_forwarded(variant_of(state), "ip cl>s1 | tcp 40000>80 P. | data 100", NULL);
	live_expect_nothing(&live);
}

/* The kernel knows n2's hardware address, and its own. */
static void test_old_hardware_address(void **state)
{
	unsigned variant = variant_of(state);
	struct fastpath_way *way;

	live_prepare(&live, variant);
	site_add_flow(variant, CONFIRMED);
	site_way(variant, "stale");
	way = plane_way(site_plane(variant), 1, variant & SITE_V6);
	memset(way->hardware, 0xee, sizeof(way->hardware));
	check_forwarded(variant, "ip cl>s1 | tcp 40000>80 P. | data 100", NULL);
	way->hardware_tick = 0;
	check_forwarded(variant, "ip cl>s1 | tcp 40000>80 P. | data 101", NULL);
}

/*
 * dprd's clock may be ahead of the programs'. The kernel would replace the hardware address by the one that it knows.
 */
static void test_hardware_address_of_next_tick(void **state)
{
	unsigned variant = variant_of(state);
	struct frame in = live_make(variant, "ip cl>s1 | tcp 40000>80 P. | data 100", NULL), expected;
	struct fastpath_way *way;

	live_prepare(&live, variant);
	site_add_flow(variant, CONFIRMED);
	way = plane_way(site_plane(variant), 1, variant & SITE_V6);
	way->hardware_tick = plane_tick(site_plane(variant)) + 2;
	way->hardware[1] = 0xee;
	expected = live_make(variant, TO_N2, &in);
	expected.bytes[1] = 0xee;
	tap_send(&live.client, &in, NULL);
	live_expect(&live.cluster, &expected);
}

/* Only a few bytes can be read before the program asks for more. */
static void test_forward_in_pieces(void **state)
{
	unsigned variant = variant_of(state);
	struct tap_offload offload = { .linear = 14 };

	live_prepare(&live, variant);
	site_add_flow(variant, CONFIRMED);
	for (; offload.linear < 160; offload.linear++)
		check_forwarded(variant, "ip cl>s1 | tcp 40000>80 P. opt 0101080a0000000100000002 | data 500",
				&offload);
}

static void test_icmp_in_pieces(void **state)
{
	unsigned variant = variant_of(state);
	const char *line = "ip rt>s1 | icmp unreachable quote 5000 | ip s1>cl | tcp 80>40000 . | data 6000";
	struct frame in = live_make(variant, line, NULL), expected = live_make(variant, TO_N2, &in);
	struct tap_offload offload = { .linear = 14 };

	live_prepare(&live, variant);
	site_add_flow(variant, CONFIRMED);
	site_way(variant, "mtu 9000");
	for (; offload.linear < 160; offload.linear++) {
		tap_send(&live.client, &in, &offload);
		live_expect(&live.cluster, &expected);
		live_expect_counted(variant, "icmp_relay");
	}
}

/* The checksum is made when the packet leaves. */
static void test_missing_sum(void **state)
{
	const struct tap_offload offload = { .sum_missing = true };

	live_prepare(&live, variant_of(state));
	site_add_flow(variant_of(state), CONFIRMED);
	check_forwarded(variant_of(state), "ip cl>s1 | tcp 40000>80 P. | data 333", &offload);
}

/* Frames too short for a single run have no effect, and the next packet is forwarded. */
static void test_short_frames(void **state)
{
	unsigned variant = variant_of(state), length;
	struct frame in = live_make(variant, "ip cl>s1 | tcp 40000>80 P. | data 100", NULL);

	live_prepare(&live, variant);
	site_add_flow(variant, CONFIRMED);
	for (length = FRAME_ETHERNET_BYTES; length < in.length; length++) {
		struct frame cut = in;

		cut.length = length;
		tap_send(&live.client, &cut, NULL);
	}
	live_expect_nothing(&live);
	live_expect_counted(variant, "");
	check_forwarded(variant, "ip cl>s1 | tcp 40000>80 P. | data 100", NULL);
}

/* The frame as it comes from a cable; the kernel removes the tag and remembers it. */
static struct frame tagged(const struct frame *frame, unsigned tag)
{
	const uint8_t bytes[4] = { 0x81, 0, (uint8_t)(tag >> 8), (uint8_t)tag };
	struct frame with = *frame;

	memmove(with.bytes + 16, with.bytes + 12, with.length - 12);
	memcpy(with.bytes + 12, bytes, sizeof(bytes));
	with.length += sizeof(bytes);
	return with;
}

/*
 * A VLAN's frames are left to its own device, whatever they carry. A priority tag is not a VLAN, and does not leave
 * either.
 */
static void test_tagged(void **state)
{
	static const char *const lines[] = { "ip cl>s1 | tcp 40000>80 P. | data 100", "ip cl>s1 | tcp 40000>80 S",
					     "ip cl>l2 | tcp 40000>80 .",
					     "eth n2>me | tunnel c2>c1 | ip cl>s2 | tcp 40000>80 ." };
	unsigned variant = variant_of(state), i;
	struct frame in, with, expected;

	live_prepare(&live, variant);
	site_add_flow(variant, CONFIRMED);
	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		in = live_make(variant, lines[i], NULL);
		with = tagged(&in, 0xa064);
		tap_send(&live.client, &with, NULL);
	}
	live_expect_nothing(&live);
	live_expect_counted(variant, "");
	in = live_make(variant, lines[0], NULL);
	expected = live_make(variant, TO_N2, &in);
	with = tagged(&in, 0xa000);
	tap_send(&live.client, &with, NULL);
	live_expect(&live.cluster, &expected);
	live_expect_counted(variant, "flow");
}

/* --- large packets --- */

static unsigned get32(const uint8_t *at)
{
	return (unsigned)at[0] << 24 | (unsigned)at[1] << 16 | (unsigned)at[2] << 8 | at[3];
}

/* One segment in its tunnel packet; adds its payload to what came so far. */
static unsigned check_segment(unsigned variant, const struct frame *got, const struct frame *in, unsigned segment,
			      unsigned so_far)
{
	unsigned ip_bytes = variant & SITE_V6 ? 40 : 20, headers = ip_bytes + 20;
	const uint8_t *outer = got->bytes + FRAME_ETHERNET_BYTES, *inner = outer + ip_bytes;
	const uint8_t *sent = in->bytes + FRAME_ETHERNET_BYTES;
	unsigned payload = got->length - FRAME_ETHERNET_BYTES - ip_bytes - headers;

	assert_true(frame_sums_good(got));
	assert_int_equal(frame_datagram_bytes(got), got->length - FRAME_ETHERNET_BYTES);
	assert_true(got->length <= FRAME_ETHERNET_BYTES + 1500);
	assert_true(payload == segment || so_far + payload == LARGE_BYTES);
	assert_int_equal(get32(inner + ip_bytes + 4), get32(sent + ip_bytes + 4) + so_far);
	assert_memory_equal(inner + headers, sent + headers + so_far, payload);
	/* Ports; and the addresses, outside and inside. */
	assert_memory_equal(inner + ip_bytes, sent + ip_bytes, 4);
	assert_memory_equal(inner + (ip_bytes == 40 ? 8 : 12), sent + (ip_bytes == 40 ? 8 : 12),
			    ip_bytes == 40 ? 32 : 8);
	assert_int_equal(outer[ip_bytes == 40 ? 39 : 19], 2);
	return payload;
}

static void check_large(unsigned variant, unsigned gso_bytes, unsigned segment)
{
	struct frame in = live_make(variant, "ip cl>s1 | tcp 40000>80 P. seq 4294967000 | data 3500", NULL), got;
	const struct tap_offload offload = { .gso_bytes = gso_bytes };
	unsigned payload = 0;

	live_prepare(&live, variant);
	site_add_flow(variant, CONFIRMED);
	tap_send(&live.client, &in, &offload);
	while (payload < LARGE_BYTES && tap_receive(&live.cluster, &got, WAIT_MS))
		payload += check_segment(variant, &got, &in, segment, payload);
	assert_int_equal(payload, LARGE_BYTES);
	live_expect_nothing(&live);
	live_expect_counted(variant, "flow");
}

/* Segments that fit the tunnel stay as long as they are. */
static void test_large(void **state)
{
	unsigned variant = variant_of(state);

	check_large(variant, 1000, 1000);
	check_large(variant, variant & SITE_V6 ? 1400 : 1440, variant & SITE_V6 ? 1400 : 1440);
}

/* Segments of the client's own MSS are too long by the outer header: they are cut that much finer. */
static void test_large_cut_finer(void **state)
{
	unsigned variant = variant_of(state);

	check_large(variant, variant & SITE_V6 ? 1401 : 1441, variant & SITE_V6 ? 1361 : 1421);
	check_large(variant, variant & SITE_V6 ? 1440 : 1460, variant & SITE_V6 ? 1400 : 1440);
}

/* --- too big, with dprd away --- */

/* The message as a client's stack checks it: sums, and that it is about the packet. */
static void check_too_big(unsigned variant, const char *line, const struct tap_offload *offload)
{
	struct frame in = live_make(variant, line, NULL), got;
	unsigned ip_bytes = variant & SITE_V6 ? 40 : 20;
	const uint8_t *icmp = got.bytes + FRAME_ETHERNET_BYTES + ip_bytes, *quoted = icmp + 8;

	live_prepare(&live, variant);
	site_add_flow(variant, CONFIRMED);
	plane_beat(site_plane(variant), -1, 0);
	tap_send(&live.client, &in, offload);
	if (!tap_receive(&live.client, &got, WAIT_MS))
		fail_msg("no message");
	assert_int_equal(got.length, FRAME_ETHERNET_BYTES + 2 * ip_bytes + 8 + 20);
	if (!frame_sums_good(&got)) {
		frame_print("message", &got, NULL);
		fail_msg("a checksum of the message is wrong");
	}
	assert_int_equal(icmp[0] << 8 | icmp[1], variant & SITE_V6 ? 0x0200 : 0x0304);
	assert_int_equal(get32(icmp + 4), variant & SITE_V6 ? 1460 : 1480);
	/* All except the checksum, which the device may not have made yet. */
	assert_memory_equal(quoted, in.bytes + FRAME_ETHERNET_BYTES, ip_bytes + 16);
	live_expect_counted(variant, "no_tunnel too_big");
	live_expect_nothing(&live);
}

static void test_too_big(void **state)
{
	check_too_big(variant_of(state), "ip cl>s1 | tcp 40000>80 P. seq 9 | data 1700", NULL);
}

static void test_too_big_missing_sum(void **state)
{
	const struct tap_offload offload = { .sum_missing = true };

	check_too_big(variant_of(state), "ip cl>s1 | tcp 40000>80 P. seq 9 | data 1700", &offload);
}

static void test_too_big_large(void **state)
{
	const struct tap_offload offload = { .gso_bytes = 1600 };

	check_too_big(variant_of(state), "ip cl>s1 | tcp 40000>80 P. seq 9 | data 1700", &offload);
}

static void test_too_big_in_pieces(void **state)
{
	struct tap_offload offload = { .linear = 14 };

	for (; offload.linear < 160; offload.linear += 9)
		check_too_big(variant_of(state), "ip cl>s1 | tcp 40000>80 P. seq 9 | data 5000", &offload);
}

/* --- the way in --- */

static int raw_socket(unsigned variant, int protocol)
{
	int fd = socket(variant & SITE_V6 ? AF_INET6 : AF_INET, SOCK_RAW, protocol);
	struct timeval wait = { .tv_sec = 1 };

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), 0);
	return fd;
}

/* Checks the packet given to the stack, from the transport's header on (IPv6), or from the IP header on. */
static void check_delivered(unsigned variant, const char *inner, const char *local, int protocol,
			    const struct tap_offload *offload)
{
	char line[512];
	struct frame in, expected = live_make(variant, local, NULL);
	unsigned skip = FRAME_ETHERNET_BYTES + (variant & SITE_V6 ? 40 : 0);
	int fd = raw_socket(variant, protocol);
	uint8_t got[FRAME_BYTES];
	ssize_t length;

	snprintf(line, sizeof(line), "eth n2>me | tunnel c2>c1 | %s", inner);
	in = live_make(variant, line, NULL);
	tap_send(&live.cluster, &in, offload);
	length = recv(fd, got, sizeof(got), 0);
	close(fd);
	assert_int_equal(length, expected.length - skip);
	assert_memory_equal(got, expected.bytes + skip, (size_t)length);
	live_expect_counted(variant, "from_peer");
}

static void test_decapsulate(void **state)
{
	unsigned variant = variant_of(state);

	live_prepare(&live, variant);
	check_delivered(variant, "ip cl>s2 | tcp 40000>80 P. | data 300", "ip cl>l2 | tcp 40000>80 P. | data 300",
			IPPROTO_TCP, NULL);
}

static void test_decapsulate_in_pieces(void **state)
{
	unsigned variant = variant_of(state);
	struct tap_offload offload = { .linear = 14 };

	live_prepare(&live, variant);
	for (; offload.linear < 170; offload.linear += 3)
		check_delivered(variant, "ip cl>s2 | tcp 40000>80 P. | data 5000",
				"ip cl>l2 | tcp 40000>80 P. | data 5000", IPPROTO_TCP, &offload);
}

static void test_decapsulate_icmp_in_pieces(void **state)
{
	unsigned variant = variant_of(state);
	struct tap_offload offload = { .linear = 14 };

	live_prepare(&live, variant);
	for (; offload.linear < 170; offload.linear += 3)
		check_delivered(variant,
				"ip rt>s2 | icmp timeout quote 5000 | ip s2>cl | tcp 80>40000 . sum 1 | data 6000",
				"ip rt>l2 | icmp timeout quote 5000 | ip l2>cl | tcp 80>40000 . sum 1 | data 6000",
				variant & SITE_V6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP, &offload);
}

/* --- a connection --- */

/* A SYN from n2: a socket on the alias answers, and the client sees n2's address, a smaller MSS, good sums. */
static void test_syn_ack(void **state)
{
	unsigned variant = variant_of(state), ip_bytes = variant & SITE_V6 ? 40 : 20;
	struct sockaddr_in6 any_v6 = { .sin6_family = AF_INET6, .sin6_port = htons(80) };
	struct sockaddr_in any_v4 = { .sin_family = AF_INET, .sin_port = htons(80) };
	int fd = socket(variant & SITE_V6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0), one = 1;
	struct frame syn =
		live_make(variant, "eth n2>me | tunnel c2>c1 | ip xx>s2 | tcp 40000>80 S seq 99 opt 020405b4", NULL);
	struct frame got, expected = live_make(variant, "ip s2>xx | tcp 80>40000 S.", NULL);
	const uint8_t *ip = got.bytes + FRAME_ETHERNET_BYTES, *tcp = ip + ip_bytes;

	live_prepare(&live, variant);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	assert_int_equal(variant & SITE_V6 ? bind(fd, (struct sockaddr *)&any_v6, sizeof(any_v6))
					   : bind(fd, (struct sockaddr *)&any_v4, sizeof(any_v4)),
			 0);
	assert_int_equal(listen(fd, 5), 0);
	tap_send(&live.cluster, &syn, NULL);
	if (!tap_receive(&live.client, &got, WAIT_MS))
		fail_msg("no SYN-ACK");
	close(fd);
	assert_true(frame_sums_good(&got));
	assert_memory_equal(ip + (ip_bytes == 40 ? 8 : 12),
			    expected.bytes + FRAME_ETHERNET_BYTES + (ip_bytes == 40 ? 8 : 12), ip_bytes == 40 ? 32 : 8);
	assert_memory_equal(tcp, expected.bytes + FRAME_ETHERNET_BYTES + ip_bytes, 4);
	assert_int_equal(tcp[13], 0x12);
	assert_int_equal(get32(tcp + 8), 100);
	/* Linux puts the MSS first. */
	assert_int_equal(get32(tcp + 20), variant & SITE_V6 ? 0x02040578 : 0x020405a0);
}

#define BOTH(test_)                                                                 \
	{ "v4: " #test_, test_, have_site, NULL, (void *)ALIAS_V4 },                \
	{                                                                           \
		"v6: " #test_, test_, have_site, NULL, (void *)(ALIAS_V4 | SITE_V6) \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_forward),
		BOTH(test_old_hardware_address),
		BOTH(test_hardware_address_of_next_tick),
		BOTH(test_forward_in_pieces),
		BOTH(test_icmp_in_pieces),
		BOTH(test_missing_sum),
		BOTH(test_short_frames),
		BOTH(test_tagged),
		BOTH(test_large),
		BOTH(test_large_cut_finer),
		BOTH(test_too_big),
		BOTH(test_too_big_missing_sum),
		BOTH(test_too_big_large),
		BOTH(test_too_big_in_pieces),
		BOTH(test_decapsulate),
		BOTH(test_decapsulate_in_pieces),
		BOTH(test_decapsulate_icmp_in_pieces),
		BOTH(test_syn_ack),
	};

	return fixture_main("live", NULL, 0, tests, sizeof(tests) / sizeof(tests[0]));
}
