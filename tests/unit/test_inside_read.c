// SPDX-License-Identifier: GPL-2.0-or-later
/* Which networks of a host are its own alone? Asked of the kernel, in a network namespace that the test makes. */
#define _GNU_SOURCE
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include "dprd/host/bridge.h"
#include "dprd/host/inside.h"
#include "tests/unit/own_backends.h"

static bool alone; /* in the namespace */
static struct config *config;

static void ip(const char *arguments)
{
	char command[256];

	snprintf(command, sizeof(command), "ip %s", arguments);
	assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): a test's own words
}

static struct inside read_inside(void)
{
	struct inside found;

	assert_int_equal(inside_read(config, &found), 0);
	return found;
}

static bool is_inside(const char *text)
{
	struct inside found = read_inside();
	struct addr address = { .words = { 0 } };

	assert_true(addr_parse(text, &address));
	return inside_has(&found, &address);
}

static void bridges(void **state)
{
	(void)state;
	if (!alone) {
		print_message("skip: a network namespace needs root\n");
		skip();
	}
	ip("link add br7 type bridge");
	ip("addr add 172.17.0.1/16 dev br7");
	assert_true(is_inside("172.17.3.4"));
	assert_false(is_inside("172.18.3.4"));
	/* Containers and virtual machines come as its ports. */
	ip("link add box type veth peer name boxed");
	ip("link set box master br7");
	assert_true(is_inside("172.17.3.4"));
	/* A LAN that all nodes have. A device of this kind, not of a card's, is on every kernel. */
	ip("link add link boxed name lan5 type macvlan");
	ip("link set lan5 master br7");
	assert_false(is_inside("172.17.3.4"));
	ip("link del lan5");
	assert_true(is_inside("172.17.3.4"));
	ip("link del br7");
}

/* A VPN server: the address of the other end is in no network with this host's. */
static void other_ends(void **state)
{
	(void)state;
	if (!alone || access("/dev/net/tun", F_OK)) {
		print_message("skip: a tunnel needs root and /dev/net/tun\n");
		skip();
	}
	ip("tuntap add vpn7 mode tun");
	ip("addr add 10.77.0.1 peer 10.77.0.2 dev vpn7");
	ip("addr add fd77::1 peer fd77::2 dev vpn7");
	ip("addr add 10.78.0.1 peer 10.79.0.0/24 dev vpn7");
	ip("addr add 10.80.0.1/24 dev vpn7");
	ip("addr add 10.81.0.1/32 dev vpn7");
	assert_true(is_inside("10.77.0.2"));
	assert_true(is_inside("fd77::2"));
	assert_true(is_inside("10.79.0.3"));
	assert_true(is_inside("10.80.0.3"));
	assert_false(is_inside("10.77.0.1"));
	assert_false(is_inside("10.77.0.3"));
	assert_false(is_inside("10.78.0.1"));
	assert_false(is_inside("10.81.0.1"));
	ip("link del vpn7");
}

static void set(const char *path, const char *value)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_true(fputs(value, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* The bridge of the service address has its own switch, beside the one of the host; and an address may have a label. */
static void rules_at_the_ports(void **state)
{
	static const char host[] = "/proc/sys/net/bridge/bridge-nf-call-iptables";
	static const char bridge[] = "/sys/class/net/br7/bridge/nf_call_iptables";
	char address[ADDR_TEXT_BYTES], arguments[128], name[IF_NAMESIZE] = "";

	(void)state;
	if (!alone || access(host, F_OK)) {
		print_message("skip: a network namespace needs root, and the test needs br_netfilter\n");
		skip();
	}
	ip("link add br7 type bridge");
	set(host, "0");
	set("/proc/sys/net/bridge/bridge-nf-call-ip6tables", "0");
	addr_format(&config->member[config->self].service[0], address);
	snprintf(arguments, sizeof(arguments), "addr add %s/32 dev br7 label br7:web", address);
	ip(arguments);
	assert_false(bridge_takes_packets(config, name));
	set(bridge, "1");
	assert_true(bridge_is_filtered("br7", false));
	assert_false(bridge_is_filtered("br7", true));
	assert_true(bridge_takes_packets(config, name));
	assert_string_equal(name, "br7");
	set(bridge, "0");
	assert_false(bridge_takes_packets(config, name));
	set(host, "1");
	assert_true(bridge_takes_packets(config, name));
	assert_false(bridge_is_filtered("lo", false));
	ip("link del br7");
}

static void more_than_fit(void **state)
{
	FILE *batch;

	(void)state;
	if (!alone) {
		print_message("skip: a network namespace needs root\n");
		skip();
	}
	assert_int_equal(read_inside().left_out, 0);
	batch = popen("ip -batch -", "we"); // NOLINT(cert-env33-c): a test's own words
	assert_non_null(batch);
	for (unsigned i = 0; i < INSIDE_NETWORKS_MAX / 2 + 2; i++)
		fprintf(batch,
			"link add v%u type veth peer name w%u\n"
			"addr add 10.%u.0.1/24 dev v%u\n"
			"addr add 10.%u.1.1/24 dev w%u\n",
			i, i, i, i, i, i);
	assert_int_equal(pclose(batch), 0);
	assert_int_equal(read_inside().count, INSIDE_NETWORKS_MAX);
	assert_int_equal(read_inside().left_out, 4);
}

/* /sys shows the interfaces of the namespace in which it was mounted. */
static bool make_namespace(void)
{
	if (unshare(CLONE_NEWNET | CLONE_NEWNS))
		return false;
	return mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("sysfs", "/sys", "sysfs", 0, NULL) == 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bridges),
		cmocka_unit_test(other_ends),
		cmocka_unit_test(rules_at_the_ports),
		cmocka_unit_test(more_than_fit),
	};

	alone = make_namespace();
	config = make_config(80);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
