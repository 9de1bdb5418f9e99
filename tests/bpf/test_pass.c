// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_pass.c - packets that do not concern the programs go to the stack unchanged, though there is a flow of their
 * addresses and ports.
 */
#include "tests/bpf/fixture.h"

#define UNTOUCHED(name_, variants_, in_)                                                                               \
	{                                                                                                              \
		.name = name_, .variants = variants_, .flow = "confirmed n2 isn 5 age 30", .in = in_, .verdict = PASS, \
	}

static const struct fixture headers[] = {
	UNTOUCHED("a later fragment", V4, "ip cl>s1 nodf off 24 proto 6 | data 32"),
	UNTOUCHED("the last fragment with DF", V4, "ip cl>s1 off 1480 proto 6 | data 32"),
	UNTOUCHED("an authentication header", V6, "ip cl>s1 | ext 51 24 | tcp 40000>80 ."),
	UNTOUCHED("UDP", 0, "ip cl>s1 | udp 40000>80 | data 20"),
	UNTOUCHED("another protocol", 0, "ip cl>s1 proto 47 | data 40"),
	UNTOUCHED("an echo request", 0, "ip cl>s1 | icmp echo | data 40"),
	UNTOUCHED("header length 4", V4, "ip cl>s1 ihl 4 | tcp 40000>80 ."),
	UNTOUCHED("header length 0", V4, "ip cl>s1 ihl 0 | tcp 40000>80 ."),
	UNTOUCHED("total length below the header's", V4, "ip cl>s1 len 19 | tcp 40000>80 ."),
	UNTOUCHED("total length without the TCP header", V4, "ip cl>s1 len 39 | tcp 40000>80 ."),
	UNTOUCHED("payload length without the TCP header", V6, "ip cl>s1 len 59 | tcp 40000>80 ."),
	UNTOUCHED("no payload", V6, "ip cl>s1 len 40 | tcp 40000>80 ."),
	UNTOUCHED("longer than it is", V4, "ip cl>s1 len 41 | tcp 40000>80 ."),
	UNTOUCHED("longer than it is", V6, "ip cl>s1 len 61 | tcp 40000>80 ."),
	UNTOUCHED("as long as can be said", V4, "ip cl>s1 len 65535 | tcp 40000>80 . | data 1000"),
	UNTOUCHED("as long as can be said", V6, "ip cl>s1 len 65575 | tcp 40000>80 . | data 1000"),
	UNTOUCHED("TCP header of 16 bytes", 0, "ip cl>s1 | tcp 40000>80 . doff 4 | data 20"),
	UNTOUCHED("TCP header longer than the packet", 0, "ip cl>s1 | tcp 40000>80 . doff 6"),
	UNTOUCHED("cut within data", 0, "ip cl>s1 | tcp 40000>80 . | data 20 | chop 1"),
	UNTOUCHED("cut within the TCP header", 0, "ip cl>s1 | tcp 40000>80 . | chop 1"),
	UNTOUCHED("cut within the ports", 0, "ip cl>s1 | tcp 40000>80 . | chop 18"),
	UNTOUCHED("cut behind the IP header", 0, "ip cl>s1 | tcp 40000>80 . | chop 20"),
};

static const struct fixture frames[] = {
	UNTOUCHED("IPv4 in an IPv6 frame", 0, "eth gw>me type 0x86dd | ip4 192.0.2.10>198.51.100.1 | tcp 40000>80 ."),
	UNTOUCHED("IPv6 in an IPv4 frame", 0,
		  "eth gw>me type 0x0800 | ip6 2001:db8:c::10>2001:db8:5::1 | tcp 40000>80 ."),
	UNTOUCHED("IPv4 in a VLAN frame's place", 0, "eth gw>me type 0x8100 | ip cl>s1 | tcp 40000>80 ."),
	UNTOUCHED("ARP", 0, "eth gw>me type 0x0806 | hex 00010800060400010200000000000000c0000201020000000000c6336401"),
	UNTOUCHED("IP version 5", 0, "eth gw>me type 0x0800 | hex 5500003c1234400040060000c000020ac6336401"),
	UNTOUCHED("zeros", 0, "eth gw>me type 0x0800 | data 0 | pad 46"),
	UNTOUCHED("zeros, IPv6", 0, "eth gw>me type 0x86dd | data 0 | pad 46"),
};

static const struct fixture addresses[] = {
	UNTOUCHED("to another host", 0, "ip cl>xx | tcp 40000>80 ."),
	UNTOUCHED("to a peer's service address", 0, "ip cl>s2 | tcp 40000>80 ."),
	UNTOUCHED("to a peer's cluster address", 0, "ip cl>c2 | tcp 40000>80 ."),
	UNTOUCHED("to the own cluster address", OWN, "ip cl>c1 | tcp 40000>80 ."),
	UNTOUCHED("from the service to the client", 0, "ip s1>cl | tcp 80>40000 ."),
	UNTOUCHED("multicast source", V4, "ip 224.1.2.3>s1 | tcp 40000>80 ."),
	UNTOUCHED("multicast source", V6, "ip ff02::1>s1 | tcp 40000>80 ."),
	{ .name = "multicast source, though there is a flow",
	  .variants = V6,
	  .flow = "confirmed n2 isn 5 age 30 from ff02::1",
	  .in = "ip ff02::1>s1 | tcp 40000>80 .",
	  .verdict = PASS },
	{ .name = "multicast source, tunnelled",
	  .variants = V6,
	  .in = "eth n2>me | tunnel c2>c1 | ip ff02::1>s2 | tcp 40000>80 .",
	  .verdict = DROP,
	  .counted = "inner_source" },
	UNTOUCHED("tunnelled from a multicast address", V6, "tunnel ff02::1>c1 | ip cl>s1 | tcp 40000>80 ."),
	{ .name = "multicast source, an ICMP error",
	  .variants = V6,
	  .flow = "confirmed n2 isn 5 age 30",
	  .in = "ip ff02::1>s1 | icmp unreachable | ip s1>cl | tcp 80>40000 .",
	  .verdict = PASS },
	UNTOUCHED("broadcast source", V4, "ip 255.255.255.255>s1 | tcp 40000>80 ."),
	UNTOUCHED("source 0", V4, "ip 0.0.0.0>s1 | tcp 0>80 ."),
	UNTOUCHED("source ::", V6, "ip ::>s1 | tcp 0>80 ."),
	UNTOUCHED("a v4-mapped source", V6, "ip ::ffff:192.0.2.10>s1 | tcp 40000>80 ."),
	UNTOUCHED("a v4-mapped destination", V6, "ip cl>::ffff:198.51.100.1 | tcp 40000>80 ."),
	UNTOUCHED("a v4-mapped destination and source", V6,
		  "ip ::ffff:192.0.2.10>::ffff:198.51.100.1 | tcp 40000>80 ."),
	UNTOUCHED("to a multicast group", V4, "ip cl>239.1.2.3 | tcp 40000>80 ."),
	UNTOUCHED("to a multicast group", V6, "ip cl>ff15::80 | tcp 40000>80 ."),
	UNTOUCHED("the service to itself", 0, "ip s1>s1 | tcp 40000>80 ."),
	UNTOUCHED("a peer as client", 0, "ip c2>s1 | tcp 40000>80 ."),
};

/* A SYN that no peer would take goes to dprd. */
static const struct fixture syns[] = {
	{ .name = "SYN from a multicast address",
	  .variants = V4,
	  .in = "ip 224.1.2.3>s1 | tcp 40000>80 S",
	  .verdict = PASS,
	  .mark = 0x20000000 },
	{ .name = "SYN from a multicast address: the stack drops it",
	  .variants = V6,
	  .in = "ip ff02::1>s1 | tcp 40000>80 S",
	  .verdict = PASS },
	{ .name = "SYN from a peer", .in = "ip c2>s1 | tcp 40000>80 S", .verdict = PASS, .mark = 0x20000000 },
	{ .name = "a fragmented SYN",
	  .variants = V4,
	  .in = "ip cl>s1 nodf mf | tcp 40000>80 S | data 4",
	  .verdict = PASS },
	{ .name = "a SYN with options", .variants = V4, .in = "ip cl>s1 options 8 | tcp 40000>80 S", .verdict = PASS },
	{ .name = "a SYN with an extension header",
	  .variants = V6,
	  .in = "ip cl>s1 | ext 60 8 | tcp 40000>80 S",
	  .verdict = PASS },
};

int main(void)
{
	const struct fixtures tables[] = { FIXTURES(headers), FIXTURES(frames), FIXTURES(addresses), FIXTURES(syns) };

	return fixture_main("pass", tables, sizeof(tables) / sizeof(tables[0]), NULL, 0);
}
