// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_second_look.c - SYNs that the programs leave to dprd for a second look, on either side, and the fate of these
 * when dprd is away.
 */
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>

#include "dprd/core/packet/encap.h"
#include "tests/bpf/fixture.h"

#define FROM_N2 "eth n2>me | tunnel c2>c1 | "
#define MAY_RETURN4 "eth n2>me | tunnel c2>c1 id 0xa725 | "
#define MAY_RETURN6 "eth n2>me | tunnel c2>c1 flow 0xa725 | "
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
	BOTH("dprd wants to look", SYN, .second_look = LOOK_LANDED, LEFT_TO_DPRD),
	BOTH("dprd looks and offers", SYN, .second_look = LOOK_LANDED | LOOK_OFFER, LEFT_TO_DPRD),
	BOTH("the mark of others stays", SYN, .second_look = LOOK_LANDED, .mark_before = 3, .verdict = PASS,
	     .mark = MARK_FORWARD | 3),
	BOTH("a flow of the same client here does not matter", SYN, .second_look = LOOK_LANDED,
	     .flow = "confirmed n3 isn 5 age 30", LEFT_TO_DPRD),
	BOTH("there is room for one more", SYN, .second_look = LOOK_LANDED, .look_room = 1, TAKEN(LOCAL_SYN)),
	BOTH("dprd does not want to look", SYN, .second_look = LOOK_OFFER, TAKEN(LOCAL_SYN)),
	BOTH("dprd stopped", SYN, .second_look = LOOK_LANDED, .beat_ago_ms = STOPPED, TAKEN(LOCAL_SYN)),
	BOTH("dprd silent for 500 ms", SYN, .second_look = LOOK_LANDED, .beat_ago_ms = 500, TAKEN(LOCAL_SYN)),
	BOTH("no SYN", ACK, .second_look = LOOK_LANDED, TAKEN("ip cl>l2 | tcp 40000>80 . seq 6 ack 7")),
	BOTH("SYN ACK", SYN_ACK, .second_look = LOOK_LANDED, TAKEN("ip cl>l2 | tcp 40000>80 S. seq 6 ack 7")),
	BOTH("not n2's service", "ip cl>s3 | tcp 40000>80 S seq 5", .second_look = LOOK_LANDED, .verdict = DROP,
	     .counted = "inner_not_senders"),
	BOTH("no service port", "ip cl>s2 | tcp 40000>22 S seq 5", .second_look = LOOK_LANDED, .verdict = DROP,
	     .counted = "inner_foreign"),
	{ .name = "one that may not return", .second_look = LOOK_LANDED, .in = FROM_N2 SYN, TAKEN(LOCAL_SYN) },
	{ .name = "another id",
	  .variants = V4,
	  .second_look = LOOK_LANDED,
	  .in = "eth n2>me | tunnel c2>c1 id 0x5b1c | " SYN,
	  TAKEN(LOCAL_SYN) },
	{ .name = "another label",
	  .variants = V6,
	  .second_look = LOOK_LANDED,
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

/* Decide=kernel: SYNs that the programs forward themselves. */
static const struct fixture offered[] = {
	{ OFFERED(V4_KERNEL, LOOK_OFFER), .name = "the policy's choice, IPv4", .schedule = "n2/chosen+37",
	  .verdict = REDIRECT, .counted = "chosen syn made", .after = "half_open n2 isn 5 now",
	  .out = "eth me>n2 | tunnel c1>c2 id 0xa725 | *" },
	{ OFFERED(V6_KERNEL, LOOK_OFFER), .name = "the policy's choice, IPv6", .schedule = "n2/chosen+37",
	  .verdict = REDIRECT, .counted = "chosen syn made", .after = "half_open n2 isn 5 now",
	  .out = "eth me>n2 | tunnel c1>c2 flow 0xa725 | *" },
	{ OFFERED(KERNEL, LOOK_LANDED), .name = "SecondLook=no", .schedule = "n2/chosen", .verdict = REDIRECT,
	  .counted = "chosen syn made", .after = "half_open n2 isn 5 now", .out = "eth me>n2 | tunnel c1>c2 | *" },
	{ OFFERED(KERNEL, LOOK_OFFER), .name = "this node drains: no other choice", .schedule = "n2/draining",
	  .verdict = REDIRECT, .counted = "draining syn made", .after = "half_open n2 isn 5 now",
	  .out = "eth me>n2 | tunnel c1>c2 | *" },
	{ OFFERED(KERNEL, LOOK_OFFER), .name = "a copy", .schedule = "n3/chosen", .flow = "half_open n2 isn 5 age 3",
	  .verdict = REDIRECT, .counted = "same_syn", .out = "eth me>n2 | tunnel c1>c2 | *" },
};

static unsigned variant_of(void **state)
{
	return (unsigned)(uintptr_t)*state;
}

/*
 * All SYNs that land take room, also those that may not return; other packets do not. Those that dprd does not look at stay.
 */
static void test_room(void **state)
{
	static const char *const lines[] = { SYN, ACK, "may return", SYN, "may return", SYN, "may return" };
	static const uint32_t marks[] = { 0, 0, 0, 0, MARK_FORWARD, 0, MARK_FORWARD };
	unsigned variant = variant_of(state);
	const struct craft_names names = site_names(variant);

	site_reset(variant);
	site_plane(variant)->fastpath->control->second_look = LOOK_LANDED | LOOK_STAYED;
	site_plane(variant)->fastpath->control->look_room = 3;
	site_plane(variant)->fastpath->control->landed = 0;
	site_plane(variant)->fastpath->control->stayed = 0;
	for (unsigned i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		struct plane_run run = { .egress = false };
		struct frame in, out;
		char line[160];

		if (strcmp(lines[i], "may return") == 0)
			snprintf(line, sizeof(line), "%s", variant & SITE_V6 ? MAY_RETURN6 SYN : MAY_RETURN4 SYN);
		else
			snprintf(line, sizeof(line), FROM_N2 "%s", lines[i]);
		craft(&names, line, NULL, &in);
		assert_int_equal(plane_run(site_plane(variant), &run, &in, &out), 0);
		assert_int_equal(run.verdict, PASS);
		assert_int_equal(run.mark, marks[i]);
	}
	assert_int_equal(site_plane(variant)->fastpath->control->landed, 6);
	assert_int_equal(site_plane(variant)->fastpath->control->stayed, 4);
	site_plane(variant)->fastpath->control->second_look = 0;
}

/*
 * Decide=kernel, an address that all nodes share: any of them may have been the entry node, so the SYN never returns.
 */
static void test_shared_address(void **state)
{
	unsigned variant = variant_of(state);
	struct plane *p = site_plane(variant);
	const struct craft_names names = site_names(variant);
	struct bucket_lease_cell cell = { .until_ns = UINT64_MAX };
	struct plane_run run = { .egress = false };
	const uint32_t zero = 0;
	struct frame in, out;

	cell.share[0] = (struct bucket_share) { .self_id = p->config.member[0].id,
						.count = 1,
						.member = { { p->config.member[0].id, 1 } } };
	site_reset(variant);
	assert_int_equal(bpf_map_update_elem(fastpath_lease_fd(p->fastpath), &zero, &cell, BPF_ANY), 0);
	site_schedule(variant, "n2/chosen", NULL);
	p->fastpath->control->second_look = LOOK_OFFER;
	craft(&names, names.v6 ? "eth gw>all6 | ip cl>sh | tcp 40000>80 S" : "eth gw>all | ip cl>sh | tcp 40000>80 S",
	      NULL, &in);
	assert_int_equal(plane_run(p, &run, &in, &out), 0);
	p->fastpath->control->second_look = 0;
	assert_int_equal(run.verdict, REDIRECT);
	assert_int_equal(out.length, in.length + encap_bytes(names.v6));
	assert_false(encap_may_return(out.bytes + FRAME_ETHERNET_BYTES, names.v6));
}

#define TEST_IN(test, variant)                                                                  \
	{                                                                                       \
		.name = #test, .test_func = test, .initial_state = (void *)(uintptr_t)(variant) \
	}

int main(void)
{
	const struct CMUnitTest others[] = { TEST_IN(test_room, 0), TEST_IN(test_room, SITE_V6),
					     TEST_IN(test_shared_address, SITE_KERNEL),
					     TEST_IN(test_shared_address, SITE_KERNEL | SITE_V6) };

	const struct fixtures tables[] = { FIXTURES(landed), FIXTURES(returned), FIXTURES(offered) };

	return fixture_main("second look", tables, sizeof(tables) / sizeof(tables[0]), others,
			    sizeof(others) / sizeof(others[0]));
}
