// SPDX-License-Identifier: GPL-2.0-or-later
/* The number of accepted connections, from the kernel's text and from this host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dprd/host/passive_opens.h"

static void text_of_the_kernel(void **state)
{
	static const char good[] = "Ip: Forwarding\nIp: 1\nTcp: RtoMin MaxConn ActiveOpens PassiveOpens InSegs\n"
				   "Tcp: 200 -1 17 4294967297 5\nUdp: In\nUdp: 3\n";
	static const char *const bad[] = {
		"",
		"Tcp: RtoMin PassiveOpens\n",
		"Tcp: RtoMin PassiveOpens\nTcp: 200\n",
		"Tcp: RtoMin PassiveOpens\nTcp: 200 -1\n",
		"Tcp: RtoMin PassiveOpens\nTcp: 200 1",
		"Tcp: RtoMin PassiveOpens\nUdp: 200 1\n",
		"Tcp: RtoMin ActiveOpens\nTcp: 200 1\n",
	};
	uint64_t opens = 0;

	(void)state;
	assert_true(passive_opens_parse(good, &opens));
	assert_int_equal(opens, 4294967297);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(passive_opens_parse(bad[i], &opens));
}

/* The lines of netstat are longer, and another group comes first in neither file. */
static void text_of_netstat(void **state)
{
	static const char good[] = "TcpExt: SyncookiesRecv SyncookiesSent SyncookiesFailed ListenDrops\n"
				   "TcpExt: 1 12 3 4\nIpExt: InNoRoutes\nIpExt: 0\n";
	struct syn_counts counts = { 0 };
	uint64_t opens;

	(void)state;
	assert_true(syn_counts_parse(good, &counts));
	assert_int_equal(counts.cookies, 12);
	assert_int_equal(counts.drops, 4);
	assert_false(syn_counts_parse("TcpExt: SyncookiesSent ListenDrops\nIpExt: 12 4\n", &counts));
	assert_false(syn_counts_parse("TcpExt: SyncookiesSent\nTcpExt: 12\n", &counts));
	assert_false(passive_opens_parse(good, &opens));
	assert_int_equal(syn_counts_read(&counts), 0);
}

static void counts(void **state)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(to);
	int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
	uint64_t before = 0, after = 0;

	(void)state;
	assert_int_equal(bind(listener, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&to, &size), 0);
	assert_int_equal(passive_opens_read(&before), 0);
	assert_int_equal(connect(client, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(passive_opens_read(&after), 0);
	assert_true(after > before);
	close(client);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(text_of_the_kernel), cmocka_unit_test(text_of_netstat),
					    cmocka_unit_test(counts) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
