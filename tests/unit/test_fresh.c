// SPDX-License-Identifier: GPL-2.0-or-later
/* Freshness: copies, replays, restarts, delays, and two hosts under one name. */
#include "tests/unit/nodes.h"

static void copies_and_old(void **state)
{
	uint8_t old[ANNOUNCE_BYTES_MAX];
	size_t old_size;

	(void)state;
	period(ALL_LINKS);
	memcpy(old, nodes[N2].datagram, sizeof(old));
	old_size = nodes[N2].size;
	period(ALL_LINKS);
	assert_int_equal(hear(N1, N2), REJECT_DUPLICATE);
	period(ALL_LINKS);
	assert_int_equal(hear_bytes(N1, N2, old, old_size), REJECT_LATE);
	assert_int_equal(table_rejected(&nodes[N1].table), 0);
	period(ALL_LINKS);
	assert_int_equal(hear_bytes(N1, N2, old, old_size), REJECT_OLD_SEQUENCE);
	assert_int_equal(table_rejected(&nodes[N1].table), 1);
	assert_true(row(N1, N2).sequence == 4);
	/* Our own announcement comes back by a broadcast. */
	say(N1);
	assert_int_equal(hear(N1, N1), REJECT_OWN);
}

/* Replays by the hundred cost the living sender nothing. */
static void replay_flood(void **state)
{
	uint8_t old[ANNOUNCE_BYTES_MAX];
	size_t old_size;
	unsigned i;

	(void)state;
	period(ALL_LINKS);
	memcpy(old, nodes[N2].datagram, sizeof(old));
	old_size = nodes[N2].size;
	for (i = 0; i < 500; i++) {
		/* Guessed epochs do not take the tokens of the right one either. */
		old[23] = (uint8_t)i | 0x80;
		assert_int_not_equal(hear_bytes(N1, N2, old, old_size), REJECT_NONE);
	}
	assert_true(nodes[N1].table.rejected[REJECT_RATE] > 480);
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_NONE);
	period(ALL_LINKS);
	assert_true(has(N1, N2, NODE_ECHOES));
}

/* Forgeries with the right epoch and future sequences do not take them either; their author sees the traffic. */
static void forgery_flood(void **state)
{
	uint8_t forged[ANNOUNCE_BYTES_MAX];
	unsigned i;

	(void)state;
	period(ALL_LINKS);
	memcpy(forged, nodes[N2].datagram, sizeof(forged));
	for (i = 0; i < 200; i++) {
		forged[30]++;
		assert_int_equal(hear_bytes(N1, N2, forged, nodes[N2].size), REJECT_MAC);
	}
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_NONE);
}

static void restart(void **state)
{
	(void)state;
	period(ALL_LINKS);
	period(ALL_LINKS);
	start(N2, EPOCH + 100);
	nodes[N2].table.own.dprd_up = true;
	now_ms += PERIOD_MS;
	say(N2);
	/* The message proves nothing yet: it could be a replay. */
	assert_int_equal(hear(N1, N2), REJECT_OTHER_EPOCH);
	say(N1);
	assert_int_equal(hear(N2, N1), REJECT_NONE);
	/* n1's echo was for the former run of n2. */
	assert_false(has(N2, N1, NODE_ECHOES));
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_NONE);
	assert_true(row(N1, N2).epoch == EPOCH + 100);
	assert_true(has(N1, N2, NODE_ECHOES));
	period(link_of(N1, N2) | link_of(N2, N1));
	assert_true(has(N2, N1, NODE_ECHOES));
	assert_false(has(N1, N2, NODE_CONFLICT));
}

/* The clock of n2 was set back, so that its epoch is lower: the proof counts, not the number. */
static void restart_with_lower_epoch(void **state)
{
	(void)state;
	period(ALL_LINKS);
	period(ALL_LINKS);
	start(N2, 5);
	now_ms += 10 * DEAD_MS;
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_OTHER_EPOCH);
	say(N1);
	assert_int_equal(hear(N2, N1), REJECT_NONE);
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_NONE);
	assert_true(has(N1, N2, NODE_ECHOES));
}

/* A dead peer's higher epoch is heard without proof, but it is not eligible. */
static void restart_of_deaf(void **state)
{
	(void)state;
	period(ALL_LINKS);
	period(ALL_LINKS);
	start(N2, EPOCH + 100);
	now_ms += DEAD_MS + PERIOD_MS;
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_NONE);
	assert_true(has(N1, N2, NODE_HEARD));
	assert_false(has(N1, N2, NODE_ECHOES));
}

/* Messages of the former run of n2, recorded while it echoed n1, in the order they were sent. */
static void replay_of_former_run(void **state)
{
	static uint8_t tape[8][ANNOUNCE_BYTES_MAX];
	size_t size[8];
	unsigned i;

	(void)state;
	for (i = 0; i < 8; i++) {
		period(i < 4 ? ALL_LINKS : ALL_LINKS & ~link_of(N2, N1));
		memcpy(tape[i], nodes[N2].datagram, sizeof(tape[i]));
		size[i] = nodes[N2].size;
	}
	start(N2, EPOCH + 100);
	now_ms += 2 * DEAD_MS;
	say(N1);
	hear(N2, N1);
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_NONE);
	for (i = 0; i < 8; i++) {
		now_ms += PERIOD_MS / 4;
		assert_int_equal(hear_bytes(N1, N2, tape[i], size[i]), REJECT_OTHER_EPOCH);
	}
	assert_true(row(N1, N2).epoch == EPOCH + 100);
	assert_false(has(N1, N2, NODE_CONFLICT));
	/* The replay proves nothing even after a long silence of n2. */
	now_ms += 3600000;
	for (i = 0; i < 8; i++)
		assert_int_equal(hear_bytes(N1, N2, tape[i], size[i]), REJECT_OTHER_EPOCH);
	assert_false(has(N1, N2, NODE_HEARD));
}

/* The receiver is new and knows nothing: the replay is heard, never eligible, and truth wins at once. */
static void replay_to_fresh_receiver(void **state)
{
	static uint8_t tape[8][ANNOUNCE_BYTES_MAX];
	size_t size[8];
	unsigned i;

	(void)state;
	for (i = 0; i < 8; i++) {
		period(ALL_LINKS);
		memcpy(tape[i], nodes[N2].datagram, sizeof(tape[i]));
		size[i] = nodes[N2].size;
	}
	start(N2, 5); /* lower than that of the tape */
	start(N1, EPOCH + 200);
	for (i = 0; i < 4; i++) {
		now_ms += PERIOD_MS;
		say(N1);
		assert_int_equal(hear_bytes(N1, N2, tape[i], size[i]), REJECT_NONE);
		assert_true(has(N1, N2, NODE_HEARD));
		assert_false(has(N1, N2, NODE_ECHOES));
	}
	assert_int_equal(hear(N2, N1), REJECT_NONE);
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_NONE);
	assert_true(has(N1, N2, NODE_ECHOES));
	for (; i < 8; i++)
		assert_int_equal(hear_bytes(N1, N2, tape[i], size[i]), REJECT_OTHER_EPOCH);
}

/* Held back and released in order: the sequence grows, but the echo tells the age. */
static void delayed(void **state)
{
	uint8_t held[ANNOUNCE_BYTES_MAX];
	size_t held_size;

	(void)state;
	period(ALL_LINKS);
	period(ALL_LINKS);
	now_ms += PERIOD_MS;
	say(N2);
	memcpy(held, nodes[N2].datagram, sizeof(held));
	held_size = nodes[N2].size;
	now_ms += 5000;
	assert_int_equal(hear_bytes(N1, N2, held, held_size), REJECT_NONE);
	assert_false(has(N1, N2, NODE_ECHOES));
}

/* The proof of a restarted node does not count when it comes late. */
static void delayed_proof(void **state)
{
	(void)state;
	period(ALL_LINKS);
	period(ALL_LINKS);
	start(N2, 5);
	now_ms += PERIOD_MS;
	say(N1);
	assert_int_equal(hear(N2, N1), REJECT_NONE);
	say(N2);
	now_ms += DEAD_MS + 1;
	assert_int_equal(hear(N1, N2), REJECT_OTHER_EPOCH);
}

/* An echo of a sequence never sent, or long forgotten, proves nothing. */
static void false_echoes(void **state)
{
	struct node *n2 = &nodes[N2];

	(void)state;
	period(ALL_LINKS);
	n2->table.member[N1].sequence = 1000000;
	now_ms += PERIOD_MS;
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_NONE);
	nodes[N1].table.member[N2].echoed = false;
	n2->table.member[N1].sequence = 0;
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_NONE);
	assert_false(has(N1, N2, NODE_ECHOES));
	n2->table.member[N1].sequence = 1;
	nodes[N1].table.sequence = 1 + TABLE_SENT_MAX;
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_NONE);
	assert_false(has(N1, N2, NODE_ECHOES));
}

/* A wrong MAC moves nothing, not even the high-water mark. */
static void high_water_mark(void **state)
{
	struct node *n2 = &nodes[N2];

	(void)state;
	period(ALL_LINKS);
	n2->table.sequence = 1000;
	say(N2);
	n2->datagram[n2->size - 1] ^= 1;
	assert_int_equal(hear(N1, N2), REJECT_MAC);
	assert_true(row(N1, N2).sequence == 1);
	n2->datagram[n2->size - 1] ^= 1;
	n2->table.sequence = 1;
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_NONE);
}

/* Two hosts run as n2. n1 hears both; each of them goes on hearing n1. */
static void conflict_seen_by_others(void **state)
{
	static struct table twin;
	uint8_t from_twin[ANNOUNCE_BYTES_MAX];
	size_t size;
	unsigned i;

	(void)state;
	period(ALL_LINKS);
	table_init(&twin, &nodes[N2].config, false, EPOCH + 50);
	for (i = 0; i < 4; i++) {
		period(link_of(N1, N2) | link_of(N3, N2));
		table_receive(&twin, &nodes[N2].keys, &nodes[N2].config.member[N1].cluster_v4, nodes[N1].datagram,
			      nodes[N1].size, now_ms);
		size = table_announce(&twin, &nodes[N2].keys, now_ms, from_twin);
		hear(N1, N2);
		hear_bytes(N1, N2, from_twin, size);
	}
	assert_true(has(N1, N2, NODE_CONFLICT));
	assert_true(nodes[N1].table.rejected[REJECT_CONFLICT] > 0);
	/* The twin is gone: n2 is taken again, and the flag goes. */
	for (i = 0; i < (TABLE_CONFLICT_MS + 2 * DEAD_MS) / PERIOD_MS; i++) {
		period(ALL_LINKS & ~link_of(N2, N1));
		hear(N1, N2);
	}
	assert_false(has(N1, N2, NODE_CONFLICT));
	assert_true(has(N1, N2, NODE_ECHOES));
	assert_true(row(N1, N2).epoch == EPOCH + N2);
}

/* A host with n3's address runs as n2: n2 itself must notice, but not because of a replay of its own announcements. */
static void conflict_with_self(void **state)
{
	static struct table twin;
	uint8_t from_twin[ANNOUNCE_BYTES_MAX];
	struct config swapped = nodes[N2].config;
	struct announce_keys *keys = &nodes[N2].keys;
	size_t size;

	(void)state;
	period(ALL_LINKS);
	start(N2, EPOCH + 60);
	now_ms += PERIOD_MS;
	assert_int_equal(hear_bytes(N2, N3, nodes[N2].datagram, nodes[N2].size), REJECT_CONFLICT);
	assert_false(table_own_conflict(&nodes[N2].table, now_ms));

	swapped.member[N2].cluster_v4 = nodes[N2].config.member[N3].cluster_v4;
	swapped.member[N3].cluster_v4 = nodes[N2].config.member[N2].cluster_v4;
	table_init(&twin, &swapped, false, EPOCH + 70);
	say(N2);
	table_receive(&twin, keys, &swapped.member[N3].cluster_v4, nodes[N2].datagram, nodes[N2].size, now_ms);
	size = table_announce(&twin, keys, now_ms, from_twin);
	assert_int_equal(hear_bytes(N2, N3, from_twin, size), REJECT_CONFLICT);
	assert_true(table_own_conflict(&nodes[N2].table, now_ms));
	assert_true(has(N2, N2, NODE_CONFLICT));
	now_ms += TABLE_CONFLICT_MS;
	assert_false(table_own_conflict(&nodes[N2].table, now_ms));
}

/* Two restarts within the dead time; the network held back a message of the first run until now. */
static void held_back_over_two_restarts(void **state)
{
	const unsigned both = link_of(N1, N2) | link_of(N2, N1);
	uint8_t held[ANNOUNCE_BYTES_MAX];
	size_t held_size;

	(void)state;
	period(ALL_LINKS);
	period(ALL_LINKS);
	say(N2);
	memcpy(held, nodes[N2].datagram, sizeof(held));
	held_size = nodes[N2].size;
	start(N2, EPOCH + 100);
	period(both);
	start(N2, EPOCH + 101);
	period(both);
	/* Its echo is recent, but from before the switch. */
	assert_int_equal(hear_bytes(N1, N2, held, held_size), REJECT_OTHER_EPOCH);
	period(both);
	assert_false(has(N1, N2, NODE_CONFLICT));
	assert_true(has(N1, N2, NODE_ECHOES));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(copies_and_old, setup),
		cmocka_unit_test_setup(replay_flood, setup),
		cmocka_unit_test_setup(forgery_flood, setup),
		cmocka_unit_test_setup(restart, setup),
		cmocka_unit_test_setup(restart_with_lower_epoch, setup),
		cmocka_unit_test_setup(restart_of_deaf, setup),
		cmocka_unit_test_setup(replay_of_former_run, setup),
		cmocka_unit_test_setup(replay_to_fresh_receiver, setup),
		cmocka_unit_test_setup(held_back_over_two_restarts, setup),
		cmocka_unit_test_setup(delayed, setup),
		cmocka_unit_test_setup(delayed_proof, setup),
		cmocka_unit_test_setup(false_echoes, setup),
		cmocka_unit_test_setup(high_water_mark, setup),
		cmocka_unit_test_setup(conflict_seen_by_others, setup),
		cmocka_unit_test_setup(conflict_with_self, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
