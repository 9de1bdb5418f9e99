// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_backend.c - real servers behind this node: packets that leave with only another hardware address, packets that
 * the kernel's NAT forwards, and the target of new connections while dprd is away.
 */
#include "tests/bpf/fixture.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>

#include "dprd/base/clock.h"
#include "dprd/bpf/dprd.skel.h"

enum { FORWARD = 0x40000000, DECIDE = 0x20000000, SELF = 0x1f000000, THIRD = 0x03000000 };

#define CONFIRMED "confirmed n2 isn 5 age 3"
#define HALF_OPEN "half_open n2 isn 5 age 3"
#define TO_N2 "eth me>n2 | tunnel c1>c2 | *"
#define ERROR "icmp unreachable quote 68 | ip s1>cl ttl 9 | tcp 80>40000 . | data 30"

/* --- another hardware address --- */

#define DIRECT(name_, way_, in_, out_) \
	.name = name_, .way = way_, .in = in_, .verdict = REDIRECT, .out = "eth me>n2 | " out_, .sum_kept = true

/* A packet of a confirmed flow. */
#define SENT(name_, variants_, in_, out_)                                                                       \
	{                                                                                                       \
		DIRECT(name_, "direct", in_, out_), .variants = variants_, .flow = CONFIRMED, .counted = "flow" \
	}

static const struct fixture direct[] = {
	SENT("data", 0, "ip cl>s1 | tcp 40000>80 P. seq 7 ack 9 win 502 | data 100",
	     "ip cl>s1 ttl 62 | tcp 40000>80 P. seq 7 ack 9 win 502 | data 100"),
	SENT("all else in the header stays", V4, "ip cl>s1 tos 0xff ttl 255 id 9 | tcp 40000>80 .",
	     "ip cl>s1 tos 0xff ttl 254 id 9 | tcp 40000>80 ."),
	SENT("all else in the header stays", V6, "ip cl>s1 tos 0xff ttl 255 flow 0x12345 | tcp 40000>80 .",
	     "ip cl>s1 tos 0xff ttl 254 flow 0x12345 | tcp 40000>80 ."),
	SENT("without DF", V4, "ip cl>s1 nodf | tcp 40000>80 .", "ip cl>s1 nodf ttl 62 | tcp 40000>80 ."),
	SENT("a hop is left", 0, "ip cl>s1 ttl 2 | tcp 40000>80 .", "ip cl>s1 ttl 1 | tcp 40000>80 ."),
	SENT("TCP options, an odd length", 0, "ip cl>s1 | tcp 40000>80 . opt 0101080a0000000100000002 | data 3",
	     "ip cl>s1 ttl 62 | tcp 40000>80 . opt 0101080a0000000100000002 | data 3"),
	SENT("padding stays behind the datagram", 0, "ip cl>s1 | tcp 40000>80 . | pad 6",
	     "ip cl>s1 ttl 62 | tcp 40000>80 . | pad 6"),
	SENT("as long as the network takes", V4, "ip cl>s1 | tcp 40000>80 . | data 1460",
	     "ip cl>s1 ttl 62 | tcp 40000>80 . | data 1460"),
	SENT("as long as the network takes", V6, "ip cl>s1 | tcp 40000>80 . | data 1440",
	     "ip cl>s1 ttl 62 | tcp 40000>80 . | data 1440"),
	{ DIRECT("the flow moves on", "direct", "ip cl>s1 | tcp 40000>80 .", "ip cl>s1 ttl 62 | tcp 40000>80 ."),
	  .flow = HALF_OPEN, .counted = "flow", .after = "confirmed n2 isn 5 now" },
	{ DIRECT("a FIN", "direct", "ip cl>s1 | tcp 40000>80 F.", "ip cl>s1 ttl 62 | tcp 40000>80 F."),
	  .flow = CONFIRMED, .counted = "flow", .after = "closing n2 isn 5 now" },
	{ DIRECT("an ICMP error, and what it quotes", "direct", "ip rt>s1 | " ERROR, "ip rt>s1 ttl 62 | " ERROR),
	  .flow = CONFIRMED, .counted = "icmp_relay" },
	{ DIRECT("dprd stopped: data", "direct", "ip cl>s1 | tcp 40000>80 .", "ip cl>s1 ttl 62 | tcp 40000>80 ."),
	  .beat_ago_ms = STOPPED, .flow = CONFIRMED, .counted = "flow" },
	{ DIRECT("dprd stopped: a copy of the SYN", "direct", "ip cl>s1 | tcp 40000>80 S seq 5",
		 "ip cl>s1 ttl 62 | tcp 40000>80 S seq 5"),
	  .beat_ago_ms = STOPPED, .flow = HALF_OPEN, .counted = "same_syn" },
	{ DIRECT("the mark of others stays", "direct", "ip cl>s1 | tcp 40000>80 .", "ip cl>s1 ttl 62 | tcp 40000>80 ."),
	  .flow = CONFIRMED, .counted = "flow", .mark_before = 0x1234, .mark = 0x1234 },
	/* Damaged packets stay damaged: sums are updated, not made anew. */
	{ DIRECT("a wrong TCP checksum", "direct", "ip cl>s1 | tcp 40000>80 . sum bad | data 10",
		 "ip cl>s1 ttl 62 | tcp 40000>80 . sum bad | data 10"),
	  .flow = CONFIRMED, .counted = "flow", .sums_bad = true },
	{ DIRECT("a wrong header checksum", "direct", "ip cl>s1 sum 0x1111 | tcp 40000>80 .",
		 "ip cl>s1 ttl 62 sum 0x1211 | tcp 40000>80 ."),
	  .variants = V4, .flow = CONFIRMED, .counted = "flow", .sums_bad = true },
};

/* The kernel fills in the hardware address of the next hop, which a test run does not show (test_live.c does). */
static const struct fixture direct_ways[] = {
	{ DIRECT("an old hardware address", "direct stale", "ip cl>s1 | tcp 40000>80 .",
		 "ip cl>s1 ttl 62 | tcp 40000>80 ."),
	  .flow = CONFIRMED, .counted = "flow" },
	{ DIRECT("no hardware address", "direct unknown", "ip cl>s1 | tcp 40000>80 .",
		 "ip cl>s1 ttl 62 | tcp 40000>80 ."),
	  .flow = CONFIRMED, .counted = "flow" },
	{ .name = "no way",
	  .flow = HALF_OPEN,
	  .way = "direct unusable",
	  .in = "ip cl>s1 | tcp 40000>80 .",
	  .verdict = DROP,
	  .counted = "no_tunnel",
	  .after = "confirmed n2 isn 5 now" },
};

/* The packet has no hops left, or does not fit. */
#define LOST(name_, way_, in_)                                                                                    \
	{                                                                                                         \
		.name = name_, .flow = CONFIRMED, .way = way_, .in = in_, .verdict = DROP, .counted = "no_tunnel" \
	}

static const struct fixture direct_lost[] = {
	LOST("the last hop", "direct", "ip cl>s1 ttl 1 | tcp 40000>80 ."),
	LOST("no hop at all", "direct", "ip cl>s1 ttl 0 | tcp 40000>80 ."),
	LOST("the last hop of an ICMP error", "direct", "ip rt>s1 ttl 1 | " ERROR),
	LOST("the last hop, an old hardware address", "direct stale", "ip cl>s1 ttl 1 | tcp 40000>80 ."),
	LOST("an ICMP error that is too long", "direct mtu 100",
	     "ip rt>s1 | icmp unreachable | ip s1>cl | tcp 80>40000 . | data 100"),
};

#define PACKET(bytes_) "ip cl>s1 | tcp 40000>80 P. seq 7 | data " bytes_
#define QUEUED(name_, variants_, gso_, in_)                                                                  \
	{                                                                                                    \
		.name = name_, .variants = variants_, .flow = CONFIRMED, .way = "direct", .gso_bytes = gso_, \
		.in = in_, .verdict = PASS, .mark = FORWARD                                                  \
	}
#define ANSWERED(name_, variants_, way_, in_, out_)                                                           \
	{                                                                                                     \
		.name = name_, .variants = variants_, .beat_ago_ms = STOPPED, .flow = CONFIRMED, .way = way_, \
		.in = in_, .verdict = REDIRECT, .counted = "no_tunnel too_big",                               \
		.out = "eth me>gw | tunnel s1>cl " out_                                                       \
	}

static const struct fixture direct_long[] = {
	QUEUED("one byte too long", V4, 0, PACKET("1461")),
	QUEUED("one byte too long", V6, 0, PACKET("1441")),
	QUEUED("segments that are one byte too long", V4, 1461, PACKET("2900")),
	QUEUED("segments that are one byte too long", V6, 1441, PACKET("2900")),
	{ DIRECT("segments as long as the network takes", "direct", PACKET("2900"),
		 "ip cl>s1 ttl 62 | tcp 40000>80 P. seq 7 | data 2900"),
	  .variants = V4, .flow = CONFIRMED, .gso_bytes = 1460, .counted = "flow" },
	{ DIRECT("segments as long as the network takes", "direct", PACKET("2900"),
		 "ip cl>s1 ttl 62 | tcp 40000>80 P. seq 7 | data 2900"),
	  .variants = V6, .flow = CONFIRMED, .gso_bytes = 1440, .counted = "flow" },
	ANSWERED("one byte too long, dprd stopped", V4, "direct", PACKET("1461"), "nodf | icmp toobig mtu 1500 | *40"),
	ANSWERED("one byte too long, dprd stopped", V6, "direct", PACKET("1441"), "| icmp toobig mtu 1500 | *60"),
	ANSWERED("the last hop does not matter, dprd stopped", V4, "direct mtu 256",
		 "ip cl>s1 ttl 1 | tcp 40000>80 P. | data 300", "nodf | icmp toobig mtu 256 | *40"),
};

/* --- the kernel's NAT --- */

#define NAT(name_, in_) .name = name_, .way = "nat 3", .in = in_, .verdict = PASS

static const struct fixture nat[] = {
	{ NAT("data", "ip cl>s1 | tcp 40000>80 . | data 10"), .flow = HALF_OPEN, .counted = "flow",
	  .after = "confirmed n2 isn 5 now" },
	{ NAT("a reset", "ip cl>s1 | tcp 40000>80 R"), .flow = CONFIRMED, .counted = "flow",
	  .after = "reset n2 isn 5 now" },
	{ NAT("no packet is too long, nor has too few hops", "ip cl>s1 ttl 1 | tcp 40000>80 . | data 3000"),
	  .flow = CONFIRMED, .counted = "flow" },
	{ NAT("large segments", "ip cl>s1 | tcp 40000>80 . | data 3000"), .gso_bytes = 2000, .flow = CONFIRMED,
	  .counted = "flow" },
	{ NAT("dprd stopped: data", "ip cl>s1 | tcp 40000>80 ."), .beat_ago_ms = STOPPED, .flow = CONFIRMED,
	  .counted = "flow" },
	{ NAT("an ICMP error", "ip rt>s1 | " ERROR), .flow = CONFIRMED, .counted = "icmp_relay" },
	{ NAT("the mark of others stays", "ip cl>s1 | tcp 40000>80 ."), .flow = CONFIRMED, .counted = "flow",
	  .mark_before = 0x1234, .mark = 0x1234 },
	{ .name = "no way",
	  .flow = CONFIRMED,
	  .way = "nat 3 unusable",
	  .in = "ip cl>s1 | tcp 40000>80 .",
	  .verdict = DROP,
	  .counted = "no_tunnel" },
	{ NAT("a SYN is dprd's", "ip cl>s1 | tcp 40000>80 S seq 5"), .flow = HALF_OPEN, .mark = FORWARD },
	{ NAT("dprd stopped: a copy of the SYN", "ip cl>s1 | tcp 40000>80 S seq 5"), .beat_ago_ms = STOPPED,
	  .flow = HALF_OPEN, .counted = "same_syn", .mark = THIRD },
	{ NAT("dprd stopped: a copy of the SYN, and the mark of others", "ip cl>s1 | tcp 40000>80 S seq 5"),
	  .beat_ago_ms = STOPPED, .flow = HALF_OPEN, .counted = "same_syn", .mark_before = 0x1234,
	  .mark = THIRD | 0x1234 },
	{ NAT("dprd stopped: another SYN of a confirmed flow", "ip cl>s1 | tcp 40000>80 S seq 6"),
	  .beat_ago_ms = STOPPED, .flow = CONFIRMED, .counted = "same_flow", .mark = THIRD },
	{ NAT("to all nodes, judged here", "eth gw>all | ip cl>sh | tcp 40000>80 ."), .variants = V4,
	  .flow = CONFIRMED " to sh", .counted = "flow accept_forward" },
	{ NAT("to all nodes, judged by the module", "eth gw>all6 | ip cl>sh | tcp 40000>80 ."), .variants = V6,
	  .by_module = true, .flow = CONFIRMED " to sh", .counted = "flow" },
};

/* --- new connections while dprd is away --- */

#define SYN "ip cl>s1 | tcp 40000>80 S seq 5"
#define ALONE(name_, choices_, in_) .name = name_, .beat_ago_ms = STOPPED, .choices = choices_, .in = in_
#define MADE .counted = "backend", .after = "half_open n2 isn 5 now"

static const struct fixture alone[] = {
	{ ALONE("another SYN of a closing flow to a former port: served here", "n2",
		"ip cl>s1 | tcp 40000>8080 S seq 6"),
	  .flow = "closing n2 isn 5 age 3 port 8080", .verdict = PASS, .after = "closing n1 isn 6 age 3" },
	{ ALONE("direct", "n2", SYN), .way = "direct", .verdict = REDIRECT, MADE,
	  .out = "eth me>n2 | ip cl>s1 ttl 62 | tcp 40000>80 S seq 5" },
	{ ALONE("in a tunnel", "n2", SYN), .verdict = REDIRECT, MADE, .out = TO_N2 },
	{ ALONE("by NAT", "n2", SYN), .way = "nat 3", .verdict = PASS, MADE, .mark = THIRD },
	{ ALONE("the last number there is", "n2", SYN), .way = "nat 30", .verdict = PASS, MADE, .mark = 0x1e000000 },
	{ ALONE("by NAT, and the mark of others", "n2", SYN), .way = "nat 3", .verdict = PASS, MADE,
	  .mark_before = 0x40001234, .mark = THIRD | 0x40001234 },
	{ ALONE("this node itself", "n1", SYN), .verdict = PASS, .mark = SELF },
	{ ALONE("this node itself, and the mark of others", "n1", SYN), .verdict = PASS, .mark_before = 0x40001234,
	  .mark = SELF | 0x40001234 },
	{ ALONE("nobody", "nobody", SYN), .verdict = PASS },
	{ ALONE("no real servers", NULL, SYN), .way = "direct", .verdict = PASS },
	{ ALONE("the other service address and port", "n2", "ip cl>t1 | tcp 40000>443 S seq 5"), .verdict = REDIRECT,
	  MADE, .made = "to t1 port 443", .out = TO_N2 },
	{ ALONE("with ECN set up", "n2", "ip cl>s1 tos 2 | tcp 40000>80 SEW seq 5"), .verdict = REDIRECT, MADE,
	  .out = "eth me>n2 | tunnel c1>c2 tos 2 | *" },
	{ .name = "silent for 500 ms",
	  .beat_ago_ms = 500,
	  .choices = "n2",
	  .in = SYN,
	  .verdict = REDIRECT,
	  MADE,
	  .out = TO_N2 },
	{ .name = "a packet waits for 100 ms",
	  .choices = "n2",
	  .in = SYN,
	  .waiting_ms = 100,
	  .verdict = REDIRECT,
	  MADE,
	  .out = TO_N2 },
	{ .name = "dprd works", .choices = "n2", .in = SYN, .verdict = PASS, .mark = DECIDE },
	{ ALONE("no SYN", "n2", "ip cl>s1 | tcp 40000>80 ."), .verdict = PASS },
	{ ALONE("SYN and ACK", "n2", "ip cl>s1 | tcp 40000>80 S."), .verdict = PASS },
	{ ALONE("no service port", "n2", "ip cl>s1 | tcp 40000>22 S"), .verdict = PASS },
	{ ALONE("a peer's address", "n2", "ip cl>s2 | tcp 40000>80 S"), .verdict = PASS },
	{ ALONE("the port is used again", "n2", SYN), .flow = "half_open n3 isn 9 age 3", .verdict = REDIRECT, MADE,
	  .out = TO_N2 },
	{ ALONE("the port is used again after an end", "n2", SYN), .flow = "closing n3 isn 9 age 30",
	  .verdict = REDIRECT, MADE, .out = TO_N2 },
	{ ALONE("the port is used again, for this node", "n1", SYN), .flow = "half_open n3 isn 9 age 3",
	  .verdict = PASS, .after = "half_open n1 isn 5 age 3", .mark = SELF },
	{ ALONE("a copy goes where the first one went", "n3", SYN), .flow = HALF_OPEN, .way = "direct",
	  .verdict = REDIRECT, .counted = "same_syn", .out = "eth me>n2 | ip cl>s1 ttl 62 | tcp 40000>80 S seq 5" },
	{ ALONE("so does what follows", "n3", "ip cl>s1 | tcp 40000>80 . seq 6"), .flow = HALF_OPEN, .way = "nat 3",
	  .verdict = PASS, .counted = "flow", .after = "confirmed n2 isn 5 now" },
	{ ALONE("not yet judged by the module", "n2", "eth gw>all | ip cl>sh | tcp 40000>80 S seq 5"),
	  .by_module = true, .verdict = PASS },
	{ ALONE("not yet judged by the module, this node itself", "n1", "eth gw>all6 | ip cl>sh | tcp 40000>80 S"),
	  .by_module = true, .verdict = PASS },
	{ .name = "dprd works: not yet judged by the module, no schedule's",
	  .variants = KERNEL,
	  .by_module = true,
	  .schedule = "n2/chosen",
	  .in = "eth gw>all | ip cl>sh | tcp 40000>80 S seq 5",
	  .verdict = PASS,
	  .mark = DECIDE },
	{ ALONE("no lease", "n2", "eth gw>all | ip cl>sh | tcp 40000>80 S seq 5"), .verdict = DROP,
	  .counted = "refuse_no_lease" },
};

/* A lease for all buckets, as the only member, for this long from now on. */
static void lease_all(struct plane *p, uint64_t for_ns)
{
	struct bucket_lease_cell cell = { .until_ns = clock_flow_ns() + for_ns };
	uint32_t zero = 0;

	cell.share[0] = (struct bucket_share) { .self_id = 100, .count = 1, .member = { { 100, 1 } } };
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(p->fastpath->programs->maps.lease), &zero, &cell, BPF_ANY), 0);
}

static unsigned variant_of(void **state)
{
	return (unsigned)(uintptr_t)*state;
}

static void check_leased(unsigned variant, const struct fixture *f)
{
	site_reset(variant);
	fixture_prepare(f, variant);
	lease_all(site_plane(variant), 60000000000);
	fixture_check(f, variant);
	lease_all(site_plane(variant), 0);
}

/* A SYN to all nodes whose bucket is this node's. */
static void test_leased(void **state)
{
	const char in[] = "eth gw>all | ip cl>sh | tcp 40000>80 S seq 5";
	const struct fixture direct_syn = { ALONE("", "n2", in),
					    .way = "direct",
					    .verdict = REDIRECT,
					    .counted = "backend accept_syn",
					    .made = "to sh",
					    .after = "half_open n2 isn 5 now",
					    .out = "eth me>n2 | ip cl>sh ttl 62 | tcp 40000>80 S seq 5" },
			     nat_syn = { ALONE("", "n2", in),
					 .way = "nat 3",
					 .verdict = PASS,
					 .mark = THIRD,
					 .counted = "backend accept_syn",
					 .made = "to sh",
					 .after = "half_open n2 isn 5 now" },
			     own_syn = { ALONE("", "n1", in), .verdict = PASS, .mark = SELF, .counted = "accept_syn" };

	check_leased(variant_of(state), &direct_syn);
	check_leased(variant_of(state), &nat_syn);
	check_leased(variant_of(state), &own_syn);
}

/* Decide=kernel: the bucket is a fellow node's. */
static void test_leased_chosen(void **state)
{
	const struct fixture f = { .schedule = "n2/chosen",
				   .way = "fellow",
				   .second_look = LOOK_OFFER,
				   .in = "eth gw>all | ip cl>sh | tcp 40000>80 S seq 5",
				   .verdict = REDIRECT,
				   .counted = "chosen accept_syn syn made",
				   .made = "to sh",
				   .after = "half_open n2 isn 5 now",
				   .out = "eth me>n4 | ip cl>sh ttl 62 | tcp 40000>80 S seq 5" };

	check_leased(variant_of(state) | SITE_KERNEL, &f);
}

static int run_line(unsigned variant, const char *line, uint32_t *mark, struct frame *out)
{
	const struct craft_names names = site_names(variant);
	struct plane_run run = { .egress = false };
	struct frame in;

	craft(&names, line, NULL, &in);
	assert_int_equal(plane_run(site_plane(variant), &run, &in, out), 0);
	*mark = run.mark;
	return run.verdict;
}

/* Two buckets without a place for the flow: left to the rules. */
static void test_no_place(void **state)
{
	unsigned variant = variant_of(state);
	struct plane *p = site_plane(variant);
	struct fastpath_counters counters;
	char counted[256];
	struct frame out;
	uint32_t mark;
	void *before, *after;

	site_reset(variant);
	plane_beat(p, STOPPED, 0);
	site_choices(variant, "n2");
	plane_set_flows(p, 0x5a);
	before = site_flows_copy(variant, NULL);
	assert_int_equal(run_line(variant, SYN, &mark, &out), PASS);
	assert_int_equal(mark, 0);
	after = site_flows_copy(variant, NULL);
	assert_memory_equal(before, after, plane_bucket_bytes(p));
	free(before);
	free(after);
	site_counted(variant, counted, sizeof(counted), &counters);
	assert_string_equal(counted, "");
}

/* The node that got the SYN, with a way by NAT to each node, whose mark is its number; 0: none. */
static unsigned draw(unsigned variant)
{
	struct plane *p = site_plane(variant);
	struct frame out;
	uint32_t mark;

	plane_set_flows(p, 0);
	assert_int_equal(run_line(variant, SYN, &mark, &out), PASS);
	return mark == SELF ? p->fastpath->tables[p->fastpath->control->active].self_node : mark;
}

/* Every place of the choices is drawn, the first and the last one too, and none of the other family's. */
static void test_draw(void **state)
{
	enum { DRAWS = 6000, DRAWN_LEAST = 3, DRAWN_MOST = 80 };
	unsigned variant = variant_of(state), v6 = variant & SITE_V6, i, drawn[FASTPATH_CHOICES] = { 0 };
	struct plane *p = site_plane(variant);
	struct fastpath_tables *t = &p->fastpath->tables[p->fastpath->control->active];

	site_reset(variant);
	plane_beat(p, STOPPED, 0);
	site_choices(variant, "nobody");
	memset(t->choice, 0, sizeof(t->choice));
	for (i = 0; i < FASTPATH_CHOICES; i++) {
		t->choice[v6 * FASTPATH_CHOICES + i] = (uint8_t)i;
		p->fastpath->ways[2 * i + v6] = (struct fastpath_way) { .flags = WAY_USABLE | WAY_NAT, .mark = i };
	}
	for (i = 0; i < DRAWS; i++)
		drawn[draw(variant) % FASTPATH_CHOICES]++;
	memset(p->fastpath->ways, 0, FASTPATH_WAYS * sizeof(struct fastpath_way));
	for (i = 0; i < FASTPATH_CHOICES; i++)
		assert_in_range(drawn[i], DRAWN_LEAST, DRAWN_MOST);
}

/* The header's checksum is right after any hop. */
static void test_hops(void **state)
{
	unsigned variant = variant_of(state), ttl, id;
	char line[80], expected_line[80];
	const struct craft_names names = site_names(variant);
	struct frame out, expected;
	uint32_t mark;

	site_reset(variant);
	site_way(variant, "direct");
	site_add_flow(variant, CONFIRMED);
	for (ttl = 2; ttl < 256; ttl++) {
		for (id = 1; id < 0x10000; id += 0x1357) {
			const char *word = variant & SITE_V6 ? "flow" : "id";

			snprintf(line, sizeof(line), "ip cl>s1 ttl %u %s %u | tcp 40000>80 .", ttl, word, id);
			snprintf(expected_line, sizeof(expected_line),
				 "eth me>n2 | ip cl>s1 ttl %u %s %u | tcp 40000>80 .", ttl - 1, word, id);
			craft(&names, expected_line, NULL, &expected);
			assert_int_equal(run_line(variant, line, &mark, &out), REDIRECT);
			assert_int_equal(out.length, expected.length);
			assert_memory_equal(out.bytes, expected.bytes, out.length);
		}
	}
}

#define VARIANTS(test_)                                                      \
	{ "v4: " #test_, test_, NULL, NULL, NULL },                          \
	{                                                                    \
		"v6: " #test_, test_, NULL, NULL, (void *)(uintptr_t)SITE_V6 \
	}

int main(void)
{
	const struct CMUnitTest others[] = { VARIANTS(test_leased), VARIANTS(test_leased_chosen),
					     VARIANTS(test_no_place), VARIANTS(test_draw), VARIANTS(test_hops) };
	const struct fixtures tables[] = { FIXTURES(direct),      FIXTURES(direct_ways), FIXTURES(direct_lost),
					   FIXTURES(direct_long), FIXTURES(nat),         FIXTURES(alone) };

	return fixture_main("backend", tables, sizeof(tables) / sizeof(tables[0]), others,
			    sizeof(others) / sizeof(others[0]));
}
