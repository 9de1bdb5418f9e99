// SPDX-License-Identifier: GPL-2.0-or-later
/* Messages of the kernel when a program changes the nftables tables: a separate network namespace, and nft(8). */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "dprd/base/command.h"
#include "dprd/rules/rules.h"

static const char tables[] =
	"table ip raw { chain PREROUTING { counter; }\n chain DPRD { counter; }\n}\n"
	"table ip6 raw { chain DPRD { counter; }\n}\n"
	"table ip filter { chain INPUT { counter; }\n}\n"
	"table inet dprd { map flows { type ipv4_addr : mark; }\n set own { type ipv4_addr; }\n}\n";

static struct rules_watch *watch;

static int nft(const char *rules)
{
	const char *const argv[] = { "nft", "-f", "-", NULL };

	return command_run(argv, rules, NULL);
}

static int open_watch(void **state)
{
	(void)state;
	if (unshare(CLONE_NEWNET))
		return 0;
	assert_int_equal(nft(tables), 0);
	watch = rules_watch_new();
	assert_non_null(watch);
	return 0;
}

static int close_watch(void **state)
{
	(void)state;
	rules_watch_free(watch);
	return 0;
}

/* Every test begins with all of the tables. */
static int restore(void **state)
{
	(void)state;
	if (!watch)
		return 0;
	assert_int_equal(nft("flush ruleset"), 0);
	assert_int_equal(nft(tables), 0);
	rules_watch_hit(watch);
	return 0;
}

static void check(const char *rules, bool hit)
{
	if (!watch) {
		print_message("skip: a network namespace needs root\n");
		skip();
	}
	assert_false(rules_watch_hit(watch));
	assert_int_equal(nft(rules), 0);
	assert_int_equal(rules_watch_hit(watch), hit);
	assert_false(rules_watch_hit(watch));
}

static void test_rules_of_a_chain(void **state)
{
	(void)state;
	check("flush chain ip raw PREROUTING", true);
}

static void test_the_other_family(void **state)
{
	(void)state;
	check("flush chain ip6 raw DPRD", true);
}

static void test_everything(void **state)
{
	(void)state;
	check("flush ruleset", true);
}

static void test_own_table(void **state)
{
	(void)state;
	check("delete table inet dprd", true);
}

/* With the BPF programs the table is empty. */
static void test_own_empty_table(void **state)
{
	(void)state;
	check("delete set inet dprd own\ndelete map inet dprd flows", true);
	check("delete table inet dprd", true);
}

static void test_own_set(void **state)
{
	(void)state;
	check("delete set inet dprd own", true);
}

static void test_tables_of_others(void **state)
{
	(void)state;
	check("flush chain ip filter INPUT\ndelete table ip filter", false);
}

static void test_what_is_added(void **state)
{
	(void)state;
	check("add rule ip raw DPRD counter\nadd chain ip raw MINE", false);
}

/* Without the BPF programs each forwarded flow is an element. */
static void test_flows(void **state)
{
	(void)state;
	check("add element inet dprd flows { 192.0.2.1 : 1 }", false);
	check("delete element inet dprd flows { 192.0.2.1 }", false);
}

/* There are more changes than the socket has room for: dprd's table may be among them. */
static void test_more_than_there_is_room_for(void **state)
{
	static char rules[1 << 20];
	FILE *out = fmemopen(rules, sizeof(rules), "w");
	unsigned i;

	(void)state;
	assert_non_null(out);
	for (i = 0; i < 10000; i++)
		fprintf(out, "add rule ip filter INPUT counter comment \"a rule with a long comment, so that it takes "
			     "room\"\n");
	fclose(out);
	check(rules, true);
}

static void test_nobody_watches(void **state)
{
	(void)state;
	assert_false(rules_watch_hit(NULL));
	rules_watch_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_rules_of_a_chain, restore),
		cmocka_unit_test_setup(test_the_other_family, restore),
		cmocka_unit_test_setup(test_everything, restore),
		cmocka_unit_test_setup(test_own_table, restore),
		cmocka_unit_test_setup(test_own_empty_table, restore),
		cmocka_unit_test_setup(test_own_set, restore),
		cmocka_unit_test_setup(test_tables_of_others, restore),
		cmocka_unit_test_setup(test_what_is_added, restore),
		cmocka_unit_test_setup(test_flows, restore),
		cmocka_unit_test_setup(test_more_than_there_is_room_for, restore),
		cmocka_unit_test(test_nobody_watches),
	};

	return cmocka_run_group_tests(tests, open_watch, close_watch);
}
