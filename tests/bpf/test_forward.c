// SPDX-License-Identifier: GPL-2.0-or-later
/* test_forward.c - packets of forwarded flows: they are found and encapsulated, and the flow changes. */
#include "tests/bpf/fixture.h"

#define ACK "ip cl>s1 | tcp 40000>80 . seq 7"
#define TO_N2 "eth me>n2 | tunnel c1>c2 | *"

/* A packet with these flags for a flow in this state, and the flow afterwards. */
#define MOVES(name_, before_, flags_, after_)                                                                          \
	{                                                                                                              \
		.name = name_, .flow = before_, .in = "ip cl>s1 | tcp 40000>80 " flags_ " seq 7", .verdict = REDIRECT, \
		.counted = "flow", .after = after_, .out = TO_N2,                                                      \
	}

/* A state that is sixteen ticks old or older is written only for its time. */
static const struct fixture states[] = {
	MOVES("half-open, ACK: confirmed", "half_open n2 isn 5 age 3", ".", "confirmed n2 isn 5 now"),
	MOVES("half-open, PSH ACK: confirmed", "half_open n2 isn 5 age 3", "P.", "confirmed n2 isn 5 now"),
	MOVES("half-open, no flag: confirmed", "half_open n2 isn 5 age 3", "none", "confirmed n2 isn 5 now"),
	MOVES("half-open, URG: confirmed", "half_open n2 isn 5 age 3", "U", "confirmed n2 isn 5 now"),
	MOVES("half-open, FIN ACK: closing", "half_open n2 isn 5 age 3", "F.", "closing n2 isn 5 now"),
	MOVES("half-open, RST: reset", "half_open n2 isn 5 age 3", "R", "reset n2 isn 5 now"),
	MOVES("half-open, RST FIN: reset", "half_open n2 isn 5 age 3", "RF", "reset n2 isn 5 now"),
	MOVES("half-open, SYN ACK: as it was", "half_open n2 isn 5 age 30", "S.", NULL),
	MOVES("half-open, SYN RST: as it was", "half_open n2 isn 5 age 30", "SR", NULL),
	MOVES("half-open, SYN FIN: as it was", "half_open n2 isn 5 age 30", "SF", NULL),
	MOVES("confirmed, ACK, young: not written", "confirmed n2 isn 5 age 14", ".", NULL),
	MOVES("confirmed, ACK, old: refreshed", "confirmed n2 isn 5 age 16", ".", "confirmed n2 isn 5 now"),
	MOVES("confirmed, ACK, very old: refreshed", "confirmed n2 isn 5 age 100000", "P.", "confirmed n2 isn 5 now"),
	MOVES("confirmed, SYN ACK, young: not written", "confirmed n2 isn 5 age 3", "S.", NULL),
	MOVES("confirmed, SYN ACK, old: refreshed", "confirmed n2 isn 5 age 20", "S.", "confirmed n2 isn 5 now"),
	MOVES("confirmed, FIN ACK: closing", "confirmed n2 isn 5 age 3", "F.", "closing n2 isn 5 now"),
	MOVES("confirmed, FIN PSH ACK: closing", "confirmed n2 isn 5 age 20", "FP.", "closing n2 isn 5 now"),
	MOVES("confirmed, RST: reset", "confirmed n2 isn 5 age 3", "R", "reset n2 isn 5 now"),
	MOVES("confirmed, RST ACK: reset", "confirmed n2 isn 5 age 20", "R.", "reset n2 isn 5 now"),
	MOVES("confirmed, FIN RST: reset", "confirmed n2 isn 5 age 3", "FR.", "reset n2 isn 5 now"),
	MOVES("closing, ACK, young: not written", "closing n2 isn 5 age 3", ".", NULL),
	MOVES("closing, ACK, old: refreshed", "closing n2 isn 5 age 20", ".", "closing n2 isn 5 now"),
	MOVES("closing, FIN again: not written", "closing n2 isn 5 age 3", "F.", NULL),
	MOVES("closing, RST: reset", "closing n2 isn 5 age 3", "R", "reset n2 isn 5 now"),
	MOVES("reset, RST again, young: not written", "reset n2 isn 5 age 3", "R", NULL),
	MOVES("reset, RST again, old: refreshed", "reset n2 isn 5 age 20", "R.", "reset n2 isn 5 now"),
	MOVES("reset, ACK belies it: confirmed", "reset n2 isn 5 age 3", ".", "confirmed n2 isn 5 now"),
	MOVES("reset, FIN belies it: closing", "reset n2 isn 5 age 3", "F.", "closing n2 isn 5 now"),
	MOVES("all flags but SYN", "confirmed n2 isn 5 age 3", "FRP.UEW", "reset n2 isn 5 now"),
	MOVES("ECE CWR ACK", "confirmed n2 isn 5 age 3", "EW.", NULL),
};

/* A packet of a confirmed flow, forwarded to n2. */
#define HIT(name_, variants_, in_, out_)                                                             \
	{                                                                                            \
		.name = name_, .variants = variants_, .flow = "confirmed n2 isn 5 age 3", .in = in_, \
		.verdict = REDIRECT, .counted = "flow", .out = out_,                                 \
	}

static const struct fixture contents[] = {
	HIT("data", 0, "ip cl>s1 | tcp 40000>80 P. seq 7 ack 9 win 502 | data 100", TO_N2),
	HIT("traffic class goes outside, too", 0, "ip cl>s1 tos 0xb8 | tcp 40000>80 . | data 1",
	    "eth me>n2 | tunnel c1>c2 tos 0xb8 | *"),
	HIT("ECT(0) goes outside, too", 0, "ip cl>s1 tos 2 | tcp 40000>80 . | data 1",
	    "eth me>n2 | tunnel c1>c2 tos 2 | *"),
	HIT("CE goes outside, too", 0, "ip cl>s1 tos 0xff | tcp 40000>80 . | data 1",
	    "eth me>n2 | tunnel c1>c2 tos 0xff | *"),
	HIT("without DF the outer header has it all the same", V4, "ip cl>s1 nodf id 77 | tcp 40000>80 . | data 1",
	    TO_N2),
	HIT("TTL 1 is the client's business", 0, "ip cl>s1 ttl 1 | tcp 40000>80 . | data 1", TO_N2),
	HIT("as long as the tunnel takes", V4, "ip cl>s1 | tcp 40000>80 . | data 1440", TO_N2),
	HIT("as long as the tunnel takes", V6, "ip cl>s1 | tcp 40000>80 . | data 1400", TO_N2),
	HIT("padding stays behind the datagram", 0, ACK " | pad 6", TO_N2 " | pad 6"),
	HIT("padding behind data", 0, "ip cl>s1 | tcp 40000>80 . | data 5 | pad 1", TO_N2 " | pad 1"),
	HIT("40 bytes of TCP options", 0,
	    "ip cl>s1 | tcp 40000>80 . opt 0101080a0000000100000002010105120000000100000002000000030000000401010101 "
	    "| data 3",
	    TO_N2),
	HIT("urgent data, a closed window", 0, "ip cl>s1 | tcp 40000>80 . urg 3 win 0 | data 9", TO_N2),
};

/* Damaged packets stay as they are: the receiver judges them. */
static const struct fixture damaged[] = {
	{ .name = "a wrong TCP checksum is carried along",
	  .flow = "confirmed n2 isn 5 age 3",
	  .in = "ip cl>s1 | tcp 40000>80 . sum bad | data 10",
	  .verdict = REDIRECT,
	  .counted = "flow",
	  .out = TO_N2,
	  .sums_bad = true },
	{ .name = "a wrong header checksum is carried along",
	  .variants = V4,
	  .flow = "confirmed n2 isn 5 age 3",
	  .in = "ip cl>s1 sum bad | tcp 40000>80 . | data 10",
	  .verdict = REDIRECT,
	  .counted = "flow",
	  .out = TO_N2,
	  .sums_bad = true },
};

static const struct fixture lookups[] = {
	{ .name = "in the next bucket",
	  .flow = "half_open n2 isn 5 age 3 overflow",
	  .in = ACK,
	  .verdict = REDIRECT,
	  .counted = "flow",
	  .after = "confirmed n2 isn 5 now",
	  .out = TO_N2 },
	{ .name = "a full bucket, and not among them",
	  .flow = "confirmed n2 isn 5 age 3 overflow",
	  .in = "ip cl>s1 | tcp 39999>80 .",
	  .verdict = PASS },
	{ .name = "a bucket known to be empty is not looked at",
	  .flow = "confirmed n2 isn 5 age 3 unoccupied",
	  .in = ACK,
	  .verdict = PASS,
	  .after = "none" },
	{ .name = "the other service port",
	  .flow = "half_open n2 isn 5 age 3 port 443",
	  .in = "ip cl>s1 | tcp 40000>443 .",
	  .verdict = REDIRECT,
	  .counted = "flow",
	  .after = "confirmed n2 isn 5 now",
	  .out = TO_N2 },
	{ .name = "the other service address",
	  .flow = "half_open n2 isn 5 age 3 to t1",
	  .in = "ip cl>t1 | tcp 40000>80 .",
	  .verdict = REDIRECT,
	  .counted = "flow",
	  .after = "confirmed n2 isn 5 now",
	  .out = TO_N2 },
	{ .name = "to n3",
	  .flow = "confirmed n3 isn 5 age 3",
	  .in = ACK,
	  .verdict = REDIRECT,
	  .counted = "flow",
	  .out = "eth me>n3 | tunnel c1>c3 | *" },
	{ .name = "to a node that is not heard any more",
	  .flow = "confirmed n4 isn 5 age 3",
	  .in = ACK,
	  .verdict = REDIRECT,
	  .counted = "flow",
	  .out = "eth me>n4 | tunnel c1>c4 | *" },
	{ .name = "no flow", .in = ACK, .verdict = PASS },
	{ .name = "another client port", .flow = "confirmed n2 isn 5 age 30 from 40001", .in = ACK, .verdict = PASS },
	{ .name = "another client address",
	  .flow = "confirmed n2 isn 5 age 30",
	  .in = "ip xx>s1 | tcp 40000>80 .",
	  .verdict = PASS },
	{ .name = "the same client, another service port",
	  .flow = "confirmed n2 isn 5 age 30",
	  .in = "ip cl>s1 | tcp 40000>443 .",
	  .verdict = PASS },
	{ .name = "the same client, another service address",
	  .flow = "confirmed n2 isn 5 age 30",
	  .in = "ip cl>t1 | tcp 40000>80 .",
	  .verdict = PASS },
	{ .name = "ports the other way round",
	  .flow = "confirmed n2 isn 5 age 30",
	  .in = "ip cl>s1 | tcp 80>40000 .",
	  .verdict = PASS },
	{ .name = "no service port",
	  .flow = "confirmed n2 isn 5 age 30",
	  .in = "ip cl>s1 | tcp 40000>81 .",
	  .verdict = PASS },
	{ .name = "dprd stopped: forwarded all the same",
	  .beat_ago_ms = STOPPED,
	  .flow = "half_open n2 isn 5 age 3",
	  .in = ACK,
	  .verdict = REDIRECT,
	  .counted = "flow",
	  .after = "confirmed n2 isn 5 now",
	  .out = TO_N2 },
	{ .name = "dprd frozen: forwarded all the same",
	  .beat_ago_ms = 5000,
	  .flow = "confirmed n2 isn 5 age 3",
	  .in = ACK,
	  .verdict = REDIRECT,
	  .counted = "flow",
	  .out = TO_N2 },
	{ .name = "the mark of others stays",
	  .flow = "confirmed n2 isn 5 age 3",
	  .mark_before = 0x1234,
	  .in = ACK,
	  .verdict = REDIRECT,
	  .mark = 0x1234,
	  .counted = "flow",
	  .out = TO_N2 },
};

/*
 * The way to the node. Without one a packet is dropped, never passed to the own stack, which would answer with a reset.
 */
static const struct fixture ways[] = {
	{ .name = "the flow leads to this node",
	  .flow = "half_open n1 isn 5 age 3",
	  .in = ACK,
	  .verdict = PASS,
	  .after = "confirmed n1 isn 5 now" },
	{ .name = "n2 is this node by now",
	  .flow = "confirmed n2 isn 5 age 3",
	  .way = "self",
	  .in = ACK,
	  .verdict = PASS },
	{ .name = "no way",
	  .flow = "half_open n2 isn 5 age 3",
	  .way = "unusable",
	  .in = ACK,
	  .verdict = DROP,
	  .counted = "no_tunnel",
	  .after = "confirmed n2 isn 5 now" },
	{ .name = "never heard of a way",
	  .flow = "confirmed n2 isn 5 age 3",
	  .way = "none",
	  .in = ACK,
	  .verdict = DROP,
	  .counted = "no_tunnel" },
	{ .name = "an old hardware address",
	  .flow = "confirmed n2 isn 5 age 3",
	  .way = "stale",
	  .in = ACK,
	  .verdict = REDIRECT,
	  .counted = "flow",
	  .out = TO_N2 },
	{ .name = "no hardware address",
	  .flow = "confirmed n2 isn 5 age 3",
	  .way = "unknown",
	  .in = ACK,
	  .verdict = REDIRECT,
	  .counted = "flow",
	  .out = TO_N2 },
	{ .name = "no Ethernet",
	  .flow = "confirmed n2 isn 5 age 3",
	  .way = "raw",
	  .in = ACK,
	  .verdict = REDIRECT,
	  .counted = "flow",
	  .out = TO_N2 },
};

/* Every combination of flags, by a separate table of the next state. */
static void test_all_flags(void **state)
{
	static const char *const names[] = { "half_open", "confirmed", "closing", "reset" };
	static const char letters[] = "FSRP.UEW";
	unsigned flags, from, variant, bit;

	(void)state;
	for (flags = 0; flags < 256; flags++) {
		bool fin = flags & 1, syn = flags & 2, rst = flags & 4, ack = flags & 16;
		char in[80], before[40], after[40], word[9] = "";

		for (bit = 0; bit < 8; bit++)
			strncat(word, letters + bit, flags >> bit & 1);
		snprintf(in, sizeof(in), "ip cl>s1 | tcp 40000>80 %s seq 7", flags ? word : "none");
		for (from = 0; from < 4; from++) {
			const struct fixture f = { .flow = before,
						   .in = in,
						   .verdict = REDIRECT,
						   .counted = "flow",
						   .after = after,
						   .out = TO_N2 };
			const char *to = rst || (from == 3 && syn && !fin) ? "reset"
					 : fin || from == 2                ? "closing"
									   : "confirmed";
			bool kept = (from == 0 && syn) || strcmp(to, names[from]) == 0;

			/* A SYN has its own rules. */
			if (syn && !fin && !rst && !ack)
				continue;
			snprintf(before, sizeof(before), "%s n2 isn 5 age 3", names[from]);
			snprintf(after, sizeof(after), kept ? "%s n2 isn 5 age 3" : "%s n2 isn 5 now",
				 kept ? names[from] : to);
			for (variant = 0; variant < SITE_QUEUE_VARIANTS; variant++) {
				site_reset(variant);
				fixture_prepare(&f, variant);
				fixture_check(&f, variant);
			}
		}
	}
}

/* RFC 2003 3.1: a packet without a hop left must not enter a tunnel. The client is there: the flow moves on. */
static const struct fixture hops[] = {
	{ .name = "one hop left",
	  .flow = "confirmed n2 isn 5 age 30",
	  .in = "ip cl>s1 ttl 1 | tcp 40000>80 .",
	  .verdict = REDIRECT,
	  .counted = "flow",
	  .after = "confirmed n2 isn 5 now",
	  .out = TO_N2 },
	{ .name = "no hop left",
	  .flow = "confirmed n2 isn 5 age 30",
	  .in = "ip cl>s1 ttl 0 | tcp 40000>80 .",
	  .verdict = DROP,
	  .counted = "no_tunnel",
	  .after = "confirmed n2 isn 5 now" },
	{ .name = "no hop left, too big",
	  .flow = "confirmed n2 isn 5 age 3",
	  .in = "ip cl>s1 ttl 0 | tcp 40000>80 . | data 1500",
	  .verdict = DROP,
	  .counted = "no_tunnel" },
	{ .name = "no hop left, an error about the flow",
	  .flow = "confirmed n2 isn 5 age 3",
	  .in = "ip rt>s1 ttl 0 | icmp unreachable | ip s1>cl | tcp 80>40000 .",
	  .verdict = DROP,
	  .counted = "no_tunnel" },
	{ .name = "no hop left, a new SYN: served here",
	  .variants = KERNEL,
	  .schedule = "n2/chosen",
	  .in = "ip cl>s1 ttl 0 | tcp 40000>80 S seq 5",
	  .verdict = PASS,
	  .counted = "forward_failed syn" },
};

int main(void)
{
	const struct CMUnitTest others[] = { cmocka_unit_test(test_all_flags) };
	const struct fixtures tables[] = { FIXTURES(states),  FIXTURES(contents), FIXTURES(damaged),
					   FIXTURES(lookups), FIXTURES(ways),     FIXTURES(hops) };

	return fixture_main("forward", tables, sizeof(tables) / sizeof(tables[0]), others,
			    sizeof(others) / sizeof(others[0]));
}
