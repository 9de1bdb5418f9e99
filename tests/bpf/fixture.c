// SPDX-License-Identifier: GPL-2.0-or-later
/* fixture.c - sends one packet through one program, and checks the results. */
#include "tests/bpf/fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dprd/base/clock.h"

enum {
	TESTS_MAX = 1024,
	TEST_NAME_BYTES = 160,
	COUNTED_BYTES = 256,
	TRIES = 20,
	PROMPT_NS = 12000000, /* less than a tick of the flow table's clock */
};

struct test {
	const struct fixture *fixture;
	unsigned variant;
	char name[TEST_NAME_BYTES];
};

static struct test tests[TESTS_MAX];
static struct CMUnitTest units[TESTS_MAX];
static size_t test_count;

void fixture_prepare(const struct fixture *f, unsigned variant)
{
	struct plane *p = site_plane(variant);

	plane_beat(p, f->beat_ago_ms, f->waiting_ms);
	p->fastpath->control->second_look = f->second_look;
	p->fastpath->control->look_room = f->look_room;
	p->fastpath->control->landed = 0;
	site_way(variant, f->way);
	site_schedule(variant, f->schedule ? f->schedule : "", f->no_room);
	site_choices(variant, f->choices);
	site_shared_frames(variant, f->elsewhere ? 2 : 1, f->by_module);
	if (f->flow)
		site_add_flow(variant, f->flow);
}

/* The bytes that were forwarded or decapsulated follow from what happened and the datagram that came in. */
static void check_bytes_counted(const struct fixture *f, const struct fastpath_counters *c, const struct frame *in,
				bool v6)
{
	unsigned datagram = frame_datagram_bytes(in);
	bool forwarded = f->verdict == REDIRECT && !c->too_big_sent;

	assert_int_equal(c->forward_bytes, forwarded ? datagram : 0);
	assert_int_equal(c->decapsulated_bytes, c->reason[REASON_FROM_PEER] ? datagram - (v6 ? 40 : 20) : 0);
}

static void check_counters(const struct fixture *f, unsigned variant, const struct frame *in)
{
	struct fastpath_counters counters;
	char counted[COUNTED_BYTES];

	site_counted(variant, counted, sizeof(counted), &counters);
	assert_string_equal(counted, f->counted ? f->counted : "");
	check_bytes_counted(f, &counters, in, variant & SITE_V6);
}

static void check_frame(const struct fixture *f, const struct frame *in, const struct frame *out,
			const struct frame *expected)
{
	if (out->length != expected->length || memcmp(out->bytes, expected->bytes, out->length) != 0) {
		frame_print("in", in, NULL);
		frame_print("expected", expected, out);
		frame_print("out", out, expected);
		fail_msg("the frame is not what it should be");
	}
	if (f->out && f->verdict != DROP && !f->sums_bad && !frame_sums_good(out)) {
		frame_print("out", out, NULL);
		fail_msg("a checksum is wrong");
	}
}

/* The flow that a fixture is about. */
static const char *flow_of(const struct fixture *f, char words[SITE_FLOW_BYTES])
{
	if (f->flow)
		return f->flow;
	snprintf(words, SITE_FLOW_BYTES, "half_open n2 isn 0 age 9 %s", f->made ? f->made : "");
	return words;
}

static void check_flow(const struct fixture *f, unsigned variant)
{
	char before[SITE_FLOW_BYTES] = "none", after[SITE_FLOW_BYTES], words[SITE_FLOW_BYTES];
	const char *end;

	site_flow_text(variant, flow_of(f, words), after);
	if (f->flow) {
		/* The words without the flow's place. */
		snprintf(before, sizeof(before), "%s", f->flow);
		end = strstr(before, " age ");
		assert_non_null(end);
		before[end + 5 - before + strspn(end + 5, "0123456789")] = '\0';
	}
	assert_string_equal(after, f->after ? f->after : before);
}

/* The time since when a packet waits: this packet, if it certainly goes to the queue and is the first. */
static void check_waiting(const struct fixture *f, const struct plane *p, uint64_t waiting_before_ns)
{
	uint64_t waiting_ns = p->fastpath->control->waiting_ns, now_ns = plane_monotonic_ns();
	bool queued = f->mark & ~f->mark_before & (MARK_FORWARD | MARK_DECIDE);

	if (f->waiting_ms || !queued || f->by_module || f->no_wait)
		assert_true(waiting_ns == waiting_before_ns);
	else
		assert_in_range(waiting_ns, now_ns - SECOND_NS, now_ns);
}

/* The outcome of one run. */
struct outcome {
	struct plane_run run;
	struct frame in, out;
	uint64_t waiting_before_ns;
	bool others_touched; /* other flows changed */
	int error;
};

static void run(const struct fixture *f, unsigned variant, bool sum_complete, struct outcome *o)
{
	struct plane *p = site_plane(variant);
	const struct craft_names names = site_names(variant);
	char words[SITE_FLOW_BYTES];
	const char *flow = f->flow || f->after ? flow_of(f, words) : NULL;
	void *before, *after;

	o->run = (struct plane_run) {
		.egress = f->egress, .sum_complete = sum_complete, .mark = f->mark_before, .gso_bytes = f->gso_bytes
	};
	craft(&names, f->in, NULL, &o->in);
	o->waiting_before_ns = p->fastpath->control->waiting_ns;
	before = site_flows_copy(variant, flow);
	o->error = plane_run(p, &o->run, &o->in, &o->out);
	after = site_flows_copy(variant, flow);
	o->others_touched = memcmp(before, after, plane_bucket_bytes(p)) != 0;
	free(before);
	free(after);
}

/*
 * The sum of a device that sums whole packets makes no difference, and stays right in packets for the own stack.
 * (Packets that leave in a tunnel are summed anew there; a run with a wrong sum gives no result.)
 */
static void check(const struct fixture *f, unsigned variant, const struct outcome *o)
{
	const struct craft_names names = site_names(variant);
	struct frame expected;

	if (o->others_touched)
		fail_msg("other flows were touched");
	if (o->run.sum_complete && o->error == -EBADMSG) {
		if (f->verdict == PASS || f->sum_kept)
			fail_msg("the device's sum over the packet is wrong afterwards");
		return;
	}
	if (o->error)
		fail_msg("the program cannot be run: %s", strerror(-o->error));
	craft(&names, f->out ? f->out : f->in, &o->in, &expected);
	assert_int_equal(o->run.verdict, f->verdict);
	assert_int_equal(o->run.mark, f->mark);
	assert_int_equal(o->run.gso_gone, f->gso_gone);
	if (f->verdict != DROP)
		check_frame(f, &o->in, &o->out, &expected);
	check_counters(f, variant, &o->in);
	check_flow(f, variant);
	check_waiting(f, site_plane(variant), o->waiting_before_ns);
}

void fixture_check(const struct fixture *f, unsigned variant)
{
	struct outcome outcome;

	run(f, variant, false, &outcome);
	check(f, variant, &outcome);
}

/* A fixture gives ages of flows: a host that stands still during the run changes them. */
static void test_fixture(void **state)
{
	const struct test *t = *state;
	struct outcome outcome;
	unsigned sum_complete, tries;

	for (sum_complete = 0; sum_complete < 2; sum_complete++) {
		if (sum_complete && !plane_checks_sums(site_plane(t->variant)))
			break;
		for (tries = 0; tries < TRIES; tries++) {
			uint64_t start_ns = clock_now_us() * 1000;

			site_reset(t->variant);
			fixture_prepare(t->fixture, t->variant);
			run(t->fixture, t->variant, sum_complete, &outcome);
			if (clock_now_us() * 1000 - start_ns < PROMPT_NS)
				break;
		}
		check(t->fixture, t->variant, &outcome);
	}
}

static void add_test(const struct fixture *f, unsigned variant)
{
	struct test *t = &tests[test_count];

	if (test_count == TESTS_MAX)
		plane_give_up("more than %d tests", TESTS_MAX);
	*t = (struct test) { .fixture = f, .variant = variant };
	snprintf(t->name, sizeof(t->name), "%s: %s", site_variant_name(variant), f->name);
	units[test_count++] = (struct CMUnitTest) { .name = t->name, .test_func = test_fixture, .initial_state = t };
}

static void add_table(const struct fixtures *table)
{
	unsigned variant;
	size_t i;

	for (i = 0; i < table->count; i++) {
		const struct fixture *f = &table->fixtures[i];

		for (variant = 0; variant < SITE_VARIANTS; variant++) {
			if (f->variants ? f->variants >> variant & 1 : variant < SITE_QUEUE_VARIANTS)
				add_test(f, variant);
		}
	}
}

int fixture_main(const char *name, const struct fixtures *tables, size_t table_count, const struct CMUnitTest *others,
		 size_t other_count)
{
	size_t i;
	int failed;

	plane_enter();
	for (i = 0; i < table_count; i++)
		add_table(&tables[i]);
	for (i = 0; i < other_count; i++)
		units[test_count++] = others[i];
	failed = _cmocka_run_group_tests(name, units, test_count, NULL, NULL);
	site_close();
	return failed;
}
