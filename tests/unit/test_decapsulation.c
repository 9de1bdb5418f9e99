// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Packets that may come out of a tunnel, byte by byte, and the expected reason of each. This node has cluster addresses
 * 172.16.0.1 and fd00::1; living peers are member 1 (172.16.0.2, fd00::2; services 10.0.0.2 and 2001:db8::2, port 80)
 * and member 2 (.3, ::3; 10.0.0.3 ...). All share 10.0.1.1 and 2001:db8:1::1.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/core/decide/decide.h"
#include "dprd/core/packet/probe.h"

enum { FIRST_ID = 100, MEMBERS = 3, SEED = 20260103 };

static bool reached[REASONS];
static bool alive[MEMBERS];
static uint64_t random_state;

static uint64_t next_random(void)
{
	return policy_mix(random_state++);
}

static struct addr address(const char *text)
{
	struct addr a = { 0 };

	assert_true(addr_parse(text, &a));
	return a;
}

static struct decap_env decap;

static int ends_in(const struct addr *a, const char *v4, const char *v6)
{
	struct addr first_v4 = address(v4), first_v6 = address(v6);
	int last = a->bytes[15];

	if (memcmp(a->bytes, first_v4.bytes, 15) == 0 || memcmp(a->bytes, first_v6.bytes, 15) == 0)
		return last >= 1 && last <= MEMBERS ? last - 1 : -1;
	return -1;
}

static int service_owner(void *context, const struct addr *service, be16 port)
{
	(void)context;
	if (ends_in(service, "10.0.1.0", "2001:db8:1::") == 0)
		return !port || port == htons(80) ? (int)DECAP_OWNER_ALL : -1;
	return !port || port == htons(80) ? ends_in(service, "10.0.0.0", "2001:db8::") : -1;
}

static int living_peer(void *context, const struct addr *cluster)
{
	int member = ends_in(cluster, "172.16.0.0", "fd00::");

	(void)context;
	return member > 0 && alive[member] ? member : -1;
}

static bool is_cluster_address(void *context, const struct addr *a)
{
	(void)context;
	return ends_in(a, "172.16.0.0", "fd00::") >= 0 || ends_in(a, "10.0.0.0", "2001:db8::") >= 0;
}

static bool is_own_cluster_address(void *context, const struct addr *a)
{
	(void)context;
	return ends_in(a, "172.16.0.0", "fd00::") == 0;
}

static uint32_t member_node_id(void *context, int member)
{
	(void)context;
	return FIRST_ID + (uint32_t)member;
}

/* Bytes of an IP header; returns its length. */
static unsigned put_ip(uint8_t *at, const char *source, const char *destination, uint8_t protocol, unsigned payload)
{
	struct addr from = address(source), to = address(destination);

	if (strchr(source, ':')) {
		memset(at, 0, IPV6_HEADER_BYTES);
		at[0] = 0x60;
		write_be16(at + 4, payload);
		at[6] = protocol;
		at[7] = 64;
		memcpy(at + 8, from.bytes, 16);
		memcpy(at + 24, to.bytes, 16);
		return IPV6_HEADER_BYTES;
	}
	memset(at, 0, IPV4_HEADER_BYTES);
	at[0] = 0x45;
	write_be16(at + 2, IPV4_HEADER_BYTES + payload);
	at[8] = 64;
	at[9] = protocol;
	memcpy(at + 12, from.bytes + 12, 4);
	memcpy(at + 16, to.bytes + 12, 4);
	return IPV4_HEADER_BYTES;
}

static unsigned put_tcp(uint8_t *at, uint16_t from, uint16_t to, uint8_t flags)
{
	memset(at, 0, TCP_HEADER_BYTES);
	write_be16(at, from);
	write_be16(at + 2, to);
	at[12] = 5 << 4;
	at[13] = flags;
	return TCP_HEADER_BYTES;
}

struct tunnelled {
	const char *outer_from, *outer_to, *from, *to;
	uint16_t port;
	uint8_t flags;
};

/* Outer header, inner header, TCP header, two bytes of data. Returns the length of all. */
static unsigned put_tunnelled(uint8_t *bytes, const struct tunnelled *t)
{
	unsigned inner = (strchr(t->from, ':') ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES) + TCP_HEADER_BYTES + 2;
	uint8_t protocol = strchr(t->outer_from, ':') ? PROTO_IPV6 : PROTO_IPIP;
	unsigned used = put_ip(bytes, t->outer_from, t->outer_to, protocol, inner);

	used += put_ip(bytes + used, t->from, t->to, PROTO_TCP, TCP_HEADER_BYTES + 2);
	used += put_tcp(bytes + used, 40000, t->port, t->flags);
	memset(bytes + used, 'x', 2);
	return used + 2;
}

static struct verdict decapsulate(const uint8_t *bytes, unsigned length, struct packet *inner)
{
	struct packet outer;
	struct verdict v;

	packet_parse(bytes, length, &outer);
	v = decide_decapsulation(&decap, &outer, inner);
	/* A returned SYN has the reason with which it is dropped when it is not decided again. */
	assert_int_equal(v.kind, v.reason == REASON_RETURNED_LATE ? VERDICT_RETURNED : reason_kind(v.reason));
	assert_int_equal(v.node_id != 0, v.kind == VERDICT_DECAPSULATE || v.kind == VERDICT_RETURNED);
	reached[v.reason] = true;
	return v;
}

static void assert_decapsulation(const uint8_t *bytes, unsigned length, enum reason reason)
{
	/* The copy has exactly this size, so that the sanitizer sees reads behind it. */
	uint8_t *exact = malloc(length);
	struct packet inner;
	struct verdict v;

	assert_non_null(exact);
	memcpy(exact, bytes, length);
	v = decapsulate(exact, length, &inner);
	assert_string_equal(reason_name(v.reason), reason_name(reason));
	if (v.kind == VERDICT_DECAPSULATE)
		assert_true(inner.key.service_port == htons(80) || !(inner.tcp_flags & TCP_SYN) ||
			    v.reason == REASON_PROBE);
	free(exact);
}

static int start(void **context)
{
	(void)context;
	random_state = policy_mix(SEED);
	memset(alive, true, sizeof(alive));
	decap = (struct decap_env) {
		.service_owner = service_owner,
		.living_peer = living_peer,
		.is_cluster_address = is_cluster_address,
		.is_own_cluster_address = is_own_cluster_address,
		.member_node_id = member_node_id,
		.self = 0,
	};
	return 0;
}

#define CLIENT "192.0.2.9"
#define CLIENT6 "2001:db8:1::9"

static const struct {
	struct tunnelled t;
	enum reason reason;
} decap_cases[] = {
	{ { "172.16.0.2", "172.16.0.1", CLIENT, "10.0.0.2", 80, TCP_SYN }, REASON_FROM_PEER },
	{ { "172.16.0.3", "172.16.0.1", CLIENT, "10.0.0.3", 80, TCP_ACK }, REASON_FROM_PEER },
	{ { "fd00::2", "fd00::1", CLIENT6, "2001:db8::2", 80, TCP_SYN }, REASON_FROM_PEER },
	/* To an address that all share: any peer may send, and no SYN to it counts as sent back. */
	{ { "172.16.0.2", "172.16.0.1", CLIENT, "10.0.1.1", 80, TCP_SYN }, REASON_FROM_PEER },
	{ { "172.16.0.3", "172.16.0.1", CLIENT, "10.0.1.1", 80, TCP_ACK }, REASON_FROM_PEER },
	{ { "fd00::3", "fd00::1", CLIENT6, "2001:db8:1::1", 80, TCP_SYN }, REASON_FROM_PEER },
	{ { "172.16.0.9", "172.16.0.1", CLIENT, "10.0.1.1", 80, TCP_SYN }, REASON_NOT_PEER },
	{ { "172.16.0.2", "172.16.0.1", CLIENT, "10.0.1.1", 22, TCP_SYN }, REASON_INNER_FOREIGN },
	/* The sender and the receiver. */
	{ { "172.16.0.9", "172.16.0.1", CLIENT, "10.0.0.2", 80, TCP_SYN }, REASON_NOT_PEER },
	{ { "172.16.0.1", "172.16.0.1", CLIENT, "10.0.0.1", 80, TCP_SYN }, REASON_NOT_PEER },
	{ { "10.0.0.2", "172.16.0.1", CLIENT, "10.0.0.2", 80, TCP_SYN }, REASON_NOT_PEER },
	{ { "fd00::9", "fd00::1", CLIENT6, "2001:db8::2", 80, TCP_SYN }, REASON_NOT_PEER },
	{ { "172.16.0.2", "10.0.0.1", CLIENT, "10.0.0.2", 80, TCP_SYN }, REASON_NOT_TO_US },
	{ { "172.16.0.2", "172.16.0.3", CLIENT, "10.0.0.2", 80, TCP_SYN }, REASON_NOT_TO_US },
	{ { "fd00::2", "fd00::3", CLIENT6, "2001:db8::2", 80, TCP_SYN }, REASON_NOT_TO_US },
	/* The service. */
	{ { "172.16.0.2", "172.16.0.1", CLIENT, "10.0.0.2", 22, TCP_SYN }, REASON_INNER_FOREIGN },
	{ { "172.16.0.2", "172.16.0.1", CLIENT, "10.0.0.2", 22, TCP_SYN | TCP_ACK }, REASON_INNER_FOREIGN },
	{ { "172.16.0.2", "172.16.0.1", CLIENT, "10.0.0.2", 22, TCP_SYN | TCP_FIN }, REASON_INNER_FOREIGN },
	{ { "172.16.0.2", "172.16.0.1", CLIENT, "10.0.0.2", 0, TCP_SYN }, REASON_INNER_FOREIGN },
	/* Within a connection that began when the port was a service. */
	{ { "172.16.0.2", "172.16.0.1", CLIENT, "10.0.0.2", 22, TCP_ACK }, REASON_FROM_PEER },
	{ { "172.16.0.2", "172.16.0.1", CLIENT, "10.0.0.9", 22, TCP_ACK }, REASON_INNER_FOREIGN },
	{ { "172.16.0.2", "172.16.0.1", CLIENT, "10.0.0.3", 22, TCP_ACK }, REASON_INNER_NOT_SENDERS },
	{ { "172.16.0.2", "172.16.0.1", CLIENT, "10.0.0.9", 80, TCP_SYN }, REASON_INNER_FOREIGN },
	{ { "172.16.0.2", "172.16.0.1", CLIENT, "172.16.0.1", 80, TCP_SYN }, REASON_INNER_FOREIGN },
	{ { "172.16.0.2", "172.16.0.1", CLIENT, "127.0.0.1", 80, TCP_SYN }, REASON_INNER_FOREIGN },
	{ { "fd00::2", "fd00::1", CLIENT6, "::1", 80, TCP_SYN }, REASON_INNER_FOREIGN },
	{ { "172.16.0.2", "172.16.0.1", CLIENT, "10.0.0.1", 80, TCP_ACK }, REASON_INNER_NOT_SENDERS },
	{ { "172.16.0.2", "172.16.0.1", CLIENT, "10.0.0.1", 80, TCP_SYN | TCP_ACK }, REASON_INNER_NOT_SENDERS },
	{ { "172.16.0.2", "172.16.0.1", CLIENT, "10.0.0.3", 80, TCP_SYN }, REASON_INNER_NOT_SENDERS },
	{ { "fd00::3", "fd00::1", CLIENT6, "2001:db8::2", 80, TCP_SYN }, REASON_INNER_NOT_SENDERS },
	/* Our own clients' SYNs come back, but from peers only, and to our services only. */
	{ { "172.16.0.2", "172.16.0.1", CLIENT, "10.0.0.1", 80, TCP_SYN }, REASON_RETURNED_LATE },
	{ { "fd00::2", "fd00::1", CLIENT6, "2001:db8::1", 80, TCP_SYN }, REASON_RETURNED_LATE },
	{ { "172.16.0.9", "172.16.0.1", CLIENT, "10.0.0.1", 80, TCP_SYN }, REASON_NOT_PEER },
	{ { "172.16.0.2", "172.16.0.1", CLIENT, "10.0.0.1", 22, TCP_SYN }, REASON_INNER_FOREIGN },
	{ { "172.16.0.2", "172.16.0.1", "172.16.0.3", "10.0.0.1", 80, TCP_SYN }, REASON_INNER_SOURCE },
	/* The client. */
	{ { "172.16.0.2", "172.16.0.1", "10.0.0.1", "10.0.0.2", 80, TCP_SYN }, REASON_INNER_SOURCE },
	{ { "172.16.0.2", "172.16.0.1", "172.16.0.3", "10.0.0.2", 80, TCP_SYN }, REASON_INNER_SOURCE },
	{ { "172.16.0.2", "172.16.0.1", "127.0.0.1", "10.0.0.2", 80, TCP_SYN }, REASON_INNER_SOURCE },
	{ { "172.16.0.2", "172.16.0.1", "0.0.0.0", "10.0.0.2", 80, TCP_SYN }, REASON_INNER_SOURCE },
	{ { "172.16.0.2", "172.16.0.1", "224.0.0.1", "10.0.0.2", 80, TCP_SYN }, REASON_INNER_SOURCE },
	{ { "172.16.0.2", "172.16.0.1", "255.255.255.255", "10.0.0.2", 80, TCP_SYN }, REASON_INNER_SOURCE },
	{ { "fd00::2", "fd00::1", "::1", "2001:db8::2", 80, TCP_SYN }, REASON_INNER_SOURCE },
	{ { "fd00::2", "fd00::1", "::", "2001:db8::2", 80, TCP_SYN }, REASON_INNER_SOURCE },
	{ { "fd00::2", "fd00::1", "ff02::1", "2001:db8::2", 80, TCP_SYN }, REASON_INNER_SOURCE },
	{ { "fd00::2", "fd00::1", "fd00::3", "2001:db8::2", 80, TCP_SYN }, REASON_INNER_SOURCE },
	/* IPv6 headers that speak of IPv4 addresses. */
	{ { "fd00::2", "fd00::1", "::ffff:192.0.2.9", "2001:db8::2", 80, TCP_SYN }, REASON_INNER_SOURCE },
	{ { "fd00::2", "fd00::1", CLIENT6, "::ffff:10.0.0.2", 80, TCP_SYN }, REASON_INNER_FOREIGN },
	/* One family within the other. */
	{ { "172.16.0.2", "172.16.0.1", CLIENT6, "2001:db8::2", 80, TCP_SYN }, REASON_INNER_BAD },
	{ { "fd00::2", "fd00::1", CLIENT, "10.0.0.2", 80, TCP_SYN }, REASON_INNER_BAD },
};

static void test_decapsulation(void **context)
{
	uint8_t bytes[256];

	(void)context;
	for (unsigned i = 0; i < sizeof(decap_cases) / sizeof(decap_cases[0]); i++) {
		unsigned length = put_tunnelled(bytes, &decap_cases[i].t);

		print_message("         case %u\n", i);
		assert_decapsulation(bytes, length, decap_cases[i].reason);
	}
	alive[1] = false;
	assert_decapsulation(bytes, put_tunnelled(bytes, &decap_cases[0].t), REASON_NOT_PEER);
	assert_decapsulation(bytes, put_tunnelled(bytes, &decap_cases[1].t), REASON_FROM_PEER);
}

/* The same as a probe: between two discard ports. */
static void assert_probe(const struct tunnelled *t, enum reason reason)
{
	uint8_t bytes[256];
	unsigned length = put_tunnelled(bytes, t);

	write_be16(bytes + length - 2 - TCP_HEADER_BYTES, PROBE_PORT);
	assert_decapsulation(bytes, length, reason);
}

/* A probe comes from a peer only, to an address of that peer; its source may be the peer itself. */
static void test_probe(void **context)
{
	uint8_t bytes[256];

	(void)context;
#define PROBE(outer, from, to) &(struct tunnelled) { outer, "172.16.0.1", from, to, PROBE_PORT, TCP_SYN }
	assert_probe(PROBE("172.16.0.2", CLIENT, "10.0.0.2"), REASON_PROBE);
	assert_probe(PROBE("172.16.0.2", "172.16.0.2", "10.0.0.2"), REASON_PROBE);
	assert_probe(PROBE("172.16.0.2", "10.0.0.2", "10.0.0.2"), REASON_PROBE);
	assert_probe(PROBE("172.16.0.2", "127.0.0.1", "10.0.0.2"), REASON_INNER_SOURCE);
	assert_probe(PROBE("172.16.0.2", CLIENT, "10.0.0.3"), REASON_INNER_NOT_SENDERS);
	assert_probe(PROBE("172.16.0.2", CLIENT, "10.0.0.1"), REASON_INNER_NOT_SENDERS);
	assert_probe(PROBE("172.16.0.2", CLIENT, "10.0.0.9"), REASON_INNER_FOREIGN);
	assert_probe(PROBE("172.16.0.9", CLIENT, "10.0.0.2"), REASON_NOT_PEER);
	assert_probe(&(struct tunnelled) { "fd00::2", "fd00::1", "fd00::2", "2001:db8::2", PROBE_PORT, TCP_SYN },
		     REASON_PROBE);
	/* It may wait: it answers for no client. */
	decap.maybe_stale = true;
	assert_probe(PROBE("172.16.0.2", CLIENT, "10.0.0.2"), REASON_PROBE);
	decap.maybe_stale = false;
	/* From another port it is a SYN to no service; and what looks like one within a connection is none. */
	assert_decapsulation(bytes, put_tunnelled(bytes, PROBE("172.16.0.2", CLIENT, "10.0.0.2")),
			     REASON_INNER_FOREIGN);
	assert_probe(&(struct tunnelled) { "172.16.0.2", "172.16.0.1", CLIENT, "10.0.0.2", PROBE_PORT, TCP_ACK },
		     REASON_FROM_PEER);
#undef PROBE
}

static void test_stale_tunnel(void **context)
{
	uint8_t bytes[256];

	(void)context;
	decap.maybe_stale = true;
	assert_decapsulation(bytes, put_tunnelled(bytes, &decap_cases[0].t), REASON_STALE_TUNNEL_SYN);
	assert_decapsulation(bytes,
			     put_tunnelled(bytes, &(struct tunnelled) { "172.16.0.2", "172.16.0.1", CLIENT, "10.0.0.1",
									80, TCP_SYN }),
			     REASON_STALE_TUNNEL_SYN);
	assert_decapsulation(bytes, put_tunnelled(bytes, &decap_cases[1].t), REASON_FROM_PEER);
}

/* One byte or field of a good packet changed; offsets within the inner packet. */
static void test_inner_shape(void **context)
{
	uint8_t good[256], bytes[256];
	unsigned length = put_tunnelled(good, &decap_cases[0].t);
	uint8_t *inner = bytes + IPV4_HEADER_BYTES;

	(void)context;
#define CHANGED(change, reason)                              \
	do {                                                 \
		memcpy(bytes, good, sizeof(bytes));          \
		change;                                      \
		assert_decapsulation(bytes, length, reason); \
	} while (0)
	CHANGED((void)inner, REASON_FROM_PEER);
	CHANGED(inner[0] = 0x46, REASON_INNER_BAD); /* options */
	CHANGED(inner[0] = 0x44, REASON_INNER_BAD);
	CHANGED(inner[0] = 0x75, REASON_INNER_BAD);
	CHANGED(inner[6] = 0x20, REASON_INNER_BAD); /* more fragments */
	CHANGED(inner[7] = 0x01, REASON_INNER_BAD);
	CHANGED(inner[3] += 1, REASON_INNER_BAD); /* cut */
	CHANGED(inner[3] -= 1, REASON_INNER_BAD); /* something behind it */
	CHANGED(inner[3] = 19, REASON_INNER_BAD);
	CHANGED(inner[IPV4_HEADER_BYTES + 12] = 4 << 4, REASON_INNER_BAD);
	CHANGED(inner[IPV4_HEADER_BYTES + 12] = 6 << 4, REASON_INNER_BAD);
	CHANGED(inner[8] = 1, REASON_FROM_PEER);
	CHANGED(inner[8] = 0, REASON_INNER_BAD); /* no hop left */
	CHANGED(inner[9] = PROTO_IPIP, REASON_INNER_NESTED);
	CHANGED(inner[9] = 17, REASON_INNER_FOREIGN);
	CHANGED(inner[9] = PROTO_ICMP, REASON_INNER_FOREIGN);
	/* The outer header. */
	CHANGED(bytes[6] = 0x20, REASON_INNER_BAD);
	CHANGED(bytes[0] = 0x46, REASON_INNER_BAD);
	CHANGED(bytes[9] = PROTO_TCP, REASON_INNER_BAD);
	for (unsigned cut = 1; cut < length; cut++)
		assert_decapsulation(good, cut, REASON_INNER_BAD);
#undef CHANGED
}

/* TCP with IP options within: no node sends it. */
static void test_inner_options(void **context)
{
	uint8_t good[256], bytes[256];
	unsigned length = put_tunnelled(good, &decap_cases[0].t), tcp = 2 * IPV4_HEADER_BYTES;

	(void)context;
	memcpy(bytes, good, tcp);
	memset(bytes + tcp, 1, 8);
	memcpy(bytes + tcp + 8, good + tcp, length - tcp);
	bytes[IPV4_HEADER_BYTES] = 0x47;
	write_be16(bytes + 2, length + 8);
	write_be16(bytes + IPV4_HEADER_BYTES + 2, length + 8 - IPV4_HEADER_BYTES);
	assert_decapsulation(bytes, length + 8, REASON_INNER_BAD);
	bytes[tcp] = IPV4_LOOSE_ROUTE;
	bytes[tcp + 1] = 7;
	assert_decapsulation(bytes, length + 8, REASON_INNER_BAD);
}

/* An ICMP error about a flow of member 1's service, relayed by it: from router, about the quoted packet. */
static unsigned put_icmp(uint8_t *bytes, const char *router, const char *client, const char *service, uint16_t port)
{
	unsigned quoted = IPV4_HEADER_BYTES + ICMP_QUOTED_TCP_BYTES;
	unsigned used =
		put_ip(bytes, "172.16.0.2", "172.16.0.1", PROTO_IPIP, IPV4_HEADER_BYTES + ICMP_HEADER_BYTES + quoted);

	used += put_ip(bytes + used, router, service, PROTO_ICMP, ICMP_HEADER_BYTES + quoted);
	memset(bytes + used, 0, ICMP_HEADER_BYTES);
	bytes[used] = 3;
	bytes[used + 1] = 4;
	used += ICMP_HEADER_BYTES;
	used += put_ip(bytes + used, service, client, PROTO_TCP, 1400);
	put_tcp(bytes + used, port, 40000, TCP_ACK);
	return used + ICMP_QUOTED_TCP_BYTES;
}

static void test_inner_icmp(void **context)
{
	uint8_t bytes[256];

	(void)context;
	assert_decapsulation(bytes, put_icmp(bytes, "198.51.100.1", CLIENT, "10.0.0.2", 80), REASON_FROM_PEER);
	/* About a connection that began when the port was a service. */
	assert_decapsulation(bytes, put_icmp(bytes, "198.51.100.1", CLIENT, "10.0.0.2", 22), REASON_FROM_PEER);
	assert_decapsulation(bytes, put_icmp(bytes, "198.51.100.1", CLIENT, "10.0.0.2", 0), REASON_INNER_FOREIGN);
	assert_decapsulation(bytes, put_icmp(bytes, "198.51.100.1", CLIENT, "10.0.0.9", 80), REASON_INNER_FOREIGN);
	assert_decapsulation(bytes, put_icmp(bytes, "198.51.100.1", CLIENT, "10.0.0.3", 80), REASON_INNER_NOT_SENDERS);
	assert_decapsulation(bytes, put_icmp(bytes, "172.16.0.3", CLIENT, "10.0.0.2", 80), REASON_INNER_SOURCE);
	assert_decapsulation(bytes, put_icmp(bytes, "198.51.100.1", "10.0.0.3", "10.0.0.2", 80), REASON_INNER_SOURCE);
}

/* Random bytes behind a good outer header: a refusal, or the bytes of a packet to a service; nothing read out of bounds. */
static void test_inner_random(void **context)
{
	const struct addr service = address("10.0.0.2"), own = address("10.0.0.1");
	uint8_t bytes[128];
	unsigned accepted = 0;

	(void)context;
	for (unsigned round = 0; round < 200000; round++) {
		unsigned length = put_tunnelled(bytes, &decap_cases[0].t);
		uint8_t *exact = malloc(length);
		struct packet inner;
		struct verdict v;

		assert_non_null(exact);
		for (unsigned change = 1 + next_random() % 3; change; change--)
			bytes[IPV4_HEADER_BYTES + next_random() % (length - IPV4_HEADER_BYTES)] =
				(uint8_t)next_random();
		memcpy(exact, bytes, length);
		v = decapsulate(exact, length, &inner);
		if (v.kind == VERDICT_DECAPSULATE) {
			assert_true(addr_equal(&inner.key.service, &service));
			assert_int_equal(inner.total_bytes, length - IPV4_HEADER_BYTES);
			accepted++;
		} else if (v.kind == VERDICT_RETURNED) {
			assert_true(addr_equal(&inner.key.service, &own));
		} else {
			assert_int_equal(v.kind, VERDICT_DROP);
		}
		free(exact);
	}
	print_message("         %u of 200000 accepted, seed %d\n", accepted, SEED);
	assert_in_range(accepted, 1000, 199000);
}

/* Runs last: a reason that no test above reached is either not tested or not reachable. */
static void test_every_reason(void **context)
{
	static const enum reason ours[] = {
		REASON_FROM_PEER,         REASON_NOT_PEER,      REASON_NOT_TO_US,    REASON_INNER_FOREIGN,
		REASON_INNER_NOT_SENDERS, REASON_INNER_SOURCE,  REASON_INNER_NESTED, REASON_INNER_BAD,
		REASON_STALE_TUNNEL_SYN,  REASON_RETURNED_LATE, REASON_PROBE,
	};
	unsigned count = 0;

	(void)context;
	for (unsigned i = 0; i < REASONS; i++)
		count += reached[i];
	assert_int_equal(count, sizeof(ours) / sizeof(ours[0]));
	for (unsigned i = 0; i < count; i++)
		assert_true(reached[ours[i]]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_decapsulation, start), cmocka_unit_test_setup(test_probe, start),
		cmocka_unit_test_setup(test_stale_tunnel, start),  cmocka_unit_test_setup(test_inner_shape, start),
		cmocka_unit_test_setup(test_inner_icmp, start),    cmocka_unit_test_setup(test_inner_options, start),
		cmocka_unit_test_setup(test_inner_random, start),  cmocka_unit_test(test_every_reason),
	};

	return cmocka_run_group_tests_name("decapsulation", tests, NULL, NULL);
}
