// SPDX-License-Identifier: GPL-2.0-or-later
/* Members that are not heard because announcements are not accepted: both sides know the cause. */
#include "tests/unit/nodes.h"

static const uint8_t other_key[32] = "another key, of 32 bytes as well";

static void set_keys(unsigned node, const uint8_t *first, const uint8_t *second)
{
	memset(&nodes[node].keys, 0, sizeof(nodes[node].keys));
	announce_add_key(&nodes[node].keys, "lab", first);
	if (second)
		announce_add_key(&nodes[node].keys, "lab", second);
}

/* A period of n1 and n2, who take or do not take what the other says. */
static void exchange(void)
{
	now_ms += PERIOD_MS;
	say(N1), say(N2);
	hear(N2, N1), hear(N1, N2);
}

static void assert_rejected(unsigned at, unsigned of, enum rejection cause, const char *from)
{
	struct node_load seen = row(at, of);
	struct addr address = { 0 };

	assert_int_equal(seen.rejected, cause);
	assert_true(!from || addr_parse(from, &address));
	assert_true(addr_equal(&seen.rejected_from, &address));
}

/* n2 has another key: each of the two knows why it does not hear the other. It ends with the right key. */
static void another_key(void **state)
{
	(void)state;
	set_keys(N2, other_key, NULL);
	exchange();
	assert_rejected(N1, N2, REJECTION_KEY, "10.0.0.2");
	assert_rejected(N2, N1, REJECTION_KEY, "10.0.0.1");
	assert_rejected(N1, N3, REJECTION_NONE, NULL);
	set_keys(N2, key, NULL);
	exchange();
	assert_true(has(N1, N2, NODE_HEARD));
	assert_rejected(N1, N2, REJECTION_NONE, NULL);
	assert_rejected(N2, N1, REJECTION_NONE, NULL);
}

/* The key is changed in the wrong order: n1 signs with one that n2 does not have, and hears from n2 why n2 is deaf. */
static void half_changed_key(void **state)
{
	(void)state;
	set_keys(N1, other_key, key);
	exchange();
	exchange();
	assert_int_equal(row(N1, N2).flags & (NODE_HEARD | NODE_ECHOES), NODE_HEARD);
	assert_int_equal(row(N1, N2).rejects, REJECTION_KEY);
	assert_int_equal(row(N1, N2).rejected, REJECTION_NONE);
	set_keys(N1, key, NULL);
	exchange();
	exchange();
	assert_true(has(N1, N2, NODE_ECHOES));
	assert_int_equal(row(N1, N2).rejects, REJECTION_NONE);
}

/* n2 calls itself by a name that no member has; then it speaks from an address that no member has. */
static void name_and_address(void **state)
{
	struct addr stranger = addr_from_v4(htonl(0x0a000909));
	struct node *n1 = &nodes[N1], *n2 = &nodes[N2];

	(void)state;
	say(N2);
	assert_int_equal(table_receive(&n1->table, &n1->keys, &stranger, n2->datagram, n2->size, now_ms),
			 REJECT_SOURCE);
	assert_rejected(N1, N2, REJECTION_ADDRESS, "10.0.9.9");
	n2->table.self_id ^= 1;
	say(N2);
	n2->table.self_id ^= 1;
	assert_int_equal(hear(N1, N2), REJECT_SOURCE);
	assert_rejected(N1, N2, REJECTION_NAME, "10.0.0.2");
	/* Others who use its name elsewhere do not hide what comes from its own address. */
	say(N2);
	assert_int_equal(table_receive(&n1->table, &n1->keys, &stranger, n2->datagram, n2->size, now_ms),
			 REJECT_SOURCE);
	assert_rejected(N1, N2, REJECTION_NAME, "10.0.0.2");
	now_ms += TABLE_REJECTED_MS;
	assert_rejected(N1, N2, REJECTION_NONE, NULL);
}

/* A rejected announcement of a member that is heard tells nothing; nor does our own name at another address. */
static void heard_all_the_same(void **state)
{
	struct addr stranger = addr_from_v4(htonl(0x0a000909));
	static const uint8_t noise[100];
	unsigned i;

	(void)state;
	period(ALL_LINKS);
	assert_int_equal(hear_bytes(N1, N2, noise, sizeof(noise)), REJECT_MAGIC);
	assert_rejected(N1, N2, REJECTION_NONE, NULL);
	now_ms += DEAD_MS + 1;
	assert_rejected(N1, N2, REJECTION_OTHER, "10.0.0.2");
	start(N3, EPOCH + 100);
	nodes[N3].table.self_id = nodes[N1].table.self_id;
	say(N3);
	assert_int_equal(
		table_receive(&nodes[N1].table, &nodes[N1].keys, &stranger, nodes[N3].datagram, nodes[N3].size, now_ms),
		REJECT_SOURCE);
	for (i = 0; i < NODES; i++)
		assert_int_equal(nodes[N1].table.member[i].rejected, i == N2 ? REJECTION_OTHER : REJECTION_NONE);
}

/* A cause of a later version is a cause all the same. */
static void unknown_cause(void **state)
{
	(void)state;
	set_keys(N1, other_key, key);
	exchange();
	nodes[N2].table.member[N1].rejected = REJECTIONS;
	now_ms += PERIOD_MS;
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_NONE);
	assert_int_equal(row(N1, N2).rejects, REJECTION_OTHER);
}

static void causes(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < REJECT_REASONS; i++) {
		enum reject reason = (enum reject)i;

		if (reason != REJECT_CONFLICT)
			assert_int_equal(reject_cause(reason, true) != REJECTION_NONE, reject_counts(reason));
	}
	assert_int_equal(reject_cause(REJECT_KEY_ID, true), REJECTION_KEY);
	assert_int_equal(reject_cause(REJECT_MAC, true), REJECTION_KEY);
	assert_int_equal(reject_cause(REJECT_SOURCE, true), REJECTION_NAME);
	assert_int_equal(reject_cause(REJECT_SOURCE, false), REJECTION_ADDRESS);
	assert_int_equal(reject_cause(REJECT_OTHER_EPOCH, true), REJECTION_RUN);
	assert_int_equal(reject_cause(REJECT_VERSION, true), REJECTION_VERSION);
	assert_int_equal(reject_cause(REJECT_CONFLICT, true), REJECTION_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(another_key, setup),      cmocka_unit_test_setup(half_changed_key, setup),
		cmocka_unit_test_setup(name_and_address, setup), cmocka_unit_test_setup(heard_all_the_same, setup),
		cmocka_unit_test_setup(unknown_cause, setup),    cmocka_unit_test_setup(causes, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
