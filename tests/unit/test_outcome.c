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
	outcome_made(&peer[which], connections, now_ms);
}

/* Lets windows pass; returns the peers that lost their place, a bit each. */
static unsigned pass(unsigned windows)
{
	unsigned lost = 0, i;

	while (windows--) {
		now_ms += OUTCOME_WINDOW_MS;
		for (i = 0; i < PEERS; i++)
			outcome_ripen(&peer[i]);
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
	outcome_confirmed(&peer[A], 20, &history);
	outcome_confirmed(&peer[B], 20, &history);
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
	assert_true(outcome_confirmed(&peer[A], 1, &history));
	assert_true(outcome_may_try(&peer[A], now_ms));
	assert_false(outcome_confirmed(&peer[A], 1, &history));
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
	outcome_made(&peer[A], 0, now_ms + OUTCOME_REST_MS);
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
		outcome_confirmed(&peer[A], 49, &history);
		outcome_confirmed(&peer[B], 49, &history);
		assert_int_equal(pass(1), 0);
	}
	assert_in_range(history.made, OUTCOME_HISTORY / 4, OUTCOME_HISTORY);
}

/* In a flood few SYNs are real: silence must then be as rare by chance as ever. */
static void test_flood(void **context)
{
	unsigned i;

	(void)context;
	for (i = 0; i < 40; i++) {
		made(A, 100);
		made(B, 100);
		outcome_confirmed(&peer[A], 1, &history);
		outcome_confirmed(&peer[B], 1, &history);
	}
	made(A, 300);
	assert_int_equal(pass(RIPE), 0);
	made(A, 3000);
	assert_int_equal(pass(RIPE), 1 << A);
}

/* Nothing at all is confirmed: that says nothing about one peer. */
static void test_nothing_known(void **context)
{
	(void)context;
	made(A, OFTEN);
	made(B, OFTEN);
	assert_int_equal(pass(10), 0);
	outcome_confirmed(&peer[B], 1, &history);
	made(B, 1);
	outcome_confirmed(&peer[B], 1, &history);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_several, start),  cmocka_unit_test_setup(test_rests_longer, start),
		cmocka_unit_test_setup(test_no_trial, start), cmocka_unit_test_setup(test_busy, start),
		cmocka_unit_test_setup(test_flood, start),    cmocka_unit_test_setup(test_nothing_known, start),
		cmocka_unit_test_setup(test_forget, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
