// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_decapsulation.c - packets from a tunnel: which are taken, which are dropped and why, and that checksums are
 * right when they go on to the stack, also under an alias.
 */
#include "tests/bpf/fixture.h"

#define FROM_N2 "eth n2>me | tunnel c2>c1 | "
#define OUT "eth n2>me | "

/* inner_: as n2 sent it; local_: as this node's stack gets it. */
#define TAKEN(name_, variants_, inner_, local_)                                                                      \
	{                                                                                                            \
		.name = name_, .variants = variants_, .in = FROM_N2 inner_, .verdict = PASS, .counted = "from_peer", \
		.out = OUT local_,                                                                                   \
	}

static const struct fixture taken[] = {
	TAKEN("a SYN", 0, "ip cl>s2 | tcp 40000>80 S seq 5 opt 020405b4",
	      "ip cl>l2 | tcp 40000>80 S seq 5 opt 020405b4"),
	TAKEN("an ACK", 0, "ip cl>s2 | tcp 40000>80 . seq 6 ack 7", "ip cl>l2 | tcp 40000>80 . seq 6 ack 7"),
	TAKEN("data", 0, "ip cl>s2 | tcp 40000>80 P. seq 6 ack 7 | data 1000",
	      "ip cl>l2 | tcp 40000>80 P. seq 6 ack 7 | data 1000"),
	TAKEN("an odd number of bytes", 0, "ip cl>s2 | tcp 40000>80 P. seq 6 ack 7 | data 333",
	      "ip cl>l2 | tcp 40000>80 P. seq 6 ack 7 | data 333"),
	TAKEN("FIN", 0, "ip cl>s2 | tcp 40000>80 F. seq 6 ack 7", "ip cl>l2 | tcp 40000>80 F. seq 6 ack 7"),
	TAKEN("RST", 0, "ip cl>s2 | tcp 40000>80 R seq 6", "ip cl>l2 | tcp 40000>80 R seq 6"),
	TAKEN("all flags", 0, "ip cl>s2 | tcp 40000>80 FSRP.UEW seq 6", "ip cl>l2 | tcp 40000>80 FSRP.UEW seq 6"),
	TAKEN("no flag", 0, "ip cl>s2 | tcp 40000>80 none seq 6", "ip cl>l2 | tcp 40000>80 none seq 6"),
	TAKEN("a port that is no service any more", 0, "ip cl>s2 | tcp 40000>22 . seq 6",
	      "ip cl>l2 | tcp 40000>22 . seq 6"),
	TAKEN("the other port", 0, "ip cl>s2 | tcp 40000>443 . seq 6", "ip cl>l2 | tcp 40000>443 . seq 6"),
	TAKEN("n2's other service", 0, "ip cl>t2 | tcp 40000>80 . seq 6 | data 9",
	      "ip cl>m2 | tcp 40000>80 . seq 6 | data 9"),
	TAKEN("to an address that n2's file had", 0, "ip cl>f2 | tcp 40000>80 . seq 6 | data 9",
	      "ip cl>g2 | tcp 40000>80 . seq 6 | data 9"),
	TAKEN("a SYN to an address that n2's file had", 0, "ip cl>f2 | tcp 40000>80 S seq 6",
	      "ip cl>g2 | tcp 40000>80 S seq 6"),
	TAKEN("from an address that n2's file had, which is a client's now", 0, "ip f2>s2 | tcp 40000>80 . seq 6",
	      "ip f2>l2 | tcp 40000>80 . seq 6"),
	TAKEN("traffic class, TTL and id stay", V4, "ip cl>s2 tos 0xb8 ttl 1 id 9 nodf | tcp 40000>80 .",
	      "ip cl>l2 tos 0xb8 ttl 1 id 9 nodf | tcp 40000>80 ."),
	TAKEN("traffic class, hop limit and label stay", V6, "ip cl>s2 tos 0xb8 ttl 1 flow 9 | tcp 40000>80 .",
	      "ip cl>l2 tos 0xb8 ttl 1 flow 9 | tcp 40000>80 ."),
	TAKEN("padding behind it", 0, "ip cl>s2 | tcp 40000>80 . | pad 6", "ip cl>l2 | tcp 40000>80 . | pad 6"),
	TAKEN("a source port 0", 0, "ip xx>s2 | tcp 0>80 S seq 5", "ip xx>l2 | tcp 0>80 S seq 5"),
	{ .name = "from n3",
	  .in = "eth n3>me | tunnel c3>c1 | ip cl>s3 | tcp 40000>80 .",
	  .verdict = PASS,
	  .counted = "from_peer",
	  .out = "eth n3>me | ip cl>l3 | tcp 40000>80 ." },
	{ .name = "a probe of the way",
	  .in = FROM_N2 "ip cl>s2 | tcp 9>9 S",
	  .verdict = PASS,
	  .counted = "probe",
	  .out = OUT "ip cl>l2 | tcp 9>9 S" },
	{ .name = "a probe in the peer's own name",
	  .in = FROM_N2 "ip c2>s2 | tcp 9>9 S",
	  .verdict = PASS,
	  .counted = "probe",
	  .out = OUT "ip c2>l2 | tcp 9>9 S" },
	{ .name = "dprd stopped: taken all the same",
	  .beat_ago_ms = STOPPED,
	  .in = FROM_N2 "ip cl>s2 | tcp 40000>80 S seq 5",
	  .verdict = PASS,
	  .counted = "from_peer",
	  .out = OUT "ip cl>l2 | tcp 40000>80 S seq 5" },
	{ .name = "the mark of others stays",
	  .mark_before = 77,
	  .in = FROM_N2 "ip cl>s2 | tcp 40000>80 .",
	  .verdict = PASS,
	  .mark = 77,
	  .counted = "from_peer",
	  .out = OUT "ip cl>l2 | tcp 40000>80 ." },
	{ .name = "a wrong TCP checksum stays wrong",
	  .variants = OWN,
	  .in = FROM_N2 "ip cl>s2 | tcp 40000>80 . sum bad",
	  .verdict = PASS,
	  .counted = "from_peer",
	  .out = OUT "ip cl>l2 | tcp 40000>80 . sum bad",
	  .sums_bad = true },
	{ .name = "a flow of the same client here does not matter",
	  .flow = "confirmed n3 isn 5 age 30",
	  .in = FROM_N2 "ip cl>s2 | tcp 40000>80 .",
	  .verdict = PASS,
	  .counted = "from_peer",
	  .out = OUT "ip cl>l2 | tcp 40000>80 ." },
	{ .name = "other values in the outer header",
	  .variants = V4,
	  .in = "eth n2>me | tunnel c2>c1 ttl 3 id 99 nodf tos 0xb8 | ip cl>s2 | tcp 40000>80 .",
	  .verdict = PASS,
	  .counted = "from_peer",
	  .out = OUT "ip cl>l2 | tcp 40000>80 ." },
};

/* An error about a packet of this node to n2's client: the stack must find its socket by the quoted packet. */
#define ERROR(variants_, kind_)                                                                                   \
	TAKEN("ICMP " kind_, variants_,                                                                           \
	      "ip rt>s2 | icmp " kind_ " mtu 1400 quote 60 | ip s2>cl ttl 60 | tcp 80>40000 P. seq 9 | data 900", \
	      "ip rt>l2 | icmp " kind_ " mtu 1400 quote 60 | ip l2>cl ttl 60 | tcp 80>40000 P. seq 9 | data 900")

/* The quotes hold only ports and sequence number of TCP: the checksum is not mended for an alias. */
static const struct fixture errors[] = {
	ERROR(V4_OWN, "3/0"),
	ERROR(V4_OWN, "3/1"),
	ERROR(V4_OWN, "3/4"),
	ERROR(V4_OWN, "3/13"),
	ERROR(V4_OWN, "11/0"),
	ERROR(V4_OWN, "11/1"),
	ERROR(V4_OWN, "12/0"),
	ERROR(V6_OWN, "1/0"),
	ERROR(V6_OWN, "1/4"),
	ERROR(V6_OWN, "2/0"),
	ERROR(V6_OWN, "3/0"),
	ERROR(V6_OWN, "4/1"),
	TAKEN("ICMP 3/4 to an alias", V4_ALIAS,
	      "ip rt>s2 | icmp 3/4 mtu 1400 quote 28 | ip s2>cl ttl 60 | tcp 80>40000 P. seq 9 | data 900",
	      "ip rt>l2 | icmp 3/4 mtu 1400 quote 28 | ip l2>cl ttl 60 | tcp 80>40000 P. seq 9 | data 900"),
	TAKEN("ICMP 3/1 to an alias", V4_ALIAS, "ip rt>s2 | icmp 3/1 quote 28 | ip s2>cl ttl 1 | tcp 80>40000 S. seq 9",
	      "ip rt>l2 | icmp 3/1 quote 28 | ip l2>cl ttl 1 | tcp 80>40000 S. seq 9"),
	TAKEN("ICMP 11/0 to the other alias", V4_ALIAS,
	      "ip rt>t2 | icmp 11/0 quote 28 | ip t2>cl ttl 1 | tcp 443>40000 . seq 9",
	      "ip rt>m2 | icmp 11/0 quote 28 | ip m2>cl ttl 1 | tcp 443>40000 . seq 9"),
	TAKEN("ICMP 12/0 to an alias, an odd quotation", V4_ALIAS,
	      "ip rt>s2 | icmp 12/0 quote 31 | ip s2>cl ttl 1 | tcp 80>40000 . seq 9",
	      "ip rt>l2 | icmp 12/0 quote 31 | ip l2>cl ttl 1 | tcp 80>40000 . seq 9"),
	TAKEN("ICMPv6 2/0 to an alias", V6_ALIAS,
	      "ip rt>s2 | icmp 2/0 mtu 1400 quote 48 | ip s2>cl ttl 60 | tcp 80>40000 P. seq 9 | data 900",
	      "ip rt>l2 | icmp 2/0 mtu 1400 quote 48 | ip l2>cl ttl 60 | tcp 80>40000 P. seq 9 | data 900"),
	TAKEN("ICMPv6 1/0 to an alias", V6_ALIAS,
	      "ip rt>s2 | icmp 1/0 quote 48 | ip s2>cl ttl 1 | tcp 80>40000 S. seq 9",
	      "ip rt>l2 | icmp 1/0 quote 48 | ip l2>cl ttl 1 | tcp 80>40000 S. seq 9"),
	TAKEN("ICMPv6 3/0 to the other alias", V6_ALIAS,
	      "ip rt>t2 | icmp 3/0 quote 48 | ip t2>cl ttl 1 | tcp 443>40000 . seq 9",
	      "ip rt>m2 | icmp 3/0 quote 48 | ip m2>cl ttl 1 | tcp 443>40000 . seq 9"),
	TAKEN("ICMPv6 4/1 to an alias, an odd quotation", V6_ALIAS,
	      "ip rt>s2 | icmp 4/1 quote 51 | ip s2>cl ttl 1 | tcp 80>40000 . seq 9",
	      "ip rt>l2 | icmp 4/1 quote 51 | ip l2>cl ttl 1 | tcp 80>40000 . seq 9"),
};

/* RFC 6040 figure 4: the inner field by the outer one. 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE. */
#define ECN(outer_, inner_, result_)                                                     \
	{                                                                                \
		.name = "ECN, outer " #outer_ " inner " #inner_,                         \
		.in = "eth n2>me | tunnel c2>c1 tos " #outer_ " | ip cl>s2 tos " #inner_ \
		      " | tcp 40000>80 . | data 11",                                     \
		.verdict = PASS, .counted = "from_peer",                                 \
		.out = OUT "ip cl>l2 tos " #result_ " | tcp 40000>80 . | data 11",       \
	}

static const struct fixture ecn[] = {
	ECN(0, 0, 0),
	ECN(0, 1, 1),
	ECN(0, 2, 2),
	ECN(0, 3, 3),
	ECN(1, 0, 0),
	ECN(1, 1, 1),
	ECN(1, 2, 1),
	ECN(1, 3, 3),
	ECN(2, 0, 0),
	ECN(2, 1, 1),
	ECN(2, 2, 2),
	ECN(2, 3, 3),
	{ .name = "ECN, outer 3 inner 0",
	  .in = "eth n2>me | tunnel c2>c1 tos 3 | ip cl>s2 | tcp 40000>80 . | data 11",
	  .verdict = DROP,
	  .counted = "inner_bad" },
	ECN(3, 1, 3),
	ECN(3, 2, 3),
	ECN(3, 3, 3),
	ECN(0xff, 0xb9, 0xbb),
	ECN(0xff, 0xba, 0xbb),
	ECN(0x01, 0xfe, 0xfd),
	ECN(0xfc, 0x02, 0x02),
};

#define DROPPED(name_, variants_, in_, reason_)                                                      \
	{                                                                                            \
		.name = name_, .variants = variants_, .in = in_, .verdict = DROP, .counted = reason_ \
	}
#define DROPPED_N2(name_, variants_, inner_, reason_) DROPPED(name_, variants_, FROM_N2 inner_, reason_)

static const struct fixture strangers[] = {
	DROPPED("from a stranger", 0, "tunnel xx>c1 | ip cl>s2 | tcp 40000>80 .", "not_peer"),
	DROPPED("from a client", 0, "tunnel cl>c1 | ip cl>s2 | tcp 40000>80 .", "not_peer"),
	DROPPED("from a node that is not heard any more", 0, "tunnel c4>c1 | ip cl>s4 | tcp 40000>80 .", "not_peer"),
	DROPPED("from this node", 0, "tunnel c1>c1 | ip cl>s1 | tcp 40000>80 .", "not_peer"),
	DROPPED("from a peer's service address", OWN, "tunnel s2>c1 | ip cl>s2 | tcp 40000>80 .", "not_peer"),
	DROPPED("from a peer's alias", ALIAS, "tunnel a2>c1 | ip cl>s2 | tcp 40000>80 .", "not_peer"),
	DROPPED("a stranger's fragment", V4, "tunnel xx>c1 nodf mf | ip cl>s2 | tcp 40000>80 .", "not_peer"),
	DROPPED("a stranger's garbage", 0, "tunnel xx>c1 | data 40", "not_peer"),
};

static const struct fixture outer[] = {
	DROPPED("the outer packet is a fragment", V4, "tunnel c2>c1 nodf mf | ip cl>s2 | tcp 40000>80 . | data 4",
		"inner_bad"),
	DROPPED("the outer packet is a later fragment", V4, "tunnel c2>c1 nodf off 8 | ip cl>s2 | tcp 40000>80 .",
		"inner_bad"),
	DROPPED("the outer header has options", V4, "tunnel c2>c1 options 4 | ip cl>s2 | tcp 40000>80 .", "inner_bad"),
	DROPPED("nothing within", V4, "tunnel c2>c1 proto 4", "inner_bad"),
	DROPPED("nothing within", V6, "tunnel c2>c1 proto 41", "inner_bad"),
	{ .name = "the outer header has an extension header: none of ours",
	  .variants = V6,
	  .in = "tunnel c2>c1 | ext 60 8 | ip cl>s2 | tcp 40000>80 .",
	  .verdict = PASS },
	{ .name = "the outer packet is a fragment: none of ours",
	  .variants = V6,
	  .in = "tunnel c2>c1 | ext 44 8 | ip cl>s2 | tcp 40000>80 .",
	  .verdict = PASS },
	{ .name = "cut off: the stack drops it",
	  .in = FROM_N2 "ip cl>s2 | tcp 40000>80 . | data 9 | chop 1",
	  .verdict = PASS },
	DROPPED("part of an IP header, and bytes behind the datagram", V4,
		"tunnel c2>c1 len 37 | ip cl>s2 proto 47 | data 10", "inner_bad"),
	DROPPED("part of an IP header, and bytes behind the datagram", V6,
		"tunnel c2>c1 len 79 | ip cl>s2 proto 47 | data 10", "inner_bad"),
	/* The stack drops IPv6 packets of IPv4 addresses. */
	{ .name = "from a peer's IPv4 address in IPv6",
	  .variants = V6_OWN,
	  .in = "tunnel ::ffff:10.0.0.2>c1 | ip cl>s2 | tcp 40000>80 .",
	  .verdict = PASS },
	{ .name = "to the own IPv4 address in IPv6",
	  .variants = V6_OWN,
	  .in = "tunnel c2>::ffff:10.0.0.1 | ip cl>s2 | tcp 40000>80 .",
	  .verdict = PASS },
	{ .name = "from and to IPv4 addresses in IPv6",
	  .variants = V6_ALIAS,
	  .in = "tunnel ::ffff:198.51.100.2>::ffff:198.51.100.1 | ip cl>s2 | tcp 40000>80 .",
	  .verdict = PASS },
	{ .name = "6 in 4 is another tunnel",
	  .variants = V4,
	  .in = "tunnel c2>c1 | ip6 2001:db8:c::10>2001:db8:5::2 | tcp 40000>80 .",
	  .verdict = PASS },
	{ .name = "4 in 6 is another tunnel",
	  .variants = V6,
	  .in = "tunnel c2>c1 | ip4 192.0.2.10>198.51.100.2 | tcp 40000>80 .",
	  .verdict = PASS },
	DROPPED("IPv6 said to be IPv4", V4, "tunnel c2>c1 proto 4 | ip6 2001:db8:c::10>2001:db8:5::2 | tcp 40000>80 .",
		"inner_bad"),
	DROPPED("IPv4 said to be IPv6", V6, "tunnel c2>c1 proto 41 | ip4 192.0.2.10>198.51.100.2 | tcp 40000>80 .",
		"inner_bad"),
	{ .name = "to the service address: the stack has no tunnel there",
	  .variants = OWN,
	  .in = "tunnel c2>s1 | ip cl>s2 | tcp 40000>80 .",
	  .verdict = PASS },
	{ .name = "to another host", .in = "tunnel c2>xx | ip cl>s2 | tcp 40000>80 .", .verdict = PASS },
	{ .name = "to a peer", .in = "tunnel c2>c3 | ip cl>s2 | tcp 40000>80 .", .verdict = PASS },
	{ .name = "no tunnel packet to the cluster address",
	  .variants = OWN,
	  .in = "ip c2>c1 | udp 7980>7980 | data 9",
	  .verdict = PASS },
	{ .name = "GRE to the cluster address", .in = "ip c2>c1 proto 47 | data 40", .verdict = PASS },
};

static const struct fixture inner[] = {
	DROPPED_N2("a tunnel within the tunnel", 0, "tunnel c2>c1 | ip cl>s2 | tcp 40000>80 .", "inner_nested"),
	DROPPED_N2("a tunnel to another host within", 0, "ip cl>s2 | ip cl>s2 | tcp 40000>80 .", "inner_nested"),
	DROPPED_N2("UDP", 0, "ip cl>s2 | udp 40000>80 | data 20", "inner_foreign"),
	DROPPED_N2("an echo request", 0, "ip cl>s2 | icmp echo | data 20", "inner_foreign"),
	DROPPED_N2("another protocol", 0, "ip cl>s2 proto 47 | data 40", "inner_foreign"),
	DROPPED_N2("a SYN to no service port", 0, "ip cl>s2 | tcp 40000>22 S", "inner_foreign"),
	DROPPED_N2("a SYN-ACK to no service port", 0, "ip cl>s2 | tcp 40000>22 S.", "inner_foreign"),
	DROPPED_N2("to port 0", 0, "ip cl>s2 | tcp 40000>0 .", "inner_foreign"),
	DROPPED_N2("to no address of the cluster", 0, "ip cl>xx | tcp 40000>80 .", "inner_foreign"),
	DROPPED_N2("to the cluster address of n2", OWN, "ip cl>c2 | tcp 40000>80 .", "inner_foreign"),
	DROPPED_N2("to an alias", ALIAS, "ip cl>a2 | tcp 40000>80 .", "inner_foreign"),
	DROPPED_N2("to a v4-mapped address", V6, "ip cl>::ffff:198.51.100.2 | tcp 40000>80 .", "inner_foreign"),
	DROPPED_N2("an ICMP error about another host's packet", 0,
		   "ip rt>xx | icmp unreachable quote 60 | ip xx>cl | tcp 80>40000 .", "inner_foreign"),
	DROPPED_N2("an ICMP error about UDP", 0,
		   "ip rt>s2 | icmp unreachable quote 60 | ip s2>cl | udp 80>40000 | data 9", "inner_foreign"),
	DROPPED_N2("an ICMP redirect", V4, "ip rt>s2 | icmp 5/1 quote 60 | ip s2>cl | tcp 80>40000 .", "inner_foreign"),
	DROPPED_N2("to n3's service", 0, "ip cl>s3 | tcp 40000>80 .", "inner_not_senders"),
	DROPPED_N2("to this node's own service", 0, "ip cl>s1 | tcp 40000>80 .", "inner_not_senders"),
	DROPPED_N2("an ICMP error about n3's packet", 0,
		   "ip rt>s3 | icmp unreachable quote 60 | ip s3>cl | tcp 80>40000 .", "inner_not_senders"),
	DROPPED_N2("a fragment", V4, "ip cl>s2 nodf mf | tcp 40000>80 . | data 4", "inner_bad"),
	DROPPED_N2("a later fragment", V4, "ip cl>s2 nodf off 64 proto 6 | data 40", "inner_bad"),
	DROPPED_N2("a fragment header", V6, "ip cl>s2 | ext 44 8 | tcp 40000>80 .", "inner_bad"),
	DROPPED_N2("options", V4, "ip cl>s2 options 8 | tcp 40000>80 .", "inner_bad"),
	DROPPED_N2("an extension header", V6, "ip cl>s2 | ext 60 8 | tcp 40000>80 .", "inner_bad"),
	DROPPED_N2("no hop left", 0, "ip cl>s2 ttl 0 | tcp 40000>80 .", "inner_bad"),
	DROPPED_N2("a SYN without a hop left", 0, "ip cl>s2 ttl 0 | tcp 40000>80 S", "inner_bad"),
	DROPPED_N2("shorter than the outer packet says", V4, "ip cl>s2 len 44 | tcp 40000>80 . | data 5", "inner_bad"),
	DROPPED_N2("shorter than the outer packet says", V6, "ip cl>s2 len 64 | tcp 40000>80 . | data 5", "inner_bad"),
	DROPPED_N2("longer than the outer packet says", V4, "ip cl>s2 len 46 | tcp 40000>80 . | data 5", "inner_bad"),
	DROPPED_N2("longer than the outer packet says", V6, "ip cl>s2 len 66 | tcp 40000>80 . | data 5", "inner_bad"),
	DROPPED_N2("TCP header cut off", 0, "ip cl>s2 proto 6 | data 19", "inner_bad"),
	DROPPED_N2("TCP header of 16 bytes", 0, "ip cl>s2 | tcp 40000>80 . doff 4 | data 9", "inner_bad"),
	DROPPED_N2("TCP header longer than the packet", 0, "ip cl>s2 | tcp 40000>80 . doff 15 | data 9", "inner_bad"),
	DROPPED_N2("header length 4", V4, "ip cl>s2 ihl 4 | tcp 40000>80 .", "inner_bad"),
	DROPPED_N2("garbage", 0, "hex 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "inner_bad"),
	DROPPED_N2("an ICMP error that quotes 7 bytes of TCP", V4,
		   "ip rt>s2 | icmp unreachable quote 27 | ip s2>cl | tcp 80>40000 .", "inner_bad"),
	DROPPED_N2("an ICMP error that quotes 7 bytes of TCP", V6,
		   "ip rt>s2 | icmp unreachable quote 47 | ip s2>cl | tcp 80>40000 .", "inner_bad"),
};

#define SOURCE(variants_, address_) \
	DROPPED_N2("from " address_, variants_, "ip " address_ ">s2 | tcp 40000>80 .", "inner_source")

static const struct fixture sources[] = {
	SOURCE(0, "c1"),
	SOURCE(0, "c2"),
	SOURCE(0, "c3"),
	SOURCE(0, "c4"),
	SOURCE(0, "s1"),
	SOURCE(0, "s2"),
	SOURCE(0, "t3"),
	SOURCE(V4, "0.0.0.0"),
	SOURCE(V4, "0.1.2.3"),
	SOURCE(V4, "127.0.0.1"),
	SOURCE(V4, "127.255.255.254"),
	SOURCE(V4, "224.0.0.1"),
	SOURCE(V4, "239.255.255.255"),
	SOURCE(V4, "240.0.0.1"),
	SOURCE(V4, "255.255.255.255"),
	SOURCE(V6, "::"),
	SOURCE(V6, "::1"),
	SOURCE(V6, "ff02::1"),
	SOURCE(V6, "ff0e::80"),
	SOURCE(V6, "::ffff:192.0.2.10"),
	DROPPED_N2("an ICMP error from a member", 0, "ip c3>s2 | icmp unreachable quote 60 | ip s2>cl | tcp 80>40000 .",
		   "inner_source"),
	DROPPED_N2("an ICMP error about a packet to a member", 0,
		   "ip rt>s2 | icmp unreachable quote 60 | ip s2>c3 | tcp 80>40000 .", "inner_source"),
	DROPPED_N2("an ICMP error from a multicast group", V4,
		   "ip 224.0.0.9>s2 | icmp unreachable quote 60 | ip s2>cl | tcp 80>40000 .", "inner_source"),
	/* An alias is an ordinary address to others. */
	{ .name = "from an address that is an alias here",
	  .variants = ALIAS,
	  .in = FROM_N2 "ip a3>s2 | tcp 40000>80 .",
	  .verdict = PASS,
	  .counted = "from_peer",
	  .out = OUT "ip a3>l2 | tcp 40000>80 ." },
};

/* No host may send to an alias. */
static const struct fixture aliases[] = {
	DROPPED("TCP to an alias", ALIAS, "ip cl>a2 | tcp 40000>80 .", "stranger"),
	DROPPED("SYN to an alias", ALIAS, "ip cl>a2 | tcp 40000>80 S", "stranger"),
	DROPPED("another alias", ALIAS, "ip cl>b4 | tcp 40000>80 .", "stranger"),
	DROPPED("any port of an alias", ALIAS, "ip cl>a3 | tcp 40000>22 S", "stranger"),
	DROPPED("UDP to an alias", ALIAS, "ip cl>a2 | udp 40000>80 | data 9", "stranger"),
	DROPPED("ICMP to an alias", ALIAS, "ip cl>a2 | icmp echo | data 9", "stranger"),
	DROPPED("a fragment to an alias", V4_ALIAS, "ip cl>a2 nodf off 8 proto 6 | data 40", "stranger"),
	DROPPED("options to an alias", V4_ALIAS, "ip cl>a2 options 4 | tcp 40000>80 .", "stranger"),
	DROPPED("an extension header to an alias", V6_ALIAS, "ip cl>a2 | ext 60 8 | tcp 40000>80 .", "stranger"),
	DROPPED("a tunnel to an alias", ALIAS, "tunnel c2>a2 | ip cl>s2 | tcp 40000>80 .", "stranger"),
	DROPPED("a peer to an alias", ALIAS, "ip c2>a2 | tcp 40000>80 .", "stranger"),
	{ .name = "the range's first address stands for nobody",
	  .variants = V4_ALIAS,
	  .in = "ip cl>198.18.211.0 | tcp 40000>80 .",
	  .verdict = PASS },
	{ .name = "behind the last alias",
	  .variants = V4_ALIAS,
	  .in = "ip cl>198.18.211.200 | tcp 40000>80 .",
	  .verdict = PASS },
	{ .name = "no alias where members have cluster addresses",
	  .variants = V4_OWN,
	  .in = "ip cl>198.18.211.5 | tcp 40000>80 .",
	  .verdict = PASS },
};

/* All tests above ran with a device's sum, too. */
static void test_device_sums(void **state)
{
	(void)state;
	if (plane_checks_sums(site_plane(0)))
		return;
	print_message("skip: this kernel does not check a device's sums in test runs (Linux 6.15 does)\n");
	skip();
}

int main(void)
{
	const struct CMUnitTest others[] = { cmocka_unit_test(test_device_sums) };
	const struct fixtures tables[] = { FIXTURES(taken), FIXTURES(errors), FIXTURES(ecn),     FIXTURES(strangers),
					   FIXTURES(outer), FIXTURES(inner),  FIXTURES(sources), FIXTURES(aliases) };

	return fixture_main("decapsulation", tables, sizeof(tables) / sizeof(tables[0]), others,
			    sizeof(others) / sizeof(others[0]));
}
