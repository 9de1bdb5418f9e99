// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_decide.c - Decide=kernel: new connections get the verdicts of a schedule, one after the other; cases that a
 * schedule does not cover go to dprd's queue.
 */
#include "tests/bpf/fixture.h"

enum { MARK = 0x40000000, DECIDE = 0x20000000, SELF = 0x1f000000 };

#define SYN(isn) "ip cl>s1 | tcp 40000>80 S seq " isn " opt 020405b4"
#define TO_N2 "eth me>n2 | tunnel c1>c2 | *"

/* Decided by the schedule. */
#define DECIDED(name_, schedule_, in_) .name = name_, .variants = KERNEL, .schedule = schedule_, .in = in_

static const struct fixture decided[] = {
	{ DECIDED("to n2", "n2/chosen", SYN("5")), .verdict = REDIRECT, .counted = "chosen syn made",
	  .after = "half_open n2 isn 5 now", .out = TO_N2 },
	{ DECIDED("to n3, while this node drains", "n3/draining", SYN("5")), .verdict = REDIRECT,
	  .counted = "draining syn made", .after = "half_open n3 isn 5 now", .out = "eth me>n3 | tunnel c1>c3 | *" },
	{ DECIDED("to n2, while this node is unhealthy", "n2/unhealthy", SYN("0xab000005")), .verdict = REDIRECT,
	  .counted = "unhealthy syn made", .after = "half_open n2 isn 5 now", .out = TO_N2 },
	{ DECIDED("with ECN set up", "n2/chosen", "ip cl>s1 tos 2 | tcp 40000>80 SEW seq 5"), .verdict = REDIRECT,
	  .counted = "chosen syn made", .after = "half_open n2 isn 5 now",
	  .out = "eth me>n2 | tunnel c1>c2 tos 2 | *" },
	{ DECIDED("served: the policy", "n1/local_policy", SYN("5")), .verdict = PASS, .counted = "local_policy syn" },
	{ DECIDED("served: low load", "n1/below_max_load", SYN("5")), .verdict = PASS,
	  .counted = "below_max_load syn" },
	{ DECIDED("served: no peer", "n1/no_peer", SYN("5")), .verdict = PASS, .counted = "no_peer syn" },
	{ DECIDED("a member's connection is served", "n2/chosen", "ip c2>s1 | tcp 40000>80 S"), .verdict = PASS,
	  .counted = "cluster_client syn" },
	{ DECIDED("no way to n2: served", "n2/chosen", SYN("5")), .way = "unusable", .verdict = PASS,
	  .counted = "forward_failed syn" },
	{ DECIDED("data that fits the tunnel of both families", "n2/chosen", SYN("5") " | data 1396"),
	  .verdict = REDIRECT, .counted = "chosen syn made", .after = "half_open n2 isn 5 now", .out = TO_N2 },
	{ DECIDED("more data than the tunnel takes: served", "n2/chosen", SYN("5") " | data 1441"), .verdict = PASS,
	  .counted = "forward_failed syn" },
	{ DECIDED("n2 is this node by now: served", "n2/chosen", SYN("5")), .way = "self", .verdict = PASS,
	  .counted = "forward_failed syn" },
	{ DECIDED("too many in this second: served", "n2/chosen", SYN("5")), .no_room = "rate_guard", .verdict = PASS,
	  .counted = "rate_guard syn" },
	{ DECIDED("the table is full: served", "n2/chosen", SYN("5")), .no_room = "table_full", .verdict = PASS,
	  .counted = "table_full syn" },
	{ DECIDED("no room does not matter where it is served", "n1/local_policy", SYN("5")), .no_room = "table_full",
	  .verdict = PASS, .counted = "local_policy syn" },
	{ DECIDED("the mark of others stays", "n1/no_peer", SYN("5")), .mark_before = 3, .verdict = PASS, .mark = 3,
	  .counted = "no_peer syn" },
};

/* With real servers behind this node. */
static const struct fixture chosen_here[] = {
	{ DECIDED("a real server in a tunnel", "n2/backend", SYN("5")), .choices = "n2", .verdict = REDIRECT,
	  .counted = "backend syn made", .after = "half_open n2 isn 5 now", .out = TO_N2 },
	{ DECIDED("directly", "n2/backend", SYN("5")), .choices = "n2+", .way = "direct", .verdict = REDIRECT,
	  .counted = "backend syn made", .after = "half_open n2 isn 5 now",
	  .out = "eth me>n2 | ip cl>s1 ttl 62 | tcp 40000>80 S seq 5 opt 020405b4" },
	{ DECIDED("by NAT", "n2/backend", SYN("5")), .choices = "n2", .way = "nat 3", .verdict = PASS,
	  .mark = 0x03000000, .counted = "backend syn made", .after = "half_open n2 isn 5 now" },
	{ DECIDED("a peer", "n2/chosen", SYN("5")), .choices = "n3+", .verdict = REDIRECT, .counted = "chosen syn made",
	  .after = "half_open n2 isn 5 now", .out = TO_N2 },
	{ DECIDED("this node: the rules need not choose", "n1/local_policy", SYN("5")), .choices = "n2+",
	  .verdict = PASS, .mark = SELF, .counted = "local_policy syn" },
	{ DECIDED("nobody", "n1/no_backend", SYN("5")), .choices = "n2", .verdict = DROP, .counted = "no_backend syn" },
	{ DECIDED("nobody, after an old flow", "n1/no_backend", SYN("6")), .choices = "n2",
	  .flow = "closing n2 isn 5 age 3", .verdict = DROP, .counted = "no_backend syn" },
	{ DECIDED("a member's connection: dprd decides", "n2/backend", "ip c2>s1 | tcp 40000>80 S"), .choices = "n2+",
	  .verdict = PASS, .mark = DECIDE },
	{ DECIDED("no way, this node serves", "n2/backend", SYN("5")), .choices = "n2+", .way = "unusable",
	  .verdict = PASS, .mark = SELF, .counted = "forward_failed syn" },
	{ DECIDED("no way, this node serves nobody: dprd decides", "n2/backend", SYN("5")), .choices = "n2",
	  .way = "unusable", .verdict = PASS, .mark = DECIDE },
	{ DECIDED("no room, this node serves", "n2/backend", SYN("5")), .choices = "n2+", .no_room = "rate_guard",
	  .verdict = PASS, .mark = SELF, .counted = "rate_guard syn" },
	{ DECIDED("no room, this node serves nobody: dprd decides", "n2/backend", SYN("5")), .choices = "n2",
	  .no_room = "rate_guard", .verdict = PASS, .mark = DECIDE },
	{ DECIDED("no room for what was a flow: dprd decides", "n2/backend", SYN("6")), .choices = "n2",
	  .no_room = "table_full", .flow = "closing n3 isn 5 age 3", .verdict = PASS, .mark = MARK,
	  .after = "closing n1 isn 5 age 3" },
};

static const struct fixture copies[] = {
	{ DECIDED("a copy", "n3/chosen", SYN("5")), .flow = "half_open n2 isn 5 age 30", .verdict = REDIRECT,
	  .counted = "same_syn", .out = TO_N2 },
	{ DECIDED("a copy after 2.4 s", "n3/chosen", SYN("5")), .flow = "half_open n2 isn 5 age 146",
	  .verdict = REDIRECT, .counted = "same_syn", .out = TO_N2 },
	{ DECIDED("a copy after 2.5 s: dprd decides", "n3/chosen", SYN("5")), .flow = "half_open n2 isn 5 age 149",
	  .verdict = PASS, .mark = MARK },
	{ DECIDED("a copy, no way", "n3/chosen", SYN("5")), .flow = "half_open n2 isn 5 age 30", .way = "unusable",
	  .verdict = DROP, .counted = "no_tunnel" },
	{ DECIDED("a copy of what is served here", "n3/chosen", SYN("5")), .flow = "half_open n1 isn 5 age 30",
	  .verdict = PASS },
	{ DECIDED("another SYN of a half-open flow: dprd decides", "n3/chosen", SYN("6")),
	  .flow = "half_open n2 isn 5 age 30", .verdict = PASS, .mark = MARK, .after = "half_open n1 isn 5 age 30" },
	{ DECIDED("a copy of a confirmed flow: dprd decides", "n3/chosen", SYN("5")),
	  .flow = "confirmed n2 isn 5 age 3", .verdict = PASS, .mark = MARK },
	{ DECIDED("another SYN of a confirmed flow: dprd decides", "n3/chosen", SYN("6")),
	  .flow = "confirmed n2 isn 5 age 3", .verdict = PASS, .mark = MARK },
	{ DECIDED("another SYN of a closing flow: a new one in its place", "n3/chosen", SYN("6")),
	  .flow = "closing n2 isn 5 age 3", .verdict = REDIRECT, .counted = "chosen syn made",
	  .after = "half_open n3 isn 6 now", .out = "eth me>n3 | tunnel c1>c3 | *" },
	{ DECIDED("another SYN of a reset flow: a new one in its place", "n2/chosen", SYN("6")),
	  .flow = "reset n2 isn 5 age 3 overflow", .verdict = REDIRECT, .counted = "chosen syn made",
	  .after = "half_open n2 isn 6 now", .out = TO_N2 },
	{ DECIDED("another SYN of a closing flow: served", "n1/no_peer", SYN("6")), .flow = "closing n2 isn 5 age 3",
	  .verdict = PASS, .counted = "no_peer syn", .after = "half_open n1 isn 6 now" },
	{ DECIDED("another SYN of a closing flow, no room: served", "n2/chosen", SYN("6")), .no_room = "rate_guard",
	  .flow = "closing n2 isn 5 age 3", .verdict = PASS, .counted = "rate_guard syn",
	  .after = "half_open n1 isn 6 now" },
	{ DECIDED("another SYN of a closing flow, no schedule: dprd decides", "", SYN("6")),
	  .flow = "closing n2 isn 5 age 3", .verdict = PASS, .mark = MARK, .after = "closing n1 isn 5 age 3" },
	{ DECIDED("a copy of a closing flow's SYN: dprd decides", "n3/chosen", SYN("5")),
	  .flow = "closing n2 isn 5 age 3", .verdict = PASS, .mark = MARK },
	{ DECIDED("another SYN of what was served here", "n2/chosen", SYN("6")), .flow = "confirmed n1 isn 5 age 3",
	  .verdict = REDIRECT, .counted = "chosen syn made", .after = "half_open n2 isn 6 now", .out = TO_N2 },
	{ DECIDED("another SYN of a closing flow to a former port: dprd decides", "n3/chosen",
		  "ip cl>s1 | tcp 40000>8080 S seq 6"),
	  .flow = "closing n2 isn 5 age 3 port 8080", .verdict = PASS, .mark = MARK,
	  .after = "closing n1 isn 5 age 3" },
	{ DECIDED("a new SYN to a former port", "n3/chosen", "ip cl>s1 | tcp 40000>8080 S seq 6"), .verdict = PASS },
	{ DECIDED("the flow's next packet to a former port", "n3/chosen", "ip cl>s1 | tcp 40000>8080 . seq 6"),
	  .flow = "half_open n2 isn 5 age 3 port 8080", .verdict = REDIRECT, .counted = "flow",
	  .after = "confirmed n2 isn 5 now", .out = TO_N2 },
	{ DECIDED("another SYN of a closing flow to a former address: dprd decides", "n3/chosen",
		  "ip cl>f1 | tcp 40000>80 S seq 6"),
	  .flow = "closing n2 isn 5 age 3 to f1", .verdict = PASS, .mark = MARK, .after = "closing n1 isn 5 age 3" },
	{ DECIDED("a new SYN to a former address", "n3/chosen", "ip cl>f1 | tcp 40000>80 S seq 6"), .verdict = PASS },
	{ DECIDED("a packet without a flow to a former address", "n3/chosen", "ip cl>f1 | tcp 40000>80 . seq 6"),
	  .verdict = PASS },
	{ DECIDED("the flow's next packet to a former address", "n3/chosen", "ip cl>f1 | tcp 40000>80 . seq 6"),
	  .flow = "half_open n2 isn 5 age 3 to f1", .verdict = REDIRECT, .counted = "flow",
	  .after = "confirmed n2 isn 5 now", .out = TO_N2 },
	{ DECIDED("the flow's next packet", "n3/chosen", "ip cl>s1 | tcp 40000>80 . seq 6"),
	  .flow = "half_open n2 isn 5 age 3", .verdict = REDIRECT, .counted = "flow", .after = "confirmed n2 isn 5 now",
	  .out = TO_N2 },
};

static const struct fixture undecided[] = {
	{ DECIDED("no schedule: dprd decides", "", SYN("5")), .verdict = PASS, .mark = DECIDE },
	{ DECIDED("no schedule, a member's connection: served", "", "ip c2>s1 | tcp 40000>80 S"), .verdict = PASS,
	  .counted = "cluster_client syn" },
	{ .name = "a multicast source: no flow",
	  .variants = V6_KERNEL,
	  .schedule = "n2/chosen",
	  .in = "ip ff02::1>s1 | tcp 40000>80 S",
	  .verdict = PASS },
	{ DECIDED("no service port", "n2/chosen", "ip cl>s1 | tcp 40000>22 S"), .verdict = PASS },
	{ DECIDED("no SYN", "n2/chosen", "ip cl>s1 | tcp 40000>80 ."), .verdict = PASS },
	{ DECIDED("SYN ACK", "n2/chosen", "ip cl>s1 | tcp 40000>80 S."), .verdict = PASS },
	{ DECIDED("a peer's address", "n2/chosen", "ip cl>s2 | tcp 40000>80 S"), .verdict = PASS },
	{ DECIDED("dprd stopped: served", "n2/chosen", SYN("5")), .beat_ago_ms = STOPPED, .verdict = PASS },
	{ DECIDED("dprd stopped: a copy", "n3/chosen", SYN("5")), .beat_ago_ms = STOPPED,
	  .flow = "closing n2 isn 5 age 200", .verdict = REDIRECT, .counted = "same_syn", .out = TO_N2 },
	{ DECIDED("dprd silent for 500 ms: served", "n2/chosen", SYN("5")), .beat_ago_ms = 500, .verdict = PASS },
};

static int send_syn_from(unsigned variant, const char *client, unsigned port)
{
	const struct craft_names names = site_names(variant);
	struct plane_run run = { .egress = false };
	struct frame in, out;
	char line[80];

	snprintf(line, sizeof(line), "ip %s>s1 | tcp %u>80 S seq %u", client, port, port);
	craft(&names, line, NULL, &in);
	assert_int_equal(plane_run(site_plane(variant), &run, &in, &out), 0);
	return run.verdict;
}

static int send_syn(unsigned variant, unsigned port)
{
	return send_syn_from(variant, "cl", port);
}

static unsigned variant_of(void **state)
{
	return (unsigned)(uintptr_t)*state;
}

/* In turn, and from the beginning again. */
static void test_in_turn(void **state)
{
	unsigned variant = variant_of(state), i;
	static const int expected[] = { REDIRECT, PASS, REDIRECT, PASS };
	struct fastpath_counters counters;
	char counted[256];

	site_reset(variant);
	site_schedule(variant, "n2/chosen n1/no_peer n3/chosen n1/local_policy", NULL);
	for (i = 0; i < 12; i++)
		assert_int_equal(send_syn(variant, 40000 + i), expected[i % 4]);
	site_counted(variant, counted, sizeof(counted), &counters);
	assert_string_equal(counted, "local_policy*5 no_peer chosen*6 syn*12 made*6");
	assert_int_equal(site_plane(variant)->fastpath->control->made, 6);
}

/* The other family has a schedule of its own, which is not used up. */
static void test_families(void **state)
{
	unsigned variant = variant_of(state), other = variant ^ SITE_V6;

	site_reset(variant);
	site_schedule(variant, "n2/chosen n1/no_peer", NULL);
	site_schedule(other, "n1/no_peer n2/chosen", NULL);
	assert_int_equal(send_syn(variant, 40000), REDIRECT);
	assert_int_equal(send_syn(other, 40000), PASS);
	assert_int_equal(send_syn(other, 40001), REDIRECT);
	assert_int_equal(send_syn(variant, 40001), PASS);
}

/* A member's own connection uses no verdict of the schedule, with real servers behind this node or without. */
static void test_cluster_client(void **state)
{
	unsigned variant = variant_of(state), choices;
	struct plane *p = site_plane(variant);

	for (choices = 0; choices < 2; choices++) {
		site_reset(variant);
		site_schedule(variant, "n2/chosen n1/no_peer", NULL);
		site_choices(variant, choices ? "n3+" : NULL);
		assert_int_equal(send_syn_from(variant, "c2", 40000), PASS);
		assert_int_equal(*fastpath_cursor(p->fastpath, variant & SITE_V6, true), 0);
		assert_int_equal(send_syn(variant, 40000), REDIRECT);
		assert_int_equal(*fastpath_cursor(p->fastpath, variant & SITE_V6, true), 1);
	}
}

/* A client on a network of this node alone is served here and uses no verdict; with real servers dprd decides. */
static void test_inside_client(void **state)
{
	unsigned variant = variant_of(state), choices;
	struct plane *p = site_plane(variant);

	for (choices = 0; choices < 2; choices++) {
		site_reset(variant);
		site_schedule(variant, "n2/chosen n1/no_peer", NULL);
		site_choices(variant, choices ? "n3+" : NULL);
		site_inside(variant, "cl");
		assert_int_equal(send_syn_from(variant, "cl", 40000), PASS);
		assert_int_equal(*fastpath_cursor(p->fastpath, variant & SITE_V6, true), 0);
		assert_int_equal(send_syn_from(variant, "rt", 40000), REDIRECT);
		site_inside(variant, NULL);
		assert_int_equal(send_syn_from(variant, "cl", 40001), PASS);
		assert_int_equal(*fastpath_cursor(p->fastpath, variant & SITE_V6, true), 2);
	}
}

/* The programs make a limited number of flows until dprd's next tick. */
static void test_room(void **state)
{
	unsigned variant = variant_of(state), i;
	struct fastpath_counters counters;
	char counted[256];

	site_reset(variant);
	site_schedule(variant, "n2/chosen", "rate_guard");
	site_plane(variant)->fastpath->control->room = 5;
	for (i = 0; i < 8; i++)
		assert_int_equal(send_syn(variant, 40000 + i), i < 5 ? REDIRECT : PASS);
	site_counted(variant, counted, sizeof(counted), &counters);
	assert_string_equal(counted, "rate_guard*3 chosen*5 syn*8 made*5");
}

/* Far beyond it no verdict is used up, and no flow counts for the next tick any more. */
static void test_over_room(void **state)
{
	unsigned variant = variant_of(state), i;
	struct plane *p = site_plane(variant);
	struct fastpath_counters counters;
	char counted[256];

	site_reset(variant);
	site_schedule(variant, "n2/chosen", "table_full");
	p->fastpath->control->room = 5;
	for (i = 0; i < 5 + FASTPATH_OVER_ROOM + 10; i++)
		assert_int_equal(send_syn(variant, 40000 + i), i < 5 ? REDIRECT : PASS);
	assert_int_equal(p->fastpath->control->made, 5 + FASTPATH_OVER_ROOM);
	assert_int_equal(*fastpath_cursor(p->fastpath, variant & SITE_V6, true), 5 + FASTPATH_OVER_ROOM);
	site_counted(variant, counted, sizeof(counted), &counters);
	assert_string_equal(counted, "table_full*266 chosen*5 syn*271 made*5");
}

/* Flows in buckets that the running round of expiry has passed are counted separately, and no others. */
static void test_behind(void **state)
{
	unsigned variant = variant_of(state), i;
	struct fastpath_control *control;
	uint32_t buckets;

	site_reset(variant);
	site_schedule(variant, "n2/chosen", NULL);
	control = site_plane(variant)->fastpath->control;
	buckets = flow_table_buckets(site_plane(variant)->flows);
	control->made_behind = 0;
	for (i = 0; i < 60; i++) {
		control->swept = i < 20 ? 0 : i < 40 ? buckets : buckets / 2;
		assert_int_equal(send_syn(variant, 40000 + i), REDIRECT);
		if (i == 19)
			assert_int_equal(control->made_behind, 0);
		if (i == 39)
			assert_int_equal(control->made_behind, 20);
	}
	assert_in_range(control->made_behind, 22, 38);
	control->swept = 0;
}

/* Connections are forwarded until both places of a flow are full: then they are served here. */
static void test_no_place(void **state)
{
	unsigned variant = variant_of(state), i, made = 0, served = 0;
	struct fastpath_counters counters;
	char counted[256], expected[64];

	site_reset(variant);
	site_schedule(variant, "n2/chosen", NULL);
	site_plane(variant)->fastpath->control->room = UINT32_MAX;
	for (i = 0; i < 2000; i++) {
		/* On a busy host dprd would look dead in the course of the test. */
		plane_beat(site_plane(variant), 0, 0);
		if (send_syn(variant, 1024 + i) == REDIRECT)
			made++;
		else
			served++;
	}
	assert_true(made > 50 && served > 1000);
	site_counted(variant, counted, sizeof(counted), &counters);
	snprintf(expected, sizeof(expected), "table_full*%u chosen*%u syn*2000 made*%u", served, made, made);
	assert_string_equal(counted, expected);
}

static const struct fastpath_decision *next_decision(const struct plane *p)
{
	return &p->fastpath->recent->decision[p->fastpath->control->decisions % FASTPATH_RECENT];
}

/* "dprctl why" shows them. */
static void test_remembered(void **state)
{
	unsigned variant = variant_of(state);
	struct plane *p = site_plane(variant);
	const struct fastpath_decision *d = next_decision(p);
	uint32_t next = p->fastpath->control->decisions;

	site_reset(variant);
	site_schedule(variant, "n2/chosen n1/no_peer", NULL);
	send_syn(variant, 40000);
	assert_int_equal(p->fastpath->control->decisions, next + 1);
	assert_int_equal(d->reason, REASON_CHOSEN);
	assert_int_equal(d->node, flow_table_node(p->flows, p->config.member[1].id, false));
	assert_int_equal(d->sequence, 40000);
	assert_int_equal(d->key.client_port, htons(40000));
	assert_int_equal(d->key.service_port, htons(80));
	assert_true(addr_equal(&d->key.service, &p->config.member[0].service[variant & SITE_V6 ? 2 : 0]));
	d = next_decision(p);
	send_syn(variant, 40001);
	assert_int_equal(d->reason, REASON_NO_PEER);
	assert_int_equal(d->node, 0);
	assert_int_equal(d->key.client_port, htons(40001));
}

/* The programs remember decisions until the ring is full; then none until dprd has read them. */
static void test_forgotten(void **state)
{
	unsigned variant = variant_of(state), i;
	struct plane *p = site_plane(variant);
	struct fastpath_control *control = p->fastpath->control;
	const struct fastpath_decision *first;

	site_reset(variant);
	site_schedule(variant, "n1/no_peer", NULL);
	control->decisions = UINT32_MAX - 100; /* they count on beyond that */
	control->decisions_seen = control->decisions;
	first = next_decision(p);
	for (i = 0; i < FASTPATH_UNREAD + 10; i++)
		send_syn(variant, 20000 + i);
	assert_int_equal(control->decisions, control->decisions_seen + FASTPATH_UNREAD);
	assert_int_equal(first->key.client_port, htons(20000));
	control->decisions_seen = control->decisions;
	first = next_decision(p);
	send_syn(variant, 40000);
	assert_int_equal(control->decisions, control->decisions_seen + 1);
	assert_int_equal(first->key.client_port, htons(40000));
}

#define BOTH(test_)                                                               \
	{ "v4: " #test_, test_, NULL, NULL, (void *)SITE_KERNEL },                \
	{                                                                         \
		"v6: " #test_, test_, NULL, NULL, (void *)(SITE_KERNEL | SITE_V6) \
	}

int main(void)
{
	const struct CMUnitTest others[] = { BOTH(test_in_turn),       BOTH(test_families), BOTH(test_cluster_client),
					     BOTH(test_inside_client), BOTH(test_room),     BOTH(test_over_room),
					     BOTH(test_behind),        BOTH(test_no_place), BOTH(test_remembered),
					     BOTH(test_forgotten) };
	const struct fixtures tables[] = { FIXTURES(decided), FIXTURES(chosen_here), FIXTURES(copies),
					   FIXTURES(undecided) };

	return fixture_main("decide", tables, sizeof(tables) / sizeof(tables[0]), others,
			    sizeof(others) / sizeof(others[0]));
}
