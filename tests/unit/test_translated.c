// SPDX-License-Identifier: GPL-2.0-or-later
/* Connections that have no socket of this host are part of its load. The test plays connection tracking. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "dprd/cluster/asks.h"
#include "dprd/cluster/translated.h"
#include "dprd/fastpath/fastpath.h"
#include "dprd/host/conntrack.h"
#include "dprd/plane/plane.h"
#include "loadcast/sample.h"
#include "tests/unit/control_fixture.h"
#include "tests/unit/own_backends.h"

enum { ENTRIES_MAX = 64, BACKEND_ID = 201 };

struct conntrack {
	struct conntrack_entry entry[ENTRIES_MAX];
	unsigned count;
	_Atomic unsigned asked;
	int error;
};

static struct dprd d;
static struct conntrack kernel;
static uint64_t now_ms;

struct conntrack *conntrack_new(void)
{
	return &kernel;
}

void conntrack_free(struct conntrack *conntrack)
{
	(void)conntrack;
}

/* The sockets of the host on which the test runs come and go. */
int sampler_open_connections(struct sampler *sampler, uint32_t *ret)
{
	(void)sampler;
	*ret = 0;
	return 0;
}

/* In the thread that counts. */
int conntrack_each(struct conntrack *conntrack, conntrack_take take, void *context)
{
	conntrack->asked++;
	for (unsigned i = 0; !conntrack->error && i < conntrack->count; i++)
		take(context, &conntrack->entry[i]);
	return conntrack->error;
}

static int start_world(void **context)
{
	(void)context;
	fixture_start(&d);
	memset(&kernel, 0, sizeof(kernel));
	d.config.port[0] = 2;
	d.config.port[1] = 3;
	translated_open(&d);
	now_ms = clock_now_ms();
	return 0;
}

static int stop_world(void **context)
{
	(void)context;
	translated_close(&d);
	fixture_stop(&d);
	return 0;
}

static struct conntrack_entry *add_entry(const char *server, uint16_t port, bool open)
{
	struct conntrack_entry *entry = &kernel.entry[kernel.count++];

	*entry = (struct conntrack_entry) { .open = open };
	entry->port = htons(port);
	assert_true(addr_parse("192.0.2.12", &entry->service));
	assert_true(addr_parse(server, &entry->server));
	return entry;
}

static unsigned open_now(void)
{
	uint32_t open = UINT32_MAX;

	mutex_lock(&d.lock);
	assert_int_equal(asks_open_connections(&d, &open), 0);
	mutex_unlock(&d.lock);
	return open;
}

static bool counts_elsewhere(void)
{
	bool elsewhere;

	mutex_lock(&d.lock);
	elsewhere = asks_counts_elsewhere(&d);
	mutex_unlock(&d.lock);
	return elsewhere;
}

static void begin(unsigned connections)
{
	mutex_lock(&d.lock);
	translated_began(&d, connections);
	mutex_unlock(&d.lock);
}

/* Ticks go by, whatever the time, until a count has ended. */
static void count_now(void)
{
	uint64_t ended_ms = d.translated.ended_ms;

	now_ms += 3600000;
	d.translated.ended_ms = 0;
	while (!d.translated.ended_ms) {
		translated_refresh(&d, now_ms);
		usleep(200);
	}
	assert_true(d.translated.ended_ms >= ended_ms);
}

/* Only connections of service ports count, each until it is over. */
static void containers(void **context)
{
	(void)context;
	begin(5);
	assert_int_equal(open_now(), 0);
	assert_false(counts_elsewhere());
	add_entry("172.17.0.3", 5432, true);
	count_now();
	assert_false(counts_elsewhere());
	for (unsigned i = 0; i < 7; i++)
		add_entry(i % 2 ? "172.17.0.2" : "fd17::2", 2 + i % 2, i < 6);
	count_now();
	assert_true(counts_elsewhere());
	assert_int_equal(open_now(), 6);
	begin(3);
	assert_int_equal(open_now(), 9);
}

/* The pods of a host reach other services by the same port, at addresses of the cluster's inside. */
static void at_our_addresses(void **context)
{
	static const char *const ours[] = { "192.0.2.11", "2001:db8::14", "10.0.0.11", "198.51.100.7", "169.254.77.3" };
	static const char *const others[] = { "10.96.0.1", "fd96::1", "10.0.0.12", "192.0.2.15", "0.0.0.0" };

	(void)context;
	d.config.shared_count = 1;
	assert_true(addr_parse("198.51.100.7", &d.config.shared[0]));
	assert_true(addr_parse("169.254.77.3", &d.config.member[2].alias[1]));
	for (unsigned i = 0; i < 5; i++)
		assert_true(addr_parse(others[i], &add_entry("172.17.0.2", 2, true)->service));
	count_now();
	assert_false(counts_elsewhere());
	for (unsigned i = 0; i < 5; i++)
		assert_true(addr_parse(ours[i], &add_entry("172.17.0.2", 2, true)->service));
	count_now();
	assert_int_equal(open_now(), 5);
}

/* Handshakes of connections that have begun go on until the next tick; then the kernel is asked. */
static void tick_by_tick(void **context)
{
	(void)context;
	for (unsigned i = 0; i < 9; i++)
		add_entry("172.17.0.2", 2, true);
	count_now();
	assert_int_equal(kernel.asked, 1);
	now_ms += 3600000;
	translated_refresh(&d, now_ms);
	usleep(20000);
	assert_int_equal(kernel.asked, 1);
	begin(1);
	add_entry("172.17.0.2", 2, true);
	add_entry("172.17.0.2", 2, true);
	translated_refresh(&d, now_ms);
	while (kernel.asked < 2)
		usleep(200);
	usleep(20000);
	assert_int_equal(open_now(), 10);
	translated_refresh(&d, now_ms);
	assert_int_equal(open_now(), 11);
	/* The next count is not due at once. */
	translated_refresh(&d, clock_now_ms());
	translated_refresh(&d, clock_now_ms());
	usleep(20000);
	assert_int_equal(kernel.asked, 2);
}

/* The former count stays, and so do connections that began since. */
static void not_answered(void **context)
{
	(void)context;
	add_entry("172.17.0.2", 2, true);
	count_now();
	begin(2);
	kernel.error = -EINVAL;
	count_now();
	assert_int_equal(open_now(), 3);
	kernel.error = 0;
	count_now();
	assert_int_equal(open_now(), 1);
}

/* Rules choose real servers for connections of peers; the choices of dprd itself have flows, and count there. */
static void real_servers(void **context)
{
	struct conntrack_entry *chosen;

	(void)context;
	add_backend(&d.config, BACKEND_ID, 8080);
	count_now();
	assert_true(counts_elsewhere());
	assert_int_equal(open_now(), 0);
	chosen = add_entry("127.0.0.1", 2, true);
	assert_true(addr_parse("192.0.2.11", &chosen->service));
	add_entry("127.0.0.1", 2, true);
	add_entry("127.0.0.1", 2, true);
	d.backends.connections[0] = 1;
	count_now();
	assert_int_equal(open_now(), 3);
	mutex_lock(&d.lock);
	asks_own_load(&d);
	mutex_unlock(&d.lock);
	assert_int_equal((int)d.view_nodes[0].load, 3);
	assert_int_equal((int)d.backends.served_here, 0);
	d.backends.connections[0] = 0;
	/* The node's own clients get a container at its address. */
	chosen = add_entry("172.17.0.2", 2, true);
	assert_true(addr_parse("192.0.2.11", &chosen->service));
	count_now();
	assert_int_equal(open_now(), 3);
}

static void serve(unsigned connections)
{
	mutex_lock(&d.lock);
	plane_served(&d, connections);
	mutex_unlock(&d.lock);
}

static void without_programs(void **context)
{
	(void)context;
	add_entry("172.17.0.2", 2, true);
	count_now();
	serve(3);
	serve(0);
	assert_int_equal(open_now(), 4);
	/* A choice between the node and its real servers: what the node serves has a socket. */
	add_backend(&d.config, BACKEND_ID, 8080);
	serve(3);
	assert_int_equal(open_now(), 4);
	begin(2);
	assert_int_equal(open_now(), 6);
}

/* The programs count what stays here without dprd. */
static void with_programs(void **context)
{
	struct fastpath_control control = { .stayed = 4 };
	struct fastpath programs = { .control = &control };

	(void)context;
	d.fastpath = &programs;
	assert_int_equal(open_now(), 0);
	add_entry("172.17.0.2", 2, true);
	count_now();
	control.stayed = 4;
	assert_int_equal(open_now(), 5);
	assert_int_equal(control.stayed, 0);
	/* They leave less room for SYNs of peers. */
	serve(3);
	assert_int_equal(control.landed, 3);
	assert_int_equal(open_now(), 8);
	assert_int_equal(control.landed, 3);
	/* Connections that stayed before a count begins are in it. */
	control.stayed = 2;
	add_entry("172.17.0.2", 2, true);
	count_now();
	assert_int_equal(open_now(), 2);
	d.fastpath = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(containers, start_world, stop_world),
		cmocka_unit_test_setup_teardown(at_our_addresses, start_world, stop_world),
		cmocka_unit_test_setup_teardown(tick_by_tick, start_world, stop_world),
		cmocka_unit_test_setup_teardown(not_answered, start_world, stop_world),
		cmocka_unit_test_setup_teardown(real_servers, start_world, stop_world),
		cmocka_unit_test_setup_teardown(without_programs, start_world, stop_world),
		cmocka_unit_test_setup_teardown(with_programs, start_world, stop_world),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
