// SPDX-License-Identifier: GPL-2.0-or-later
/* outcomes.c: the outcomes of all members, from tick to tick. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "dprd/cluster/state.h"
#include "tests/unit/own_backends.h"

enum { OTHER = 1, OTHER_ID = 2 };

static struct dprd d;
static uint64_t now_ms;

static void pass(unsigned windows)
{
	while (windows--)
		outcomes_tick(&d, now_ms += OUTCOME_WINDOW_MS);
}

static void made(unsigned connections)
{
	mutex_lock(&d.lock);
	outcomes_made(&d, OTHER_ID, false, connections, now_ms);
	mutex_unlock(&d.lock);
}

static void confirmed(unsigned connections)
{
	mutex_lock(&d.lock);
	outcomes_confirmed(&d, OTHER_ID, false, connections, now_ms);
	mutex_unlock(&d.lock);
}

static bool rests(void)
{
	bool rest;

	mutex_lock(&d.lock);
	rest = outcomes_rests(&d, OTHER, false);
	mutex_unlock(&d.lock);
	return rest;
}

static int start(void **state)
{
	struct config *c = make_config(80);

	d = (struct dprd) { .config = *c, .lock = MUTEX_INITIALIZER };
	free(c);
	now_ms = 1000000;
	log_catch(state);
	pass(1);
	/* As a rule they are confirmed. */
	for (unsigned i = 0; i < 10; i++) {
		made(6);
		confirmed(6);
		pass(1);
	}
	return rests();
}

static void no_answer(void **state)
{
	(void)state;
	made(6);
	pass(OUTCOME_WINDOWS + 1);
	assert_true(rests());
}

/* All connections of a browser are confirmed while dprd stands still for a moment; then nothing comes. */
static void confirmed_by_the_standby_process(void **state)
{
	(void)state;
	for (unsigned windows = 0; windows < OUTCOME_WINDOWS; windows++) {
		made(6);
		pass(windows);
		d.counters.standby_forwarded += 6;
		pass(2 * OUTCOME_WINDOWS);
		assert_false(rests());
	}
	/* It stands still no more. */
	made(6);
	pass(OUTCOME_WINDOWS + 1);
	assert_true(rests());
}

/* The same without the standby process, which may have died. */
static void long_pause(void **state)
{
	(void)state;
	made(6);
	now_ms += OUTCOME_LATE_MS;
	pass(2 * OUTCOME_WINDOWS);
	assert_false(rests());
}

static bool gets_some(bool v6)
{
	bool allowed;

	mutex_lock(&d.lock);
	allowed = outcomes_allow(&d, OTHER, v6, now_ms);
	mutex_unlock(&d.lock);
	return allowed;
}

/* A member is lost over both families, under many connections: it gets no more after a moment, and one confirmation ends that. */
static void held(void **state)
{
	(void)state;
	mutex_lock(&d.lock);
	outcomes_made(&d, OTHER_ID, false, 2 * OUTCOME_SEVERAL, now_ms);
	outcomes_made(&d, OTHER_ID, true, 2 * OUTCOME_SEVERAL, now_ms);
	mutex_unlock(&d.lock);
	now_ms += OUTCOME_HOLD_LEAST_MS - 50;
	outcomes_tick(&d, now_ms);
	assert_true(gets_some(false) && gets_some(true));
	now_ms += 50;
	outcomes_tick(&d, now_ms);
	assert_false(gets_some(false) || gets_some(true));
	assert_false(rests());
	confirmed(1);
	assert_true(gets_some(false));
	assert_false(gets_some(true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_answer, start, log_release),
		cmocka_unit_test_setup_teardown(confirmed_by_the_standby_process, start, log_release),
		cmocka_unit_test_setup_teardown(long_pause, start, log_release),
		cmocka_unit_test_setup_teardown(held, start, log_release),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
