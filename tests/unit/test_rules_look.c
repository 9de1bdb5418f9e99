// SPDX-License-Identifier: GPL-2.0-or-later
/* Checks that all rules are in the kernel's list, in a separate network namespace with the real tools. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "dprd/base/command.h"
#include "dprd/cluster/state.h"
#include "dprd/host/flowset.h"
#include "dprd/rules/rules.h"

static const char base[] = "[Cluster]\nName=web\n[Node]\nName=n1\n[Service]\nPort=80\n[Shared]\nAddress=192.0.2.100\n"
			   "[Member \"n1\"]\nService=192.0.2.11 2001:db8::11\nCluster=10.0.0.11 fd00:1::11\n"
			   "[Member \"n2\"]\nService=192.0.2.12 2001:db8::12\nCluster=10.0.0.12 fd00:1::12\n";
static const char servers[] = "[Backend \"b1\"]\nAddress=10.1.0.21 fd00::21\nPort=8080\n"
			      "[Backend \"b2\"]\nAddress=10.1.0.22\n";

static struct dprd d;
static bool alone; /* in a separate network namespace */

/* Runs the tool that the line names, with its words split at blanks. */
static void run(const char *line)
{
	char copy[300], *output, *save = NULL;
	const char *argv[40];
	unsigned count = 0;
	int status;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *word = strtok_r(copy, " ", &save); word && count < 39; word = strtok_r(NULL, " ", &save))
		argv[count++] = word;
	argv[count] = NULL;
	status = command_run(argv, NULL, &output);
	if (status)
		fail_msg("%s: %d: %s", line, status, output);
	free(output);
}

/* Runs a tool whose input is this line, many times. */
static void run_times(const char *tool, const char *first, const char *line, unsigned times, const char *last)
{
	const char *const nft[] = { tool, "-f", "-", NULL }, *const restore[] = { tool, "--noflush", NULL };
	char *input = NULL, *output;
	size_t bytes;
	FILE *out = open_memstream(&input, &bytes);
	int status;

	assert_non_null(out);
	fputs(first, out);
	for (unsigned i = 0; i < times; i++)
		fputs(line, out);
	fputs(last, out);
	assert_int_equal(fclose(out), 0);
	status = command_run(strcmp(tool, "nft") == 0 ? nft : restore, input, &output);
	if (status)
		fail_msg("%s: %d: %s", line, status, output);
	free(output);
	free(input);
}

static int begin(void **state)
{
	(void)state;
	alone = unshare(CLONE_NEWNET) == 0;
	if (alone)
		run("ip link set lo up");
	return 0;
}

/* Sets up the rules of this configuration for a plane. */
static void set_up(const char *more, bool programs)
{
	static struct config_errors errors;
	char text[sizeof(base) + sizeof(servers)];

	if (!alone) {
		print_message("skip: a network namespace needs root\n");
		skip();
	}
	snprintf(text, sizeof(text), "%s%s", base, more);
	if (config_parse("test.conf", text, strlen(text), NULL, &d.config, &errors))
		fail_msg("%s", errors.text[0]);
	d.worker_count = 2;
	d.table_valid = true;
	d.table.count = 2;
	d.table.nodes[0] = (struct node_load) { .id = member_id("n1"), .flags = NODE_HEARD };
	d.table.nodes[1] = (struct node_load) { .id = member_id("n2"), .flags = NODE_HEARD };
	ways_reconfigure(&d.ways, &d.config, NULL);
	backend_reconfigure(&d, NULL);
	d.fastpath = programs ? (struct fastpath *)&d : NULL; /* it is never read */
	assert_int_equal(rules_install(&d), 0);
	assert_true(rules_present(&d));
}

static int open_tables(void **state)
{
	(void)state;
	memset(&d, 0, sizeof(d));
	d.lock = (struct mutex)MUTEX_INITIALIZER;
	d.set = flowset_new();
	assert_non_null(d.set);
	return 0;
}

static int close_tables(void **state)
{
	(void)state;
	if (alone)
		run("nft flush ruleset");
	flowset_free(d.set);
	pthread_mutex_destroy(&d.lock.mutex);
	return 0;
}

/* After each of these lines something is missing; after another set-up nothing is. */
static void check_missed(const char *const line[], unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		run(line[i]);
		if (rules_present(&d))
			fail_msg("not missed after: %s", line[i]);
		assert_int_equal(rules_install(&d), 0);
		if (!rules_present(&d))
			fail_msg("not all there when set up again after: %s", line[i]);
	}
}

#define CHECK_MISSED(...)                                           \
	do {                                                        \
		static const char *const line[] = { __VA_ARGS__ };  \
		check_missed(line, sizeof(line) / sizeof(line[0])); \
	} while (0)

/* Each rule in the queues' chains counts, and so does the jump to them. */
static void check_queues(bool marks)
{
	CHECK_MISSED("nft flush ruleset", "iptables-nft -t raw -F", "ip6tables-nft -t raw -F",
		     "iptables-nft -t raw -F PREROUTING", "ip6tables-nft -t raw -F PREROUTING",
		     "iptables-nft -t raw -D DPRD 1", "iptables-nft -t raw -D DPRD 2", "ip6tables-nft -t raw -D DPRD 3",
		     "ip6tables-nft -t raw -D DPRD-DECIDE 1");
	if (marks)
		CHECK_MISSED("iptables-nft -t raw -D DPRD-DECIDE 2");
}

static void test_nfqueue(void **state)
{
	(void)state;
	set_up("", false);
	check_queues(true);
	CHECK_MISSED("nft delete table inet dprd", "nft flush table inet dprd", "nft flush chain inet dprd prerouting",
		     "nft flush chain inet dprd decide", "nft flush chain inet dprd mss",
		     "nft flush chain inet dprd output");
}

static void test_programs(void **state)
{
	(void)state;
	set_up("", true);
	check_queues(true);
	CHECK_MISSED("nft delete table inet dprd");
}

static void test_real_servers(void **state)
{
	(void)state;
	set_up(servers, true);
	check_queues(false);
	CHECK_MISSED("nft delete table inet dprd", "nft flush chain inet dprd backend",
		     "nft flush chain inet dprd unmark", "nft flush chain inet dprd backend_choose6",
		     "nft flush chain inet dprd backend_end");
	close_tables(state);
	open_tables(state);
	set_up(servers, false);
	CHECK_MISSED("nft flush chain inet dprd prerouting", "nft flush chain inet dprd backend_choose4",
		     "nft flush chain inet dprd backend_leaving");
}

/* During a flood prerouting is different. */
static void test_flood(void **state)
{
	(void)state;
	set_up("", false);
	d.flood.on = true;
	assert_false(rules_present(&d));
	assert_int_equal(rules_set_flood(&d), 0);
	assert_true(rules_present(&d));
	CHECK_MISSED("nft flush chain inet dprd pass", "nft flush chain inet dprd prerouting");
	d.flood.on = false;
	assert_int_equal(rules_set_flood(&d), 0);
	assert_true(rules_present(&d));
}

/* Other programs' rules, even under the same names, do not count as ours and are not checked. */
static void test_others(void **state)
{
	(void)state;
	set_up("", false);
	run("nft add table ip dprd");
	run("nft add chain ip dprd prerouting");
	run_times("nft", "", "add rule ip dprd prerouting counter\n", 30, "");
	run("iptables-nft -t raw -N MINE");
	run("iptables-nft -t raw -A MINE -j DPRD");
	run("iptables-nft -t raw -A OUTPUT -j DPRD");
	run("iptables-nft -t raw -A PREROUTING -j MINE");
	/* There are more rules than one answer holds. */
	run_times("iptables-nft-restore", "*raw\n",
		  "-A PREROUTING -s 198.51.100.7 -m comment --comment "
		  "a_rule_of_somebody_else_which_takes_some_room_in_the_list_that_the_kernel_makes_of_it -j MINE\n",
		  200, "COMMIT\n");
	assert_true(rules_present(&d));
	CHECK_MISSED("nft flush chain inet dprd prerouting",
		     "iptables-nft -t raw -D PREROUTING -m mark ! --mark 0/0x60000000 -j DPRD");
	run("iptables-nft -t raw -F MINE");
	assert_true(rules_present(&d));
}

/* Nothing is left in the tables raw, not even from another version with one more chain. */
static void test_removed(void **state)
{
	static const char *const list[] = { "nft", "list", "tables", NULL };
	char *left = NULL;

	(void)state;
	set_up("", true);
	run("iptables-nft -t raw -N DPRD-FORWARD");
	run("iptables-nft -t raw -A DPRD-FORWARD -j MARK --set-xmark 0/0x60000000");
	run("ip6tables-nft -t raw -N DPRD-FORWARD");
	assert_true(rules_present(&d));
	assert_int_equal(rules_remove(&d.config, d.worker_count, false), 0);
	assert_int_equal(command_run(list, NULL, &left), 0);
	assert_string_equal(left ? left : "", "");
	free(left);
}

/* Makes the table's counters anew with these values. */
static void count(unsigned undecided, unsigned stranger4, unsigned stranger6)
{
	char line[100];

	run("nft add table inet dprd");
	run("nft delete table inet dprd");
	run("nft add table inet dprd");
	snprintf(line, sizeof(line), "nft add counter inet dprd undecided { packets %u bytes 9 ; }", undecided);
	run(line);
	snprintf(line, sizeof(line), "nft add counter inet dprd stranger4 { packets %u bytes 9 ; }", stranger4);
	run(line);
	snprintf(line, sizeof(line), "nft add counter inet dprd stranger6 { packets %u bytes 9 ; }", stranger6);
	run(line);
}

static void check_counts(int64_t undecided, int64_t strangers)
{
	struct rules_counts counts;

	assert_int_equal(rules_count(&d, &counts), 0);
	assert_int_equal(counts.undecided, undecided);
	assert_int_equal(counts.strangers, strangers);
}

/* Counts since this dprd started; a table that was made anew begins at 0. */
static void test_counts(void **state)
{
	struct rules_counts counts;

	(void)state;
	set_up("", false);
	run("nft delete table inet dprd");
	assert_int_equal(rules_count(&d, &counts), -ENOENT);
	count(7, 5, 1);
	check_counts(0, 0);
	count(10, 6, 1);
	check_counts(3, 1);
	check_counts(3, 1);
	count(4, 0, 2);
	check_counts(7, 2);
	run("nft delete counter inet dprd stranger6");
	assert_int_equal(rules_count(&d, &counts), -ENOENT);
	run("nft delete table inet dprd");
	run("nft add table inet dprd");
	assert_int_equal(rules_count(&d, &counts), -ENOENT);
	count(4, 3, 2);
	check_counts(7, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nfqueue, open_tables, close_tables),
		cmocka_unit_test_setup_teardown(test_programs, open_tables, close_tables),
		cmocka_unit_test_setup_teardown(test_real_servers, open_tables, close_tables),
		cmocka_unit_test_setup_teardown(test_flood, open_tables, close_tables),
		cmocka_unit_test_setup_teardown(test_others, open_tables, close_tables),
		cmocka_unit_test_setup_teardown(test_removed, open_tables, close_tables),
		cmocka_unit_test_setup_teardown(test_counts, open_tables, close_tables),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
