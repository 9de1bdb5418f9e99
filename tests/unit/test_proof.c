// SPDX-License-Identifier: GPL-2.0-or-later
/* proof.c notices whose probes arrive; probe.h writes them. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/core/decide/proof.h"
#include "dprd/core/packet/probe.h"

enum { A = 3, B = 5 };

static struct proofs proofs;
static uint64_t now_ms;

static int start(void **context)
{
	(void)context;
	memset(&proofs, 0, sizeof(proofs));
	now_ms = 1000000;
	return 0;
}

/* Time passes in which A's probes over IPv4 arrive, or do not. Returns the number of looks that had news. */
static unsigned pass(unsigned ms, bool arrive)
{
	unsigned news = 0;

	for (unsigned i = 0; i < ms; i += PROOF_LOOK_MS) {
		now_ms += PROOF_LOOK_MS;
		if (arrive)
			proofs_hear(&proofs, A, false, false, now_ms);
		news += proofs_look(&proofs, now_ms);
	}
	return news;
}

static void test_learns_first(void **context)
{
	(void)context;
	assert_false(proofs_judge(&proofs));
	assert_int_equal(pass(PROOF_LOOK_MS, true), 1);
	assert_true(proofs.proven[A][0]);
	assert_false(proofs.proven[A][1]);
	assert_false(proofs.proven[B][0]);
	assert_false(proofs_judge(&proofs));
	assert_int_equal(pass(PROOF_LEARN_MS - PROOF_LOOK_MS, true), 0);
	assert_false(proofs_judge(&proofs));
	assert_int_equal(pass(PROOF_LOOK_MS, true), 1);
	assert_true(proofs_judge(&proofs));
}

static void test_loses_and_wins(void **context)
{
	(void)context;
	pass(5000, true);
	assert_int_equal(pass(PROOF_FRESH_MS - PROOF_LOOK_MS, false), 0);
	assert_true(proofs.proven[A][0]);
	assert_int_equal(pass(2 * PROOF_LOOK_MS, false), 1);
	assert_false(proofs.proven[A][0]);
	assert_int_equal(pass(60000, false), 0);
	assert_int_equal(pass(PROOF_LOOK_MS, true), 1);
	assert_true(proofs.proven[A][0]);
	/* An older probe than the newest says nothing. */
	proofs_hear(&proofs, A, false, false, now_ms - 5000);
	assert_false(proofs_look(&proofs, now_ms));
	assert_true(proofs.proven[A][0]);
}

/* After a pause of this process probes may still wait for it: no way loses its proof at once. */
static void test_pause(void **context)
{
	(void)context;
	pass(5000, true);
	now_ms += 3000;
	assert_false(proofs_look(&proofs, now_ms));
	assert_true(proofs.proven[A][0]);
	assert_int_equal(pass(PROOF_SETTLE_MS - PROOF_LOOK_MS, false), 0);
	assert_int_equal(pass(PROOF_LOOK_MS, false), 1);
	assert_false(proofs.proven[A][0]);
	/* But it wins none by a pause. */
	now_ms += 3000;
	assert_false(proofs_look(&proofs, now_ms));
	assert_false(proofs.proven[A][0]);
}

/* After a look that failed this node learns anew. */
static void test_failure(void **context)
{
	(void)context;
	pass(5000, true);
	proofs_fail(&proofs);
	assert_false(proofs_judge(&proofs));
	pass(PROOF_LEARN_MS, false);
	assert_false(proofs_judge(&proofs));
	pass(PROOF_LOOK_MS, false);
	assert_true(proofs_judge(&proofs));
	assert_false(proofs.proven[A][0]);
}

static struct addr address(const char *text)
{
	struct addr a = { .words = { 0 } };

	assert_true(addr_parse(text, &a));
	return a;
}

static void check_probe(const char *client, const char *service, unsigned size)
{
	struct addr from = address(client), to = address(service);
	bool v6 = !addr_is_v4(&from);
	uint8_t bytes[1500];
	struct packet packet;

	probe_write(bytes, v6, &from, &to, size);
	assert_int_equal(packet_parse(bytes, size, &packet), PACKET_TCP);
	assert_true(packet_is_probe(&packet));
	assert_true(packet.dont_fragment);
	assert_int_equal(packet.total_bytes, size);
	assert_int_equal(ntohs(packet.key.client_port), size == probe_bytes(v6) ? PROBE_PORT : PROBE_FULL_PORT);
	assert_true(addr_equal(&packet.key.client, &from));
	assert_true(addr_equal(&packet.key.service, &to));
	assert_true(encap_tcp_checksum_good(bytes, &packet));
	if (!v6)
		assert_int_equal(checksum_fold(checksum_add(0, bytes, IPV4_HEADER_BYTES)), 0);
	packet.key.client_port = htons(40000);
	assert_false(packet_is_probe(&packet));
	packet.key.client_port = htons(PROBE_PORT);
	packet.key.service_port = htons(80);
	assert_false(packet_is_probe(&packet));
	packet.key.service_port = htons(PROBE_PORT);
	packet.tcp_flags |= TCP_ACK;
	assert_false(packet_is_probe(&packet));
}

static void test_probe(void **context)
{
	(void)context;
	check_probe("203.0.113.9", "192.0.2.1", probe_bytes(false));
	check_probe("2001:db8:c::9", "2001:db8::1", probe_bytes(true));
	check_probe("203.0.113.9", "192.0.2.1", 1479);
	check_probe("2001:db8:c::9", "2001:db8::1", 1480);
}

/* Small probes arrive, full-size ones do not, for a time that chance does not explain. */
static void test_narrow(void **context)
{
	(void)context;
	pass(PROOF_FULL_LEARN_MS, true);
	assert_false(proofs.narrow[A][0]);
	assert_int_equal(pass(PROOF_LOOK_MS, true), 1);
	assert_true(proofs.narrow[A][0]);
	proofs_hear(&proofs, A, false, true, now_ms);
	assert_int_equal(pass(PROOF_LOOK_MS, true), 1);
	assert_false(proofs.narrow[A][0]);
	assert_int_equal(pass(PROOF_FULL_FRESH_MS - 2 * PROOF_LOOK_MS, true), 0);
	assert_int_equal(pass(PROOF_LOOK_MS, true), 1);
	assert_true(proofs.narrow[A][0]);
	/* A lost way is not narrow; and a way that is found again is not narrow at once. */
	pass(2000, false);
	assert_false(proofs.proven[A][0] || proofs.narrow[A][0]);
	pass(PROOF_FULL_LEARN_MS, true);
	assert_false(proofs.narrow[A][0]);
	pass(PROOF_LOOK_MS, true);
	assert_true(proofs.narrow[A][0]);
}

/* A node that stood still for long has missed no full-size probe, and still notices when none come from then on. */
static void test_narrow_after_a_pause(void **context)
{
	(void)context;
	pass(PROOF_FULL_LEARN_MS - PROOF_LOOK_MS, true);
	proofs_hear(&proofs, A, false, true, now_ms);
	pass(5000, true);
	now_ms += 600000;
	proofs_hear(&proofs, A, false, false, now_ms);
	pass(PROOF_FULL_FRESH_MS - 5000 - 2 * PROOF_LOOK_MS, true);
	assert_true(proofs.proven[A][0]);
	assert_false(proofs.narrow[A][0]);
	pass(3 * PROOF_LOOK_MS, true);
	assert_true(proofs.narrow[A][0]);
	/* A full-size probe that waited in a queue during the pause. */
	now_ms += 600000;
	proofs_hear(&proofs, A, false, true, now_ms - 100);
	pass(PROOF_FULL_FRESH_MS - 3 * PROOF_LOOK_MS, true);
	assert_false(proofs.narrow[A][0]);
	pass(4 * PROOF_LOOK_MS, true);
	assert_true(proofs.narrow[A][0]);
}

/* A busy node that looks too seldom all the time notices, too, that no full-size probes come. */
static void test_narrow_on_a_busy_node(void **context)
{
	const unsigned gap_ms = PROOF_LATE_MS + PROOF_LOOK_MS;
	unsigned looks = 0;

	(void)context;
	for (; !proofs.narrow[A][0] && looks < 1000; looks++) {
		now_ms += gap_ms;
		proofs_hear(&proofs, A, false, false, now_ms);
		proofs_look(&proofs, now_ms);
	}
	assert_in_range(looks, PROOF_FULL_LEARN_MS / gap_ms, PROOF_FULL_LEARN_MS / PROOF_LOOK_MS + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_learns_first, start),
		cmocka_unit_test_setup(test_loses_and_wins, start),
		cmocka_unit_test_setup(test_pause, start),
		cmocka_unit_test_setup(test_failure, start),
		cmocka_unit_test_setup(test_narrow, start),
		cmocka_unit_test(test_probe),
		cmocka_unit_test_setup(test_narrow_after_a_pause, start),
		cmocka_unit_test_setup(test_narrow_on_a_busy_node, start),
	};

	return cmocka_run_group_tests_name("proof", tests, NULL, NULL);
}
