// SPDX-License-Identifier: GPL-2.0-or-later
/* Parses texts of /proc, and measures the load of a network namespace of its own while the test makes some. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "loadcast/health.h"
#include "loadcast/sample.h"
#include "loadcast/sample_diag.h"

static void sockstat(void **state)
{
	static const char text[] = "sockets: used 298\n"
				   "TCP: inuse 17 orphan 1 tw 12 alloc 20 mem 3\n"
				   "UDP: inuse 4 mem 2\n"
				   "UDPLITE: inuse 0\n"
				   "RAW: inuse 9\n";
	uint32_t value = 1;

	(void)state;
	assert_true(sample_parse_sockstat(text, "TCP", &value));
	assert_int_equal(value, 17);
	assert_true(sample_parse_sockstat(text, "UDP", &value));
	assert_int_equal(value, 4);
	assert_true(sample_parse_sockstat(text, "RAW", &value));
	assert_int_equal(value, 9);
	assert_true(sample_parse_sockets_used(text, &value));
	assert_int_equal(value, 298);
	assert_false(sample_parse_sockstat(text, "TCP6", &value));
	assert_false(sample_parse_sockstat(text, "TC", &value));
	assert_true(sample_parse_sockstat("TCP6: inuse 5\n", "TCP6", &value));
	assert_int_equal(value, 5);
	assert_false(sample_parse_sockstat("TCP6: inuse 5\n", "TCP", &value));
}

static void sockstat_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"\n",
		"TCP",
		"TCP:",
		"TCP: inuse ",
		"TCP: inuse x\n",
		"TCP: inuse -1\n",
		"TCP: inuse 4294967296\n",
		"TCP: inuse 99999999999999999999999\n",
		"TCP: alloc 5\n",
		" TCP: inuse 5\n",
	};
	uint32_t value = 1;
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(sample_parse_sockstat(bad[i], "TCP", &value));
	assert_false(sample_parse_sockets_used("TCP: inuse 5\n", &value));
	assert_false(sample_parse_sockets_used("sockets: used \n", &value));
	assert_int_equal(value, 1);
	assert_true(sample_parse_sockstat("TCP: inuse 4294967295", "TCP", &value));
	assert_int_equal(value, UINT32_MAX);
}

static void cpu(void **state)
{
	uint64_t busy = 0, total = 0;

	(void)state;
	/* Guests (the last two) are in user and nice already; idle and iowait are not busy. */
	assert_true(sample_parse_cpu("cpu  10 20 30 400 50 6 7 8 9 1\ncpu0 1 1 1 1 1 1 1 1 1 1\n", &busy, &total));
	assert_true(busy == 10 + 20 + 30 + 6 + 7 + 8);
	assert_true(total == busy + 450);
	assert_false(sample_parse_cpu("cpu  10 20 30 400 50 6 7\nintr 5\n", &busy, &total));
	assert_false(sample_parse_cpu("cpu0 1 2 3 4 5 6 7 8\n", &busy, &total));
	assert_false(sample_parse_cpu("", &busy, &total));
	assert_false(sample_parse_cpu("cpu  1 2 3 4 5 6 7 x\n", &busy, &total));
	assert_false(sample_parse_cpu("cpu  99999999999999999999 2 3 4 5 6 7 8\n", &busy, &total));
}

static int listen_loopback(int family, uint16_t *ret_port)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr *any = family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
	socklen_t size = family == AF_INET ? sizeof(v4) : sizeof(v6);
	int s = socket(family, SOCK_STREAM, 0);

	if (s < 0 || bind(s, any, size) < 0 || listen(s, 1000) < 0 || getsockname(s, any, &size) < 0) {
		if (s >= 0)
			close(s);
		return -1;
	}
	*ret_port = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
	return s;
}

static int connect_loopback(int family, uint16_t port)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int s = socket(family, SOCK_STREAM, 0);

	v6.sin6_addr = in6addr_loopback;
	assert_true(s >= 0);
	if (family == AF_INET)
		assert_int_equal(connect(s, (struct sockaddr *)&v4, sizeof(v4)), 0);
	else
		assert_int_equal(connect(s, (struct sockaddr *)&v6, sizeof(v6)), 0);
	return s;
}

enum { OTHER_PROGRAMS = 40 }; /* connections that other programs of this host open or close meanwhile, at most */

/* Exact is only the accept queue: the rest depends on other programs, too. */
static void check_family(int family)
{
	enum { CLIENTS = 100 };
	struct config config = { .port_count = 1 };
	struct load_sample sample;
	struct sampler *sampler;
	int listener = listen_loopback(family, &config.port[0]), client[CLIENTS], i;
	uint32_t open;

	if (listener < 0 && family == AF_INET6) {
		print_message("skip: no IPv6 loopback address on this host\n");
		skip();
	}
	assert_true(listener >= 0);
	sampler = sampler_new(&config);
	assert_non_null(sampler);
	for (i = 0; i < CLIENTS; i++)
		client[i] = connect_loopback(family, config.port[0]);
	/* The other ends are not known before the next count. */
	assert_int_equal(sampler_count(sampler), 0);
	assert_int_equal(sampler_read(sampler, &sample), 0);
	assert_int_equal(sample.accept_queue, CLIENTS);
	/* Both ends of each are open here; one of them belongs to the service. */
	assert_in_range(sample.open_connections, CLIENTS - OTHER_PROGRAMS, CLIENTS + OTHER_PROGRAMS);
	assert_true(sample.active_sockets >= CLIENTS);
	assert_true(sample.cpu_permille <= 1000);
	assert_int_equal(sampler_open_connections(sampler, &open), 0);
	assert_in_range(open, CLIENTS - OTHER_PROGRAMS, CLIENTS + OTHER_PROGRAMS);
	for (i = 0; i < CLIENTS; i++)
		close(client[i]);
	close(listener);
	assert_int_equal(sampler_read(sampler, &sample), 0);
	assert_int_equal(sample.accept_queue, 0);
	sampler_free(sampler);
}

/* Listeners are no load. Two hundred of them are more than other changes meanwhile. */
static void listeners_do_not_count(void **state)
{
	enum { LISTENERS = 200 };
	struct config config = { 0 };
	struct load_sample before, after;
	struct sampler *sampler = sampler_new(&config);
	uint16_t port = 0;
	int listener[LISTENERS], i, first = listen_loopback(AF_INET, &port), client;

	(void)state;
	assert_non_null(sampler);
	assert_true(first >= 0);
	client = connect_loopback(AF_INET, port);
	assert_int_equal(sampler_read(sampler, &before), 0);
	for (i = 0; i < LISTENERS; i++) {
		listener[i] = listen_loopback(AF_INET, &port);
		assert_true(listener[i] >= 0);
	}
	assert_int_equal(sampler_read(sampler, &after), 0);
	assert_true(after.open_connections < before.open_connections + LISTENERS / 2);
	assert_true(after.active_sockets > before.active_sockets + LISTENERS / 2);
	for (i = 0; i < LISTENERS; i++)
		close(listener[i]);
	close(client);
	close(first);
	sampler_free(sampler);
}

/* A pool of connections to another program is no load: neither the connections nor the sockets grow by it. */
static void others_do_not_count(void **state)
{
	enum { POOL = 200 };
	uint16_t pool_port = 0;
	struct config config = { .port_count = 2, .port = { 1, 0 } };
	struct load_sample before, after;
	int listener = listen_loopback(AF_INET, &config.port[1]), data_base = listen_loopback(AF_INET, &pool_port), i,
	    client, pool[POOL];
	struct sampler *sampler = sampler_new(&config);
	uint32_t open;

	(void)state;
	assert_true(listener >= 0 && data_base >= 0);
	assert_non_null(sampler);
	client = connect_loopback(AF_INET, config.port[1]);
	assert_int_equal(sampler_read(sampler, &before), 0);
	for (i = 0; i < POOL; i++)
		pool[i] = connect_loopback(AF_INET, pool_port);
	/* Before the next count is due they pass for load; afterwards they do not. */
	assert_int_equal(sampler_open_connections(sampler, &open), 0);
	assert_true(open > before.open_connections + POOL);
	assert_int_equal(sampler_count(sampler), 0);
	assert_int_equal(sampler_open_connections(sampler, &open), 0);
	assert_true(open < before.open_connections + OTHER_PROGRAMS);
	assert_int_equal(sampler_read(sampler, &after), 0);
	assert_true(after.open_connections < before.open_connections + OTHER_PROGRAMS);
	assert_true(after.active_sockets < before.active_sockets + POOL / 2);
	for (i = 0; i < POOL; i++)
		close(pool[i]);
	close(client);
	close(data_base);
	close(listener);
	sampler_free(sampler);
}

/* The dump itself: exact for the ports that only this test uses, whatever other programs do. */
static void counted_by_port(void **state)
{
	enum { FIRST = 7, SECOND = 4, SILENT = 3 };
	struct config config = { .port_count = PORTS_MAX }, none = { 0 };
	struct diag *diag, *other;
	struct diag_listeners listeners;
	int first, second, client[FIRST + SECOND], i;
	uint32_t count = 0, before, after;

	(void)state;
	for (i = 0; i < PORTS_MAX; i++)
		config.port[i] = (uint16_t)(i + 1); /* no program listens there */
	first = listen_loopback(AF_INET, &config.port[0]);
	second = listen_loopback(AF_INET, &config.port[PORTS_MAX - 1]);
	assert_true(first >= 0 && second >= 0);
	diag = diag_new(&config);
	other = diag_new(&none);
	assert_non_null(diag);
	assert_non_null(other);
	assert_int_equal(diag_count_connections(diag, true, &count), 0);
	assert_int_equal(count, 0);
	for (i = 0; i < FIRST + SECOND; i++)
		client[i] = connect_loopback(AF_INET, config.port[i < FIRST ? 0 : PORTS_MAX - 1]);
	assert_int_equal(diag_count_connections(diag, true, &count), 0);
	assert_int_equal(count, FIRST + SECOND);
	assert_int_equal(diag_count_listeners(diag, &listeners), 0);
	assert_int_equal(listeners.accept_queue, FIRST + SECOND);
	assert_true(listeners.count >= 2);
	/* Without ports nothing is served, and the other ends are there, too. */
	assert_int_equal(diag_count_connections(other, true, &count), 0);
	assert_int_equal(count, 0);
	assert_int_equal(diag_count_connections(diag, false, &before), 0);
	assert_int_equal(diag_count_connections(other, false, &after), 0);
	assert_true(before >= FIRST + SECOND && after >= 2 * (FIRST + SECOND));
	/* A client that has closed leaves CLOSE-WAIT here: still open for the web server. */
	for (i = 0; i < SILENT; i++)
		close(client[i]);
	assert_int_equal(diag_count_connections(diag, true, &count), 0);
	assert_int_equal(count, FIRST + SECOND);
	for (i = SILENT; i < FIRST + SECOND; i++)
		close(client[i]);
	close(first);
	close(second);
	/* The listeners took their connections with them. */
	assert_int_equal(diag_count_connections(diag, true, &count), 0);
	assert_int_equal(count, 0);
	diag_free(diag);
	diag_free(other);
	diag_free(NULL);
}

/* The web server closes first: what is left of its connection has no socket, and is no load. */
static void closed_connections_do_not_count(void **state)
{
	struct config config = { .port_count = 1 };
	int listener = listen_loopback(AF_INET, &config.port[0]), client, served, i;
	struct diag *diag = diag_new(&config);
	uint32_t count = 0;

	(void)state;
	assert_true(listener >= 0);
	assert_non_null(diag);
	client = connect_loopback(AF_INET, config.port[0]);
	served = accept(listener, NULL, NULL);
	assert_true(served >= 0);
	assert_int_equal(diag_count_connections(diag, true, &count), 0);
	assert_int_equal(count, 1);
	/* The client acknowledges some 40 ms later. Then FIN-WAIT-2 lasts 60 s without a socket. */
	close(served);
	for (i = 0; i < 300 && count; i++) {
		usleep(50000);
		assert_int_equal(diag_count_connections(diag, true, &count), 0);
	}
	assert_int_equal(count, 0);
	close(client);
	assert_int_equal(diag_count_connections(diag, true, &count), 0);
	assert_int_equal(count, 0);
	close(listener);
	diag_free(diag);
}

/* A listener of both families: its sockets are of IPv6, also for clients of IPv4. */
static void dual_stack_counts(void **state)
{
	struct config config = { .port_count = 1 };
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	socklen_t size = sizeof(any);
	int listener = socket(AF_INET6, SOCK_STREAM, 0), client;
	struct diag *diag;
	uint32_t count = 0;

	(void)state;
	if (listener < 0) {
		print_message("skip: no IPv6 on this host\n");
		skip();
	}
	assert_int_equal(setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &(int) { 0 }, sizeof(int)), 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&any, size), 0);
	assert_int_equal(listen(listener, 16), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&any, &size), 0);
	config.port[0] = ntohs(any.sin6_port);
	diag = diag_new(&config);
	assert_non_null(diag);
	client = connect_loopback(AF_INET, config.port[0]);
	assert_int_equal(diag_count_connections(diag, true, &count), 0);
	assert_int_equal(count, 1);
	close(client);
	close(listener);
	diag_free(diag);
}

static void own_host_v4(void **state)
{
	(void)state;
	check_family(AF_INET);
	sampler_free(NULL);
}

static void own_host_v6(void **state)
{
	(void)state;
	check_family(AF_INET6);
}

/* One probe from start to result against a server that sends answer and closes. */
static void probe(struct health *health, int listener, const char *answer, uint64_t now_ms)
{
	struct pollfd fd = { .fd = -1 };
	unsigned i;
	int peer = -1;
	char request[512];

	health_tick(health, now_ms);
	for (i = 0; i < 20; i++) {
		fd.fd = health_socket(health, &fd.events);
		if (fd.fd < 0)
			break;
		assert_int_equal(poll(&fd, 1, 60000), 1);
		health_ready(health, fd.revents, now_ms);
		if (peer < 0 && listener >= 0 && answer && health_socket(health, &fd.events) >= 0) {
			peer = accept(listener, NULL, NULL);
			assert_true(peer >= 0);
			assert_true(read(peer, request, sizeof(request)) > 0);
			assert_memory_equal(request, "GET /alive HTTP/1.1\r\nHost: 127.0.0.1\r\n", 38);
			assert_true(write(peer, answer, strlen(answer)) >= 0);
			close(peer);
		}
	}
	assert_int_equal(health_socket(health, &fd.events), -1);
	/* A check of the connection alone ends when the server has accepted it. */
	if (listener >= 0 && !answer) {
		close(accept(listener, NULL, NULL));
		health_tick(health, now_ms + 2);
	}
}

static struct config health_config(enum health_check check, uint16_t port)
{
	struct config c = {
		.health = check,
		.health_path = "/alive",
		.health_port = port,
		.health_status_low = 200,
		.health_status_high = 299,
		.health_interval_ms = 1000,
		.health_timeout_ms = 500,
		.health_fall = 3,
		.health_rise = 2,
		.member_count = 1,
	};

	c.member[0].service_count = 1;
	c.member[0].service[0] = addr_from_v4(htonl(INADDR_LOOPBACK));
	return c;
}

static struct health *own_health(const struct config *config)
{
	struct health *health = health_new(config, config->health, &config->member[0].service[0], config->health_port);

	assert_non_null(health);
	return health;
}

static void http_check(void **state)
{
	static const char good[] = "HTTP/1.1 204 No Content\r\n\r\n", bad[] = "HTTP/1.1 500 Oh\r\n\r\n";
	struct config config;
	struct health *health;
	uint16_t port = 0;
	int listener = listen_loopback(AF_INET, &port);
	unsigned i;

	(void)state;
	assert_true(listener >= 0);
	config = health_config(HEALTH_HTTP, port);
	health = own_health(&config);
	probe(health, listener, good, 1000);
	assert_true(health_is_good(health));
	/* Not yet due. */
	assert_true(health_tick(health, 1500) == 2000);
	assert_int_equal(health_socket(health, &(short) { 0 }), -1);
	for (i = 0; i < 2; i++)
		probe(health, listener, i ? bad : "nonsense", 2000 + 1000 * i);
	assert_true(health_is_good(health));
	probe(health, listener, good, 4000);
	for (i = 0; i < 3; i++) {
		assert_true(health_is_good(health));
		probe(health, listener, i < 2 ? bad : "", 5000 + 1000 * i);
	}
	assert_false(health_is_good(health));
	assert_string_equal(health_reason(health), "the server closed without an answer");
	probe(health, listener, good, 9000);
	assert_false(health_is_good(health));
	probe(health, listener, good, 10000);
	assert_true(health_is_good(health));
	/* Connected, but it never answers: the timer ends it. */
	health_tick(health, 20000);
	assert_true(health_socket(health, &(short) { 0 }) >= 0);
	health_tick(health, 20499);
	assert_true(health_socket(health, &(short) { 0 }) >= 0);
	health_tick(health, 20500);
	assert_int_equal(health_socket(health, &(short) { 0 }), -1);
	health_free(health);
	close(listener);
}

static void tcp_check(void **state)
{
	struct config config;
	struct health *health;
	uint16_t port = 0;
	int listener = listen_loopback(AF_INET, &port);

	(void)state;
	assert_true(listener >= 0);
	config = health_config(HEALTH_TCP, port);
	health = own_health(&config);
	probe(health, listener, NULL, 1000);
	assert_true(health_is_good(health));
	health_free(health);
	/* The first result counts at once. */
	close(listener);
	health = own_health(&config);
	probe(health, -1, NULL, 1000);
	assert_false(health_is_good(health));
	assert_string_equal(health_reason(health), "connect: Connection refused");
	health_free(health);
	health_free(NULL);
}

static void no_check(void **state)
{
	struct config config = health_config(HEALTH_NONE, 0);
	struct health *health = own_health(&config);

	(void)state;
	assert_true(health_tick(health, 1) == UINT64_MAX);
	assert_true(health_is_good(health));
	health_free(health);
}

/* A reload between two failures does not count as one: the number needed stays the same. */
static void inherited(void **state)
{
	struct config config, slower, tcp, none;
	struct health *former, *health;
	uint16_t port = 0;
	int listener = listen_loopback(AF_INET, &port);
	unsigned i;

	(void)state;
	assert_true(listener >= 0);
	config = health_config(HEALTH_HTTP, port);
	health = own_health(&config);
	probe(health, listener, "HTTP/1.1 200 OK\r\n\r\n", 1000);
	for (i = 0; i < 3; i++) {
		assert_true(health_is_good(health));
		probe(health, listener, "HTTP/1.1 500 Oh\r\n\r\n", 2000 + 1000 * i);
		former = health;
		health = own_health(&config);
		health_inherit(health, former);
		health_free(former);
		/* The next probe is not early either. */
		assert_true(health_tick(health, 2001 + 1000 * i) == 3000 + 1000 * i);
	}
	assert_false(health_is_good(health));
	assert_string_equal(health_reason(health), "HTTP status 500 for /alive");
	/* Another interval counts from the last probe, too. */
	slower = config;
	slower.health_interval_ms = 5000;
	former = health;
	health = own_health(&slower);
	health_inherit(health, former);
	health_free(former);
	assert_true(health_tick(health, 5000) == 9000);
	/* With another question the state stays, but the first result counts. */
	tcp = health_config(HEALTH_TCP, port);
	former = health;
	health = own_health(&tcp);
	health_inherit(health, former);
	health_free(former);
	assert_false(health_is_good(health));
	probe(health, listener, NULL, 5000);
	assert_true(health_is_good(health));
	/* Without a check the server is good. */
	former = own_health(&config);
	close(listener);
	probe(former, -1, NULL, 1000);
	assert_false(health_is_good(former));
	health_free(health);
	none = health_config(HEALTH_NONE, port);
	health = own_health(&none);
	health_inherit(health, former);
	health_free(former);
	assert_true(health_is_good(health));
	health_free(health);
}

/* Reloads that come quicker than answers must not keep the check from ever ending. */
static void inherited_under_way(void **state)
{
	struct config config;
	struct health *former, *health;
	uint16_t port = 0;
	int listener = listen_loopback(AF_INET, &port), socket;
	unsigned i;

	(void)state;
	assert_true(listener >= 0);
	config = health_config(HEALTH_HTTP, port);
	health = own_health(&config);
	health_tick(health, 1000);
	socket = health_socket(health, &(short) { 0 });
	assert_true(socket >= 0);
	for (i = 0; i < 3; i++) {
		former = health;
		health = own_health(&config);
		health_inherit(health, former);
		assert_int_equal(health_socket(former, &(short) { 0 }), -1);
		health_free(former);
		assert_true(health_tick(health, 1000 + 100 * i) == 1500);
		assert_int_equal(health_socket(health, &(short) { 0 }), socket);
	}
	assert_true(health_is_good(health));
	health_tick(health, 1500);
	assert_false(health_is_good(health));
	health_free(health);
	close(listener);
}

/*
 * Other tests that run at the same time open hundreds of sockets, and would count. A host that allows no namespace keeps
 * this test among them.
 */
static void leave_others(void)
{
	struct ifreq loopback = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int s;

	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return;
	s = socket(AF_INET, SOCK_DGRAM, 0);
	if (s < 0 || ioctl(s, SIOCSIFFLAGS, &loopback))
		perror("lo");
	close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sockstat),
		cmocka_unit_test(sockstat_refused),
		cmocka_unit_test(counted_by_port),
		cmocka_unit_test(closed_connections_do_not_count),
		cmocka_unit_test(dual_stack_counts),
		cmocka_unit_test(others_do_not_count),
		cmocka_unit_test(cpu),
		cmocka_unit_test(own_host_v4),
		cmocka_unit_test(listeners_do_not_count),
		cmocka_unit_test(own_host_v6),
		cmocka_unit_test(http_check),
		cmocka_unit_test(tcp_check),
		cmocka_unit_test(no_check),
		cmocka_unit_test(inherited),
		cmocka_unit_test(inherited_under_way),
	};

	leave_others();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
