// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_too_big.c - packets that do not fit the tunnel: dprd cuts them; without it the client gets an ICMP message,
 * at most 100 in a second.
 */
#define _GNU_SOURCE
#include "tests/bpf/fixture.h"

#include <bpf/bpf.h>
#include <sched.h>
#include <stdlib.h>

#include "dprd/bpf/dprd.skel.h"

enum { MARK = 0x40000000, PER_SECOND = 100 };

#define CONFIRMED "confirmed n2 isn 5 age 3"
#define TO_N2 "eth me>n2 | tunnel c1>c2 | *"
/* ICMP, code "fragmentation needed", or ICMPv6 "packet too big", about the packet's headers. */
#define ANSWER_V4(mtu_) "eth me>gw | tunnel s1>cl nodf | icmp toobig mtu " mtu_ " | *40"
#define ANSWER_V6(mtu_) "eth me>gw | tunnel s1>cl | icmp toobig mtu " mtu_ " | *60"

#define PACKET(bytes_) "ip cl>s1 | tcp 40000>80 P. seq 7 | data " bytes_

#define MARKED(name_, variants_, way_, in_)                                                                       \
	{                                                                                                         \
		.name = name_, .variants = variants_, .flow = CONFIRMED, .way = way_, .in = in_, .verdict = PASS, \
		.mark = MARK                                                                                      \
	}

static const struct fixture works[] = {
	MARKED("one byte too long", V4, NULL, PACKET("1441")),
	MARKED("one byte too long", V6, NULL, PACKET("1401")),
	MARKED("a whole jumbo frame", 0, NULL, PACKET("3000")),
	MARKED("a narrow tunnel", 0, "mtu 256", PACKET("300")),
	MARKED("without DF", V4, NULL, "ip cl>s1 nodf | tcp 40000>80 P. seq 7 | data 1441"),
	MARKED("a FIN", 0, "mtu 256", "ip cl>s1 | tcp 40000>80 P. seq 7 | data 300"),
	{ .name = "the flow moves on",
	  .flow = "half_open n2 isn 5 age 3",
	  .way = "mtu 256",
	  .in = PACKET("300"),
	  .verdict = PASS,
	  .mark = MARK,
	  .after = "confirmed n2 isn 5 now" },
	{ .name = "the mark of others stays",
	  .flow = CONFIRMED,
	  .way = "mtu 256",
	  .mark_before = 3,
	  .in = PACKET("300"),
	  .verdict = PASS,
	  .mark = MARK | 3 },
	{ .name = "segments too long by more than the outer header",
	  .flow = CONFIRMED,
	  .way = "mtu 1000",
	  .gso_bytes = 1400,
	  .in = PACKET("2800"),
	  .verdict = PASS,
	  .mark = MARK },
	{ .name = "segments too long by one more than the outer header",
	  .variants = V4,
	  .flow = CONFIRMED,
	  .gso_bytes = 1461,
	  .in = PACKET("2900"),
	  .verdict = PASS,
	  .mark = MARK },
	{ .name = "segments too long by one more than the outer header",
	  .variants = V6,
	  .flow = CONFIRMED,
	  .gso_bytes = 1441,
	  .in = PACKET("2900"),
	  .verdict = PASS,
	  .mark = MARK },
	{ .name = "padding does not count",
	  .variants = V4,
	  .flow = CONFIRMED,
	  .in = PACKET("1440") " | pad 9",
	  .verdict = REDIRECT,
	  .counted = "flow",
	  .out = TO_N2 " | pad 9" },
};

#define ANSWERED(name_, variants_, beat_, way_, in_, out_)                                                             \
	{                                                                                                              \
		.name = name_, .variants = variants_, .beat_ago_ms = beat_, .flow = CONFIRMED, .way = way_, .in = in_, \
		.verdict = REDIRECT, .counted = "no_tunnel too_big", .out = out_,                                      \
	}

static const struct fixture alone[] = {
	ANSWERED("one byte too long, dprd stopped", V4, STOPPED, NULL, PACKET("1441"), ANSWER_V4("1480")),
	ANSWERED("one byte too long, dprd stopped", V6, STOPPED, NULL, PACKET("1401"), ANSWER_V6("1460")),
	ANSWERED("dprd silent for 500 ms", V4, 500, NULL, PACKET("1441"), ANSWER_V4("1480")),
	ANSWERED("dprd silent for 500 ms", V6, 500, NULL, PACKET("1401"), ANSWER_V6("1460")),
	ANSWERED("a whole jumbo frame, dprd stopped", V4, STOPPED, NULL, PACKET("3000"), ANSWER_V4("1480")),
	ANSWERED("a whole jumbo frame, dprd stopped", V6, STOPPED, NULL, PACKET("3000"), ANSWER_V6("1460")),
	ANSWERED("a narrow tunnel, dprd stopped", V4, STOPPED, "mtu 256", PACKET("300"), ANSWER_V4("256")),
	ANSWERED("a narrow tunnel, dprd stopped", V6, STOPPED, "mtu 256", PACKET("300"), ANSWER_V6("256")),
	ANSWERED("traffic class and TTL of the packet do not matter", V4, STOPPED, NULL,
		 "ip cl>s1 tos 0xff ttl 1 id 9 | tcp 40000>80 P. seq 7 | data 1441", ANSWER_V4("1480")),
	ANSWERED("traffic class and TTL of the packet do not matter", V6, STOPPED, NULL,
		 "ip cl>s1 tos 0xff ttl 1 flow 9 | tcp 40000>80 P. seq 7 | data 1441", ANSWER_V6("1460")),
	ANSWERED("with TCP options, of which none is quoted", V4, STOPPED, NULL,
		 "ip cl>s1 | tcp 40000>80 P. seq 7 opt 0101080a0000000100000002 | data 1441", ANSWER_V4("1480")),
	ANSWERED("with TCP options, of which none is quoted", V6, STOPPED, NULL,
		 "ip cl>s1 | tcp 40000>80 P. seq 7 opt 0101080a0000000100000002 | data 1441", ANSWER_V6("1460")),
	ANSWERED("an odd length", V4, STOPPED, NULL, PACKET("1502"), ANSWER_V4("1480")),
	ANSWERED("an odd length", V6, STOPPED, NULL, PACKET("1503"), ANSWER_V6("1460")),
	ANSWERED("a packet whose checksum is wrong is quoted as it is", V4, STOPPED, NULL,
		 "ip cl>s1 | tcp 40000>80 P. seq 7 sum bad | data 1441", ANSWER_V4("1480")),
	{ .name = "segments too long, dprd stopped",
	  .variants = V4,
	  .beat_ago_ms = STOPPED,
	  .flow = CONFIRMED,
	  .way = "mtu 1000",
	  .gso_bytes = 1400,
	  .gso_gone = true,
	  .in = PACKET("2800"),
	  .verdict = REDIRECT,
	  .counted = "no_tunnel too_big",
	  .out = ANSWER_V4("1000") },
	{ .name = "segments too long, dprd stopped",
	  .variants = V6,
	  .beat_ago_ms = STOPPED,
	  .flow = CONFIRMED,
	  .way = "mtu 1000",
	  .gso_bytes = 1400,
	  .gso_gone = true,
	  .in = PACKET("2800"),
	  .verdict = REDIRECT,
	  .counted = "no_tunnel too_big",
	  .out = ANSWER_V6("1000") },
	{ .name = "the flow moves on, dprd stopped",
	  .variants = V4,
	  .beat_ago_ms = STOPPED,
	  .flow = "half_open n2 isn 5 age 3",
	  .in = PACKET("1441"),
	  .verdict = REDIRECT,
	  .counted = "no_tunnel too_big",
	  .after = "confirmed n2 isn 5 now",
	  .out = ANSWER_V4("1480") },
	{ .name = "a copy of a SYN with much data, dprd stopped",
	  .variants = V4,
	  .beat_ago_ms = STOPPED,
	  .flow = "half_open n2 isn 5 age 3",
	  .in = "ip cl>s1 | tcp 40000>80 S seq 5 | data 1441",
	  .verdict = REDIRECT,
	  .counted = "no_tunnel too_big",
	  .out = ANSWER_V4("1480") },
	{ .name = "as long as the tunnel takes, dprd stopped",
	  .variants = V4,
	  .beat_ago_ms = STOPPED,
	  .flow = CONFIRMED,
	  .in = PACKET("1440"),
	  .verdict = REDIRECT,
	  .counted = "flow",
	  .out = TO_N2 },
	{ .name = "as long as the tunnel takes, dprd stopped",
	  .variants = V6,
	  .beat_ago_ms = STOPPED,
	  .flow = CONFIRMED,
	  .in = PACKET("1400"),
	  .verdict = REDIRECT,
	  .counted = "flow",
	  .out = TO_N2 },
};

/* Stays on one processor, so that its count is the only one. */
static void stay_here(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
}

static int send_too_big(struct plane *p)
{
	const struct craft_names names = site_names(0);
	struct plane_run run = { .egress = false };
	struct frame in, out;

	craft(&names, PACKET("1441"), NULL, &in);
	assert_int_equal(plane_run(p, &run, &in, &out), 0);
	return run.verdict;
}

/* Moves the beginning of the running second back. */
static void begin_second(struct plane *p, uint32_t ticks_ago)
{
	struct fastpath_counters *all = calloc(p->fastpath->processors, sizeof(*all));
	int fd = bpf_map__fd(p->fastpath->programs->maps.counters);
	uint32_t zero = 0, tick = plane_tick(p), i;

	assert_non_null(all);
	assert_int_equal(bpf_map_lookup_elem(fd, &zero, all), 0);
	for (i = 0; i < p->fastpath->processors; i++)
		all[i].too_big_tick = tick - ticks_ago;
	assert_int_equal(bpf_map_update_elem(fd, &zero, all, BPF_ANY), 0);
	free(all);
}

static void test_rate(void **state)
{
	struct plane *p = site_plane(0);
	struct fastpath_counters counters;
	char counted[256];
	unsigned i;

	(void)state;
	stay_here();
	site_reset(0);
	plane_beat(p, -1, 0);
	site_add_flow(0, CONFIRMED);
	send_too_big(p);
	begin_second(p, 0);
	for (i = 1; i < PER_SECOND; i++)
		assert_int_equal(send_too_big(p), REDIRECT);
	for (i = 0; i < 20; i++)
		assert_int_equal(send_too_big(p), DROP);
	site_counted(0, counted, sizeof(counted), &counters);
	assert_string_equal(counted, "no_tunnel*120 too_big*100");
	begin_second(p, 50);
	assert_int_equal(send_too_big(p), DROP);
	begin_second(p, 61);
	assert_int_equal(send_too_big(p), REDIRECT);
	for (i = 1; i < PER_SECOND; i++)
		assert_int_equal(send_too_big(p), REDIRECT);
	assert_int_equal(send_too_big(p), DROP);
}

int main(void)
{
	const struct CMUnitTest others[] = { cmocka_unit_test(test_rate) };
	const struct fixtures tables[] = { FIXTURES(works), FIXTURES(alone) };

	return fixture_main("too_big", tables, sizeof(tables) / sizeof(tables[0]), others,
			    sizeof(others) / sizeof(others[0]));
}
