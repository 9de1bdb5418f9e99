// SPDX-License-Identifier: GPL-2.0-or-later
/* Listeners on all addresses of a family, as the kernel reports them: each kind of listener has its own port. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "dprd/check/report.h"

enum { SERVERS_MAX = 8 };

static int servers[SERVERS_MAX];
static unsigned server_count;

/* Opens a socket on this address and port, 0 for any free one; returns the port, or 0 without the family. */
static uint16_t serve(const char *address, uint16_t port, int v6_only)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	bool is_v6 = inet_pton(AF_INET6, address, &v6.sin6_addr) == 1;
	struct sockaddr *own = is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
	socklen_t bytes = is_v6 ? sizeof(v6) : sizeof(v4);
	int fd = socket(own->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (!is_v6)
		assert_int_equal(inet_pton(AF_INET, address, &v4.sin_addr), 1);
	if (is_v6 &&
	    (fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof(v6_only)) || bind(fd, own, bytes))) {
		close(fd);
		return 0;
	}
	if (!is_v6)
		assert_int_equal(bind(fd, own, bytes), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, own, &bytes), 0);
	servers[server_count++] = fd;
	return ntohs(is_v6 ? v6.sin6_port : v4.sin_port);
}

static int stop_servers(void **context)
{
	(void)context;
	while (server_count)
		close(servers[--server_count]);
	return 0;
}

static void assert_wildcards(uint16_t port, bool v4, bool v6)
{
	/* Findings for other ports do not get mixed up. */
	const uint16_t ports[] = { 1, port };
	struct wildcard found[2];

	assert_int_equal(preflight_wildcards(ports, 2, found), 0);
	assert_false(found[0].v4 || found[0].v6);
	assert_int_equal(found[1].v4, v4);
	assert_int_equal(found[1].v6, v6);
}

static void test_listeners_of_v4(void **context)
{
	uint16_t port = serve("0.0.0.0", 0, 0);

	(void)context;
	assert_wildcards(port, true, false);
	stop_servers(NULL);
	assert_wildcards(port, false, false);
	assert_wildcards(serve("127.0.0.1", 0, 0), false, false);
}

static void test_listeners_of_v6(void **context)
{
	uint16_t port = serve("::1", 0, 1);

	(void)context;
	if (!port) {
		print_message("skip: no IPv6 here\n");
		skip();
	}
	assert_wildcards(port, false, false);
	assert_wildcards(serve("::", 0, 1), false, true);
	/* A server for both families, and one that is for IPv4 by its address. */
	assert_wildcards(serve("::", 0, 0), true, true);
	assert_wildcards(serve("::ffff:0.0.0.0", 0, 0), true, false);
}

/* "listen 80; listen [2001:db8::11]:80;" */
static void test_listeners_of_two_kinds(void **context)
{
	uint16_t port = serve("::1", 0, 1);

	(void)context;
	if (!port) {
		print_message("skip: no IPv6 here\n");
		skip();
	}
	assert_int_equal(serve("0.0.0.0", port, 0), port);
	assert_wildcards(port, true, false);
}

/* A server of one device is no wildcard listener: what comes by a tunnel came in elsewhere. */
static void test_listener_of_a_device(void **context)
{
	uint16_t port = serve("0.0.0.0", 0, 0);
	static const char device[] = "lo";

	(void)context;
	assert_wildcards(port, true, false);
	if (setsockopt(servers[server_count - 1], SOL_SOCKET, SO_BINDTODEVICE, device, sizeof(device)) < 0) {
		print_message("skip: a socket of a device needs CAP_NET_RAW\n");
		skip();
	}
	assert_wildcards(port, false, false);
}

static void test_other_clock(void **context)
{
	static const struct {
		const char *text;
		bool other;
	} tests[] = {
		{ "monotonic           0         0\nboottime            0         0\n", false },
		{ "monotonic     -100000         0\nboottime            0         0\n", true },
		{ "monotonic           0         0\nboottime            0         7\n", true },
		{ "", false },
	};
	char path[] = "/tmp/test_preflight_XXXXXX";
	int fd = mkstemp(path);

	(void)context;
	assert_true(fd >= 0);
	for (unsigned i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, tests[i].text, strlen(tests[i].text), 0), strlen(tests[i].text));
		assert_int_equal(preflight_has_other_clock(path), tests[i].other);
	}
	close(fd);
	unlink(path);
	assert_false(preflight_has_other_clock(path)); /* a kernel without time namespaces */
}

/* Rules as firewalld, and operators, write them. */
static void test_strict_rules(void **context)
{
	(void)context;
	assert_true(preflight_is_strict("\t\tmeta nfproto ipv6 fib saddr . mark . iif oif missing drop"));
	assert_true(preflight_is_strict("fib saddr . iif oif 0 counter drop"));
	assert_true(preflight_is_strict("fib saddr . iif oif eq 0 drop"));
	assert_false(preflight_is_strict("meta nfproto ipv6 fib saddr . mark oif missing drop")); /* loose */
	assert_false(preflight_is_strict("fib saddr . iif oif missing counter"));
	assert_false(preflight_is_strict("fib daddr . iif type != local drop"));
}

static struct addr address(const char *text)
{
	struct addr a;

	assert_true(addr_parse(text, &a));
	return a;
}

/* "ip rule add from PREFIX/BITS" */
static void add_rule(struct source_rules *rules, const char *prefix, unsigned bits, bool inverted)
{
	struct addr a = address(prefix);

	rules->rule[rules->count++] = (struct source_rule) {
		.prefix = a, .bits = bits + (addr_is_v4(&a) ? 96 : 0), .inverted = inverted, .table = 100
	};
}

static bool leads_own_alone(const struct source_rules *rules, const char *own, const char *other)
{
	struct addr a = address(own), b = address(other);

	return preflight_rule_of_own(rules, &a, &b);
}

/* A rule for the node's own address alone, for its network, for all but one address; and one for each peer. */
static void test_policy_routing(void **context)
{
	static const char own[] = "192.0.2.11", peer[] = "192.0.2.12", alias[] = "127.80.0.1";
	struct source_rules rules = { 0 };

	(void)context;
	assert_false(leads_own_alone(&rules, own, peer));
	add_rule(&rules, "192.0.2.11", 32, false);
	assert_true(leads_own_alone(&rules, own, peer));
	assert_true(leads_own_alone(&rules, own, alias));
	assert_false(leads_own_alone(&rules, peer, own));
	/* Another rule leads the peer's. */
	add_rule(&rules, "192.0.2.12", 32, false);
	assert_false(leads_own_alone(&rules, own, peer));
	rules.count = 0;
	add_rule(&rules, "192.0.2.0", 26, false);
	assert_false(leads_own_alone(&rules, own, peer));
	assert_true(leads_own_alone(&rules, own, alias));
	assert_true(leads_own_alone(&rules, own, "192.0.2.64"));
	rules.count = 0;
	add_rule(&rules, "192.0.2.12", 32, true);
	assert_true(leads_own_alone(&rules, own, peer));
	rules.count = 0;
	add_rule(&rules, "2001:db8::", 63, false);
	assert_true(leads_own_alone(&rules, "2001:db8:0:1::11", "2001:db8:0:2::12"));
	assert_false(leads_own_alone(&rules, own, peer));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_listeners_of_v4, stop_servers),
		cmocka_unit_test_teardown(test_listeners_of_v6, stop_servers),
		cmocka_unit_test_teardown(test_listeners_of_two_kinds, stop_servers),
		cmocka_unit_test_teardown(test_listener_of_a_device, stop_servers),
		cmocka_unit_test(test_other_clock),
		cmocka_unit_test(test_strict_rules),
		cmocka_unit_test(test_policy_routing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
