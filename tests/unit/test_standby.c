// SPDX-License-Identifier: GPL-2.0-or-later
/* test_standby.c - detecting a worker that stands still, and packets that come out of a tunnel meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/core/decide/decide.h"
#include "dprd/core/packet/encap.h"
#include "dprd/queue/standby.h"
#include "dprd/queue/standby_noted.h"
#include "tests/unit/packets.h"

static struct standby_watch watch;
static uint64_t now_ms, stamp;

static int start(void **state)
{
	(void)state;
	watch = (struct standby_watch) { 0 };
	now_ms = 5000000;
	stamp = now_ms - 30;
	return 0;
}

/* Looks again and again for this long; returns for how long the worker seemed to stand still at the end. */
static unsigned look_for(unsigned ms, bool packets_wait)
{
	unsigned still_ms = 0, passed;

	for (passed = 0; passed < ms; passed += STANDBY_LOOK_MS) {
		now_ms += STANDBY_LOOK_MS;
		still_ms = standby_judge(&watch, stamp, packets_wait, now_ms) ? still_ms + STANDBY_LOOK_MS : 0;
	}
	return still_ms;
}

/* The worker looks only when packets wait, or from time to time. */
static void test_idle(void **state)
{
	(void)state;
	assert_int_equal(look_for(60000, false), 0);
}

static void test_busy(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		stamp = now_ms;
		assert_int_equal(look_for(STANDBY_PATIENCE_MS - STANDBY_LOOK_MS, true), 0);
	}
}

static void test_still(void **state)
{
	(void)state;
	/* Waiting packets were first seen at the second look; patience begins there. */
	assert_int_equal(look_for(1000, false), 0);
	assert_int_equal(look_for(STANDBY_LOOK_MS + STANDBY_PATIENCE_MS - STANDBY_PATIENCE_MS % STANDBY_LOOK_MS, true),
			 0);
	assert_int_equal(look_for(STANDBY_LOOK_MS, true), STANDBY_LOOK_MS);
	/* When the standstill is known, no packet waits any more. */
	assert_int_equal(look_for(1000, false), 1000);
	assert_int_equal(look_for(1000, true), 1000);
	stamp = now_ms;
	assert_int_equal(look_for(STANDBY_PATIENCE_MS, true), 0);
}

/* Packets that come and go are not a sign: the worker takes them. */
static void test_now_and_then(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(look_for(STANDBY_PATIENCE_MS - STANDBY_LOOK_MS, true), 0);
		assert_int_equal(look_for(STANDBY_LOOK_MS, false), 0);
	}
}

/* A look by the worker does not reset the time since nothing waited. */
static void test_since_empty(void **state)
{
	uint64_t empty_ms;

	(void)state;
	look_for(1000, false);
	empty_ms = now_ms;
	assert_int_equal(watch.empty_ms, empty_ms);
	look_for(300, true);
	stamp = now_ms;
	look_for(300, true);
	assert_int_equal(watch.empty_ms, empty_ms);
	look_for(STANDBY_LOOK_MS, false);
	assert_int_equal(watch.empty_ms, now_ms);
}

/* --- tunnel packets: n1 is the entry node of packets.h, n2 is asked --- */

#define N1 "[Member \"n1\"]\nService=198.51.100.1\nService=2001:db8:5::1\n"
#define N2 "[Member \"n2\"]\nService=198.51.100.2\nService=2001:db8:5::2\n"
#define OWN1 "Cluster=192.168.0.1\nCluster=fd00::1\n"
#define OWN2 "Cluster=192.168.0.2\nCluster=fd00::2\n"
#define ONE "[Cluster]\nName=web\n[Alias]\nRange=10.9.0.0/16\nRange=fd09::/112\n" N1 N2
#define OWN "[Cluster]\nName=web\n" N1 OWN1 N2 OWN2

enum { FIRST_ONLY = 1, BOTH = 3, EF_CE = 0xbb, EF_NOT_ECT = 0xb8 };

static struct config config;
static uint8_t datagram[512];
static struct standby_inner inner;

static void configure(const char *text)
{
	struct config_errors errors;

	if (config_parse("test", text, strlen(text), "n2", &config, &errors) != 0)
		fail_msg("%s", errors.text[0]);
}

/* Makes a tunnel packet from member 0 to member 1, or back; returns its length. */
static unsigned tunnel(const uint8_t *bytes, size_t count, bool from_n1)
{
	const struct member *from = &config.member[!from_n1], *to = &config.member[from_n1];
	bool v6 = bytes[0] >> 4 == 6;
	struct packet packet;

	packet_parse(bytes, (uint32_t)count, &packet);
	encap_write(datagram, &packet, v6 ? &from->cluster_v6 : &from->cluster_v4,
		    v6 ? &to->cluster_v6 : &to->cluster_v4, 7);
	memcpy(datagram + encap_bytes(v6), bytes, count);
	return encap_bytes(v6) + (unsigned)count;
}

static bool comes_out(const uint8_t *bytes, size_t count, uint64_t living, bool maybe_stale)
{
	return standby_unwrap(&config, living, datagram, tunnel(bytes, count, true), maybe_stale, &inner);
}

#define OUT(packet, living, maybe_stale) comes_out(packet, sizeof(packet), living, maybe_stale)

static void assert_whole(const uint8_t *bytes, size_t count)
{
	assert_int_equal(inner.count, count);
	assert_ptr_equal(inner.bytes, datagram + encap_bytes(bytes[0] >> 4 == 6));
	assert_memory_equal(inner.bytes, bytes, count);
}

static void test_comes_out(void **state)
{
	(void)state;
	configure(OWN);
	assert_true(OUT(v4_syn, BOTH, false));
	assert_whole(v4_syn, sizeof(v4_syn));
	assert_true(OUT(v6_syn, BOTH, false));
	assert_whole(v6_syn, sizeof(v6_syn));
	assert_true(OUT(v4_data, FIRST_ONLY, false));
	assert_whole(v4_data, sizeof(v4_data));
	assert_true(OUT(v6_data, FIRST_ONLY, false));
	assert_whole(v6_data, sizeof(v6_data));
	assert_true(OUT(v4_frag_needed, FIRST_ONLY, false));
	assert_whole(v4_frag_needed, sizeof(v4_frag_needed));
}

static void test_comes_out_to_the_alias(void **state)
{
	struct packet packet;
	struct addr alias;

	(void)state;
	configure(ONE);
	for (unsigned v6 = 0; v6 < 2; v6++) {
		assert_true(v6 ? OUT(v6_syn, BOTH, false) : OUT(v4_syn, BOTH, false));
		packet_parse(inner.bytes, inner.count, &packet);
		alias = config_alias(&config, 0, v6);
		assert_true(addr_equal(&packet.destination, &alias));
		assert_true(encap_tcp_checksum_good(inner.bytes, &packet));
	}
}

/* Packets of an unknown sender, and to a service that the peer does not own. */
static void test_of_nobody(void **state)
{
	unsigned bytes;

	(void)state;
	configure(OWN);
	assert_false(OUT(v4_syn, BOTH & ~FIRST_ONLY, false));
	assert_false(OUT(v6_data, 0, false));
	for (bytes = tunnel(v4_data, sizeof(v4_data), true); bytes > 0; bytes--)
		assert_false(standby_unwrap(&config, BOTH, datagram, bytes - 1, false, &inner));
	/* A packet to another node, and one outside a tunnel. */
	assert_false(standby_unwrap(&config, BOTH, datagram, tunnel(v4_syn, sizeof(v4_syn), false), false, &inner));
	memcpy(datagram, v4_syn, sizeof(v4_syn));
	assert_false(standby_unwrap(&config, BOTH, datagram, sizeof(v4_syn), false, &inner));
	/* n2's own service: a SYN that n1 sends back needs dprd's flow. */
	config.self = 0;
	assert_false(standby_unwrap(&config, BOTH, datagram, tunnel(v4_syn, sizeof(v4_syn), false), false, &inner));
}

enum { INNER = IPV4_HEADER_BYTES, SOURCE = 12, DESTINATION = 16, PORT = IPV4_HEADER_BYTES + 2 };

/* After a change of the IPv4 header within. */
static void mend_header(void)
{
	memset(datagram + INNER + 10, 0, 2);
	write_be16(datagram + INNER + 10, checksum_fold(checksum_add(0, datagram + INNER, IPV4_HEADER_BYTES)));
}

/* Packets of a peer that belong to no connection to this node's web server; and packets of this node itself. */
static void test_of_others(void **state)
{
	unsigned bytes;

	(void)state;
	configure(OWN);
	bytes = tunnel(v4_data, sizeof(v4_data), true);
	assert_true(standby_unwrap(&config, BOTH, datagram, bytes, false, &inner));
	/* The port may have been a service: a socket knows. */
	write_be16(datagram + INNER + PORT, 81);
	assert_true(standby_unwrap(&config, BOTH, datagram, bytes, false, &inner));
	tunnel(v4_data, sizeof(v4_data), true);
	write_be16(datagram + INNER + PORT, 81);
	datagram[INNER + IPV4_HEADER_BYTES + 13] |= TCP_SYN;
	assert_false(standby_unwrap(&config, BOTH, datagram, bytes, false, &inner));
	tunnel(v4_data, sizeof(v4_data), true);
	memcpy(datagram + INNER + SOURCE, config.member[1].service[0].bytes + 12, 4);
	mend_header();
	assert_false(standby_unwrap(&config, BOTH, datagram, bytes, false, &inner));
	tunnel(v4_data, sizeof(v4_data), true);
	memcpy(datagram + SOURCE, datagram + DESTINATION, 4);
	memcpy(datagram + INNER + DESTINATION, config.member[1].service[0].bytes + 12, 4);
	mend_header();
	assert_false(standby_unwrap(&config, BOTH, datagram, bytes, false, &inner));
}

/* The kernel does not check the header of the packet that it gets instead of the queued one. */
static void test_of_damaged(void **state)
{
	unsigned bytes;

	(void)state;
	configure(OWN);
	bytes = tunnel(v4_data, sizeof(v4_data), true);
	datagram[INNER + 4] ^= 1;
	assert_false(standby_unwrap(&config, BOTH, datagram, bytes, false, &inner));
	mend_header();
	assert_true(standby_unwrap(&config, BOTH, datagram, bytes, false, &inner));
	tunnel(v4_data, sizeof(v4_data), true);
	datagram[INNER + 8] = 0;
	mend_header();
	assert_false(standby_unwrap(&config, BOTH, datagram, bytes, false, &inner));
}

/* No node sends a packet with options through a tunnel. */
static void test_of_options(void **state)
{
	uint8_t packet[sizeof(v4_data) + 8];

	(void)state;
	configure(OWN);
	memcpy(packet, v4_data, 20);
	memset(packet + 20, 1, 8);
	memcpy(packet + 28, v4_data + 20, sizeof(v4_data) - 20);
	packet[0] = 0x47;
	packet[3] += 8;
	memset(packet + 10, 0, 2);
	write_be16(packet + 10, checksum_fold(checksum_add(0, packet, 28)));
	assert_false(OUT(packet, BOTH, false));
}

static void test_stale(void **state)
{
	(void)state;
	configure(OWN);
	assert_false(OUT(v4_syn, BOTH, true));
	assert_false(OUT(v6_syn, BOTH, true));
	assert_true(OUT(v4_data, BOTH, true));
	assert_true(OUT(v6_data, BOTH, true));
}

/* RFC 6040: congestion on the way is marked in the inner header, or the packet is dropped. */
static void test_congestion(void **state)
{
	unsigned bytes;

	(void)state;
	configure(OWN);
	bytes = tunnel(v4_data, sizeof(v4_data), true);
	datagram[1] = EF_CE;
	assert_true(standby_unwrap(&config, BOTH, datagram, bytes, false, &inner));
	assert_int_equal(inner.bytes[1], EF_CE);
	bytes = tunnel(v4_syn, sizeof(v4_syn), true);
	datagram[1] = EF_CE;
	assert_false(standby_unwrap(&config, BOTH, datagram, bytes, false, &inner));
	datagram[1] = EF_NOT_ECT;
	assert_true(standby_unwrap(&config, BOTH, datagram, bytes, false, &inner));
}

/* A copy is recognised by its tuple and sequence number; only another note in its place replaces a note. */
static void test_noted(void **state)
{
	static struct standby_noted noted;
	struct packet syn[2], other;
	uint32_t i;

	(void)state;
	packet_parse(v4_syn, sizeof(v4_syn), &syn[0]);
	packet_parse(v6_syn, sizeof(v6_syn), &syn[1]);
	for (i = 0; i < 2; i++) {
		assert_false(standby_is_noted(&noted, &syn[i]));
		standby_note(&noted, &syn[i]);
		assert_true(standby_is_noted(&noted, &syn[i]));
		other = syn[i];
		other.tcp_sequence++;
		assert_false(standby_is_noted(&noted, &other));
		other = syn[i];
		other.key.client_port++;
		assert_false(standby_is_noted(&noted, &other));
	}
	assert_true(standby_is_noted(&noted, &syn[0]));
	other = syn[0];
	for (i = 0; i < 20 * STANDBY_NOTED_PLACES; i++) {
		other.tcp_sequence++;
		standby_note(&noted, &other);
		assert_true(standby_is_noted(&noted, &other));
	}
	assert_false(standby_is_noted(&noted, &syn[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_idle, start),
		cmocka_unit_test_setup(test_busy, start),
		cmocka_unit_test_setup(test_still, start),
		cmocka_unit_test_setup(test_now_and_then, start),
		cmocka_unit_test_setup(test_since_empty, start),
		cmocka_unit_test(test_comes_out),
		cmocka_unit_test(test_comes_out_to_the_alias),
		cmocka_unit_test(test_of_nobody),
		cmocka_unit_test(test_of_others),
		cmocka_unit_test(test_of_damaged),
		cmocka_unit_test(test_of_options),
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_congestion),
		cmocka_unit_test(test_noted),
	};

	return cmocka_run_group_tests_name("standby", tests, NULL, NULL);
}
