// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_fellow.c - flows to shared addresses that lead to a fellow node: packets that reach it without help, packets
 * that are handed to it, and its handling of these.
 */
#include "tests/bpf/fixture.h"

enum { FORWARD = 0x40000000 };

#define CONFIRMED "confirmed n2 isn 5 age 3"
#define TO_N2 "eth me>n2 | tunnel c1>c2 | *"

#define FELLOW(name_, way_, in_) .name = name_, .flow = CONFIRMED " to sh", .way = way_, .in = "eth gw>all | " in_
#define HANDED(out_) .verdict = REDIRECT, .out = "eth me>n4 | " out_, .sum_kept = true

static const struct fixture fellow[] = {
	{ FELLOW("a segment to a shared address", "fellow", "ip cl>sh | tcp 40000>80 P. | data 30"),
	  HANDED("ip cl>sh ttl 62 | tcp 40000>80 P. | data 30"), .counted = "flow accept_forward" },
	{ .name = "a segment to the other one",
	  .way = "fellow",
	  .flow = "half_open n2 isn 5 age 3 to si",
	  .in = "eth gw>all | ip cl>si | tcp 40000>80 .",
	  HANDED("ip cl>si ttl 62 | tcp 40000>80 ."),
	  .counted = "flow accept_forward",
	  .after = "confirmed n2 isn 5 now" },
	{ FELLOW("judged by the module", "fellow", "ip cl>sh | tcp 40000>80 P. | data 30"), .by_module = true,
	  HANDED("ip cl>sh ttl 62 | tcp 40000>80 P. | data 30"), .counted = "flow" },
	{ FELLOW("from another network: the tunnel", "fellow", "ip cl>sh | tcp 40000>80 P. | data 30"),
	  .by_module = true, .elsewhere = true, .verdict = REDIRECT, .out = TO_N2, .counted = "flow" },
	{ FELLOW("an old hardware address of the tunnel's", "fellow stale", "ip cl>sh | tcp 40000>80 ."),
	  HANDED("ip cl>sh ttl 62 | tcp 40000>80 ."), .counted = "flow accept_forward" },
	{ FELLOW("no tunnel", "fellow unusable", "ip cl>sh | tcp 40000>80 ."),
	  HANDED("ip cl>sh ttl 62 | tcp 40000>80 ."), .counted = "flow accept_forward" },
	{ FELLOW("an ICMP error", "fellow", "ip rt>sh | icmp unreachable | ip sh>cl | tcp 80>40000 . | data 8"),
	  HANDED("ip rt>sh ttl 62 | icmp unreachable | ip sh>cl | tcp 80>40000 . | data 8"),
	  .counted = "icmp_relay accept_forward" },
	{ FELLOW("all that came by that network fits it", "fellow", "ip cl>sh | tcp 40000>80 . | data 3000"),
	  HANDED("ip cl>sh ttl 62 | tcp 40000>80 . | data 3000"), .counted = "flow accept_forward" },
	{ FELLOW("large segments", "fellow", "ip cl>sh | tcp 40000>80 . | data 3000"), .gso_bytes = 1500,
	  HANDED("ip cl>sh ttl 62 | tcp 40000>80 . | data 3000"), .counted = "flow accept_forward" },
	{ FELLOW("dprd stopped: a copy of the SYN", "fellow", "ip cl>sh | tcp 40000>80 S seq 5"), .by_module = true,
	  .beat_ago_ms = STOPPED, HANDED("ip cl>sh ttl 62 | tcp 40000>80 S seq 5"), .counted = "same_syn" },
	{ FELLOW("it judges itself: a segment", "fellow watches", "ip cl>sh | tcp 40000>80 P. | data 30"),
	  .verdict = DROP, .counted = "seen_there accept_forward" },
	{ .name = "it judges itself: the handshake's end moves the flow on",
	  .way = "fellow watches",
	  .flow = "half_open n2 isn 5 age 3 to si",
	  .in = "eth gw>all | ip cl>si | tcp 40000>80 .",
	  .verdict = DROP,
	  .counted = "seen_there accept_forward",
	  .after = "confirmed n2 isn 5 now" },
	{ FELLOW("it judges itself: an ICMP error", "fellow watches",
		 "ip rt>sh | icmp unreachable | ip sh>cl | tcp 80>40000 . | data 8"),
	  .verdict = DROP, .counted = "seen_there accept_forward" },
	{ FELLOW("it judges itself, dprd stopped: a copy of the SYN", "fellow watches",
		 "ip cl>sh | tcp 40000>80 S seq 5"),
	  .by_module = true, .beat_ago_ms = STOPPED, HANDED("ip cl>sh ttl 62 | tcp 40000>80 S seq 5"),
	  .counted = "same_syn" },
	{ .name = "it judges itself: an own service address",
	  .flow = CONFIRMED,
	  .way = "fellow watches",
	  .in = "ip cl>s1 | tcp 40000>80 . | data 30",
	  .verdict = REDIRECT,
	  .out = TO_N2,
	  .counted = "flow" },
	{ FELLOW("the last hop", "fellow", "ip cl>sh ttl 1 | tcp 40000>80 ."), .verdict = DROP,
	  .counted = "no_tunnel accept_forward" },
	{ .name = "an own service address: the tunnel",
	  .flow = CONFIRMED,
	  .way = "fellow",
	  .in = "ip cl>s1 | tcp 40000>80 . | data 30",
	  .verdict = REDIRECT,
	  .out = TO_N2,
	  .counted = "flow" },
	{ .name = "an own service address: one byte too long for the tunnel",
	  .variants = V4,
	  .flow = CONFIRMED,
	  .way = "fellow",
	  .in = "ip cl>s1 | tcp 40000>80 . | data 1441",
	  .verdict = PASS,
	  .mark = FORWARD },
	{ FELLOW("no fellow: the tunnel", NULL, "ip cl>sh | tcp 40000>80 . | data 30"), .verdict = REDIRECT,
	  .out = TO_N2, .counted = "flow accept_forward" },
	{ FELLOW("this node by now", "self fellow", "ip cl>sh | tcp 40000>80 ."), .by_module = true, .verdict = PASS },
};

/* A fellow handed over a packet to this node's own hardware address: it is never handed on. */
#define KEPT(name_, flow_, in_)                                                                           \
	{                                                                                                 \
		.name = name_, .flow = flow_, .way = "fellow", .choices = "n2", .in = "eth gw>lo | " in_, \
		.verdict = PASS                                                                           \
	}
#define KEPT_ALONE(name_, flow_, in_)                                                                   \
	{                                                                                               \
		.name = name_, .beat_ago_ms = STOPPED, .flow = flow_, .way = "fellow", .choices = "n2", \
		.in = "eth gw>lo | " in_, .verdict = PASS                                               \
	}

static const struct fixture handed_over[] = {
	KEPT("a SYN", NULL, "ip cl>sh | tcp 40000>80 S"),
	KEPT("a segment", NULL, "ip cl>sh | tcp 40000>80 ."),
	KEPT("a copy of a SYN that went elsewhere", "half_open n2 isn 5 age 30 to sh",
	     "ip cl>sh | tcp 40000>80 S seq 5"),
	KEPT("a segment of an older flow", "confirmed n2 isn 5 age 30 to sh", "ip cl>sh | tcp 40000>80 . | data 3000"),
	KEPT("the end of an older flow", "confirmed n2 isn 5 age 30 to sh", "ip cl>sh | tcp 40000>80 F."),
	KEPT("an ICMP error", "confirmed n2 isn 5 age 30 to sh",
	     "ip rt>sh | icmp unreachable | ip sh>cl | tcp 80>40000 . | data 8"),
	KEPT("the last hop", "confirmed n2 isn 5 age 30 to sh", "ip cl>sh ttl 1 | tcp 40000>80 ."),
	KEPT_ALONE("dprd stopped: a SYN", NULL, "ip cl>sh | tcp 40000>80 S"),
	KEPT_ALONE("dprd stopped: a copy", "half_open n2 isn 5 age 30 to sh", "ip cl>sh | tcp 40000>80 S seq 5"),
	KEPT_ALONE("dprd stopped: the port again", "closing n2 isn 5 age 30 to sh", "ip cl>sh | tcp 40000>80 S seq 6"),
	KEPT_ALONE("dprd stopped: a segment", "confirmed n2 isn 5 age 30 to sh", "ip cl>sh | tcp 40000>80 ."),
};

int main(void)
{
	const struct fixtures tables[] = { FIXTURES(fellow), FIXTURES(handed_over) };

	return fixture_main("fellow", tables, sizeof(tables) / sizeof(tables[0]), NULL, 0);
}
