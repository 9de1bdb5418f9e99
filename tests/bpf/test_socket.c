// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_socket.c - a SYN whose connection this node has already must not be forwarded by dprd. Real sockets, in the
 * namespace of the test.
 */
#include "tests/bpf/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DECIDE = 0x20000000, FORWARD = 0x40000000, CLIENT_PORT = 40000, WAIT_MS = 10000 };

#define SYN "ip cl>s1 | tcp 40000>80 S seq 5"

/* The ends of one connection; -1: none. */
struct ends {
	int listener, client, server;
};

/* Service and client on the loopback; packets to xx disappear there. */
static int have_addresses(void **state)
{
	static bool done;

	(void)state;
	if (!done) {
		plane_command("ip addr add 198.51.100.1/32 dev lo && ip addr add 192.0.2.10/32 dev lo");
		plane_command(
			"ip addr add 2001:db8:5::1/128 dev lo nodad && ip addr add 2001:db8:c::10/128 dev lo nodad");
		plane_command("ip route add 203.0.113.77 dev lo && ip route add 2001:db8:f::77 dev lo");
	}
	done = true;
	return 0;
}

static unsigned variant_of(void **state)
{
	return (unsigned)(uintptr_t)*state;
}

static socklen_t name_of(unsigned variant, const char *name, unsigned port, struct sockaddr_storage *ret)
{
	const struct craft_names names = site_names(variant);
	struct addr address = { 0 };

	memset(ret, 0, sizeof(*ret));
	if (name && !names.address(names.context, name, names.v6, &address))
		plane_give_up("no address %s", name);
	if (names.v6) {
		struct sockaddr_in6 *a = (struct sockaddr_in6 *)ret;

		a->sin6_family = AF_INET6;
		a->sin6_port = htons((uint16_t)port);
		memcpy(&a->sin6_addr, address.bytes, 16);
		return sizeof(*a);
	}
	((struct sockaddr_in *)ret)->sin_family = AF_INET;
	((struct sockaddr_in *)ret)->sin_port = htons((uint16_t)port);
	((struct sockaddr_in *)ret)->sin_addr.s_addr = name ? addr_v4(&address) : 0;
	return sizeof(struct sockaddr_in);
}

static int new_socket(unsigned variant, const char *name, unsigned port)
{
	int fd = socket(variant & SITE_V6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0), one = 1;
	struct sockaddr_storage address;
	socklen_t bytes = name_of(variant, name, port, &address);

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, bytes), 0);
	return fd;
}

static int new_listener(unsigned variant, const char *name, unsigned port)
{
	int fd = new_socket(variant, name, port);

	assert_int_equal(listen(fd, 5), 0);
	return fd;
}

/* Makes a connection from cl:40000 to s1:80. */
static struct ends connection(unsigned variant, bool accepted)
{
	struct ends e = { .listener = new_listener(variant, "s1", 80), .server = -1 };
	struct sockaddr_storage address;
	socklen_t bytes = name_of(variant, "s1", 80, &address);

	e.client = new_socket(variant, "cl", CLIENT_PORT);
	assert_int_equal(connect(e.client, (struct sockaddr *)&address, bytes), 0);
	if (accepted)
		e.server = accept(e.listener, NULL, NULL);
	assert_true(e.server >= 0 || !accepted);
	return e;
}

/* Closes with a reset, so that nothing is left for the next test. */
static void abort_socket(int fd)
{
	const struct linger at_once = { .l_onoff = 1 };

	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(fd);
}

static void abort_ends(const struct ends *e)
{
	abort_socket(e->server);
	abort_socket(e->client);
	close(e->listener);
}

static unsigned state_of(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t bytes = sizeof(info);

	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
	return info.tcpi_state;
}

static void wait_for_state(int fd, unsigned state)
{
	unsigned i;

	for (i = 0; i < WAIT_MS && state_of(fd) != state; i++)
		usleep(1000);
	assert_int_equal(state_of(fd), state);
}

static void wait_for_end(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char byte;

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(read(fd, &byte, 1), 0);
}

/* With dprd away no real server gets the SYN, either. */
static void check_alone(unsigned variant)
{
	const struct fixture choices = {
		.beat_ago_ms = STOPPED, .choices = "n2", .in = SYN, .verdict = PASS, .counted = "local_socket"
	};

	site_reset(variant);
	fixture_prepare(&choices, variant);
	fixture_check(&choices, variant);
}

/* Checks the fate of the SYN: it belongs to the connection here, or goes to dprd. */
static void check_syn(unsigned variant, bool local)
{
	const struct fixture alone = {
		.in = SYN, .verdict = PASS, .mark = local ? 0 : DECIDE, .counted = local ? "local_socket" : NULL
	};
	struct fixture with_flow = alone, stopped = alone;

	with_flow.flow = "half_open n2 isn 5 age 30";
	with_flow.mark = local ? 0 : FORWARD;
	stopped.beat_ago_ms = STOPPED;
	stopped.mark = 0;
	stopped.counted = NULL;
	site_reset(variant);
	fixture_prepare(&alone, variant);
	fixture_check(&alone, variant);
	/* The SYN does not wait for dprd. */
	site_reset(variant);
	fixture_prepare(&stopped, variant);
	fixture_check(&stopped, variant);
	fixture_prepare(&with_flow, variant);
	fixture_check(&with_flow, variant);
	if (local)
		check_alone(variant);
}

static void test_no_socket(void **state)
{
	check_syn(variant_of(state), false);
}

static void test_listener(void **state)
{
	int fd = new_listener(variant_of(state), "s1", 80);

	check_syn(variant_of(state), false);
	close(fd);
}

static void test_listener_of_all(void **state)
{
	int fd = new_listener(variant_of(state), NULL, 80);

	check_syn(variant_of(state), false);
	close(fd);
}

static void test_bound(void **state)
{
	int fd = new_socket(variant_of(state), "s1", 80);

	check_syn(variant_of(state), false);
	close(fd);
}

static void test_established(void **state)
{
	struct ends e = connection(variant_of(state), true);

	check_syn(variant_of(state), true);
	abort_ends(&e);
}

static void test_not_accepted(void **state)
{
	struct ends e = connection(variant_of(state), false);

	check_syn(variant_of(state), true);
	abort_ends(&e);
}

/* Only exactly this connection counts. */
static void test_another_connection(void **state)
{
	unsigned variant = variant_of(state);
	struct ends e = connection(variant, true);
	const struct fixture other_port = { .in = "ip cl>s1 | tcp 40001>80 S seq 5", .verdict = PASS, .mark = DECIDE };
	const struct fixture other_service = { .in = "ip cl>t1 | tcp 40000>80 S seq 5",
					       .verdict = PASS,
					       .mark = DECIDE };
	const struct fixture other_client = { .in = "ip xx>s1 | tcp 40000>80 S seq 5",
					      .verdict = PASS,
					      .mark = DECIDE };
	const struct fixture service_port = { .in = "ip cl>s1 | tcp 40000>443 S seq 5",
					      .verdict = PASS,
					      .mark = DECIDE };

	site_reset(variant);
	fixture_check(&other_port, variant);
	fixture_check(&other_service, variant);
	fixture_check(&other_client, variant);
	fixture_check(&service_port, variant);
	abort_ends(&e);
}

static void test_close_wait(void **state)
{
	struct ends e = connection(variant_of(state), true);

	assert_int_equal(shutdown(e.client, SHUT_WR), 0);
	wait_for_state(e.server, TCP_CLOSE_WAIT);
	check_syn(variant_of(state), true);
	abort_ends(&e);
}

static void test_fin_wait(void **state)
{
	struct ends e = connection(variant_of(state), true);

	assert_int_equal(shutdown(e.server, SHUT_WR), 0);
	wait_for_state(e.server, TCP_FIN_WAIT2);
	check_syn(variant_of(state), true);
	abort_ends(&e);
}

/* The server closed first: the client may use the port again, and the connection may go anywhere. */
static void test_time_wait(void **state)
{
	struct ends e = connection(variant_of(state), true);

	close(e.server);
	wait_for_end(e.client);
	close(e.client);
	close(e.listener);
	check_syn(variant_of(state), false);
}

static void test_last_ack(void **state)
{
	struct ends e = connection(variant_of(state), true);

	assert_int_equal(shutdown(e.client, SHUT_WR), 0);
	wait_for_end(e.server);
	close(e.server);
	wait_for_end(e.client);
	/* The server's socket is gone: the client is in TIME-WAIT, with the ports the other way round. */
	check_syn(variant_of(state), false);
	e.server = -1;
	abort_ends(&e);
}

/* A SYN was answered by a half-open socket: its client sends nothing more. */
static void test_syn_received(void **state)
{
	unsigned variant = variant_of(state);
	const struct craft_names names = site_names(variant);
	const struct fixture again = { .in = "ip xx>s1 | tcp 40000>80 S seq 5",
				       .verdict = PASS,
				       .counted = "local_socket" };
	int listener = new_listener(variant, "s1", 80);
	int fd = socket(names.v6 ? AF_INET6 : AF_INET, SOCK_RAW, IPPROTO_RAW);
	struct sockaddr_storage to;
	socklen_t bytes = name_of(variant, "s1", 0, &to);
	struct frame syn;

	assert_true(fd >= 0);
	craft(&names, "ip xx>s1 | tcp 40000>80 S seq 5 opt 020405b4", NULL, &syn);
	assert_true(sendto(fd, syn.bytes + FRAME_ETHERNET_BYTES, syn.length - FRAME_ETHERNET_BYTES, 0,
			   (struct sockaddr *)&to, bytes) > 0);
	site_reset(variant);
	fixture_check(&again, variant);
	close(fd);
	close(listener);
}

#define BOTH(test_)                                                         \
	{ "v4: " #test_, test_, have_addresses, NULL, (void *)0 },          \
	{                                                                   \
		"v6: " #test_, test_, have_addresses, NULL, (void *)SITE_V6 \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_no_socket),   BOTH(test_listener),     BOTH(test_listener_of_all),    BOTH(test_bound),
		BOTH(test_established), BOTH(test_not_accepted), BOTH(test_another_connection), BOTH(test_close_wait),
		BOTH(test_fin_wait),    BOTH(test_last_ack),     BOTH(test_syn_received),       BOTH(test_time_wait),
	};

	return fixture_main("socket", NULL, 0, tests, sizeof(tests) / sizeof(tests[0]));
}
