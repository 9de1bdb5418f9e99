// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_second_look.c - which SYNs the programs leave to dprd for a second look, on either side, and what they do
 * with these when dprd is away.
 */
#include "tests/bpf/fixture.h"

#define FROM_N2 "eth n2>me | tunnel c2>c1 | "
#define MAY_RETURN4 "eth n2>me | tunnel c2>c1 id 0x5b1d | "
#define MAY_RETURN6 "eth n2>me | tunnel c2>c1 flow 0x5b1d | "
#define SYN "ip cl>s2 | tcp 40000>80 S seq 5 opt 020405b4"
#define ACK "ip cl>s2 | tcp 40000>80 . seq 6 ack 7"
#define SYN_ACK "ip cl>s2 | tcp 40000>80 S. seq 6 ack 7"
#define RETURNED "ip cl>s1 | tcp 40000>80 S seq 5 opt 020405b4"

/* A tunnelled SYN that may return, in both families; the same otherwise. */
#define BOTH(name_, inner_, ...)                                                              \
	{ .name = name_ ", IPv4", .variants = V4, .in = MAY_RETURN4 inner_, __VA_ARGS__ },    \
	{                                                                                     \
		.name = name_ ", IPv6", .variants = V6, .in = MAY_RETURN6 inner_, __VA_ARGS__ \
	}
#define LEFT_TO_DPRD .verdict = PASS, .mark = MARK_FORWARD
#define TAKEN(local_) .verdict = PASS, .counted = "from_peer", .out = "eth n2>me | " local_
#define LOCAL_SYN "ip cl>l2 | tcp 40000>80 S seq 5 opt 020405b4"

static const struct fixture landed[] = {
	BOTH("dprd wants to look", SYN, .second_look = LOOK_NOW, LEFT_TO_DPRD),
	BOTH("dprd looks and offers", SYN, .second_look = LOOK_NOW | LOOK_OFFER, LEFT_TO_DPRD),
	BOTH("the mark of others stays", SYN, .second_look = LOOK_NOW, .mark_before = 3, .verdict = PASS,
	     .mark = MARK_FORWARD | 3),
	BOTH("a flow of the same client here does not matter", SYN, .second_look = LOOK_NOW,
	     .flow = "confirmed n3 isn 5 age 30", LEFT_TO_DPRD),
	BOTH("dprd does not want to look", SYN, .second_look = LOOK_OFFER, TAKEN(LOCAL_SYN)),
	BOTH("dprd stopped", SYN, .second_look = LOOK_NOW, .beat_ago_ms = STOPPED, TAKEN(LOCAL_SYN)),
	BOTH("dprd silent for 500 ms", SYN, .second_look = LOOK_NOW, .beat_ago_ms = 500, TAKEN(LOCAL_SYN)),
	BOTH("no SYN", ACK, .second_look = LOOK_NOW, TAKEN("ip cl>l2 | tcp 40000>80 . seq 6 ack 7")),
	BOTH("SYN ACK", SYN_ACK, .second_look = LOOK_NOW, TAKEN("ip cl>l2 | tcp 40000>80 S. seq 6 ack 7")),
	BOTH("not n2's service", "ip cl>s3 | tcp 40000>80 S seq 5", .second_look = LOOK_NOW, .verdict = DROP,
	     .counted = "inner_not_senders"),
	BOTH("no service port", "ip cl>s2 | tcp 40000>22 S seq 5", .second_look = LOOK_NOW, .verdict = DROP,
	     .counted = "inner_foreign"),
	{ .name = "one that may not return", .second_look = LOOK_NOW, .in = FROM_N2 SYN, TAKEN(LOCAL_SYN) },
	{ .name = "another id",
	  .variants = V4,
	  .second_look = LOOK_NOW,
	  .in = "eth n2>me | tunnel c2>c1 id 0x5b1c | " SYN,
	  TAKEN(LOCAL_SYN) },
	{ .name = "another label",
	  .variants = V6,
	  .second_look = LOOK_NOW,
	  .in = "eth n2>me | tunnel c2>c1 flow 0x15b1d | " SYN,
	  TAKEN(LOCAL_SYN) },
};

static const struct fixture returned[] = {
	{ .name = "back from n2", .in = FROM_N2 RETURNED, LEFT_TO_DPRD },
	{ .name = "back from n2, its flow is there",
	  .flow = "half_open n2 isn 5 age 3",
	  .in = FROM_N2 RETURNED,
	  LEFT_TO_DPRD },
	{ .name = "back from n2, dprd stopped",
	  .beat_ago_ms = STOPPED,
	  .flow = "half_open n2 isn 5 age 3",
	  .in = FROM_N2 RETURNED,
	  .verdict = DROP,
	  .counted = "returned_late" },
	{ .name = "no SYN is back",
	  .in = FROM_N2 "ip cl>s1 | tcp 40000>80 . seq 6 ack 7",
	  .verdict = DROP,
	  .counted = "inner_not_senders" },
	{ .name = "from a node that is not heard",
	  .in = "eth n2>me | tunnel c4>c1 | " RETURNED,
	  .verdict = DROP,
	  .counted = "not_peer" },
	{ .name = "from a host of no cluster",
	  .in = "eth n2>me | tunnel xx>c1 | " RETURNED,
	  .verdict = DROP,
	  .counted = "not_peer" },
	{ .name = "to no service port",
	  .in = FROM_N2 "ip cl>s1 | tcp 40000>22 S seq 5",
	  .verdict = DROP,
	  .counted = "inner_foreign" },
	{ .name = "a peer as the client",
	  .in = FROM_N2 "ip c3>s1 | tcp 40000>80 S seq 5",
	  .verdict = DROP,
	  .counted = "inner_source" },
};

#define OFFERED(variants_, look_) .variants = variants_, .second_look = look_, .in = "ip cl>s1 | tcp 40000>80 S seq 5"

/* Decide=kernel: what the programs forward themselves. */
static const struct fixture offered[] = {
	{ OFFERED(V4_KERNEL, LOOK_OFFER), .name = "the policy's choice, IPv4", .schedule = "n2/chosen",
	  .verdict = REDIRECT, .counted = "chosen syn made", .after = "half_open n2 isn 5 now",
	  .out = "eth me>n2 | tunnel c1>c2 id 0x5b1d | *" },
	{ OFFERED(V6_KERNEL, LOOK_OFFER), .name = "the policy's choice, IPv6", .schedule = "n2/chosen",
	  .verdict = REDIRECT, .counted = "chosen syn made", .after = "half_open n2 isn 5 now",
	  .out = "eth me>n2 | tunnel c1>c2 flow 0x5b1d | *" },
	{ OFFERED(KERNEL, LOOK_NOW), .name = "SecondLook=no", .schedule = "n2/chosen", .verdict = REDIRECT,
	  .counted = "chosen syn made", .after = "half_open n2 isn 5 now", .out = "eth me>n2 | tunnel c1>c2 | *" },
	{ OFFERED(KERNEL, LOOK_OFFER), .name = "this node drains: no other choice", .schedule = "n2/draining",
	  .verdict = REDIRECT, .counted = "draining syn made", .after = "half_open n2 isn 5 now",
	  .out = "eth me>n2 | tunnel c1>c2 | *" },
	{ OFFERED(KERNEL, LOOK_OFFER), .name = "a copy", .schedule = "n3/chosen", .flow = "half_open n2 isn 5 age 3",
	  .verdict = REDIRECT, .counted = "same_syn", .out = "eth me>n2 | tunnel c1>c2 | *" },
};

int main(void)
{
	const struct fixtures tables[] = { FIXTURES(landed), FIXTURES(returned), FIXTURES(offered) };

	return fixture_main("second look", tables, 3, NULL, 0);
}
