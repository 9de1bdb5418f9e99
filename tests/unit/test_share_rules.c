// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The rules of share.h one by one, for a node and one peer: the end of a lease, and when a silent peer is left out.
 * Chains of faults on many nodes are in test_share.c and test_share_faults.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "loadcast/core/share.h"

enum { PERIOD_MS = 200, TICK_MS = 50, WEIGHT = 100, SELF = 0, PEER = 1, LEASE_MS = 4 * PERIOD_MS, SETTLE_MS = 4000 };

static struct config config;
static struct share share;
static uint64_t now_ms;

/* The peer announces; it has heard what was sent just now. */
static void says(uint32_t weight, uint32_t grant)
{
	const struct share_said said = {
		.weight = weight, .grant = grant, .period_ms = PERIOD_MS, .echoed = true, .echo_sent_ms = now_ms
	};

	share_hear(&share, PEER, &said, now_ms);
}

static void apply(void)
{
	struct bucket_share next;

	share_fill(&share, now_ms, &next);
	share_applied(&share, &next);
}

/* One tick, some time later, without a word of the peer. */
static void silent(unsigned later_ms)
{
	now_ms += later_ms;
	share_want(&share, WEIGHT, now_ms);
	share_tick(&share, now_ms);
	apply();
}

/* For this long the peer announces the same at each tick. */
static void go_on(unsigned ms, uint32_t weight, uint32_t grant)
{
	for (; ms; ms -= TICK_MS) {
		silent(TICK_MS);
		share_sent(&share, now_ms);
		says(weight, grant);
		apply();
	}
}

static int start(void **state)
{
	(void)state;
	config = (struct config) { .self = SELF, .member_count = 2, .period_ms = PERIOD_MS };
	config.member[SELF] = (struct member) { .name = "n1", .id = member_id("n1"), .weight = WEIGHT };
	config.member[PEER] = (struct member) { .name = "n2", .id = member_id("n2"), .weight = WEIGHT };
	now_ms = 1000000;
	share_init(&share, &config, now_ms);
	return 0;
}

static int settle(void **state)
{
	start(state);
	go_on(SETTLE_MS, WEIGHT, WEIGHT);
	assert_int_equal(share.used, WEIGHT);
	assert_int_equal(share.peer[PEER].level, SHARE_IN);
	assert_int_equal(share_until_ms(&share), now_ms + LEASE_MS);
	return 0;
}

/* The peer takes a part of what it granted back: this node has no lease until its kernel has given that up. */
static void a_grant_is_taken_back(void **state)
{
	(void)state;
	says(WEIGHT, WEIGHT / 2);
	assert_int_equal(share_until_ms(&share), 0);
	apply();
	assert_int_equal(share.used, WEIGHT / 2);
	assert_int_equal(share_until_ms(&share), now_ms + LEASE_MS);
	says(WEIGHT, 0);
	assert_int_equal(share_until_ms(&share), 0);
}

/* A peer that is left out here may still hear this node, and counts from its last announcement. */
static void alone_by_the_last_word(void **state)
{
	uint64_t sent_ms;

	(void)state;
	go_on(SETTLE_MS, 0, 0);
	assert_int_equal(share.peer[PEER].level, SHARE_OUT);
	assert_int_equal(share.used, WEIGHT);
	sent_ms = now_ms;
	silent(PERIOD_MS);
	silent(PERIOD_MS);
	assert_int_equal(share_until_ms(&share), sent_ms + LEASE_MS);
	share_sent(&share, now_ms);
	assert_int_equal(share_until_ms(&share), now_ms + LEASE_MS);
}

/* However long it is silent, it is not left out before it was asked four times. */
static void asked_before_it_is_left_out(void **state)
{
	const uint64_t heard_ms = now_ms;
	unsigned ticks = 0;

	(void)state;
	/* Ticks are so rare that fewer questions fit into the time after which others would take over. */
	while (share.peer[PEER].level != SHARE_OUT) {
		silent(PERIOD_MS - 20);
		assert_true(++ticks < 20);
	}
	assert_true(share.peer[PEER].asked >= SHARE_ASKS_LEAST);
	assert_true(now_ms >= heard_ms + share_takeover_ms(&share));
}

/* A node that stood still has not listened: its peer has all the time again. */
static void after_standing_still(void **state)
{
	uint64_t awake_ms;

	(void)state;
	silent(10 * share_takeover_ms(&share));
	awake_ms = now_ms;
	while (now_ms < awake_ms + share_takeover_ms(&share) - TICK_MS) {
		silent(TICK_MS);
		assert_int_not_equal(share.peer[PEER].level, SHARE_OUT);
	}
	silent(TICK_MS);
	silent(TICK_MS);
	assert_int_equal(share.peer[PEER].level, SHARE_OUT);
}

/* A share on which others may count by now is not taken at once. */
static void nothing_after_standing_still(void **state)
{
	uint64_t awake_ms;

	(void)state;
	silent(share_lease_ms(&share));
	awake_ms = now_ms;
	while (now_ms < awake_ms + share_takeover_ms(&share) - TICK_MS) {
		go_on(TICK_MS, WEIGHT, WEIGHT);
		assert_int_equal(share.used, 0);
		assert_int_equal(share_until_ms(&share), 0);
	}
	go_on(2 * TICK_MS, WEIGHT, WEIGHT);
	assert_int_equal(share.used, WEIGHT);
}

/*
 * A peer that is left out may not have heard yet that this node asks, and have a lease that needs no echo: it may have
 * announced just before it stood still. Until it has echoed the request, this node asks for a lease longer.
 */
static void asks_a_peer_that_is_gone(void **state)
{
	const unsigned listens_ms = SHARE_LISTEN_PERIODS * PERIOD_MS;
	uint64_t start_ms = now_ms;

	(void)state;
	while (!share.used && now_ms < start_ms + 2 * SETTLE_MS) {
		silent(TICK_MS);
		share_sent(&share, now_ms);
	}
	assert_in_range(now_ms, start_ms + listens_ms + SHARE_UNHEARD_PERIODS * PERIOD_MS,
			start_ms + listens_ms + SHARE_UNHEARD_PERIODS * PERIOD_MS + 2 * TICK_MS);
	/* This one has heard the request, and asks for nothing. */
	start(state);
	start_ms = now_ms;
	while (!share.used && now_ms < start_ms + 2 * SETTLE_MS)
		go_on(TICK_MS, 0, WEIGHT);
	assert_in_range(now_ms, start_ms + listens_ms + SHARE_TAKEOVER_PERIODS * PERIOD_MS,
			start_ms + listens_ms + SHARE_TAKEOVER_PERIODS * PERIOD_MS + 2 * TICK_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(asks_a_peer_that_is_gone, start),
		cmocka_unit_test_setup(a_grant_is_taken_back, settle),
		cmocka_unit_test_setup(alone_by_the_last_word, settle),
		cmocka_unit_test_setup(asked_before_it_is_left_out, settle),
		cmocka_unit_test_setup(after_standing_still, settle),
		cmocka_unit_test_setup(nothing_after_standing_still, settle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
