// SPDX-License-Identifier: GPL-2.0-or-later
/* sent.h against a plain list of times, by random walks and by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/core/policy/policy.h"
#include "dprd/core/policy/sent.h"

enum { RING_MS = SENT_SLOTS * SENT_SLOT_MS, EVENTS = 5000, SEED = 20261129 };

static void by_hand(void **state)
{
	struct sent sent = { 0 };

	(void)state;
	assert_int_equal(sent_since(&sent, 0), 0);
	sent_count(&sent, 1000, 3);
	sent_count(&sent, 1004, 1);
	sent_count(&sent, 1050, 2);
	assert_int_equal(sent_since(&sent, 0), 6);
	assert_int_equal(sent_since(&sent, 1000), 6);
	/* A slot that began before counts whole. */
	assert_int_equal(sent_since(&sent, 1003), 6);
	assert_int_equal(sent_since(&sent, 1005), 2);
	assert_int_equal(sent_since(&sent, 1054), 2);
	assert_int_equal(sent_since(&sent, 1055), 0);
	/* A slot that is older than the ring is gone; a time before the newest slot counts there. */
	sent_count(&sent, 1000 + RING_MS, 5);
	assert_int_equal(sent_since(&sent, 0), 7);
	sent_count(&sent, 1000, 1);
	assert_int_equal(sent_since(&sent, 1000 + RING_MS), 6);
	sent_count(&sent, 1000000, 4);
	assert_int_equal(sent_since(&sent, 0), 4);
	/* No slot wraps. */
	sent_count(&sent, 1000001, UINT32_MAX);
	assert_int_equal(sent_since(&sent, 1000000), UINT16_MAX);
}

static void against_a_list(void **state)
{
	static uint64_t at_ms[EVENTS];
	static unsigned count[EVENTS];
	struct sent sent = { 0 };
	uint64_t now_ms = 5, random = SEED;

	(void)state;
	for (unsigned i = 0; i < EVENTS; i++) {
		uint64_t slot_now, since_ms, oldest;
		unsigned expected = 0;

		random = policy_mix(random);
		now_ms += random % 5 ? random >> 8 & 7 : random >> 8 & 255;
		at_ms[i] = now_ms;
		count[i] = random >> 16 & 3;
		sent_count(&sent, now_ms, count[i]);
		slot_now = now_ms / SENT_SLOT_MS;
		oldest = slot_now < SENT_SLOTS ? 0 : slot_now - SENT_SLOTS + 1;
		since_ms = now_ms - (random >> 20) % (now_ms < 2 * RING_MS ? now_ms : 2 * RING_MS);
		for (unsigned k = 0; k <= i; k++) {
			uint64_t slot = at_ms[k] / SENT_SLOT_MS;

			if (slot >= since_ms / SENT_SLOT_MS && slot >= oldest)
				expected += count[k];
		}
		assert_int_equal(sent_since(&sent, since_ms), expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(by_hand), cmocka_unit_test(against_a_list) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
