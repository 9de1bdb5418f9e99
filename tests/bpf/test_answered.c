// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_answered.c - a SYN-ACK left this node: copies of its SYN stay here, although no socket shows that the SYN was
 * answered.
 */
#include "dprd/core/packet/marks.h"
#include "tests/bpf/fixture.h"

#define SYN(number) "ip cl>s1 | tcp 40000>80 S seq " number

static unsigned variant_of(void **state)
{
	return (unsigned)(uintptr_t)*state;
}

/* A packet leaves this node, which does not change it. */
static void leaves(unsigned variant, const char *packet)
{
	const struct fixture answer = { .egress = true, .in = packet, .verdict = PASS };

	fixture_check(&answer, variant);
	plane_forget_counters(site_plane(variant));
}

static void answers(unsigned variant)
{
	leaves(variant, "eth me>gw | ip s1>cl ttl 64 | tcp 80>40000 S. seq 77 ack 6 opt 020405b4");
}

static void start(unsigned variant)
{
	site_reset(variant);
	plane_beat(site_plane(variant), 0, 0);
}

/* The SYN is left to the stack, and dprd is told why. */
static void stays(unsigned variant, const char *packet, const char *flow)
{
	struct fastpath *f = site_plane(variant)->fastpath;
	uint32_t next = f->control->decisions;
	const struct fixture copy = { .flow = flow, .in = packet, .verdict = PASS, .counted = "local_socket" };

	fixture_check(&copy, variant);
	assert_int_equal(f->control->decisions, next + 1);
	assert_int_equal(f->recent->decision[next & (FASTPATH_RECENT - 1)].reason, REASON_LOCAL_SOCKET);
}

static void is_decided(unsigned variant, const char *packet)
{
	const struct fixture syn = { .in = packet, .verdict = PASS, .mark = MARK_DECIDE };

	plane_beat(site_plane(variant), 0, 0);
	fixture_check(&syn, variant);
}

static void test_copy_stays(void **state)
{
	unsigned variant = variant_of(state);

	start(variant);
	is_decided(variant, SYN("5"));
	start(variant);
	answers(variant);
	stays(variant, SYN("5"), NULL);
	stays(variant, SYN("5"), NULL);
}

static void test_other_syns(void **state)
{
	static const char *const others[] = { SYN("6"),
					      SYN("4"),
					      "ip cl>s1 | tcp 40001>80 S seq 5",
					      "ip cl>s1 | tcp 40000>443 S seq 5",
					      "ip cl>t1 | tcp 40000>80 S seq 5",
					      "ip xx>s1 | tcp 40000>80 S seq 5" };
	unsigned variant = variant_of(state), i;

	start(variant);
	answers(variant);
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		is_decided(variant, others[i]);
}

/* Only a SYN-ACK of a service answers. */
static void test_other_answers(void **state)
{
	static const char *const others[] = { "eth me>gw | ip s1>cl | tcp 80>40000 . seq 77 ack 6",
					      "eth me>gw | ip s1>cl | tcp 80>40000 R. seq 0 ack 6",
					      "eth me>gw | ip s1>cl | tcp 80>40000 S seq 77 ack 6",
					      "eth me>gw | ip s1>cl | tcp 22>40000 S. seq 77 ack 6" };
	unsigned variant = variant_of(state), i;

	start(variant);
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		leaves(variant, others[i]);
	is_decided(variant, SYN("5"));
}

/* An old flow of the client's port, which the new connection took over. */
static void test_old_flow(void **state)
{
	unsigned variant = variant_of(state);

	start(variant);
	answers(variant);
	site_add_flow(variant, "closing n2 isn 9 age 30");
	stays(variant, SYN("5"), "closing n2 isn 9 age 30");
}

/* The flow of this very SYN leads to another node: its copies follow it. */
static void test_flow_of_it(void **state)
{
	unsigned variant = variant_of(state);
	const struct fixture copy = {
		.flow = "half_open n2 isn 5 age 3", .in = SYN("5"), .verdict = PASS, .mark = MARK_FORWARD
	};

	start(variant);
	answers(variant);
	fixture_prepare(&copy, variant);
	fixture_check(&copy, variant);
}

/* Decide=kernel: the schedule would forward the copy. */
static void test_schedule(void **state)
{
	unsigned variant = variant_of(state);
	const struct fixture none = { .schedule = "n2/chosen" };

	start(variant);
	answers(variant);
	fixture_prepare(&none, variant);
	stays(variant, SYN("5"), NULL);
}

/* The programs saw a SYN and its copy before the stack did: no socket, and no answer yet. */
static void test_doubled_by_the_network(void **state)
{
	unsigned variant = variant_of(state);
	const struct fixture served = {
		.schedule = "n1/below_max_load", .in = SYN("5"), .verdict = PASS, .counted = "below_max_load syn"
	};
	const struct fixture chosen = { .schedule = "n2/chosen" };

	start(variant);
	fixture_prepare(&served, variant);
	fixture_check(&served, variant);
	plane_forget_counters(site_plane(variant));
	fixture_prepare(&chosen, variant);
	stays(variant, SYN("5"), NULL);
}

/*
 * Its copy comes while the SYN waits for dprd: a full queue drops the copy, and does not let it pass. The same when the
 * SYN waits for so long that new ones pass.
 */
static void test_doubled_while_it_waits(void **state)
{
	unsigned variant = variant_of(state);
	const struct fixture copy = { .in = SYN("5"), .verdict = PASS, .mark = MARK_FORWARD };
	const struct fixture late = { .in = SYN("5"), .verdict = PASS, .mark = MARK_FORWARD, .waiting_ms = 100 };
	const struct fixture other = { .in = SYN("7"), .verdict = PASS, .waiting_ms = 100 };

	start(variant);
	is_decided(variant, SYN("5"));
	is_decided(variant, SYN("6"));
	fixture_check(&copy, variant);
	fixture_prepare(&late, variant);
	fixture_check(&late, variant);
	fixture_prepare(&other, variant);
	fixture_check(&other, variant);
	fixture_check(&other, variant);
}

#define ALL(test_)                                                                                              \
	{ "v4: " #test_, test_, NULL, NULL, (void *)0 }, { "v6: " #test_, test_, NULL, NULL, (void *)SITE_V6 }, \
		{ "v4 alias: " #test_, test_, NULL, NULL, (void *)SITE_ALIAS },                                 \
	{                                                                                                       \
		"v6 alias: " #test_, test_, NULL, NULL, (void *)3                                               \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ALL(test_copy_stays),
		ALL(test_other_syns),
		ALL(test_other_answers),
		ALL(test_old_flow),
		ALL(test_flow_of_it),
		ALL(test_doubled_while_it_waits),
		{ "v4: test_doubled_by_the_network", test_doubled_by_the_network, NULL, NULL, (void *)SITE_KERNEL },
		{ "v6: test_doubled_by_the_network", test_doubled_by_the_network, NULL, NULL,
		  (void *)(SITE_KERNEL | SITE_V6) },
		{ "v4: test_schedule", test_schedule, NULL, NULL, (void *)SITE_KERNEL },
		{ "v6: test_schedule", test_schedule, NULL, NULL, (void *)(SITE_KERNEL | SITE_V6) },
	};

	return fixture_main("answered", NULL, 0, tests, sizeof(tests) / sizeof(tests[0]));
}
