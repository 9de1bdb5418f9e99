// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_egress.c - packets that this node sends for its peers: the MSS of SYN-ACKs is lowered to fit a tunnel (1440 for
 * IPv4, 1400 for IPv6), and an alias becomes the service address again.
 */
#include "tests/bpf/fixture.h"

/* A SYN-ACK from the local address for n2, with these options. */
#define SYN_ACK(name_, variants_, options_, after_)                                                               \
	{                                                                                                         \
		.name = name_, .variants = variants_, .egress = true,                                             \
		.in = "eth me>gw | ip l2>cl ttl 64 | tcp 80>40000 S. seq 9 ack 6 opt " options_, .verdict = PASS, \
		.out = "eth me>gw | ip s2>cl ttl 64 | tcp 80>40000 S. seq 9 ack 6 opt " after_,                   \
	}

/* 020405b4: 1460; 020405a0: 1440; 02040578: 1400. */
static const struct fixture lowered[] = {
	SYN_ACK("1460", V4, "020405b4", "020405a0"),
	SYN_ACK("1440", V6, "020405a0", "02040578"),
	SYN_ACK("one more than fits", V4, "020405a1", "020405a0"),
	SYN_ACK("one more than fits", V6, "02040579", "02040578"),
	SYN_ACK("65535", V4, "0204ffff", "020405a0"),
	SYN_ACK("65535", V6, "0204ffff", "02040578"),
	SYN_ACK("as Linux sends it", V4, "020405b40402080a00000001000000020103030a",
		"020405a00402080a00000001000000020103030a"),
	SYN_ACK("as Linux sends it", V6, "020405a00402080a00000001000000020103030a",
		"020405780402080a00000001000000020103030a"),
	SYN_ACK("as others send it", V4, "020405b40101040201030308", "020405a00101040201030308"),
	SYN_ACK("behind two NOPs", V4, "0101020405b4010101010101", "0101020405a0010101010101"),
	SYN_ACK("behind two NOPs", V6, "0101020405b4010101010101", "010102040578010101010101"),
	SYN_ACK("at an odd place", V4, "01020405b4010101", "01020405a0010101"),
	SYN_ACK("at an odd place", V6, "01020405b4010101", "0102040578010101"),
	SYN_ACK("behind a window scale", V4, "030308020405b401", "030308020405a001"),
	SYN_ACK("behind a window scale", V6, "030308020405b401", "0303080204057801"),
	SYN_ACK("behind SACK permitted", V4, "0402020405b40101", "0402020405a00101"),
	SYN_ACK("behind timestamps", V6, "080a0000000100000002020405b40101", "080a0000000100000002020405780101"),
	SYN_ACK("behind an unknown option", V4, "fe0612345678020405b40101", "fe0612345678020405a00101"),
	SYN_ACK("the last of 40 bytes", V4,
		"fe2400000000000000000000000000000000000000000000000000000000000000000000020405b4",
		"fe2400000000000000000000000000000000000000000000000000000000000000000000020405a0"),
	SYN_ACK("the first of two", V4, "020405b4020405b4", "020405a0020405b4"),
	SYN_ACK("behind three options and NOPs", V4, "0101080a0000000100000002040201030308020405b40101",
		"0101080a0000000100000002040201030308020405a00101"),
};

/* The options stay as they are; the address does not. */
#define KEPT(name_, variants_, options_) SYN_ACK(name_, variants_, options_, options_)

static const struct fixture kept[] = {
	KEPT("as much as fits", V4, "020405a0"),
	KEPT("as much as fits", V6, "02040578"),
	KEPT("less than fits is not raised", 0, "02040218"),
	KEPT("0 is not raised", 0, "02040000"),
	KEPT("no MSS", 0, "0402080a00000001000000020103030a0101"),
	KEPT("only NOPs", 0, "0101010101010101"),
	KEPT("behind the end of the list", 0, "00000000020405b4"),
	KEPT("behind the end of the list, which follows a NOP", 0, "0100020405b40101"),
	KEPT("an MSS of three bytes", 0, "020305b4"),
	KEPT("an MSS of six bytes", 0, "020605b405b40101"),
	KEPT("an MSS cut off", 0, "01010204"),
	KEPT("an MSS cut off by one byte", 0, "0102040500"),
	KEPT("an option of length 0", 0, "fe00020405b40101"),
	KEPT("an option of length 1", 0, "fe01020405b40101"),
	KEPT("an MSS of length 0", 0, "020005b4020405b4"),
	KEPT("an option longer than the header", 0, "fe30020405b40101"),
	{ .name = "no option at all",
	  .egress = true,
	  .in = "eth me>gw | ip l2>cl | tcp 80>40000 S. seq 9 ack 6",
	  .verdict = PASS,
	  .out = "eth me>gw | ip s2>cl | tcp 80>40000 S. seq 9 ack 6" },
};

/* Bytes that look like an option, in another kind of packet. */
#define FROM_N2(name_, variants_, rest_)                                                                   \
	{                                                                                                  \
		.name = name_, .variants = variants_, .egress = true, .in = "eth me>gw | ip l2>cl " rest_, \
		.verdict = PASS, .out = "eth me>gw | ip s2>cl " rest_,                                     \
	}

static const struct fixture packets[] = {
	FROM_N2("a SYN of its own", 0, "| tcp 80>40000 S seq 9 opt 020405b4"),
	FROM_N2("an ACK", 0, "| tcp 80>40000 . seq 9 opt 020405b4"),
	FROM_N2("data", 0, "| tcp 80>40000 P. seq 9 | data 1000"),
	FROM_N2("an odd number of bytes", 0, "| tcp 80>40000 P. seq 9 | data 1001"),
	FROM_N2("FIN", 0, "| tcp 80>40000 F. seq 9"),
	FROM_N2("RST", 0, "| tcp 80>40000 R seq 9"),
	FROM_N2("from no service port", 0, "| tcp 22>40000 . seq 9"),
	FROM_N2("traffic class, TTL and id stay", V4, "tos 0xbb ttl 64 id 0 nodf | tcp 80>40000 . seq 9"),
	FROM_N2("traffic class, hop limit and label stay", V6, "tos 0xbb ttl 64 flow 7 | tcp 80>40000 . seq 9"),
	FROM_N2("padded", 0, "| tcp 80>40000 . seq 9 | pad 6"),
	{ .name = "a large packet in one piece",
	  .egress = true,
	  .gso_bytes = 1400,
	  .in = "eth me>gw | ip l2>cl | tcp 80>40000 . seq 9 | data 2800",
	  .verdict = PASS,
	  .out = "eth me>gw | ip s2>cl | tcp 80>40000 . seq 9 | data 2800" },
	{ .name = "dprd stopped",
	  .egress = true,
	  .beat_ago_ms = STOPPED,
	  .in = "eth me>gw | ip l2>cl | tcp 80>40000 . seq 9",
	  .verdict = PASS,
	  .out = "eth me>gw | ip s2>cl | tcp 80>40000 . seq 9" },
	{ .name = "the mark of others stays",
	  .egress = true,
	  .mark_before = 9,
	  .mark = 9,
	  .in = "eth me>gw | ip l2>cl | tcp 80>40000 . seq 9",
	  .verdict = PASS,
	  .out = "eth me>gw | ip s2>cl | tcp 80>40000 . seq 9" },
	{ .name = "n2's other service",
	  .egress = true,
	  .in = "eth me>gw | ip m2>cl | tcp 443>40000 . seq 9",
	  .verdict = PASS,
	  .out = "eth me>gw | ip t2>cl | tcp 443>40000 . seq 9" },
	{ .name = "n3's service",
	  .egress = true,
	  .in = "eth me>gw | ip l3>cl | tcp 80>40000 . seq 9",
	  .verdict = PASS,
	  .out = "eth me>gw | ip s3>cl | tcp 80>40000 . seq 9" },
	{ .name = "the service of a node that is not heard any more",
	  .egress = true,
	  .in = "eth me>gw | ip m4>cl | tcp 80>40000 . seq 9",
	  .verdict = PASS,
	  .out = "eth me>gw | ip t4>cl | tcp 80>40000 . seq 9" },
};

#define UNTOUCHED(name_, variants_, line_)                                                         \
	{                                                                                          \
		.name = name_, .variants = variants_, .egress = true, .in = line_, .verdict = PASS \
	}

static const struct fixture untouched[] = {
	UNTOUCHED("the own service's SYN-ACK", 0, "eth me>gw | ip s1>cl | tcp 80>40000 S. opt 020405b4"),
	UNTOUCHED("the own service's data", 0, "eth me>gw | ip s1>cl | tcp 80>40000 P. | data 100"),
	UNTOUCHED("the cluster address", 0, "eth me>gw | ip c1>cl | tcp 80>40000 S. opt 020405b4"),
	UNTOUCHED("another host's SYN-ACK", 0, "eth me>gw | ip xx>cl | tcp 80>40000 S. opt 020405b4"),
	UNTOUCHED("a client's SYN-ACK to an alias", ALIAS, "eth me>gw | ip cl>a2 | tcp 80>40000 S. opt 020405b4"),
	UNTOUCHED("a SYN to a peer", 0, "eth me>gw | ip cl>s2 | tcp 40000>80 S opt 020405b4"),
	UNTOUCHED("a peer's cluster address", OWN, "eth me>gw | ip c2>cl | tcp 80>40000 S. opt 020405b4"),
	UNTOUCHED("UDP from an alias", 0, "eth me>gw | ip l2>cl | udp 80>40000 | data 20"),
	UNTOUCHED("an echo reply from an alias", V4, "eth me>gw | ip l2>cl | icmp 0/0 | data 20"),
	UNTOUCHED("an echo reply from an alias", V6, "eth me>gw | ip l2>cl | icmp 129/0 | data 20"),
	UNTOUCHED("a tunnel packet", 0, "eth me>n2 | tunnel c1>c2 | ip l2>cl | tcp 80>40000 S. opt 020405b4"),
	UNTOUCHED("a fragment", V4, "eth me>gw | ip l2>cl nodf mf | tcp 80>40000 S. opt 020405b4"),
	UNTOUCHED("options", V4, "eth me>gw | ip l2>cl options 4 | tcp 80>40000 S. opt 020405b4"),
	UNTOUCHED("an extension header", V6, "eth me>gw | ip l2>cl | ext 60 8 | tcp 80>40000 S. opt 020405b4"),
	UNTOUCHED("TCP header longer than the packet", 0, "eth me>gw | ip l2>cl | tcp 80>40000 S. doff 6"),
	UNTOUCHED("cut off", 0, "eth me>gw | ip l2>cl | tcp 80>40000 S. opt 020405b4 | chop 1"),
	UNTOUCHED("IPv4 in an IPv6 frame", 0,
		  "eth me>gw type 0x86dd | ip4 198.51.100.2>192.0.2.10 | tcp 80>40000 S. opt 020405b4"),
	UNTOUCHED("ARP", 0, "eth me>gw type 0x0806 | data 46"),
};

int main(void)
{
	const struct fixtures tables[] = { FIXTURES(lowered), FIXTURES(kept), FIXTURES(packets), FIXTURES(untouched) };

	return fixture_main("egress", tables, sizeof(tables) / sizeof(tables[0]), NULL, 0);
}
