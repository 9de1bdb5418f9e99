// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The daemon of loadcast and the real servers behind its node: load, table, line of status; the interfaces at which it
 * receives frames to shared addresses; its timers.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loadcast/interface.h"

#include "loadcast/daemon.c" // NOLINT(bugprone-suspicious-include): its statics are what is tested
#include "tests/unit/own_backends.h"
#include "tests/unit/valgrind.h"

static struct daemon make_daemon(struct config *c)
{
	struct daemon d = { .parts = { .setup = calloc(1, sizeof(struct setup)) }, .dprd = { .process = -1 } };

	assert_non_null(d.parts.setup);
	d.parts.setup->config = *c;
	d.parts.sampler = sampler_new(config_of(&d));
	d.parts.servers = backends_new(config_of(&d));
	d.parts.agent = agent_new(config_of(&d));
	assert_non_null(d.parts.agent);
	assert_non_null(d.parts.sampler);
	assert_non_null(d.parts.servers);
	table_init(&d.table, config_of(&d), false, 1);
	return d;
}

/* Other programs of this host also open and close connections, but not a hundred thousand. */
static void connections_of_backends(void **state)
{
	static struct daemon d;
	struct dprd_status status = { .redirected = ANNOUNCE_LOAD_MAX + 1, .elsewhere = 1, .open_connections = 500000 };
	struct config *c = make_config(80);
	char path[PATH_BYTES + 16];

	(void)state;
	snprintf(c->run_dir, sizeof(c->run_dir), "/tmp/dprd-test-XXXXXX");
	assert_non_null(mkdtemp(c->run_dir));
	snprintf(path, sizeof(path), "%s/status", c->run_dir);
	d = make_daemon(c);
	refresh_own(&d, clock_now_ms());
	assert_true(d.table.own.sample.open_connections < 100000);
	status.written_ms = clock_now_ms();
	assert_int_equal(status_publish(path, &status), 0);
	refresh_own(&d, status.written_ms + 70);
	assert_int_equal(d.table.own.sample.open_connections, 500000);
	assert_int_equal(d.table.own.sample.age_ms, 70);
	/* It was written after loadcast had looked at the clock. */
	refresh_own(&d, status.written_ms - 1);
	assert_int_equal(d.table.own.sample.age_ms, 0);
	refresh_own(&d, status.written_ms);
	assert_int_equal(d.table.own.sample.redirected, ANNOUNCE_LOAD_MAX);
	/* The status of a dprd that is gone. */
	refresh_own(&d, status.written_ms + STATUS_FRESH_MS);
	assert_true(d.table.own.sample.open_connections < 100000);
	assert_int_equal(d.table.own.sample.age_ms, 0);
	for (unsigned i = 0; i < 2; i++) {
		status.open_connections = i ? UINT32_MAX : ANNOUNCE_LOAD_MAX + 1;
		assert_int_equal(status_publish(path, &status), 0);
		refresh_own(&d, status.written_ms);
		assert_int_equal(d.table.own.sample.open_connections, ANNOUNCE_LOAD_MAX);
	}
	assert_int_equal(load_sum(UINT32_MAX, UINT32_MAX), ANNOUNCE_LOAD_MAX);
	assert_int_equal(load_sum(ANNOUNCE_LOAD_MAX - 1, 1), ANNOUNCE_LOAD_MAX);
	/* All sockets are on this host: loadcast counts them itself. */
	status.elsewhere = 0;
	assert_int_equal(status_publish(path, &status), 0);
	refresh_own(&d, status.written_ms + 70);
	assert_true(d.table.own.sample.open_connections < 100000);
	assert_int_equal(d.table.own.sample.age_ms, 0);
	/* dprd says how busy this node counts as. */
	status.least_connections = 400000;
	status.shorter_times = 70;
	assert_int_equal(status_publish(path, &status), 0);
	refresh_own(&d, status.written_ms);
	assert_int_equal(d.table.own.sample.open_connections, 400000);
	assert_int_equal(d.table.own.shorter_times, 70);
	status.shorter_times = UINT32_MAX;
	assert_int_equal(status_publish(path, &status), 0);
	refresh_own(&d, status.written_ms);
	assert_int_equal(d.table.own.shorter_times, SHORTER_TIMES_MAX);
	unlink(path);
	rmdir(c->run_dir);
	parts_free(&d.parts);
	free(c);
}

/* True when a check of dprd's status makes this node announce and publish at once. */
static bool tells(struct daemon *d, uint64_t now_ms)
{
	bool told;

	d->due_ms[TIMER_ANNOUNCE] = d->due_ms[TIMER_PUBLISH] = UINT64_MAX;
	look_at_dprd(d, now_ms);
	told = d->due_ms[TIMER_ANNOUNCE] == now_ms && d->due_ms[TIMER_PUBLISH] == now_ms;
	assert_true(told || (d->due_ms[TIMER_ANNOUNCE] == UINT64_MAX && d->due_ms[TIMER_PUBLISH] == UINT64_MAX));
	assert_int_equal(d->due_ms[TIMER_DPRD], now_ms + DPRD_LOOK_MS);
	refresh_own(d, now_ms);
	return told;
}

static void news_of_dprd(void **state)
{
	static struct daemon d;
	struct dprd_status status = { .pid = (uint32_t)getpid() };
	struct config *c = make_config(80);
	char path[PATH_BYTES + 16];
	uint64_t now_ms = clock_now_ms();

	(void)state;
	snprintf(c->run_dir, sizeof(c->run_dir), "/tmp/dprd-test-XXXXXX");
	assert_non_null(mkdtemp(c->run_dir));
	snprintf(path, sizeof(path), "%s/status", c->run_dir);
	d = make_daemon(c);
	refresh_own(&d, now_ms);
	assert_false(tells(&d, now_ms));
	for (unsigned i = 0; i < 2; i++) {
		status.written_ms = now_ms;
		status.draining = 0;
		assert_int_equal(status_publish(path, &status), 0);
		assert_true(tells(&d, now_ms));
		assert_false(tells(&d, now_ms + 1));
		status.draining = 1;
		assert_int_equal(status_publish(path, &status), 0);
		assert_true(tells(&d, now_ms + 2));
		assert_false(tells(&d, now_ms + 3));
		now_ms += STATUS_FRESH_MS;
		assert_true(tells(&d, now_ms));
		assert_false(tells(&d, now_ms + 1));
	}
	unlink(path);
	rmdir(c->run_dir);
	dprd_process_close(&d.dprd);
	parts_free(&d.parts);
	free(c);
}

/* Peers forward to the ports that this node announces: dprd must have them, too. */
static void ports_of_both(void **state)
{
	static struct daemon d;
	struct table_own own = { 0 };
	struct dprd_status away = { 0 }, status = { .file_hash = 1 };
	struct config *c = make_config(80), *config;

	(void)state;
	d = make_daemon(c);
	config = &d.parts.setup->config;
	config->file_hash = 1;
	agree_on_ports(&d, &status, &own);
	assert_int_equal(own.port_count, 1);
	/* loadcast has read the file, dprd has not; its status comes late once, and then dprd works on. */
	config->port[config->port_count++] = 8080;
	config->file_hash = 2;
	for (unsigned i = 0; i < 3; i++) {
		agree_on_ports(&d, i == 1 ? &away : &status, &own);
		assert_int_equal(own.port_count, 1);
		assert_int_not_equal(own.service_hash, config_service_hash(config));
	}
	status.file_hash = 2;
	for (unsigned i = 0; i < 2; i++) {
		agree_on_ports(&d, i ? &away : &status, &own);
		assert_int_equal(own.port_count, 2);
		assert_int_equal(own.service_hash, config_service_hash(config));
	}
	/* It starts anew, with another file than dprd has: first dprd is late. */
	d.agreed_count = d.agreed_hash = 0;
	config->file_hash = 3;
	status.service_hash = 77;
	status.port[status.port_count++] = 443;
	agree_on_ports(&d, &away, &own);
	assert_int_equal(own.port_count, 0);
	for (unsigned i = 0; i < 2; i++) {
		agree_on_ports(&d, i ? &away : &status, &own);
		assert_int_equal(own.port_count, 1);
		assert_int_equal(own.port[0], 443);
		assert_int_equal(own.service_hash, 77);
	}
	parts_free(&d.parts);
	free(c);
}

/* A reload may name another load table: that one must be its own, too. */
static void lock_of_another_table(void **state)
{
	static struct daemon d;
	char directory[] = "/tmp/dprd-test-XXXXXX", path[64];
	struct config *c = make_config(80), *other = make_config(80);
	int lock;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(c->table_file, sizeof(c->table_file), "%s/a", directory);
	snprintf(other->table_file, sizeof(other->table_file), "%s/b", directory);
	d = make_daemon(c);
	d.lock_fd = lock_take_beside(c->table_file, "loadcast");
	assert_true(d.lock_fd >= 0);
	assert_int_equal(lock_of(&d, c), d.lock_fd);
	lock = lock_of(&d, other);
	assert_true(lock >= 0 && lock != d.lock_fd);
	/* Now it is another loadcast's. */
	assert_int_equal(lock_of(&d, other), -EWOULDBLOCK);
	assert_non_null(strstr(log_text(), "another loadcast is running here"));
	close(lock);
	close(d.lock_fd);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%c.lock", directory, 'a' + (int)i);
		assert_int_equal(unlink(path), 0);
	}
	assert_int_equal(rmdir(directory), 0);
	parts_free(&d.parts);
	free(other);
	free(c);
}

/* A node that begins to serve holds weight back; one whose loadcast alone began anew does not. */
static void slow_start(void **state)
{
	static struct daemon d;
	static struct load_table t;
	struct config *c = make_config(80);
	uint64_t now_ms = clock_now_ms();
	char path[] = "/tmp/dprd-test-XXXXXX";
	int file = mkstemp(path);

	(void)state;
	assert_true(file >= 0);
	close(file);
	c->health = HEALTH_NONE;
	c->slow_start_ms = 1000;
	snprintf(c->table_file, sizeof(c->table_file), "%s", path);
	snprintf(c->run_dir, sizeof(c->run_dir), "/nonexistent");
	d = make_daemon(c);
	assert_false(served_just_now(c, &t, now_ms));
	refresh_own(&d, now_ms);
	assert_int_equal(d.table.own.held_permille, SLOW_START_HELD);
	refresh_own(&d, now_ms + 500);
	assert_int_equal(d.table.own.held_permille, SLOW_START_HELD / 2);
	refresh_own(&d, now_ms + 1000);
	assert_int_equal(d.table.own.held_permille, 0);
	d.stopping = true;
	refresh_own(&d, now_ms + 1001);
	table_fill(&d.table, now_ms, &t);
	assert_int_equal(load_table_publish(path, &t), 0);
	assert_true(served_just_now(c, &t, now_ms));
	assert_false(served_just_now(c, &t, now_ms + SLOW_START_FRESH_MS));
	t.nodes[0].state = NODE_UNHEALTHY;
	assert_int_equal(load_table_publish(path, &t), 0);
	assert_false(served_just_now(c, &t, now_ms));
	t.nodes[0].state = NODE_ACTIVE;
	t.nodes[0].id = 77;
	assert_int_equal(load_table_publish(path, &t), 0);
	assert_false(served_just_now(c, &t, now_ms));
	unlink(path);
	dprd_process_close(&d.dprd);
	parts_free(&d.parts);
	free(c);
}

/* The agent's words make the state and a part of the weight; dprctl's drain and the web server count beside them. */
static void agent_decides(void **state)
{
	static struct daemon d;
	struct config *c = make_config(80);
	struct agent_words *words;
	uint64_t now_ms = 100000;

	(void)state;
	c->health = HEALTH_NONE;
	c->slow_start_ms = 1000;
	d = make_daemon(c);
	d.slow_start.serves = true;
	words = (struct agent_words *)agent_words(d.parts.agent);
	refresh_own(&d, now_ms);
	assert_int_equal(d.table.own.state, NODE_ACTIVE);
	assert_int_equal(d.table.own.agent, AGENT_WANTS_ALL);
	words->percent = 50;
	refresh_own(&d, now_ms);
	assert_int_equal(d.table.own.held_permille, 500);
	words->drain = true;
	refresh_own(&d, now_ms);
	assert_int_equal(d.table.own.state, NODE_DRAINING);
	assert_int_equal(d.table.own.agent, AGENT_WANTS_DRAIN);
	words->drain = false;
	words->down = true;
	refresh_own(&d, now_ms);
	assert_int_equal(d.table.own.state, NODE_UNHEALTHY);
	assert_int_equal(d.table.own.agent, AGENT_SAYS_DOWN);
	/* Back: the half of a weight that grows. */
	words->down = false;
	refresh_own(&d, now_ms);
	assert_int_equal(d.table.own.state, NODE_ACTIVE);
	assert_int_equal(d.table.own.held_permille, 1000 - (1000 - SLOW_START_HELD) / 2);
	refresh_own(&d, now_ms + 1000);
	assert_int_equal(d.table.own.held_permille, 500);
	parts_free(&d.parts);
	free(c);
}

/* Real servers do not count as peers, neither in the load table nor in the status for the service manager. */
static void backends_are_no_peers(void **state)
{
	static struct daemon d;
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct config *c = make_config(80);
	struct load_table got;
	char directory[] = "/tmp/dprd-test-XXXXXX", text[512];
	int manager = socket(AF_UNIX, SOCK_DGRAM, 0);
	ssize_t size;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(c->table_file, sizeof(c->table_file), "%s/table", directory);
	snprintf(to.sun_path, sizeof(to.sun_path), "%s/notify", directory);
	assert_int_equal(bind(manager, (struct sockaddr *)&to, sizeof(to)), 0);
	setenv("NOTIFY_SOCKET", to.sun_path, 1);
	add_backend(c, 101, 80);
	add_backend(c, 102, 80);
	d = make_daemon(c);
	log_text();
	publish(&d, 1000);
	assert_string_equal(log_text(), "");
	assert_int_equal(load_table_snapshot(c->table_file, &got), 0);
	assert_int_equal(got.count, 4);
	assert_int_equal(got.nodes[3].flags, NODE_BACKEND);
	report_status(&d, 1000);
	unsetenv("NOTIFY_SOCKET");
	size = recv(manager, text, sizeof(text) - 1, MSG_DONTWAIT);
	assert_true(size > 0);
	text[size] = '\0';
	assert_string_equal(text, "STATUS=hears 0 of 1 peers, 0 of them hear this node; 2 of 2 real servers work; "
				  "0 announcements rejected");
	close(manager);
	unlink(to.sun_path);
	unlink(c->table_file);
	rmdir(directory);
	parts_free(&d.parts);
	free(c);
}

enum { TYPE_ETHERNET = 1 };

/* An interface that is gone meanwhile gives an empty line. */
static void read_line(const char *interface, const char *file, char text[64])
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/net/%s/%s", interface, file);
	f = fopen(path, "r");
	if (!f || !fgets(text, 64, f))
		text[0] = '\0';
	if (f)
		fclose(f);
}

/* The hardware address by another way of asking the kernel; all zero: none. */
static void expected_hardware(const char *interface, uint8_t ret[HARDWARE_BYTES])
{
	char type[64], text[64], *at = text;

	memset(ret, 0, HARDWARE_BYTES);
	read_line(interface, "type", type);
	read_line(interface, "address", text);
	for (unsigned i = 0; atoi(type) == TYPE_ETHERNET && i < HARDWARE_BYTES; i++, at++)
		ret[i] = (uint8_t)strtoul(at, &at, 16);
}

/* An Ethernet interface of this host, and its IPv4 address; false: there is none. */
static bool find_ethernet(char name[INTERFACE_BYTES], struct addr *address)
{
	uint8_t hardware[HARDWARE_BYTES];
	struct ifaddrs *all, *i;
	bool found = false;

	assert_int_equal(getifaddrs(&all), 0);
	for (i = all; i && !found; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || strchr(i->ifa_name, ':'))
			continue;
		expected_hardware(i->ifa_name, hardware);
		found = hardware[0] || hardware[1] || hardware[2] || hardware[3] || hardware[4] || hardware[5];
		snprintf(name, INTERFACE_BYTES, "%.15s", i->ifa_name);
		*address = address_of((const union socket_address *)(const void *)i->ifa_addr);
	}
	freeifaddrs(all);
	return found;
}

static void hardware_of_interfaces(void **state)
{
	struct if_nameindex *all = if_nameindex();
	uint8_t expected[HARDWARE_BYTES], got[HARDWARE_BYTES];

	(void)state;
	assert_non_null(all);
	for (unsigned i = 0; all[i].if_index; i++) {
		int error;

		memset(got, 0xff, sizeof(got));
		error = interface_hardware(all[i].if_index, got);
		expected_hardware(all[i].if_name, expected);
		/* Interfaces of this host come and go. */
		assert_true(!error || !if_nametoindex(all[i].if_name));
		assert_true(memcmp(got, expected, sizeof(got)) == 0 || !if_nametoindex(all[i].if_name));
	}
	if_freenameindex(all);
	/* An interface that does not exist. */
	memset(expected, 0, sizeof(expected));
	assert_true(interface_hardware(INT32_MAX, got) < 0);
	assert_memory_equal(got, expected, sizeof(got));
}

/* A node that shares addresses and announces itself to another one on the same host. */
struct sharing_node {
	struct daemon d;
	struct config *config;
	char directory[32];
	int peer; /* the other one's socket */
	uint64_t now_ms;
};

static const uint8_t key[32] = "a key of this test, of 32 bytes";

static void start_sharing(struct sharing_node *n)
{
	struct addr own = addr_from_v4(htonl(INADDR_LOOPBACK)), other = addr_from_v4(htonl(INADDR_LOOPBACK + 1));
	char message[CONFIG_ERROR_BYTES] = "";
	union socket_address s;
	socklen_t size = fill_address(&s, &other, 0);
	struct config *c = make_config(80);

	n->peer = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(setsockopt(n->peer, SOL_SOCKET, SO_REUSEADDR, &(int) { 1 }, sizeof(int)), 0);
	assert_int_equal(bind(n->peer, &s.any, size), 0);
	assert_int_equal(getsockname(n->peer, &s.any, &size), 0);
	strcpy(n->directory, "/tmp/dprd-test-XXXXXX");
	assert_non_null(mkdtemp(n->directory));
	snprintf(c->table_file, sizeof(c->table_file), "%s/table", n->directory);
	c->announce_port = ntohs(s.v4.sin_port);
	c->unicast = true;
	c->period_ms = 4000; /* so slow that nothing else is due meanwhile */
	c->member[0].cluster_v4 = own;
	c->member[1].cluster_v4 = other;
	c->shared[c->shared_count++] = addr_from_v4(htonl(0xc0000264));
	n->d = make_daemon(c);
	free(c);
	n->config = &n->d.parts.setup->config;
	table_reconfigure(&n->d.table, n->config);
	announce_add_key(&n->d.parts.setup->keys, "lab", key);
	n->d.parts.mcast = mcast_open(n->config, MCAST_MEMBER, message);
	assert_string_equal(message, "");
	n->now_ms = clock_now_ms();
}

static void stop_sharing(struct sharing_node *n)
{
	sharing_close(&n->d.sharing);
	parts_free(&n->d.parts);
	close(n->peer);
	rmdir(n->directory);
}

/* True when the peer has got an announcement, by one way or by several; returns the hardware addresses in it. */
static bool peer_heard(const struct sharing_node *n, uint8_t ret[2][HARDWARE_BYTES])
{
	uint8_t datagram[ANNOUNCE_BYTES_MAX];
	ssize_t size = -1, next;
	struct announce_header header;
	struct announcement a;

	while ((next = recv(n->peer, datagram, sizeof(datagram), 0)) > 0)
		size = next;
	if (size < 0)
		return false;
	assert_int_equal(announce_read_header(datagram, (size_t)size, &header), REJECT_NONE);
	assert_int_equal(announce_verify(datagram, &header, &n->d.parts.setup->keys), REJECT_NONE);
	assert_int_equal(announce_decode(datagram, &header, &a), REJECT_NONE);
	memcpy(ret, a.hardware, sizeof(a.hardware));
	return true;
}

static void step_after(struct sharing_node *n, unsigned ms)
{
	n->now_ms += ms;
	step_shares(&n->d, n->now_ms);
	if (sharing_share(&n->d.sharing))
		assert_in_range(n->d.due_ms[TIMER_SHARE], n->now_ms + 1, n->now_ms + SHARING_LOOK_MS);
}

/* The address changes: the others know it within a second, however rare announcements are. */
static void hardware_is_announced(void **state)
{
	static const uint8_t none[2][HARDWARE_BYTES], former[HARDWARE_BYTES] = { 2, 7, 7, 7, 7, 7 };
	static struct sharing_node n;
	uint8_t expected[2][HARDWARE_BYTES] = { { 0 } }, got[2][HARDWARE_BYTES];
	struct load_table table;
	struct addr address;

	(void)state;
	start_sharing(&n);
	if (!find_ethernet(n.config->shared_interface, &address))
		strcpy(n.config->shared_interface, "lo");
	expected_hardware(n.config->shared_interface, expected[0]);
	assert_int_equal(share_addresses(&n.d, n.config), 0);
	step_after(&n, 0);
	assert_memory_equal(n.d.table.own.hardware, expected, sizeof(expected));
	/* The first announcement, about shares, already has it. */
	assert_true(peer_heard(&n, got));
	assert_memory_equal(got, expected, sizeof(expected));
	table_fill(&n.d.table, n.now_ms, &table);
	assert_memory_equal(table.nodes[0].hardware, expected, sizeof(expected));
	/* The address was another one until now. */
	memcpy(n.d.sharing.hardware[0], former, sizeof(former));
	step_after(&n, SHARING_LOOK_MS - 1);
	assert_memory_equal(n.d.table.own.hardware[0], former, sizeof(former));
	assert_false(peer_heard(&n, got));
	step_after(&n, 1);
	assert_true(peer_heard(&n, got));
	assert_memory_equal(got, expected, sizeof(expected));
	/*
	 * An interface that is gone is looked for at once; when the new one has the same address, nothing is announced.
	 */
	n.d.sharing.interface[0] = INT32_MAX;
	step_after(&n, SHARING_LOOK_MS);
	assert_int_equal(n.d.sharing.interface[0], if_nametoindex(n.config->shared_interface));
	assert_false(peer_heard(&n, got));
	/* Without a new interface the address is withdrawn. */
	memcpy(n.d.sharing.hardware[0], former, sizeof(former));
	strcpy(n.config->shared_interface, "nowhere");
	n.d.sharing.interface[0] = INT32_MAX;
	step_after(&n, SHARING_LOOK_MS);
	assert_true(peer_heard(&n, got));
	assert_memory_equal(got, none, sizeof(none));
	assert_int_equal(n.d.sharing.interface[0], 0);
	stop_sharing(&n);
}

/* The interface is that of the first own service address of the family, and only families with shared ones count. */
static void hardware_by_address(void **state)
{
	static const uint8_t none[2][HARDWARE_BYTES];
	static struct sharing_node n;
	char name[INTERFACE_BYTES];
	uint8_t expected[2][HARDWARE_BYTES] = { { 0 } };
	struct addr address;

	(void)state;
	if (!find_ethernet(name, &address)) {
		print_message("no Ethernet interface has an IPv4 address\n");
		skip();
	}
	expected_hardware(name, expected[0]);
	start_sharing(&n);
	n.config->member[0].service[0] = addr_from_v4(htonl(0xc0000263)); /* an address that no interface has */
	n.config->member[0].service[1] = address;
	n.config->member[0].service_count = 2;
	assert_int_equal(share_addresses(&n.d, n.config), 0);
	step_after(&n, 0);
	assert_memory_equal(n.d.table.own.hardware, expected, sizeof(expected));
	/* A reload names another interface, and the next one none. */
	strcpy(n.config->shared_interface, "lo");
	assert_int_equal(share_addresses(&n.d, n.config), 0);
	step_after(&n, 1);
	assert_memory_equal(n.d.table.own.hardware, none, sizeof(none));
	n.config->shared_interface[0] = '\0';
	assert_int_equal(share_addresses(&n.d, n.config), 0);
	step_after(&n, 1);
	assert_memory_equal(n.d.table.own.hardware, expected, sizeof(expected));
	/* A reload shares only addresses of the other family, at a named interface. */
	n.config->shared[0].bytes[0] = 0x20;
	strcpy(n.config->shared_interface, name);
	assert_int_equal(share_addresses(&n.d, n.config), 0);
	step_after(&n, 1);
	assert_memory_equal(n.d.table.own.hardware[1], expected[0], HARDWARE_BYTES);
	assert_memory_equal(n.d.table.own.hardware[0], none, HARDWARE_BYTES);
	/* The address moves, and the interface that it leaves stays: the change is noticed a little later. */
	n.d.sharing.interface[1] = if_nametoindex("lo");
	for (unsigned i = 0; i < 9; i++) {
		step_after(&n, SHARING_LOOK_MS);
		assert_memory_equal(n.d.table.own.hardware, none, sizeof(none));
	}
	step_after(&n, SHARING_LOOK_MS);
	assert_memory_equal(n.d.table.own.hardware[1], expected[0], HARDWARE_BYTES);
	/* A reload shares nothing. */
	n.config->shared_count = 0;
	assert_int_equal(share_addresses(&n.d, n.config), 0);
	step_after(&n, 1);
	assert_memory_equal(n.d.table.own.hardware, none, sizeof(none));
	stop_sharing(&n);
}

/* Each timer alone ends the wait. */
static void timers_bound_the_wait(void **state)
{
	static struct daemon d;

	(void)state;
	for (unsigned timer = 0; timer < TIMERS; timer++) {
		for (unsigned i = 0; i < TIMERS; i++)
			d.due_ms[i] = 9000;
		d.due_ms[timer] = 5007;
		assert_int_equal(wait_ms(&d, 5000), 7);
		assert_int_equal(wait_ms(&d, 5007), 0);
		assert_int_equal(wait_ms(&d, 6000), 0);
	}
	for (unsigned i = 0; i < TIMERS; i++)
		d.due_ms[i] = UINT64_MAX;
	assert_int_equal(wait_ms(&d, 5000), INT_MAX);
}

/* No timer stays due after it ran: the daemon would not wait any more. */
static void timers_run_again_later(void **state)
{
	static struct sharing_node n;

	(void)state;
	start_sharing(&n);
	run_timers(&n.d, n.now_ms);
	for (unsigned i = 0; i < TIMERS; i++)
		assert_true(n.d.due_ms[i] > n.now_ms);
	assert_int_equal(n.d.due_ms[TIMER_WATCHDOG], UINT64_MAX);
	n.d.watchdog_ms = 10;
	n.d.due_ms[TIMER_WATCHDOG] = 0;
	run_timers(&n.d, n.now_ms);
	assert_int_equal(n.d.due_ms[TIMER_WATCHDOG], n.now_ms + 10);
	unlink(n.config->table_file);
	stop_sharing(&n);
}

/* Processor time that this process takes while the daemon waits for this long, in milliseconds. */
static unsigned wait_costs_ms(struct daemon *d, unsigned ms)
{
	uint64_t until_ms = clock_now_ms() + ms;
	struct timespec before, after;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	while (clock_now_ms() < until_ms && !d->stopping) {
		for (unsigned i = 0; i < TIMERS; i++)
			d->due_ms[i] = until_ms;
		wait_once(d);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	return (unsigned)((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000);
}

/* The limit of open files is lowered while it runs: poll(2) takes no more entries than that. */
static void few_descriptors(void **state)
{
	static struct sharing_node n;
	struct rlimit limit, low;

	(void)state;
	SKIP_UNDER_VALGRIND("the limit of open files is not the kernel's");
	start_sharing(&n);
	n.d.signals = block_signals();
	assert_true(n.d.signals >= 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = (struct rlimit) { .rlim_cur = POLL_SERVERS + 1, .rlim_max = limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_true(wait_costs_ms(&n.d, 300) < 50);
	assert_false(n.d.stopping);
	/* It still hears a signal. */
	raise(SIGTERM);
	wait_once(&n.d);
	assert_true(n.d.stopping && !n.d.failed);
	/* Too low for any wait: it ends, and says why. */
	n.d.stopping = false;
	low.rlim_cur = 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_true(wait_costs_ms(&n.d, 300) < 50);
	assert_true(n.d.stopping && n.d.failed);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_non_null(
		strstr(log_text(), "cannot wait for events (poll): Invalid argument; was the limit of open files"));
	close(n.d.signals);
	stop_sharing(&n);
}

/* A start with too few: one line says how many are needed. The limit rises where the hard one allows it. */
static void descriptors_at_the_start(void **state)
{
	struct rlimit limit, low;
	pid_t child;
	int status;

	(void)state;
	SKIP_UNDER_VALGRIND("the limit of open files is not the kernel's");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = (struct rlimit) { .rlim_cur = 20, .rlim_max = limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_true(has_descriptors());
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(low.rlim_cur, POLL_FDS + FILES_ALSO);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	child = fork();
	if (!child) {
		low = (struct rlimit) { .rlim_cur = 20, .rlim_max = 20 };
		_exit(setrlimit(RLIMIT_NOFILE, &low) < 0 || has_descriptors());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_non_null(strstr(log_text(), "the limit of open files is 20, and loadcast needs "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connections_of_backends),
		cmocka_unit_test(news_of_dprd),
		cmocka_unit_test(ports_of_both),
		cmocka_unit_test_setup_teardown(lock_of_another_table, log_catch, log_release),
		cmocka_unit_test(slow_start),
		cmocka_unit_test(agent_decides),
		cmocka_unit_test_setup_teardown(backends_are_no_peers, log_catch, log_release),
		cmocka_unit_test(hardware_of_interfaces),
		cmocka_unit_test(hardware_is_announced),
		cmocka_unit_test(hardware_by_address),
		cmocka_unit_test(timers_bound_the_wait),
		cmocka_unit_test(timers_run_again_later),
		cmocka_unit_test_setup_teardown(few_descriptors, log_catch, log_release),
		cmocka_unit_test_setup_teardown(descriptors_at_the_start, log_catch, log_release),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
