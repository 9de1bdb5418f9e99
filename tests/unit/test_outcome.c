// SPDX-License-Identifier: GPL-2.0-or-later
/* outcome.c notices that connections to a peer do not come about, and lets it be tried now and then. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/core/decide/outcome.h"

enum { A, B, PEERS, RIPE = OUTCOME_WINDOWS, OFTEN = 1000 };

static struct outcome peer[PEERS];
static struct outcome_history history;
static uint64_t now_ms;

static int start(void **context)
{
	(void)context;
	memset(peer, 0, sizeof(peer));
	history = (struct outcome_history) { 0 };
	now_ms = 1000000;
	return 0;
}

static void made(unsigned which, unsigned connections)
{
	outcome_made(&peer[which], connections, &history, now_ms);
}

/* Lets windows pass; returns the peers that lost their place, a bit each. */
static unsigned pass(unsigned windows)
{
	unsigned lost = 0, i;

	while (windows--) {
		now_ms += OUTCOME_WINDOW_MS;
		for (i = 0; i < PEERS; i++)
			outcome_ripen(&peer[i], now_ms);
		for (i = 0; i < PEERS; i++) {
			uint32_t others = peer[1 - i].rest_ms ? 0 : peer[1 - i].unanswered;

			lost |= (unsigned)outcome_judge(&peer[i], &history, others, now_ms) << i;
		}
	}
	return lost;
}

/* Some connections come about: then it is known that they do as a rule. */
static void all_is_well(void)
{
	made(A, 20);
	made(B, 20);
	outcome_confirmed(&peer[A], 20, &history, now_ms);
	outcome_confirmed(&peer[B], 20, &history, now_ms);
}

static void test_several(void **context)
{
	(void)context;
	all_is_well();
	made(A, OUTCOME_SEVERAL - 1);
	assert_int_equal(pass(10), 0);
	made(A, 1);
	assert_int_equal(pass(RIPE - 1), 0);
	assert_true(outcome_may_try(&peer[A], now_ms));
	assert_int_equal(pass(1), 1 << A);
	assert_false(outcome_may_try(&peer[A], now_ms));
	assert_true(outcome_may_try(&peer[B], now_ms));
}

/* The way was the cause, and is proven again: the rest ends at once, however long, and begins small if it is wrong. */
static void test_restart(void **context)
{
	(void)context;
	all_is_well();
	made(A, 10);
	assert_int_equal(pass(RIPE), 1 << A);
	peer[A].rest_ms = OUTCOME_REST_MOST_MS;
	peer[A].until_ms = now_ms + OUTCOME_REST_MOST_MS;
	made(A, 5);
	outcome_restart(&peer[A]);
	assert_true(outcome_may_try(&peer[A], now_ms));
	assert_int_equal(pass(3 * RIPE), 0);
	made(A, 10);
	assert_int_equal(pass(RIPE), 1 << A);
	assert_int_equal(peer[A].rest_ms, OUTCOME_REST_MS);
}

/* Each trial that gets no answer doubles the rest; one that gets an answer ends it. */
static void test_rests_longer(void **context)
{
	unsigned rest_ms = OUTCOME_REST_MS, i;

	(void)context;
	all_is_well();
	made(A, OUTCOME_SEVERAL);
	pass(RIPE);
	for (i = 0; i < 10; i++) {
		now_ms += rest_ms - 1;
		assert_false(outcome_may_try(&peer[A], now_ms));
		now_ms++;
		assert_true(outcome_may_try(&peer[A], now_ms));
		made(A, 1);
		rest_ms = 2 * rest_ms < OUTCOME_REST_MOST_MS ? 2 * rest_ms : OUTCOME_REST_MOST_MS;
		assert_false(outcome_may_try(&peer[A], now_ms));
		assert_int_equal(peer[A].rest_ms, rest_ms);
	}
	assert_int_equal(rest_ms, OUTCOME_REST_MOST_MS);
	assert_true(outcome_confirmed(&peer[A], 1, &history, now_ms));
	assert_true(outcome_may_try(&peer[A], now_ms));
	assert_false(outcome_confirmed(&peer[A], 1, &history, now_ms));
	/* Nothing is left of the time before. */
	made(A, OUTCOME_SEVERAL - 1);
	assert_int_equal(pass(RIPE), 0);
}

/* Connections that were already on their way when the rest began are no trial. */
static void test_no_trial(void **context)
{
	(void)context;
	all_is_well();
	made(A, OUTCOME_SEVERAL);
	pass(RIPE);
	made(A, 5);
	assert_int_equal(peer[A].rest_ms, OUTCOME_REST_MS);
	outcome_made(&peer[A], 0, &history, now_ms + OUTCOME_REST_MS);
	assert_true(outcome_may_try(&peer[A], now_ms + OUTCOME_REST_MS));
}

/* A confirmation clears all that was made before it: a busy peer that works is never suspected. */
static void test_busy(void **context)
{
	unsigned i;

	(void)context;
	for (i = 0; i < OFTEN; i++) {
		made(A, 50);
		made(B, 50);
		outcome_confirmed(&peer[A], 49, &history, now_ms);
		outcome_confirmed(&peer[B], 49, &history, now_ms);
		assert_int_equal(pass(1), 0);
	}
	assert_in_range(history.made, OUTCOME_HISTORY / 4, OUTCOME_HISTORY);
}

/* In a flood few SYNs are real: silence must then be as rare by chance as ever. */
static void test_flood(void **context)
{
	unsigned i, lost = 0;

	(void)context;
	for (i = 0; i < 40; i++) {
		made(A, 100);
		made(B, 100);
		outcome_confirmed(&peer[A], 1, &history, now_ms);
		outcome_confirmed(&peer[B], 1, &history, now_ms);
	}
	made(A, 300);
	assert_int_equal(pass(RIPE), 0);
	for (i = 0; i < 10; i++) {
		made(A, 300);
		made(B, 300);
		outcome_confirmed(&peer[B], 3, &history, now_ms);
		lost |= pass(1);
	}
	assert_int_equal(lost, 1 << A);
}

/* A flood on all ways, while no real client comes: it is no fault of the ways, however well they did before. */
static void test_flood_alone(void **context)
{
	unsigned i;

	(void)context;
	for (i = 0; i < 10; i++)
		all_is_well();
	for (i = 0; i < 50; i++) {
		made(A, 2000);
		made(B, 2000);
		assert_int_equal(pass(1), 0);
	}
	/* A real client of B among them proves that A should have had some, too, but one may be chance. */
	made(B, 1);
	outcome_confirmed(&peer[B], 1, &history, now_ms);
	assert_int_equal(pass(1), 0);
}

/* Far more come than before, and one way is lost: clients of the other way, in the same time, tell it from a flood. */
static void test_lost_in_a_surge(void **context)
{
	unsigned i, lost = 0;

	(void)context;
	all_is_well();
	for (i = 0; i < RIPE; i++) {
		made(A, 2000);
		made(B, 20);
		outcome_confirmed(&peer[B], 10, &history, now_ms);
		lost |= pass(1);
	}
	assert_int_equal(lost, 1 << A);
}

/* All ways are lost at once, as by a filter before this node; no more connections come than before. */
static void test_all_are_lost(void **context)
{
	(void)context;
	all_is_well();
	made(A, 10);
	made(B, 10);
	assert_int_equal(pass(RIPE), 1 << A | 1 << B);
}

/* The only peer has nothing beside it: only former connections say that its silence is no chance. */
static void test_only_peer(void **context)
{
	(void)context;
	made(A, 20);
	outcome_confirmed(&peer[A], 20, &history, now_ms);
	made(A, OUTCOME_SURGE * 20 + OUTCOME_SURGE_LEAST + 1);
	assert_int_equal(pass(RIPE), 0);
	outcome_forget(&peer[A]);
	made(A, OUTCOME_SURGE * 20 + OUTCOME_SURGE_LEAST);
	assert_int_equal(pass(RIPE), 1 << A);
}

/* Nothing at all is confirmed: that says nothing about one peer. */
static void test_nothing_known(void **context)
{
	(void)context;
	made(A, OFTEN);
	made(B, OFTEN);
	assert_int_equal(pass(10), 0);
	outcome_confirmed(&peer[B], 1, &history, now_ms);
	made(B, 1);
	outcome_confirmed(&peer[B], 1, &history, now_ms);
	/* 2 of 1001 are confirmed there. */
	assert_int_equal(pass(RIPE), 0);
}

/* dprd stood still: connections may have been confirmed unseen. */
static void test_forget(void **context)
{
	(void)context;
	all_is_well();
	made(A, 100);
	pass(RIPE - 1);
	outcome_forget(&peer[A]);
	assert_int_equal(pass(10), 0);
	made(A, 3);
	assert_int_equal(pass(RIPE), 1 << A);
	outcome_forget(&peer[A]);
	assert_false(outcome_may_try(&peer[A], now_ms));
}

/* A stranger's SYN now and then is no evidence, however many there are in a year. */
static void test_old_silence(void **context)
{
	unsigned i;

	(void)context;
	all_is_well();
	for (i = 0; i < OFTEN; i++) {
		made(A, 1);
		assert_int_equal(pass(RIPE), 0);
		now_ms += OUTCOME_KEEP_MS / 2;
	}
	outcome_forget(&peer[A]);
	made(A, 1);
	pass(RIPE);
	made(A, 1);
	pass(RIPE);
	made(A, 1);
	assert_int_equal(pass(RIPE), 1 << A);
}

/* A SYN that the peer sent back is no connection, counted before or after it; and no proof that its clients get answers. */
static void test_returned(void **context)
{
	(void)context;
	all_is_well();
	made(A, OUTCOME_SEVERAL);
	outcome_returned(&peer[A]);
	outcome_returned(&peer[B]);
	made(B, OUTCOME_SEVERAL);
	assert_int_equal(pass(RIPE), 0);
	made(A, 2);
	made(B, 2);
	assert_int_equal(pass(RIPE), 1 << A | 1 << B);
	/* The next trial does not wait longer for the one that came back. */
	now_ms += OUTCOME_REST_MS;
	made(A, 1);
	assert_int_equal(peer[A].rest_ms, 2 * OUTCOME_REST_MS);
	outcome_returned(&peer[A]);
	assert_int_equal(peer[A].rest_ms, OUTCOME_REST_MS);
	assert_true(outcome_may_try(&peer[A], now_ms));
	assert_true(outcome_confirmed(&peer[A], 1, &history, now_ms));
}

/* Several connections wait longer than confirmations take: no more go there, and the first confirmation ends that. */
static void test_holds(void **context)
{
	unsigned i;

	(void)context;
	all_is_well();
	/* Many more than ever before may be a flood. */
	made(A, OUTCOME_SURGE * 20 + OUTCOME_SURGE_LEAST + 1);
	now_ms += OUTCOME_HOLD_LEAST_MS;
	outcome_hold(&peer[A], &history, 2, now_ms);
	assert_true(outcome_may_try(&peer[A], now_ms));
	outcome_forget(&peer[A]);
	made(A, OUTCOME_SURGE * 20);
	now_ms += OUTCOME_HOLD_LEAST_MS;
	outcome_hold(&peer[A], &history, 2, now_ms);
	assert_false(outcome_may_try(&peer[A], now_ms));
	outcome_forget(&peer[A]);
	made(A, 2 * OUTCOME_SEVERAL);
	made(B, 2);
	now_ms += OUTCOME_HOLD_LEAST_MS;
	outcome_confirmed(&peer[B], 2, &history, now_ms);
	assert_int_equal(history.slow_ms, OUTCOME_HOLD_LEAST_MS);
	outcome_hold(&peer[A], &history, 0, now_ms);
	assert_true(outcome_may_try(&peer[A], now_ms));
	now_ms += OUTCOME_HOLD_LEAST_MS - 1;
	outcome_hold(&peer[A], &history, 0, now_ms);
	assert_true(outcome_may_try(&peer[A], now_ms));
	now_ms++;
	outcome_hold(&peer[A], &history, 0, now_ms);
	assert_false(outcome_may_try(&peer[A], now_ms));
	/* In a flood the silence of as many is usual. */
	outcome_hold(&peer[A], &history, 1000, now_ms);
	assert_true(outcome_may_try(&peer[A], now_ms));
	outcome_hold(&peer[A], &history, 0, now_ms);
	outcome_confirmed(&peer[A], 1, &history, now_ms);
	assert_true(outcome_may_try(&peer[A], now_ms));
	/* A long time is forgotten after many short ones. */
	assert_int_equal(history.slow_ms, 2 * OUTCOME_HOLD_LEAST_MS);
	for (i = 0; i < 300; i++) {
		made(A, 1);
		outcome_confirmed(&peer[A], 1, &history, now_ms);
	}
	assert_in_range(history.slow_ms, 50, OUTCOME_HOLD_LEAST_MS / 2);
	made(A, 2 * OUTCOME_SEVERAL - 1);
	made(B, 1);
	outcome_confirmed(&peer[B], 1, &history, now_ms);
	now_ms += OUTCOME_HOLD_LEAST_MS;
	outcome_hold(&peer[A], &history, 0, now_ms);
	assert_true(outcome_may_try(&peer[A], now_ms));
	made(A, 1);
	outcome_hold(&peer[A], &history, 0, now_ms);
	assert_false(outcome_may_try(&peer[A], now_ms));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_restart, start),       cmocka_unit_test_setup(test_several, start),
		cmocka_unit_test_setup(test_rests_longer, start),  cmocka_unit_test_setup(test_no_trial, start),
		cmocka_unit_test_setup(test_busy, start),          cmocka_unit_test_setup(test_flood, start),
		cmocka_unit_test_setup(test_nothing_known, start), cmocka_unit_test_setup(test_forget, start),
		cmocka_unit_test_setup(test_flood_alone, start),   cmocka_unit_test_setup(test_lost_in_a_surge, start),
		cmocka_unit_test_setup(test_all_are_lost, start),  cmocka_unit_test_setup(test_only_peer, start),
		cmocka_unit_test_setup(test_old_silence, start),   cmocka_unit_test_setup(test_returned, start),
		cmocka_unit_test_setup(test_holds, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
