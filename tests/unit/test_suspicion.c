// SPDX-License-Identifier: GPL-2.0-or-later
/* When a node's connections end suspiciously soon, and how busy it counts as then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "dprd/core/policy/suspicion.h"

enum { TICK_MS = 50, ACCEPTED = 100, LIVE_MS = 200, OTHERS = 3 };

struct world {
	struct suspicion s;
	uint64_t now_ms;
	double accepted, served;
	double other_ports_per_s; /* connections that the host accepts beside those of the service */
	double flood_per_s; /* SYNs to the service that no client follows up */
	double unknown_per_s; /* arrivals that peers have not announced yet */
};

/* Four nodes with ACCEPTED connections per second each; this one's live for life_ms, the others' for others_ms. */
static void go_on(struct world *w, unsigned seconds, double per_s, double life_ms, double others_ms)
{
	for (unsigned i = 0; i < seconds * 1000 / TICK_MS; i++) {
		struct suspicion_facts facts = {
			.open = per_s * life_ms / 1000,
			.others_open = OTHERS * ACCEPTED * others_ms / 1000,
			.arrivals_per_s = OTHERS * ACCEPTED + per_s + w->flood_per_s - w->unknown_per_s,
		};

		w->now_ms += TICK_MS;
		w->accepted += (per_s + w->other_ports_per_s) * TICK_MS / 1000;
		w->served += (per_s + w->flood_per_s) * TICK_MS / 1000;
		facts.accepted = (uint64_t)w->accepted;
		facts.served = (uint64_t)w->served;
		suspicion_tick(&w->s, &facts, w->now_ms);
	}
}

static struct world usual(double life_ms)
{
	struct world w = { .now_ms = 5000, .accepted = 1000000 };

	go_on(&w, 60, ACCEPTED, life_ms, LIVE_MS);
	assert_false(w.s.suspects);
	assert_true(w.s.floor <= 0);
	return w;
}

/* It counts as busy as it usually is at the rate that it has now; and it is well again at once. */
static void fails_fast(void **state)
{
	static struct world w;

	(void)state;
	w = usual(LIVE_MS);
	go_on(&w, 20, 2 * ACCEPTED, LIVE_MS / 100.0, LIVE_MS);
	assert_true(w.s.suspects);
	assert_in_range((unsigned)w.s.floor, 2 * ACCEPTED * LIVE_MS / 1000 * 4 / 5, 2 * ACCEPTED * LIVE_MS / 1000 + 1);
	assert_in_range((unsigned)w.s.times, 30, 120);
	go_on(&w, 10, ACCEPTED, LIVE_MS, LIVE_MS);
	assert_false(w.s.suspects);
	assert_true(w.s.floor <= 0);
}

/* At first the rates are not true yet, and nothing is learnt of them: the load is right when it fails. */
static void begins_slowly(void **state)
{
	static struct world w;

	(void)state;
	w = (struct world) { .now_ms = 5000, .unknown_per_s = 0.9 * OTHERS * ACCEPTED };
	go_on(&w, 6, ACCEPTED, LIVE_MS, LIVE_MS);
	w.unknown_per_s = 0;
	go_on(&w, 39, ACCEPTED, LIVE_MS, LIVE_MS);
	go_on(&w, 12, 2 * ACCEPTED, LIVE_MS / 100.0, LIVE_MS);
	assert_true(w.s.suspects);
	assert_in_range((unsigned)w.s.floor, 2 * ACCEPTED * LIVE_MS / 1000 * 9 / 10,
			2 * ACCEPTED * LIVE_MS / 1000 * 11 / 10);
}

/* A node that is always ten times as fast is not suspicious; when it fails, it is measured by what is usual for it. */
static void is_always_faster(void **state)
{
	static struct world w;

	(void)state;
	w = usual(LIVE_MS / 10.0);
	go_on(&w, 300, 3 * ACCEPTED, LIVE_MS / 10.0, LIVE_MS);
	assert_false(w.s.suspects);
	go_on(&w, 20, 3 * ACCEPTED, LIVE_MS / 1000.0, LIVE_MS);
	assert_true(w.s.suspects);
	assert_in_range((unsigned)w.s.floor, 3 * ACCEPTED * LIVE_MS / 10000 - 2, 3 * ACCEPTED * LIVE_MS / 10000 + 1);
}

/* All nodes become faster, as at night; three times as fast alone is nothing; a node that stays faster is believed. */
static void is_no_fault(void **state)
{
	static struct world w;

	(void)state;
	w = usual(LIVE_MS);
	go_on(&w, 30, ACCEPTED, LIVE_MS / 50.0, LIVE_MS / 50.0);
	assert_false(w.s.suspects);
	w = usual(LIVE_MS);
	go_on(&w, 60, ACCEPTED, LIVE_MS / 3.0, LIVE_MS);
	assert_false(w.s.suspects);
	w = usual(LIVE_MS);
	go_on(&w, 60, ACCEPTED, LIVE_MS / 20.0, LIVE_MS);
	assert_true(w.s.suspects);
	go_on(&w, 1800, ACCEPTED, LIVE_MS / 20.0, LIVE_MS);
	assert_false(w.s.suspects);
}

/* The peers get connections that stay open, and this node none: its own end as they always did. */
static void others_hold(void **state)
{
	static struct world w;

	(void)state;
	w = usual(LIVE_MS);
	go_on(&w, 60, ACCEPTED, LIVE_MS, 100 * LIVE_MS);
	assert_false(w.s.suspects);
}

/* Connections to other ports of the host, and SYNs of a flood, are none of the service's. */
static void counts_the_service(void **state)
{
	static struct world w;

	(void)state;
	w = usual(LIVE_MS);
	w.other_ports_per_s = 100 * ACCEPTED;
	go_on(&w, 60, ACCEPTED, LIVE_MS, LIVE_MS);
	assert_false(w.s.suspects);
	go_on(&w, 20, ACCEPTED, LIVE_MS / 100.0, LIVE_MS);
	assert_true(w.s.suspects);
	assert_in_range((unsigned)w.s.floor, ACCEPTED * LIVE_MS / 1000 * 4 / 5, ACCEPTED * LIVE_MS / 1000 + 1);
	w = usual(LIVE_MS);
	w.flood_per_s = 100 * ACCEPTED;
	go_on(&w, 60, ACCEPTED, LIVE_MS, LIVE_MS);
	assert_false(w.s.suspects);
}

/* Seven times shorter is suspicious where lives are always the same. */
static void does_not_vary(void **state)
{
	static struct world w;

	(void)state;
	w = usual(LIVE_MS);
	go_on(&w, 20, ACCEPTED, LIVE_MS / 7.0, LIVE_MS);
	assert_true(w.s.suspects);
}

/* Where lives change all the time, as in a laboratory, seven times shorter is nothing. A failure still is something. */
static void varies(void **state)
{
	static struct world w;

	(void)state;
	w = usual(LIVE_MS);
	for (unsigned i = 0; i < 8; i++) {
		go_on(&w, 10, ACCEPTED, 3.5 * LIVE_MS, LIVE_MS);
		assert_false(w.s.suspects);
		go_on(&w, 10, ACCEPTED, LIVE_MS, LIVE_MS);
		assert_false(w.s.suspects);
	}
	go_on(&w, 20, ACCEPTED, LIVE_MS / 7.0, LIVE_MS);
	assert_false(w.s.suspects);
	go_on(&w, 30, 2 * ACCEPTED, LIVE_MS / 1000.0, LIVE_MS);
	assert_true(w.s.suspects);
}

/* Two connections that are usually open draw no others here when they are missing. */
static void has_little(void **state)
{
	static struct world w;

	(void)state;
	w = (struct world) { .now_ms = 5000 };
	go_on(&w, 60, ACCEPTED, 20, 20);
	go_on(&w, 20, ACCEPTED, 0.1, 20);
	assert_false(w.s.suspects);
	w = (struct world) { .now_ms = 5000 };
	go_on(&w, 60, ACCEPTED, 40, 40);
	go_on(&w, 30, ACCEPTED, 0.1, 40);
	assert_true(w.s.suspects);
}

/* Nobody is told before it has lasted. */
static void is_told_later(void **state)
{
	static struct world w;
	unsigned waited_s = 0;

	(void)state;
	w = usual(LIVE_MS);
	while (!w.s.suspects && waited_s++ < 60)
		go_on(&w, 1, ACCEPTED, LIVE_MS / 100.0, LIVE_MS);
	assert_true(w.s.suspects);
	assert_int_equal(suspicion_told(&w.s), 0);
	go_on(&w, SUSPICION_WARN_MS / 1000 - 1, ACCEPTED, LIVE_MS / 100.0, LIVE_MS);
	assert_int_equal(suspicion_told(&w.s), 0);
	go_on(&w, 20, ACCEPTED, LIVE_MS / 100.0, LIVE_MS);
	assert_in_range(suspicion_told(&w.s), 30, 120);
	w.s.times = 1e9;
	assert_int_equal(suspicion_told(&w.s), SUSPICION_TOLD_MAX);
	go_on(&w, 10, ACCEPTED, LIVE_MS, LIVE_MS);
	assert_int_equal(suspicion_told(&w.s), 0);
}

/* Few connections prove nothing, nor does what a node does at first; peers that serve nothing give no measure. */
static void is_not_known(void **state)
{
	static struct world w;

	(void)state;
	w = (struct world) { .now_ms = 5000 };
	go_on(&w, 20, ACCEPTED, LIVE_MS, LIVE_MS);
	go_on(&w, 8, ACCEPTED, LIVE_MS / 100.0, LIVE_MS);
	assert_false(w.s.suspects);
	w = usual(LIVE_MS);
	go_on(&w, 60, 1, LIVE_MS / 100.0, LIVE_MS);
	assert_false(w.s.suspects);
	w = usual(LIVE_MS);
	go_on(&w, 60, ACCEPTED, 0, 0);
	assert_false(w.s.suspects);
	/* The host's count begins anew. */
	w.accepted = 0;
	go_on(&w, 5, ACCEPTED, LIVE_MS / 100.0, LIVE_MS);
	assert_false(w.s.suspects);
	assert_true(w.s.floor <= 0);
}

/* A usual life of an hour counts as a minute, and time that leaps forgets. */
static void is_bounded(void **state)
{
	static struct world w;
	const double hour_ms = 3600000;

	(void)state;
	w = (struct world) { .now_ms = 5000 };
	go_on(&w, 120, ACCEPTED, hour_ms, hour_ms);
	go_on(&w, 120, ACCEPTED, 1, hour_ms);
	assert_true(w.s.suspects);
	assert_in_range((unsigned)w.s.floor, 59 * ACCEPTED, 60 * ACCEPTED);
	w.now_ms += 1000000;
	go_on(&w, 1, ACCEPTED, 1, hour_ms);
	assert_true(w.s.floor <= 2 * ACCEPTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fails_fast),         cmocka_unit_test(is_always_faster),
		cmocka_unit_test(is_no_fault),        cmocka_unit_test(is_not_known),
		cmocka_unit_test(is_bounded),         cmocka_unit_test(others_hold),
		cmocka_unit_test(counts_the_service), cmocka_unit_test(varies),
		cmocka_unit_test(begins_slowly),      cmocka_unit_test(does_not_vary),
		cmocka_unit_test(has_little),         cmocka_unit_test(is_told_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
