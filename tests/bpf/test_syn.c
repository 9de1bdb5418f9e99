// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_syn.c - new connections. dprd decides about them, so they are marked for its queues; while it does not work,
 * copies and living flows keep their node, and all other SYNs are served here.
 */
#include "tests/bpf/fixture.h"

enum { MARK = 0x40000000, DECIDE = 0x20000000 };

#define SYN(isn) "ip cl>s1 | tcp 40000>80 S seq " isn " opt 020405b4"
#define TO_N2 "eth me>n2 | tunnel c1>c2 | *"

/* dprd works: whatever the flow is, the SYN goes to the queue. */
#define MARKED(name_, flow_, in_, mark_)                                                \
	{                                                                               \
		.name = name_, .flow = flow_, .in = in_, .verdict = PASS, .mark = mark_ \
	}

/* The SYN begins another connection. If no rule queues it, its later packets stay here. */
#define ENDED(name_, state, in_)                                                                           \
	{                                                                                                  \
		.name = name_, .flow = state " n2 isn 5 age 30", .in = in_, .verdict = PASS, .mark = MARK, \
		.after = state " n1 isn 5 age 30"                                                          \
	}

static const struct fixture works[] = {
	MARKED("no flow", NULL, SYN("5"), DECIDE),
	MARKED("a half-open flow, a copy", "half_open n2 isn 5 age 30", SYN("5"), MARK),
	ENDED("a half-open flow, another SYN", "half_open", SYN("6")),
	MARKED("a confirmed flow, a copy", "confirmed n2 isn 5 age 30", SYN("5"), MARK),
	MARKED("a confirmed flow, another SYN", "confirmed n2 isn 5 age 30", SYN("6"), MARK),
	MARKED("a closing flow, a copy", "closing n2 isn 5 age 30", SYN("5"), MARK),
	ENDED("a closing flow, another SYN", "closing", SYN("6")),
	MARKED("a reset flow, a copy", "reset n2 isn 5 age 30", SYN("5"), MARK),
	ENDED("a reset flow, another SYN", "reset", SYN("6")),
	MARKED("a flow to this node, a copy", "half_open n1 isn 5 age 30", SYN("5"), MARK),
	MARKED("a flow to this node, another SYN", "confirmed n1 isn 5 age 30", SYN("6"), MARK),
	MARKED("a flow in the next bucket", "half_open n2 isn 5 age 30 overflow", SYN("5"), MARK),
	MARKED("another client's flow", "half_open n2 isn 5 age 30 from 40001", SYN("5"), DECIDE),
	MARKED("a flow to the other port", "confirmed n2 isn 5 age 30 port 443", SYN("5"), DECIDE),
	MARKED("to the other service address", NULL, "ip cl>t1 | tcp 40000>80 S seq 5", DECIDE),
	MARKED("to the other port", NULL, "ip cl>s1 | tcp 40000>443 S seq 5", DECIDE),
	MARKED("with ECN set up", NULL, "ip cl>s1 | tcp 40000>80 SEW seq 5", DECIDE),
	MARKED("with PSH and URG", NULL, "ip cl>s1 | tcp 40000>80 SPU seq 5", DECIDE),
	MARKED("with data", NULL, "ip cl>s1 | tcp 40000>80 S seq 5 | data 100", DECIDE),
	MARKED("padded", NULL, "ip cl>s1 | tcp 40000>80 S seq 5 | pad 6", DECIDE),
	MARKED("no service port", NULL, "ip cl>s1 | tcp 40000>22 S seq 5", 0),
	MARKED("to a peer's address", NULL, "ip cl>s2 | tcp 40000>80 S seq 5", 0),
	MARKED("SYN ACK is none", NULL, "ip cl>s1 | tcp 40000>80 S. seq 5", 0),
	MARKED("SYN RST is none", NULL, "ip cl>s1 | tcp 40000>80 SR seq 5", 0),
	MARKED("SYN FIN is none", NULL, "ip cl>s1 | tcp 40000>80 SF seq 5", 0),
	MARKED("without any flag", NULL, "ip cl>s1 | tcp 40000>80 none seq 5", 0),
	{ .name = "the mark of others stays",
	  .mark_before = 0x1234,
	  .in = SYN("5"),
	  .verdict = PASS,
	  .mark = DECIDE | 0x1234 },
	{ .name = "the mark of others stays beside FORWARD",
	  .flow = "half_open n2 isn 5 age 30",
	  .mark_before = 0x8001,
	  .in = SYN("5"),
	  .verdict = PASS,
	  .mark = MARK | 0x8001 },
	{ .name = "dprd was seen 300 ms ago", .beat_ago_ms = 300, .in = SYN("5"), .verdict = PASS, .mark = DECIDE },
	{ .name = "a packet has waited for 10 ms", .waiting_ms = 10, .in = SYN("5"), .verdict = PASS, .mark = DECIDE },
	{ .name = "no way to the flow's node",
	  .flow = "half_open n2 isn 5 age 30",
	  .way = "unusable",
	  .in = SYN("5"),
	  .verdict = PASS,
	  .mark = MARK },
};

/* its cluster address gets tunnel packets, not clients */
static const struct fixture to_cluster[] = {
	{ .name = "SYN to the cluster address",
	  .variants = OWN,
	  .in = "ip cl>c1 | tcp 40000>80 S seq 5",
	  .verdict = PASS },
	{ .name = "SYN to the cluster address, which is the service's",
	  .variants = ALIAS,
	  .in = "ip cl>c1 | tcp 40000>80 S seq 5",
	  .verdict = PASS,
	  .mark = DECIDE },
};

#define ALONE(name_, flow_, in_) .name = name_, .beat_ago_ms = STOPPED, .flow = flow_, .in = in_
#define COPY(name_, flow_, in_, reason_)                                                        \
	{                                                                                       \
		ALONE(name_, flow_, in_), .verdict = REDIRECT, .counted = reason_, .out = TO_N2 \
	}
#define SERVED(name_, flow_, in_, after_)                                  \
	{                                                                  \
		ALONE(name_, flow_, in_), .verdict = PASS, .after = after_ \
	}

static const struct fixture alone[] = {
	SERVED("stopped, no flow", NULL, SYN("5"), NULL),
	COPY("stopped, half-open, a copy", "half_open n2 isn 5 age 30", SYN("5"), "same_syn"),
	SERVED("stopped, half-open, another SYN: served here", "half_open n2 isn 5 age 30", SYN("6"),
	       "half_open n1 isn 6 age 30"),
	COPY("stopped, confirmed, a copy", "confirmed n2 isn 5 age 30", SYN("5"), "same_syn"),
	COPY("stopped, confirmed, another SYN", "confirmed n2 isn 5 age 30", SYN("6"), "same_flow"),
	COPY("stopped, closing, a copy", "closing n2 isn 5 age 30", SYN("5"), "same_syn"),
	SERVED("stopped, closing, another SYN: served here", "closing n2 isn 5 age 30", SYN("6"),
	       "closing n1 isn 6 age 30"),
	COPY("stopped, reset, a copy", "reset n2 isn 5 age 30", SYN("5"), "same_syn"),
	SERVED("stopped, reset, another SYN: served here", "reset n2 isn 5 age 30", SYN("6"), "reset n1 isn 6 age 30"),
	SERVED("stopped, to this node, a copy", "half_open n1 isn 5 age 30", SYN("5"), NULL),
	SERVED("stopped, to this node, another SYN", "half_open n1 isn 5 age 30", SYN("6"),
	       "half_open n1 isn 6 age 30"),
	SERVED("stopped, confirmed and to this node, another SYN", "confirmed n1 isn 5 age 30", SYN("6"), NULL),
	COPY("stopped, 24 bits of the sequence number count", "half_open n2 isn 5 age 30", SYN("0xab000005"),
	     "same_syn"),
	SERVED("stopped, the 24th bit counts", "half_open n2 isn 5 age 30", SYN("0x800005"),
	       "half_open n1 isn 8388613 age 30"),
	COPY("stopped, a flow in the next bucket", "half_open n2 isn 5 age 30 overflow", SYN("5"), "same_syn"),
	SERVED("stopped, another client's flow", "half_open n2 isn 5 age 30 from 40001", SYN("5"), NULL),
	SERVED("stopped, SYN to no service port", "half_open n2 isn 5 age 30", "ip cl>s1 | tcp 40000>22 S seq 5", NULL),
	COPY("stopped, an ECN copy", "half_open n2 isn 5 age 30", "ip cl>s1 | tcp 40000>80 SEW seq 5", "same_syn"),
	{ ALONE("stopped, a copy, no way", "half_open n2 isn 5 age 30", SYN("5")), .way = "unusable", .verdict = DROP,
	  .counted = "no_tunnel" },
	{ ALONE("stopped, another SYN, no way: served here", "closing n2 isn 5 age 30", SYN("6")), .way = "unusable",
	  .verdict = PASS, .after = "closing n1 isn 6 age 30" },
	{ ALONE("stopped, n2 is this node by now", "half_open n2 isn 5 age 30", SYN("5")), .way = "self",
	  .verdict = PASS },
	{ .name = "silent for 500 ms, no flow", .beat_ago_ms = 500, .in = SYN("5"), .verdict = PASS },
	{ .name = "silent for 500 ms, a copy",
	  .beat_ago_ms = 500,
	  .flow = "half_open n2 isn 5 age 30",
	  .in = SYN("5"),
	  .verdict = REDIRECT,
	  .counted = "same_syn",
	  .out = TO_N2 },
	{ .name = "a packet has waited for 60 ms, no flow", .waiting_ms = 60, .in = SYN("5"), .verdict = PASS },
	{ .name = "a packet has waited for 60 ms, a copy",
	  .waiting_ms = 60,
	  .flow = "half_open n2 isn 5 age 30",
	  .in = SYN("5"),
	  .verdict = REDIRECT,
	  .counted = "same_syn",
	  .out = TO_N2 },
	{ .name = "a packet has waited for 60 ms, another SYN",
	  .waiting_ms = 60,
	  .flow = "closing n2 isn 5 age 30",
	  .in = SYN("6"),
	  .verdict = PASS,
	  .after = "closing n1 isn 6 age 30" },
	{ .name = "silent for an hour, another SYN",
	  .beat_ago_ms = 3600000,
	  .flow = "confirmed n2 isn 5 age 30",
	  .in = SYN("6"),
	  .verdict = REDIRECT,
	  .counted = "same_flow",
	  .out = TO_N2 },
};

int main(void)
{
	const struct fixtures tables[] = { FIXTURES(works), FIXTURES(to_cluster), FIXTURES(alone) };

	return fixture_main("syn", tables, sizeof(tables) / sizeof(tables[0]), NULL, 0);
}
