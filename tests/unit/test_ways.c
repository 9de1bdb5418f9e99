// SPDX-License-Identifier: GPL-2.0-or-later
/* ways.c makes the way to a node from the configuration and from what the kernel says about the path. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "dprd/cluster/ways.h"
#include "dprd/core/packet/encap.h"

enum { N1, N2, N3, V4 = 0, V6, TCP_IP_V4 = 40, TCP_IP_V6 = 60, NAT = 0, DIRECT, TUNNEL };

static const char members[] = "[Cluster]\nName=web\n[Node]\nName=n1\n"
			      "[Member \"n1\"]\nService=192.0.2.11 2001:db8::11\nCluster=10.0.0.11 fd00::11\n"
			      "[Member \"n2\"]\nService=192.0.2.12 2001:db8::12\nCluster=10.0.0.12 fd00::12\n"
			      "[Member \"n3\"]\nService=192.0.2.13\nCluster=10.0.0.13\n";
static const char backends[] = "[Backend \"a\"]\nAddress=10.1.0.21\nForm=nat\n"
			       "[Backend \"b\"]\nAddress=10.1.0.22 fd01::22\nForm=direct\n"
			       "[Backend \"c\"]\nAddress=10.1.0.23 fd01::23\nForm=tunnel\n";
static const struct neighbour on_link = {
	.interface = 3, .ethernet = true, .known = true, .hardware = { 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1 }
};

static struct config config, former;
static struct ways ways;

static void configure(const char *first, const char *second)
{
	static struct config_errors errors;
	char text[2048];

	assert_true(sodium_init() >= 0);
	snprintf(text, sizeof(text), "%s%s", first, second);
	if (config_parse("test.conf", text, strlen(text), NULL, &config, &errors))
		fail_msg("%s", errors.text[0]);
}

static int start(void **context)
{
	(void)context;
	memset(&ways, 0, sizeof(ways));
	configure(members, "");
	return 0;
}

static struct addr address(const char *text)
{
	struct addr a;

	assert_true(addr_parse(text, &a));
	return a;
}

static struct way member_way(unsigned member, bool v6, unsigned mtu, const struct neighbour *next_hop)
{
	const struct way_facts facts = { .mtu = mtu, .next_hop = next_hop ? *next_hop : (struct neighbour) { 0 } };

	return way_to_member(&config, member, v6, &facts);
}

static struct way backend_way(unsigned own, bool v6, unsigned mtu, const struct neighbour *next_hop)
{
	const struct way_facts facts = { .mtu = mtu,
					 .source = address(v6 ? "fd01::1" : "10.1.0.1"),
					 .next_hop = next_hop ? *next_hop : (struct neighbour) { 0 } };

	return way_to_backend(&config, own, v6, &facts);
}

static void assert_sizes(const struct way *way, unsigned mtu, unsigned inner, unsigned tunnel, unsigned mss)
{
	assert_int_equal(way->mtu, mtu);
	assert_int_equal(way->inner_mtu, inner);
	assert_int_equal(way->tunnel_mtu, tunnel);
	assert_int_equal(way->mss, mss);
}

static void assert_no_way(const struct way *way)
{
	assert_int_equal(way->form, WAY_FORM_NONE);
	assert_false(way_is_usable(way));
	assert_sizes(way, way->mtu, 0, 0, 0);
}

static void test_tunnel(void **context)
{
	struct way way = member_way(N2, V4, 1500, &on_link);
	const struct addr from4 = address("10.0.0.11"), to4 = address("10.0.0.12"), from6 = address("fd00::11"),
			  to6 = address("fd00::12");

	(void)context;
	assert_int_equal(way.form, WAY_FORM_TUNNEL);
	assert_true(way_is_usable(&way));
	assert_true(addr_equal(&way.source, &from4));
	assert_true(addr_equal(&way.destination, &to4));
	assert_memory_equal(way.next_hop.hardware, on_link.hardware, sizeof(on_link.hardware));
	assert_sizes(&way, 1500, 1480, 1480, 1480 - TCP_IP_V4);
	way = member_way(N2, V6, 1500, &on_link);
	assert_int_equal(way.form, WAY_FORM_TUNNEL);
	assert_true(addr_equal(&way.source, &from6));
	assert_true(addr_equal(&way.destination, &to6));
	assert_sizes(&way, 1500, 1460, 1460, 1460 - TCP_IP_V6);
	/* The next hop does not answer: new connections do not go there. */
	assert_true(way_takes_new(&way));
	way.next_hop.unanswered = true;
	assert_true(way_is_usable(&way));
	assert_false(way_takes_new(&way));
	/* Without a next hop the kernel routes. */
	way = member_way(N2, V4, 1500, NULL);
	assert_int_equal(way.form, WAY_FORM_TUNNEL);
	assert_sizes(&way, 1500, 1480, 1480, 1480 - TCP_IP_V4);
}

/* Just wide enough, and a byte less; the widest that an IP packet can be long, and wider. */
static void test_limits(void **context)
{
	struct way way;

	(void)context;
	way = member_way(N2, V4, WAY_MTU_LEAST, &on_link);
	assert_sizes(&way, 256, 236, 236, 236 - TCP_IP_V4);
	way = member_way(N2, V6, WAY_MTU_LEAST, &on_link);
	assert_sizes(&way, 256, 216, 216, 216 - TCP_IP_V6);
	way = member_way(N2, V4, WAY_MTU_LEAST - 1, &on_link);
	assert_no_way(&way);
	assert_int_equal(way.mtu, WAY_MTU_LEAST - 1);
	way = member_way(N2, V6, WAY_MTU_LEAST - 1, &on_link);
	assert_no_way(&way);
	way = member_way(N2, V4, 65535, &on_link);
	assert_sizes(&way, 65535, 65515, 65515, 65515 - TCP_IP_V4);
	way = member_way(N2, V4, 65536, &on_link);
	assert_sizes(&way, 65535, 65515, 65515, 65515 - TCP_IP_V4);
	way = member_way(N2, V6, 4000000000u, &on_link);
	assert_sizes(&way, 65535, 65495, 65495, 65495 - TCP_IP_V6);
}

static void test_none(void **context)
{
	struct way way = member_way(N2, V4, 0, NULL);

	(void)context;
	assert_no_way(&way);
	assert_int_equal(way.mtu, 0);
	/* n3 has no IPv6 address. */
	way = member_way(N3, V6, 1500, &on_link);
	assert_no_way(&way);
	way = member_way(N1, V4, 1500, &on_link);
	assert_int_equal(way.form, WAY_FORM_SELF);
	assert_false(way_is_usable(&way));
	assert_sizes(&way, 0, 0, 0, 0);
}

/* Form=direct: on a network of this node as the packet is, and by a tunnel elsewhere. */
static void test_direct(void **context)
{
	struct neighbour next_hop = on_link;
	struct way way;

	(void)context;
	configure("[Datapath]\nForm=direct\n", members);
	way = member_way(N2, V4, 1500, &next_hop);
	assert_int_equal(way.form, WAY_FORM_DIRECT);
	assert_sizes(&way, 1500, 1500, 1480, 1500 - TCP_IP_V4);
	way = member_way(N2, V6, 1500, &next_hop);
	assert_int_equal(way.form, WAY_FORM_DIRECT);
	assert_sizes(&way, 1500, 1500, 1460, 1500 - TCP_IP_V6);
	/* The kernel can ask for the hardware address: a sender that cannot uses the tunnel until it is known. */
	next_hop.known = false;
	assert_int_equal(member_way(N2, V4, 1500, &next_hop).form, WAY_FORM_DIRECT);
	next_hop = on_link;
	next_hop.gateway = true;
	way = member_way(N2, V4, 1500, &next_hop);
	assert_int_equal(way.form, WAY_FORM_TUNNEL);
	assert_sizes(&way, 1500, 1480, 1480, 1480 - TCP_IP_V4);
	next_hop = on_link;
	next_hop.ethernet = false;
	assert_int_equal(member_way(N2, V4, 1500, &next_hop).form, WAY_FORM_TUNNEL);
	assert_int_equal(member_way(N2, V4, 1500, NULL).form, WAY_FORM_TUNNEL);
	way = member_way(N2, V4, WAY_MTU_LEAST - 1, &on_link);
	assert_no_way(&way);
}

static void test_backend(void **context)
{
	const struct addr from = address("10.1.0.1"), to = address("10.1.0.23");
	struct neighbour next_hop = on_link;
	struct way way;

	(void)context;
	configure(members, backends);
	way = backend_way(TUNNEL, V4, 1500, &next_hop);
	assert_int_equal(way.form, WAY_FORM_TUNNEL);
	assert_true(addr_equal(&way.source, &from));
	assert_true(addr_equal(&way.destination, &to));
	assert_sizes(&way, 1500, 1480, 1480, 1480 - TCP_IP_V4);
	way = backend_way(TUNNEL, V6, 1500, &next_hop);
	assert_sizes(&way, 1500, 1460, 1460, 1460 - TCP_IP_V6);
	way = backend_way(TUNNEL, V4, 1500, NULL);
	assert_no_way(&way);
	way = backend_way(DIRECT, V6, 1500, &next_hop);
	assert_int_equal(way.form, WAY_FORM_DIRECT);
	assert_sizes(&way, 1500, 1500, 1460, 1500 - TCP_IP_V6);
	way = backend_way(DIRECT, V4, WAY_MTU_LEAST - 1, &next_hop);
	assert_no_way(&way);
	/* The server must get the packet itself: behind a router, or without a hardware address, it does not. */
	next_hop.gateway = true;
	way = backend_way(DIRECT, V4, 1500, &next_hop);
	assert_no_way(&way);
	next_hop = on_link;
	next_hop.known = false;
	way = backend_way(DIRECT, V4, 1500, &next_hop);
	assert_no_way(&way);
	next_hop.gateway = true;
	assert_int_equal(backend_way(TUNNEL, V4, 1500, &next_hop).form, WAY_FORM_TUNNEL);
}

/* Nothing is asked about it, and its size is the kernel's matter. */
static void test_backend_nat(void **context)
{
	struct way way;

	(void)context;
	configure(members, backends);
	way = backend_way(NAT, V4, 0, NULL);
	assert_int_equal(way.form, WAY_FORM_NAT);
	assert_true(way_is_usable(&way));
	assert_int_equal(way.mark, 1 + NAT);
	assert_sizes(&way, 0, 0, 0, 0);
	/* It has no IPv6 address: new connections go elsewhere, those that there are stay with the kernel's NAT. */
	way = backend_way(NAT, V6, 0, NULL);
	assert_int_equal(way.form, WAY_FORM_NAT);
	assert_false(way_is_usable(&way));
}

static void set(unsigned member, bool v6, unsigned mtu)
{
	ways.member[member][v6] = member_way(member, v6, mtu, &on_link);
}

/* The narrowest of all ways; with none known, what a tunnel through an Ethernet leaves. */
static void test_mss(void **context)
{
	(void)context;
	assert_int_equal(ways_mss(&ways, V4), 1500 - 20 - TCP_IP_V4);
	assert_int_equal(ways_mss(&ways, V6), 1500 - 40 - TCP_IP_V6);
	set(N3, V4, 9000);
	assert_int_equal(ways_mss(&ways, V4), 9000 - 20 - TCP_IP_V4);
	set(N2, V4, 1400);
	set(N2, V6, 9000);
	assert_int_equal(ways_mss(&ways, V4), 1400 - 20 - TCP_IP_V4);
	assert_int_equal(ways_mss(&ways, V6), 9000 - 40 - TCP_IP_V6);
	/* No connection comes by a way that is none, nor from this node itself. */
	set(N3, V4, WAY_MTU_LEAST - 1);
	set(N1, V4, 600);
	assert_int_equal(ways_mss(&ways, V4), 1400 - 20 - TCP_IP_V4);
}

/* Places in the configuration move, ways do not; but a hardware address is asked for again. */
static void test_configure(void **context)
{
	(void)context;
	set(N2, V4, 1400);
	set(N3, V4, 9000);
	former = config;
	configure("[Member \"n0\"]\nService=192.0.2.10\nCluster=10.0.0.10\n", members);
	ways_reconfigure(&ways, &config, &former);
	assert_no_way(&ways.member[0][V4]);
	assert_int_equal(ways.member[1][V4].form, WAY_FORM_SELF);
	assert_sizes(&ways.member[2][V4], 1400, 1380, 1380, 1380 - TCP_IP_V4);
	assert_int_equal(ways.member[2][V4].next_hop.interface, 0);
	assert_sizes(&ways.member[3][V4], 9000, 8980, 8980, 8980 - TCP_IP_V4);
	former = config;
	configure(members, "");
	ways_reconfigure(&ways, &config, &former);
	assert_sizes(&ways.member[N2][V4], 1400, 1380, 1380, 1380 - TCP_IP_V4);
	assert_no_way(&ways.member[3][V4]);
}

static void test_configure_backends(void **context)
{
	(void)context;
	configure(members, backends);
	ways_reconfigure(&ways, &config, NULL);
	assert_int_equal(ways.backend[NAT][V4].form, WAY_FORM_NAT);
	assert_no_way(&ways.backend[DIRECT][V4]);
	ways.backend[DIRECT][V4] = backend_way(DIRECT, V4, 1500, &on_link);
	ways.backend[TUNNEL][V6] = backend_way(TUNNEL, V6, 1400, &on_link);
	former = config;
	configure(members, "[Backend \"c\"]\nAddress=10.1.0.23 fd01::23\nForm=tunnel\n"
			   "[Backend \"b\"]\nAddress=10.1.0.22\nForm=nat\n");
	ways_reconfigure(&ways, &config, &former);
	assert_sizes(&ways.backend[0][V6], 1400, 1360, 1360, 1360 - TCP_IP_V6);
	assert_int_equal(ways.backend[0][V6].next_hop.interface, on_link.interface);
	assert_int_equal(ways.backend[1][V4].form, WAY_FORM_NAT);
	assert_int_equal(ways.backend[1][V4].mark, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_tunnel, start),
		cmocka_unit_test_setup(test_limits, start),
		cmocka_unit_test_setup(test_none, start),
		cmocka_unit_test_setup(test_direct, start),
		cmocka_unit_test_setup(test_backend, start),
		cmocka_unit_test_setup(test_backend_nat, start),
		cmocka_unit_test_setup(test_mss, start),
		cmocka_unit_test_setup(test_configure, start),
		cmocka_unit_test_setup(test_configure_backends, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
