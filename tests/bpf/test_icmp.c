// SPDX-License-Identifier: GPL-2.0-or-later
/* test_icmp.c - errors about packets that another node sent on behalf of this one are relayed to that node. */
#include "tests/bpf/fixture.h"

#define QUOTED "ip s1>cl ttl 60 | tcp 80>40000 P. seq 99 | data 1000"
/* The outer header has DF when the inner one has: a router's error has none. */
#define TO_N2 "eth me>n2 | tunnel c1>c2 | *"

#define RELAYED(name_, variants_, flow_, in_)                                                        \
	{                                                                                            \
		.name = name_, .variants = variants_, .flow = flow_, .in = in_, .verdict = REDIRECT, \
		.counted = "icmp_relay", .out = TO_N2,                                               \
	}

#define KIND(variants_, kind_, quote_)                                 \
	RELAYED("ICMP " kind_, variants_, "confirmed n2 isn 5 age 30", \
		"ip rt>s1 nodf | icmp " kind_ " mtu 1400 quote " quote_ " | " QUOTED)

/* With the least quote of a router: the IP header and 8 bytes. */
static const struct fixture kinds[] = {
	KIND(V4, "3/0", "28"),  KIND(V4, "3/1", "28"),  KIND(V4, "3/2", "28"),   KIND(V4, "3/3", "28"),
	KIND(V4, "3/4", "28"),  KIND(V4, "3/13", "28"), KIND(V4, "3/255", "28"), KIND(V4, "11/0", "28"),
	KIND(V4, "11/1", "28"), KIND(V4, "12/0", "28"), KIND(V4, "12/1", "28"),  KIND(V6, "1/0", "48"),
	KIND(V6, "1/1", "48"),  KIND(V6, "1/3", "48"),  KIND(V6, "1/4", "48"),   KIND(V6, "2/0", "48"),
	KIND(V6, "3/0", "48"),  KIND(V6, "3/1", "48"),  KIND(V6, "4/0", "48"),   KIND(V6, "4/1", "48"),
	KIND(V6, "4/2", "48"),
};

/* The flow stays as it is, in any state. */
static const struct fixture flows[] = {
	RELAYED("a half-open flow", 0, "half_open n2 isn 5 age 30",
		"ip rt>s1 nodf | icmp unreachable quote 100 | " QUOTED),
	RELAYED("a closing flow", 0, "closing n2 isn 5 age 30", "ip rt>s1 nodf | icmp unreachable quote 100 | " QUOTED),
	RELAYED("a reset flow", 0, "reset n2 isn 5 age 30", "ip rt>s1 nodf | icmp unreachable quote 100 | " QUOTED),
	RELAYED("a flow in the next bucket", 0, "confirmed n2 isn 5 age 3 overflow",
		"ip rt>s1 nodf | icmp unreachable quote 100 | " QUOTED),
	RELAYED("the whole packet is quoted", 0, "confirmed n2 isn 5 age 3",
		"ip rt>s1 nodf | icmp unreachable | " QUOTED),
	RELAYED("from the client itself", 0, "confirmed n2 isn 5 age 3",
		"ip cl>s1 nodf | icmp unreachable quote 60 | " QUOTED),
	RELAYED("about a SYN-ACK", 0, "half_open n2 isn 5 age 30",
		"ip rt>s1 nodf | icmp timeout quote 60 | ip s1>cl | tcp 80>40000 S. seq 99"),
	RELAYED("a wrong checksum is the receiver's business", 0, "confirmed n2 isn 5 age 3",
		"ip rt>s1 nodf | icmp unreachable quote 60 | ip s1>cl | tcp 80>40000 . sum bad"),
	{ .name = "with the traffic class of routers",
	  .flow = "confirmed n2 isn 5 age 3",
	  .in = "ip rt>s1 tos 0xc0 nodf | icmp unreachable quote 60 | " QUOTED,
	  .verdict = REDIRECT,
	  .counted = "icmp_relay",
	  .out = "eth me>n2 | tunnel c1>c2 tos 0xc0 | *" },
	{ .name = "dprd stopped: relayed all the same",
	  .beat_ago_ms = STOPPED,
	  .flow = "confirmed n2 isn 5 age 30",
	  .in = "ip rt>s1 nodf | icmp unreachable quote 60 | " QUOTED,
	  .verdict = REDIRECT,
	  .counted = "icmp_relay",
	  .out = TO_N2 },
	{ .name = "to n3",
	  .flow = "confirmed n3 isn 5 age 30",
	  .in = "ip rt>s1 tos 2 | icmp unreachable quote 60 | " QUOTED,
	  .verdict = REDIRECT,
	  .counted = "icmp_relay",
	  .out = "eth me>n3 | tunnel c1>c3 tos 2 | *" },
	{ .name = "the flow leads to this node",
	  .flow = "confirmed n1 isn 5 age 30",
	  .in = "ip rt>s1 | icmp unreachable quote 60 | " QUOTED,
	  .verdict = PASS },
	{ .name = "no way",
	  .flow = "confirmed n2 isn 5 age 30",
	  .way = "unusable",
	  .in = "ip rt>s1 | icmp unreachable quote 60 | " QUOTED,
	  .verdict = DROP,
	  .counted = "no_tunnel" },
	{ .name = "too long for the tunnel itself",
	  .flow = "confirmed n2 isn 5 age 30",
	  .way = "mtu 280",
	  .in = "ip rt>s1 | icmp unreachable quote 260 | " QUOTED,
	  .verdict = DROP,
	  .counted = "no_tunnel" },
	{ .name = "too long for the tunnel itself, dprd stopped",
	  .beat_ago_ms = STOPPED,
	  .flow = "confirmed n2 isn 5 age 30",
	  .way = "mtu 280",
	  .in = "ip rt>s1 | icmp unreachable quote 260 | " QUOTED,
	  .verdict = DROP,
	  .counted = "no_tunnel" },
};

#define UNTOUCHED(name_, variants_, in_)                                                                               \
	{                                                                                                              \
		.name = name_, .variants = variants_, .flow = "confirmed n2 isn 5 age 30", .in = in_, .verdict = PASS, \
	}

static const struct fixture others[] = {
	{ .name = "no flow", .in = "ip rt>s1 | icmp unreachable quote 60 | " QUOTED, .verdict = PASS },
	UNTOUCHED("about another client", 0, "ip rt>s1 | icmp unreachable quote 60 | ip s1>xx | tcp 80>40000 ."),
	UNTOUCHED("about another client port", 0, "ip rt>s1 | icmp unreachable quote 60 | ip s1>cl | tcp 80>40001 ."),
	UNTOUCHED("about the other service port", 0,
		  "ip rt>s1 | icmp unreachable quote 60 | ip s1>cl | tcp 443>40000 ."),
	UNTOUCHED("about no service port", 0, "ip rt>s1 | icmp unreachable quote 60 | ip s1>cl | tcp 22>40000 ."),
	UNTOUCHED("about the other service address, sent to this one", 0,
		  "ip rt>s1 | icmp unreachable quote 60 | ip t1>cl | tcp 80>40000 ."),
	UNTOUCHED("about the other service address", 0,
		  "ip rt>t1 | icmp unreachable quote 60 | ip t1>cl | tcp 80>40000 ."),
	UNTOUCHED("about what a client sent", 0, "ip rt>s1 | icmp unreachable quote 60 | ip cl>s1 | tcp 40000>80 ."),
	UNTOUCHED("about UDP", 0, "ip rt>s1 | icmp unreachable quote 60 | ip s1>cl | udp 80>40000 | data 20"),
	UNTOUCHED("about ICMP", 0, "ip rt>s1 | icmp unreachable quote 60 | ip s1>cl | icmp echo | data 20"),
	UNTOUCHED("7 bytes of TCP", V4, "ip rt>s1 | icmp unreachable quote 27 | " QUOTED),
	UNTOUCHED("7 bytes of TCP", V6, "ip rt>s1 | icmp unreachable quote 47 | " QUOTED),
	UNTOUCHED("half an IP header", 0, "ip rt>s1 | icmp unreachable quote 10 | " QUOTED),
	UNTOUCHED("nothing is quoted", 0, "ip rt>s1 | icmp unreachable quote 0 | " QUOTED),
	UNTOUCHED("about a packet with options", V4,
		  "ip rt>s1 | icmp unreachable quote 60 | ip s1>cl options 4 | tcp 80>40000 . | data 20"),
	UNTOUCHED("about a fragment", V4,
		  "ip rt>s1 | icmp unreachable quote 60 | ip s1>cl nodf mf | tcp 80>40000 . | data 20"),
	UNTOUCHED("about a later fragment", V4,
		  "ip rt>s1 | icmp unreachable quote 60 | ip s1>cl nodf off 64 | tcp 80>40000 . | data 20"),
	UNTOUCHED("about a packet with an extension header", V6,
		  "ip rt>s1 | icmp unreachable quote 90 | ip s1>cl | ext 60 8 | tcp 80>40000 . | data 20"),
	UNTOUCHED("about a packet of the other family", V4,
		  "ip rt>s1 | icmp unreachable quote 90 | ip6 2001:db8:5::1>2001:db8:c::10 | tcp 80>40000 . | data 60"),
	UNTOUCHED("about a packet of the other family", V6,
		  "ip rt>s1 | icmp unreachable quote 90 | ip4 198.51.100.1>192.0.2.10 | tcp 80>40000 . | data 60"),
	UNTOUCHED("cut off", 0, "ip rt>s1 | icmp unreachable quote 60 | " QUOTED " | chop 1"),
	UNTOUCHED("cut off within the ICMP header", 0, "ip rt>s1 | icmp unreachable quote 0 | data 0 | chop 1"),
	UNTOUCHED("a source quench", V4, "ip rt>s1 | icmp 4/0 quote 28 | " QUOTED),
	UNTOUCHED("a redirect", V4, "ip rt>s1 | icmp 5/1 quote 28 | " QUOTED),
	UNTOUCHED("an echo reply", V4, "ip rt>s1 | icmp 0/0 quote 28 | " QUOTED),
	UNTOUCHED("type 2", V4, "ip rt>s1 | icmp 2/0 quote 28 | " QUOTED),
	UNTOUCHED("type 0", V6, "ip rt>s1 | icmp 0/0 quote 48 | " QUOTED),
	UNTOUCHED("type 5", V6, "ip rt>s1 | icmp 5/0 quote 48 | " QUOTED),
	UNTOUCHED("a neighbour solicitation", V6, "ip rt>s1 | icmp 135/0 | data 16"),
	UNTOUCHED("a fragment", V4, "ip rt>s1 nodf mf | icmp unreachable quote 28 | " QUOTED),
	UNTOUCHED("options", V4, "ip rt>s1 options 4 | icmp unreachable quote 28 | " QUOTED),
	UNTOUCHED("to a peer's service address", 0, "ip rt>s2 | icmp unreachable quote 60 | ip s2>cl | tcp 80>40000 ."),
	UNTOUCHED("to the cluster address", OWN, "ip rt>c1 | icmp unreachable quote 60 | ip c1>cl | tcp 80>40000 ."),
};

int main(void)
{
	const struct fixtures tables[] = { FIXTURES(kinds), FIXTURES(flows), FIXTURES(others) };

	return fixture_main("icmp", tables, sizeof(tables) / sizeof(tables[0]), NULL, 0);
}
