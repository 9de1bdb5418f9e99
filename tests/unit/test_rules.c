// SPDX-License-Identifier: GPL-2.0-or-later
/* The rules for real servers: translations and shares; and the local routes. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/cluster/state.h"
#include "dprd/rules/rules.h"
#include "dprd/rules/table.h"

static const char base[] = "[Cluster]\nName=web\n[Node]\nName=n1\n[Service]\nPort=80\nPort=443\n"
			   "[Shared]\nAddress=192.0.2.100\n"
			   "[Member \"n1\"]\nService=192.0.2.11 2001:db8::11\nCluster=10.0.0.11 fd00:1::11\nWeight=2\n"
			   "[Member \"n2\"]\nService=192.0.2.12 2001:db8::12\nCluster=10.0.0.12 fd00:1::12\n"
			   "[Backend \"b1\"]\nAddress=10.1.0.21 fd00::21\nPort=8080\nWeight=3\n"
			   "[Backend \"b2\"]\nForm=direct\nAddress=10.1.0.22\n"
			   "[Backend \"b3\"]\nAddress=10.1.0.23\nWeight=5\n";

static struct dprd d;
static char *script;

/* The input of nft; valid until the next call. */
static const char *written(void)
{
	size_t bytes;
	FILE *out;

	free(script);
	script = NULL;
	out = open_memstream(&script, &bytes);
	assert_non_null(out);
	rules_write_backends(out, &d);
	assert_int_equal(fclose(out), 0);
	return script;
}

static void configure(const char *more)
{
	static struct config_errors errors;
	char text[sizeof(base) + 200];
	unsigned i;

	snprintf(text, sizeof(text), "%s%s", base, more);
	if (config_parse("test.conf", text, strlen(text), NULL, &d.config, &errors))
		fail_msg("%s", errors.text[0]);
	d.table.count = 2 + d.config.own_backend_count;
	d.table.nodes[0] = (struct node_load) { .id = member_id("n1"), .flags = NODE_HEARD };
	d.table.nodes[1] = (struct node_load) { .id = member_id("n2"), .flags = NODE_HEARD };
	for (i = 0; i < d.config.own_backend_count; i++)
		d.table.nodes[2 + i] =
			(struct node_load) { .id = config_own_backend(&d.config, i)->id, .flags = NODE_BACKEND };
	ways_reconfigure(&d.ways, &d.config, NULL);
	backend_reconfigure(&d, NULL);
}

static int start(void **context)
{
	(void)context;
	memset(&d, 0, sizeof(d));
	d.lock = (struct mutex)MUTEX_INITIALIZER;
	d.table_valid = true;
	configure("");
	return 0;
}

static int stop(void **context)
{
	(void)context;
	pthread_mutex_destroy(&d.lock.mutex);
	free(script);
	script = NULL;
	return 0;
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in:\n%s", part, text);
}

static void assert_lacks(const char *text, const char *part)
{
	if (strstr(text, part))
		fail_msg("\"%s\" is in:\n%s", part, text);
}

/* The rules of a chain, one per line. */
static void assert_chain(const char *name, const char *expected)
{
	static char found[2000];
	const char *line = written(), *end;
	char start[80];
	size_t used = 0;

	snprintf(start, sizeof(start), "add rule inet dprd %s ", name);
	for (; (end = strchr(line, '\n')); line = end + 1) {
		if (strncmp(line, start, strlen(start)) != 0)
			continue;
		line += strlen(start);
		used += (size_t)snprintf(found + used, sizeof(found) - used, "%.*s\n", (int)(end - line), line);
		assert_true(used < sizeof(found));
	}
	found[used] = '\0';
	assert_string_equal(found, expected);
}

/* A marked SYN never reaches the rules that draw. No SYN goes to b2, which has the service address itself. */
static void test_choice(void **context)
{
	(void)context;
	assert_chain("backend_choose4",
		     "meta mark & 0x1f000000 == 0x01000000 meta l4proto tcp dnat ip to 10.1.0.21:8080\n"
		     "meta mark & 0x1f000000 == 0x03000000 dnat ip to 10.1.0.23\n"
		     "meta mark & 0x1f000000 == 0x1f000000 accept\n"
		     "numgen random mod 10 < 3 meta l4proto tcp dnat ip to 10.1.0.21:8080\n"
		     "numgen random mod 7 < 5 dnat ip to 10.1.0.23\n");
	assert_chain("backend_choose6",
		     "meta mark & 0x1f000000 == 0x01000000 meta l4proto tcp dnat ip6 to [fd00::21]:8080\n"
		     "meta mark & 0x1f000000 == 0x1f000000 accept\n"
		     "numgen random mod 5 < 3 meta l4proto tcp dnat ip6 to [fd00::21]:8080\n");
	assert_chain("backend_end", "iifname != \"lo\" ct state invalid ip daddr . tcp dport @backend_service4 drop\n"
				    "iifname != \"lo\" ct state invalid ip6 daddr . tcp dport @backend_service6 drop\n"
				    "meta mark & 0x1f000000 != 0 meta mark set meta mark & 0xe0ffffff\n");
}

/* A SYN to a shared address that passed by the queue has no flow: BPF plane only, where one is needed. */
static void test_passed_by(void **context)
{
	static const char wanted[] = "add rule inet dprd unmark meta mark & 0x3f000000 == 0x20000000 ip6 daddr "
				     "@backend_shared6 tcp flags & (fin | syn | rst | ack) == syn ";
	char rule[250];

	(void)context;
	assert_lacks(written(), "backend_shared");
	d.fastpath = (struct fastpath *)&d;
	assert_has(written(), "add element inet dprd backend_shared4 { 192.0.2.100 }\n");
	snprintf(rule, sizeof(rule), "%smeta mark set meta mark | 0x1f000000\n", wanted);
	assert_has(written(), rule);
	d.table.nodes[0].flags |= NODE_SERVER_DOWN;
	snprintf(rule, sizeof(rule), "%sdrop\n", wanted);
	assert_has(written(), rule);
}

/* A copy of a SYN still follows it to a server that is down. */
static void test_down(void **context)
{
	(void)context;
	d.table.nodes[2].state = NODE_UNHEALTHY;
	backend_reconfigure(&d, NULL);
	assert_chain("backend_choose4",
		     "meta mark & 0x1f000000 == 0x01000000 meta l4proto tcp dnat ip to 10.1.0.21:8080\n"
		     "meta mark & 0x1f000000 == 0x03000000 dnat ip to 10.1.0.23\n"
		     "meta mark & 0x1f000000 == 0x1f000000 accept\n"
		     "numgen random mod 7 < 5 dnat ip to 10.1.0.23\n");
	assert_chain("backend_choose6",
		     "meta mark & 0x1f000000 == 0x01000000 meta l4proto tcp dnat ip6 to [fd00::21]:8080\n"
		     "meta mark & 0x1f000000 == 0x1f000000 accept\n");
	/* The node's own server is down, too: the last server gets everything. */
	d.table.nodes[0].flags |= NODE_SERVER_DOWN;
	assert_chain("backend_choose4",
		     "meta mark & 0x1f000000 == 0x01000000 meta l4proto tcp dnat ip to 10.1.0.21:8080\n"
		     "meta mark & 0x1f000000 == 0x03000000 dnat ip to 10.1.0.23\n"
		     "meta mark & 0x1f000000 == 0x1f000000 accept\n"
		     "dnat ip to 10.1.0.23\n");
}

/* A member that wants nothing from its peers still serves beside its real servers. */
static void test_weight_of_self(void **context)
{
	(void)context;
	d.config.member[0].weight = 0;
	assert_has(written(), " numgen random mod 9 < 3 ");
	assert_has(written(), " numgen random mod 6 < 5 ");
}

/* A client without a server is not reset. The marks stay on, otherwise dprd's decision would not count. */
static void test_serve_nothing_here(void **context)
{
	(void)context;
	configure("[Backends]\nServeHere=no\n");
	assert_has(written(), " numgen random mod 8 < 3 ");
	assert_has(written(), "add rule inet dprd backend_choose4 dnat ip to 10.1.0.23\n");
	assert_chain("backend_end",
		     "iifname != \"lo\" ct state invalid ip daddr . tcp dport @backend_service4 drop\n"
		     "iifname != \"lo\" meta mark & 0x1f000000 == 0 ip saddr != @backend_server4 "
		     "ip daddr . tcp dport @backend_service4 tcp flags & (fin | syn | rst | ack) == syn drop\n"
		     "iifname != \"lo\" ct state invalid ip6 daddr . tcp dport @backend_service6 drop\n"
		     "iifname != \"lo\" meta mark & 0x1f000000 == 0 ip6 saddr != @backend_server6 "
		     "ip6 daddr . tcp dport @backend_service6 tcp flags & (fin | syn | rst | ack) == syn drop\n"
		     "meta mark & 0x1f000000 != 0 meta mark set meta mark & 0xe0ffffff\n");
}

static void test_sets(void **context)
{
	const char *text = written();

	(void)context;
	assert_has(text, "add element inet dprd backend_service4 { 192.0.2.11 . 80, 192.0.2.100 . 80, "
			 "192.0.2.11 . 443, 192.0.2.100 . 443, 192.0.2.12 . 80, 192.0.2.12 . 443 }\n");
	assert_has(text, "add element inet dprd backend_server4 { 10.1.0.21, 10.1.0.22, 10.1.0.23 }\n");
	assert_has(text, "add element inet dprd backend_server6 { fd00::21 }\n");
}

/* Nodes have one address each: a packet that arrives by tunnel has the alias of its service address. */
static void test_alias(void **context)
{
	static const char text[] = "[Cluster]\nName=web\n[Node]\nName=n1\n[Service]\nPort=80\n"
				   "[Member \"n1\"]\nService=192.0.2.11\n[Member \"n2\"]\nService=192.0.2.12\n"
				   "[Backend \"b1\"]\nAddress=10.1.0.21\n";
	static struct config_errors errors;
	char alias[ADDR_TEXT_BYTES], wanted[120];
	struct addr address;

	(void)context;
	if (config_parse("test.conf", text, strlen(text), NULL, &d.config, &errors))
		fail_msg("%s", errors.text[0]);
	ways_reconfigure(&d.ways, &d.config, NULL);
	address = config_alias(&d.config, 1, 0);
	assert_false(addr_is_zero(&address));
	snprintf(wanted, sizeof(wanted), "backend_service4 { 192.0.2.11 . 80, %s . 80 }", addr_format(&address, alias));
	assert_has(written(), wanted);
}

/* Connection tracking is only for servers that need it. */
static void test_without_translation(void **context)
{
	(void)context;
	assert_true(config_has_nat(&d.config));
	d.config.own_backend_count = 1;
	d.config.own_backend[0] = d.config.own_backend[1]; /* b2 */
	ways_reconfigure(&d.ways, &d.config, NULL);
	backend_reconfigure(&d, NULL);
	assert_false(config_has_nat(&d.config));
	assert_chain("backend", "iifname \"lo\" accept\n");
	assert_chain("backend_choose4", "");
	assert_chain("backend_end", "meta mark & 0x1f000000 != 0 meta mark set meta mark & 0xe0ffffff\n");
}

static const char *probed(void)
{
	size_t bytes;
	FILE *out;

	free(script);
	script = NULL;
	out = open_memstream(&script, &bytes);
	assert_non_null(out);
	rules_write_probed(out, &d.config);
	assert_int_equal(fclose(out), 0);
	return script;
}

/* Probes are noted and dropped, unless their port is a service. */
static void test_probes(void **context)
{
	(void)context;
	assert_has(probed(), "add chain inet dprd input { type filter hook input priority -310 ; }\n");
	assert_has(probed(), "add rule inet dprd input tcp dport 9 tcp sport 9-10 "
			     "tcp flags & (fin | syn | rst | ack) == syn goto probed\n");
	assert_has(probed(), "dprd probed ip daddr @probe_to4 tcp sport 9 update @probed4 { ip daddr }\n");
	assert_has(probed(), "dprd probed ip6 daddr @probe_to6 tcp sport 9 update @probed6 { ip6 daddr }\n");
	assert_has(probed(), "dprd probed ip daddr @probe_to4 tcp sport 10 update @probed_full4 { ip daddr }\n");
	assert_has(probed(), "dprd probed ip6 daddr @probe_to6 tcp sport 10 update @probed_full6 { ip6 daddr }\n");
	assert_has(probed(), "add rule inet dprd probed drop\n");
	d.config.port[0] = 9;
	assert_string_equal(probed(), "");
}

static void test_planes(void **context)
{
	(void)context;
	assert_has(written(), "add chain inet dprd backend_leaving { type filter hook postrouting priority 150 ; }\n");
	d.fastpath = (struct fastpath *)&d;
	assert_lacks(written(), "backend_leaving");
	assert_has(written(), "add chain inet dprd backend { type nat hook prerouting priority -100 ; }\n");
}

static const char *routes(bool v6, const char *present)
{
	size_t bytes;
	FILE *out;

	free(script);
	script = NULL;
	out = open_memstream(&script, &bytes);
	assert_non_null(out);
	rules_routes_write(out, &d.config, v6, present);
	assert_int_equal(fclose(out), 0);
	return script;
}

/* Peers' addresses are local routes; those of former peers are removed. Other output of ip(8) is not an address. */
static void test_routes(void **context)
{
	(void)context;
	assert_string_equal(routes(false, NULL), "route replace local 192.0.2.12 dev lo proto 221\n");
	assert_string_equal(routes(true, NULL), "route replace local 2001:db8::12 dev lo proto 221\n");
	assert_string_equal(routes(false, "local 192.0.2.13 dev lo scope host \nlocal 192.0.2.12 dev lo scope host \n"),
			    "route replace local 192.0.2.12 dev lo proto 221\n"
			    "route del local 192.0.2.13 dev lo proto 221\n");
	assert_string_equal(routes(true, "local 2001:db8::13 dev lo metric 1024 pref medium"),
			    "route replace local 2001:db8::12 dev lo proto 221\n"
			    "route del local 2001:db8::13 dev lo proto 221\n");
	assert_string_equal(routes(false, "local 192.0.2.256 dev lo\n\nbroadcast 10.0.0.0 dev eth0\nlocal"),
			    "route replace local 192.0.2.12 dev lo proto 221\n");
}

/* The part of the whole table behind this text; fails when the text is missing. */
static const char *behind(const char *text, const char *part)
{
	const char *at = strstr(text, part);

	if (!at)
		fail_msg("\"%s\" is not in:\n%s", part, text);
	return at ? at + strlen(part) : text;
}

/*
 * Packets of forwarded flows come first: even their SYNs must not pass by the queue. Then come tunnel packets,
 * strangers' being dropped; then SYNs, which pass by when no dprd runs.
 */
static void test_order(void **context)
{
	const char *at;
	size_t bytes;
	FILE *out;

	(void)context;
	out = open_memstream(&script, &bytes);
	assert_non_null(out);
	rules_write_table(out, &d);
	assert_int_equal(fclose(out), 0);
	at = behind(script, "flush chain inet dprd prerouting\n");
	at = behind(at, "add rule inet dprd prerouting iif lo accept\n");
	at = behind(
		at,
		"add rule inet dprd prerouting meta mark set ip saddr . tcp sport . ip daddr . tcp dport map @flows4 "
		"accept\n");
	at = behind(at, "add rule inet dprd prerouting ip protocol 4 ip daddr 10.0.0.11 ip saddr @peers4 meta mark set "
			"meta mark | 0x40000000 accept\n"
			"add rule inet dprd prerouting ip protocol 4 ip daddr 10.0.0.11 counter name stranger4 drop\n");
	at = behind(at,
		    "add rule inet dprd prerouting ip daddr . tcp dport @service4 tcp flags & (fin | syn | rst | ack) "
		    "== syn goto decide\n");
	at = behind(at, "add rule inet dprd prerouting meta mark set ip6 saddr . tcp sport . ip6 daddr . tcp dport map "
			"@flows6 accept\n");
	at = behind(at, "ip6 daddr fd00:1::11 ip6 saddr @peers6 meta mark set meta mark | 0x40000000 accept\n");
	at = behind(at, "ip6 daddr fd00:1::11 counter name stranger6 drop\n");
	behind(at, "@service6 tcp flags & (fin | syn | rst | ack) == syn goto decide\n");
	free(script);
	/* With Interfaces= only these lead to dprd. */
	d.config.interface_count = 2;
	snprintf(d.config.interface_name[0], sizeof(d.config.interface_name[0]), "eth0");
	snprintf(d.config.interface_name[1], sizeof(d.config.interface_name[1]), "eth1");
	out = open_memstream(&script, &bytes);
	assert_non_null(out);
	rules_write_table(out, &d);
	assert_int_equal(fclose(out), 0);
	at = behind(script, "prerouting iifname { \"eth0\", \"eth1\" } ip daddr . tcp dport @service4 tcp flags");
	behind(at, "prerouting iifname { \"eth0\", \"eth1\" } ip6 daddr . tcp dport @service6 tcp flags");
	d.config.interface_count = 0;
}

/*
 * Without the kernel's reassembly the table is as before; with it, one rule more turns that on, which no chain leads to.
 */
static void test_reassembly(void **context)
{
	static const char rule[] = "add chain inet dprd reassembly\nflush chain inet dprd reassembly\n"
				   "add rule inet dprd reassembly meta l4proto tcp tproxy to :1 comment ";
	size_t bytes;
	FILE *out;

	(void)context;
	for (unsigned reassembles = 0; reassembles < 2; reassembles++) {
		d.reassembles = reassembles;
		free(script);
		script = NULL;
		out = open_memstream(&script, &bytes);
		assert_non_null(out);
		rules_write_table(out, &d);
		assert_int_equal(fclose(out), 0);
		if (reassembles)
			assert_has(script, rule);
		else
			assert_lacks(script, "reassembly");
		assert_lacks(script, "jump reassembly");
		assert_lacks(script, "goto reassembly");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_choice, start, stop),
		cmocka_unit_test_setup_teardown(test_order, start, stop),
		cmocka_unit_test_setup_teardown(test_reassembly, start, stop),
		cmocka_unit_test_setup_teardown(test_passed_by, start, stop),
		cmocka_unit_test_setup_teardown(test_down, start, stop),
		cmocka_unit_test_setup_teardown(test_weight_of_self, start, stop),
		cmocka_unit_test_setup_teardown(test_serve_nothing_here, start, stop),
		cmocka_unit_test_setup_teardown(test_sets, start, stop),
		cmocka_unit_test_setup_teardown(test_alias, start, stop),
		cmocka_unit_test_setup_teardown(test_without_translation, start, stop),
		cmocka_unit_test_setup_teardown(test_planes, start, stop),
		cmocka_unit_test_setup_teardown(test_probes, start, stop),
		cmocka_unit_test_setup_teardown(test_routes, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
