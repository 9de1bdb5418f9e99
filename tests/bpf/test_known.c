// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_known.c - the addresses of a large cluster: some do not lie at the place of their hash, and must also be found.
 * Those of a small one all lie there.
 */
#include <arpa/inet.h>
#include <stdio.h>

#include "tests/bpf/fixture.h"

enum { MEMBERS = 64, SERVICES = 4, SMALL = 10, CONFIG_BYTES = 64 * 1024 };

/* Part of a service address. The addresses are far apart; consecutive ones would all lie at the place of their hash. */
static unsigned far_v4(unsigned member, unsigned service)
{
	return (member * 97 + service * 31) % 250;
}

static unsigned far_v6(unsigned member, unsigned service)
{
	return (member * 40503 + service * 25733) & 0xffff;
}

static void open_cluster(struct plane *p, unsigned members)
{
	static char text[CONFIG_BYTES];
	int used = snprintf(text, sizeof(text), "[Cluster]\nName=test\n[Node]\nName=n1\n[Service]\nPort=80 443 8080\n");
	unsigned n, s;

	for (n = 1; n <= members; n++) {
		used += snprintf(text + used, sizeof(text) - (size_t)used,
				 "[Member \"n%u\"]\nCluster=10.0.0.%u\nCluster=fd00::%u\n", n, n, n);
		for (s = 1; s <= SERVICES; s++)
			used += snprintf(text + used, sizeof(text) - (size_t)used,
					 "Service=198.51.%u.%u\nService=2001:db8:%x::%x\n", far_v4(n, s), n,
					 far_v6(n, s), n);
	}
	plane_open(p, text, 100);
}

/* Names are addresses, with "_" for the colon; all hardware addresses are one. */
static bool address_of(const void *context, const char *name, bool v6, struct addr *ret)
{
	char text[ADDR_TEXT_BYTES];
	unsigned i;

	(void)context;
	snprintf(text, sizeof(text), "%s", name);
	for (i = 0; text[i]; i++) {
		if (text[i] == '_')
			text[i] = ':';
	}
	return addr_parse(text, ret) && addr_is_v4(ret) != v6;
}

static bool hardware_of(const void *context, const char *name, uint8_t ret[6])
{
	(void)context;
	(void)name;
	memset(ret, 2, 6);
	return true;
}

/* The fate of an ACK that a client sent to a service of member "of", in a tunnel from member "from". */
static int verdict_of(struct plane *p, bool v6, unsigned from, unsigned of, unsigned service, unsigned port)
{
	const struct craft_names names = { .v6 = v6, .address = address_of, .hardware = hardware_of };
	struct plane_run run = { 0 };
	struct frame in, out;
	char line[256];

	if (v6)
		snprintf(line, sizeof(line),
			 "tunnel fd00__%u>fd00__1 | ip 2001_db8_f__7>2001_db8_%x__%x | tcp 40000>%u .", from,
			 far_v6(of, service), of, port);
	else
		snprintf(line, sizeof(line), "tunnel 10.0.0.%u>10.0.0.1 | ip 203.0.113.7>198.51.%u.%u | tcp 40000>%u .",
			 from, far_v4(of, service), of, port);
	craft(&names, line, NULL, &in);
	assert_int_equal(plane_run(p, &run, &in, &out), 0);
	return run.verdict;
}

static unsigned elsewhere(const struct fastpath_tables *t)
{
	unsigned i, count = 0;

	for (i = 0; i < FASTPATH_ADDRESSES; i++)
		count += t->address[i].roles && fastpath_address_hash(&t->address[i].address, t->seed) != i;
	return count;
}

static void test_all_are_found(void **state)
{
	static const unsigned ports[] = { 80, 443, 8080 };
	static struct plane p;
	unsigned n, s;
	int v6;

	(void)state;
	open_cluster(&p, MEMBERS);
	assert_true(elsewhere(&p.fastpath->tables[p.fastpath->control->active]) > 10);
	for (v6 = 0; v6 < 2; v6++) {
		for (n = 2; n <= MEMBERS; n++) {
			for (s = 1; s <= SERVICES; s++)
				assert_int_equal(verdict_of(&p, v6, n, n, s, ports[(n + s) % 3]), PASS);
			/* Not the sender's service; an unknown address; a port of a former file; an unknown sender. */
			assert_int_equal(verdict_of(&p, v6, n, n % MEMBERS + 1, 1, 80), DROP);
			assert_int_equal(verdict_of(&p, v6, n, n, SERVICES + 1, 80), DROP);
			assert_int_equal(verdict_of(&p, v6, n, n, 1, 81), PASS);
			assert_int_equal(verdict_of(&p, v6, n + MEMBERS, n, 1, 80), DROP);
		}
	}
	plane_close(&p);
}

static void test_small_ones_lie_where_their_hash_says(void **state)
{
	static struct plane p;

	(void)state;
	open_cluster(&p, SMALL);
	assert_int_equal(elsewhere(&p.fastpath->tables[p.fastpath->control->active]), 0);
	plane_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_all_are_found),
					    cmocka_unit_test(test_small_ones_lie_where_their_hash_says) };

	return fixture_main("known", NULL, 0, tests, sizeof(tests) / sizeof(tests[0]));
}
