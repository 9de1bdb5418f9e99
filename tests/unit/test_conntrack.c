// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads entries of connection tracking as the kernel sends them, and broken ones. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dprd/host/conntrack.c" // NOLINT(bugprone-suspicious-include): its statics are what is tested

enum { MESSAGE_BYTES = 512 };

struct facts {
	const char *client, *service, *server;
	uint8_t protocol, state; /* state 0: without the attribute */
	uint32_t status;
};

static const struct facts good_v4 = { .client = "198.51.100.7",
				      .service = "192.0.2.11",
				      .server = "172.17.0.2",
				      .protocol = IPPROTO_TCP,
				      .state = TCP_CONNTRACK_ESTABLISHED,
				      .status = IPS_DST_NAT | IPS_ASSURED | IPS_CONFIRMED | IPS_SEEN_REPLY };

static struct addr address(const char *text)
{
	struct addr parsed;

	assert_true(addr_parse(text, &parsed));
	return parsed;
}

static void put_address(struct nlmsghdr *message, unsigned v4, unsigned v6, const char *text)
{
	struct addr from = address(text);

	if (addr_is_v4(&from))
		mnl_attr_put_u32(message, (uint16_t)v4, addr_v4(&from));
	else
		mnl_attr_put(message, (uint16_t)v6, sizeof(from.bytes), from.bytes);
}

static void put_tuple(struct nlmsghdr *message, unsigned type, const char *source, const char *destination,
		      const struct facts *facts)
{
	struct nlattr *tuple = mnl_attr_nest_start(message, (uint16_t)type);
	struct nlattr *ip = mnl_attr_nest_start(message, CTA_TUPLE_IP), *proto;

	put_address(message, CTA_IP_V4_SRC, CTA_IP_V6_SRC, source);
	put_address(message, CTA_IP_V4_DST, CTA_IP_V6_DST, destination);
	mnl_attr_nest_end(message, ip);
	proto = mnl_attr_nest_start(message, CTA_TUPLE_PROTO);
	mnl_attr_put_u8(message, CTA_PROTO_NUM, facts->protocol);
	mnl_attr_put_u16(message, CTA_PROTO_SRC_PORT, htons(type == CTA_TUPLE_ORIG ? 40000 : 8080));
	mnl_attr_put_u16(message, CTA_PROTO_DST_PORT, htons(type == CTA_TUPLE_ORIG ? 80 : 40000));
	mnl_attr_nest_end(message, proto);
	mnl_attr_nest_end(message, tuple);
}

/* As the kernel sends it. */
static struct nlmsghdr *make(void *bytes, const struct facts *facts)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(bytes);
	struct nlattr *info, *tcp;

	mnl_nlmsg_put_extra_header(message, sizeof(struct nfgenmsg));
	put_tuple(message, CTA_TUPLE_ORIG, facts->client, facts->service, facts);
	put_tuple(message, CTA_TUPLE_REPLY, facts->server, facts->client, facts);
	mnl_attr_put_u32(message, CTA_STATUS, htonl(facts->status));
	if (facts->state) {
		info = mnl_attr_nest_start(message, CTA_PROTOINFO);
		tcp = mnl_attr_nest_start(message, CTA_PROTOINFO_TCP);
		mnl_attr_put_u8(message, CTA_PROTOINFO_TCP_STATE, facts->state);
		mnl_attr_nest_end(message, tcp);
		mnl_attr_nest_end(message, info);
	}
	return message;
}

/* True when it is one of the wanted connections. */
static bool is_taken(const struct facts *facts, struct conntrack_entry *ret)
{
	_Alignas(struct nlmsghdr) uint8_t bytes[MESSAGE_BYTES];

	return read_entry(make(bytes, facts), ret);
}

static void families(void **state)
{
	struct facts v6 = good_v4;
	struct conntrack_entry entry;
	struct addr expected;

	(void)state;
	assert_true(is_taken(&good_v4, &entry));
	assert_true(entry.open);
	assert_int_equal(ntohs(entry.port), 80);
	expected = address("192.0.2.11");
	assert_true(addr_equal(&entry.service, &expected));
	expected = address("172.17.0.2");
	assert_true(addr_equal(&entry.server, &expected));
	v6.client = "2001:db8:2::7";
	v6.service = "2001:db8:a::11";
	v6.server = "fd17::2";
	assert_true(is_taken(&v6, &entry));
	expected = address("2001:db8:a::11");
	assert_true(addr_equal(&entry.service, &expected));
	expected = address("fd17::2");
	assert_true(addr_equal(&entry.server, &expected));
}

static void states(void **state)
{
	static const uint8_t open[] = { TCP_CONNTRACK_ESTABLISHED, TCP_CONNTRACK_FIN_WAIT, TCP_CONNTRACK_CLOSE_WAIT,
					TCP_CONNTRACK_LAST_ACK };
	static const uint8_t over[] = { 0, TCP_CONNTRACK_SYN_SENT, TCP_CONNTRACK_SYN_RECV, TCP_CONNTRACK_TIME_WAIT,
					TCP_CONNTRACK_CLOSE };
	struct facts facts = good_v4;
	struct conntrack_entry entry;

	(void)state;
	for (unsigned i = 0; i < sizeof(open); i++) {
		facts.state = open[i];
		assert_true(is_taken(&facts, &entry));
		assert_true(entry.open);
	}
	for (unsigned i = 0; i < sizeof(over); i++) {
		facts.state = over[i];
		assert_true(is_taken(&facts, &entry));
		assert_false(entry.open);
	}
}

/* Old kernels send all entries. */
static void others(void **state)
{
	struct facts facts = good_v4;
	struct conntrack_entry entry;

	(void)state;
	facts.protocol = IPPROTO_UDP;
	assert_false(is_taken(&facts, &entry));
	facts = good_v4;
	facts.status = IPS_SRC_NAT | IPS_ASSURED | IPS_CONFIRMED;
	assert_false(is_taken(&facts, &entry));
	facts.status = IPS_DST_NAT | IPS_CONFIRMED | IPS_SEEN_REPLY;
	assert_false(is_taken(&facts, &entry));
}

/* Without any of its parts the message says nothing of an open connection; its last bytes are padding. */
static void cut_off(void **state)
{
	_Alignas(struct nlmsghdr) uint8_t bytes[MESSAGE_BYTES], part[MESSAGE_BYTES];
	struct nlmsghdr *message = make(bytes, &good_v4);
	struct conntrack_entry entry;

	(void)state;
	for (uint32_t length = sizeof(*message); length + MNL_ALIGNTO <= message->nlmsg_len; length++) {
		memset(part, 0, sizeof(part));
		memcpy(part, bytes, length);
		((struct nlmsghdr *)part)->nlmsg_len = length;
		if (read_entry((struct nlmsghdr *)part, &entry))
			assert_false(entry.open);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(families), cmocka_unit_test(states),
					    cmocka_unit_test(others), cmocka_unit_test(cut_off) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
