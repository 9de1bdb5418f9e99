// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_behind.c - TCP behind IP options, extension headers or a fragment header: packets of a forwarded flow go to dprd,
 * all others to the stack.
 */
#include "tests/bpf/fixture.h"

#define FLOW "confirmed n2 isn 5 age 30"
#define TCP "tcp 40000>80 ."
#define PIECE " | " TCP " | data 24"

/* To the queue of forwarded flows; the flow is dprd's to move on. */
#define QUEUED(name_, variants_, in_)                                                                                 \
	{                                                                                                             \
		.name = name_, .variants = variants_, .flow = FLOW, .in = in_, .verdict = PASS, .mark = MARK_FORWARD, \
	}
/* The same for the first fragment: dprd waits for none, since the last one may never come. */
#define MARKED(name_, variants_, in_)                                                                                 \
	{                                                                                                             \
		.name = name_, .variants = variants_, .flow = FLOW, .in = in_, .verdict = PASS, .mark = MARK_FORWARD, \
		.no_wait = true,                                                                                      \
	}
#define LEFT(name_, variants_, flow_, in_)                                                       \
	{                                                                                        \
		.name = name_, .variants = variants_, .flow = flow_, .in = in_, .verdict = PASS, \
	}

static const struct fixture of_flows[] = {
	QUEUED("options", V4, "ip cl>s1 options 4 | " TCP),
	QUEUED("40 bytes of options", V4, "ip cl>s1 options 40 | " TCP),
	QUEUED("options, a copy of its SYN", V4, "ip cl>s1 options 8 | tcp 40000>80 S seq 5"),
	QUEUED("options, an RST", V4, "ip cl>s1 options 8 | tcp 40000>80 R"),
	QUEUED("a hop-by-hop header", V6, "ip cl>s1 | ext 0 8 | " TCP),
	QUEUED("a routing header", V6, "ip cl>s1 | ext 43 24 | " TCP),
	QUEUED("a destination header", V6, "ip cl>s1 | ext 60 16 | " TCP),
	QUEUED("all of them", V6, "ip cl>s1 | ext 0 8 | ext 60 8 | ext 43 24 | ext 60 64 | " TCP),
	QUEUED("six headers", V6,
	       "ip cl>s1 | ext 60 8 | ext 60 8 | ext 60 8 | ext 60 8 | ext 60 16 | ext 60 24 | " TCP),
	MARKED("the first fragment", V4, "ip cl>s1 nodf mf" PIECE),
	MARKED("the first fragment, with options", V4, "ip cl>s1 nodf mf options 8" PIECE),
	MARKED("the first fragment, eight bytes", V4, "ip cl>s1 nodf mf len 28 | " TCP " | chop 12"),
	MARKED("a fragment header", V6, "ip cl>s1 | ext 44 8" PIECE),
	MARKED("a fragment header behind another", V6, "ip cl>s1 | ext 60 8 | ext 44 8" PIECE),
	{ .name = "the mark of others stays",
	  .variants = V4,
	  .flow = FLOW,
	  .in = "ip cl>s1 options 4 | " TCP,
	  .mark_before = 3,
	  .verdict = PASS,
	  .mark = MARK_FORWARD | 3 },
};

static const struct fixture of_none[] = {
	LEFT("a later fragment", V4, FLOW, "ip cl>s1 nodf off 24 proto 6 | data 32"),
	LEFT("a later fragment with options", V4, FLOW, "ip cl>s1 nodf off 24 options 4 proto 6 | data 32"),
	LEFT("the first fragment of another protocol", V4, FLOW, "ip cl>s1 nodf mf | udp 40000>80 | data 24"),
	LEFT("a fragment without ports", V4, FLOW, "ip cl>s1 nodf mf len 22 | " TCP " | chop 18"),
	LEFT("another client's", V4, FLOW, "ip xx>s1 options 4 | " TCP),
	LEFT("another client's", V6, FLOW, "ip xx>s1 | ext 60 8 | " TCP),
	LEFT("another service's", 0, FLOW, "ip cl>t1 | tcp 40000>443 ."),
	LEFT("a later fragment", V6, FLOW, "ip cl>s1 proto 44 | hex 0600000800000007 | data 32"),
	LEFT("segments are left", V6, FLOW, "ip cl>s1 proto 43 | hex 0602000100000000 | data 16 | " TCP),
	LEFT("UDP behind a header", V6, FLOW, "ip cl>s1 | ext 60 8 | udp 40000>80"),
	LEFT("an authentication header behind another", V6, FLOW, "ip cl>s1 | ext 60 8 | ext 51 24 | " TCP),
	LEFT("a header that is longer than the packet", V6, FLOW, "ip cl>s1 proto 60 | hex 06ff000000000000 | data 24"),
	LEFT("no flow", V4, NULL, "ip cl>s1 options 4 | " TCP),
	LEFT("no flow, a SYN", V4, NULL, "ip cl>s1 options 4 | tcp 40000>80 S"),
	LEFT("no flow, a fragment", V4, NULL, "ip cl>s1 nodf mf" PIECE),
	LEFT("no flow", V6, NULL, "ip cl>s1 | ext 60 8 | " TCP),
	LEFT("to no service port", V4, FLOW, "ip cl>s1 options 4 | tcp 40000>22 ."),
	LEFT("to a peer's address", V4, FLOW, "ip cl>s2 options 4 | " TCP),
	LEFT("the flow leads here", V4, "confirmed n1 isn 5 age 30", "ip cl>s1 options 4 | " TCP),
	{ .name = "the flow leads to NAT",
	  .variants = V4,
	  .flow = FLOW,
	  .way = "nat 1",
	  .in = "ip cl>s1 nodf mf" PIECE,
	  .verdict = PASS },
};

/* Until dprd is back the client sends it again. The stack would reset the connection. */
#define AWAY(name_, variants_, beat_, in_)                                                                            \
	{                                                                                                             \
		.name = name_, .variants = variants_, .beat_ago_ms = beat_, .flow = FLOW, .in = in_, .verdict = DROP, \
		.counted = "no_tunnel",                                                                               \
	}

static const struct fixture away[] = {
	AWAY("stopped, options", V4, STOPPED, "ip cl>s1 options 4 | " TCP),
	AWAY("stopped, a fragment", V4, STOPPED, "ip cl>s1 nodf mf" PIECE),
	AWAY("stopped, an extension header", V6, STOPPED, "ip cl>s1 | ext 60 8 | " TCP),
	AWAY("silent for 500 ms", V4, 500, "ip cl>s1 options 4 | " TCP),
	LEFT("a later fragment", V4, FLOW, "ip cl>s1 nodf off 24 proto 6 | data 32"),
};

int main(void)
{
	const struct fixtures tables[] = { FIXTURES(of_flows), FIXTURES(of_none), FIXTURES(away) };

	return fixture_main("behind", tables, sizeof(tables) / sizeof(tables[0]), NULL, 0);
}
