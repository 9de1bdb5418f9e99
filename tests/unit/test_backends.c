// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The probers of the own web server and the real servers behind it, on loopback sockets: which servers are up, the load
 * table, and the state that a reload keeps.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dprd/base/log.h"
#include "loadcast/backends.h"
#include "tests/unit/own_backends.h"

enum { ANSWERS_MS = 60000, LISTENERS_MAX = 32, PROBE_MS = 500 };

/* A socket bound to the loopback address; *port 0: takes any port and sets *port. */
static int bind_to(bool v6, uint16_t *port)
{
	struct sockaddr_in v4_any = { .sin_family = AF_INET,
				      .sin_port = htons(*port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 v6_any = { .sin6_family = AF_INET6,
				       .sin6_port = htons(*port),
				       .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr *any = v6 ? (struct sockaddr *)&v6_any : (struct sockaddr *)&v4_any;
	socklen_t size = v6 ? sizeof(v6_any) : sizeof(v4_any);
	int s = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0), on = 1;

	assert_true(s >= 0);
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(s, any, size) < 0 || getsockname(s, any, &size) < 0) {
		close(s);
		return -1;
	}
	*port = ntohs(v6 ? v6_any.sin6_port : v4_any.sin_port);
	return s;
}

static int listeners[LISTENERS_MAX];
static unsigned listener_count;

static int listen_on(bool v6, uint16_t *port)
{
	int s = bind_to(v6, port);

	if (s < 0)
		return s;
	assert_int_equal(listen(s, 16), 0);
	assert_int_equal(fcntl(s, F_SETFL, O_NONBLOCK), 0);
	assert_true(listener_count < LISTENERS_MAX);
	listeners[listener_count++] = s;
	return s;
}

/* All servers accept what waits; a closed one does nothing. */
static void accept_all(void)
{
	for (unsigned i = 0; i < listener_count; i++) {
		int peer = accept(listeners[i], NULL, NULL);

		if (peer >= 0)
			close(peer);
	}
}

/* A port without a listener, reserved until this program ends. */
static uint16_t closed_port(void)
{
	uint16_t port = 0;

	assert_true(bind_to(false, &port) >= 0);
	return port;
}

/* One probe of each server from start to end. True: a server came or went. */
static bool probe_all(struct server_probes *p, uint64_t now_ms)
{
	struct pollfd fds[BACKENDS_SOCKETS];
	bool changed;
	uint64_t next_ms, start_ms = now_ms;

	changed = backends_tick(p, now_ms, &next_ms);
	for (unsigned step = 0; step < 200; step++) {
		unsigned open = 0;

		accept_all();
		backends_sockets(p, fds);
		for (unsigned i = 0; i < BACKENDS_SOCKETS; i++)
			open += fds[i].fd >= 0;
		if (!open) {
			changed |= backends_tick(p, now_ms, &next_ms);
			if (next_ms >= start_ms + PROBE_MS)
				return changed;
			/* One waits for accept(2). */
			now_ms = next_ms;
			continue;
		}
		assert_true(poll(fds, BACKENDS_SOCKETS, ANSWERS_MS) > 0);
		assert_true(backends_ready(p, fds, now_ms));
	}
	fail_msg("a probe without end");
	return false;
}

/* The table as published, checked as its reader checks it: this node, n2, the backends. */
static struct load_table fill(const struct server_probes *p, uint32_t own_state)
{
	struct load_table t = { .magic = LOAD_TABLE_MAGIC, .version = LOAD_TABLE_VERSION, .period_ms = 200 };

	t.count = 2;
	t.nodes[0] = (struct node_load) { .id = 1, .state = own_state, .flags = NODE_HEARD | NODE_ECHOES };
	t.nodes[1] = (struct node_load) { .id = 2, .flags = NODE_HEARD };
	backends_fill(p, &t);
	t.checksum = load_table_checksum(&t);
	assert_int_equal(load_table_check(&t, load_table_bytes(t.count)), 0);
	return t;
}

/* The level stands before a line only where the journal reads it. */
static void level_for_the_journal(void **state)
{
	char stream[48];

	(void)state;
	log_warning("a line");
	assert_string_equal(log_text(), "<4>a line\n");
	snprintf(stream, sizeof(stream), "%s", getenv("JOURNAL_STREAM"));
	setenv("JOURNAL_STREAM", "1:1", 1);
	log_warning("a line");
	assert_string_equal(log_text(), "a line\n");
	unsetenv("JOURNAL_STREAM");
	log_err("a line");
	assert_string_equal(log_text(), "a line\n");
	setenv("JOURNAL_STREAM", stream, 1);
}

static void down_and_up(void **state)
{
	uint16_t own_port = 0, port[2] = { 0, 0 };
	int own = listen_on(false, &own_port), b1 = listen_on(false, &port[0]), b2 = listen_on(false, &port[1]);
	struct config *c = make_config(own_port);
	struct server_probes *p;
	struct load_table t;

	(void)state;
	add_backend(c, 101, port[0]);
	add_backend(c, 102, port[1])->weight = 7;
	p = backends_new(c);
	assert_non_null(p);
	log_text();
	assert_false(probe_all(p, 1000));
	close(b1);
	for (unsigned i = 0; i < 2; i++)
		assert_false(probe_all(p, 2000 + 1000 * i));
	t = fill(p, NODE_ACTIVE);
	assert_int_equal(t.nodes[2].state, NODE_ACTIVE);
	assert_string_equal(log_text(), "");
	assert_true(probe_all(p, 4000));
	assert_string_equal(log_text(), "<4>backend b101 fails its health check: connect: Connection refused\n");
	t = fill(p, NODE_ACTIVE);
	assert_int_equal(t.count, 4);
	assert_int_equal(t.nodes[0].state, NODE_ACTIVE);
	assert_int_equal(t.nodes[0].flags & NODE_SERVER_DOWN, 0);
	assert_int_equal(t.nodes[2].id, 101);
	assert_int_equal(t.nodes[2].state, NODE_UNHEALTHY);
	assert_int_equal(t.nodes[3].id, 102);
	assert_int_equal(t.nodes[3].state, NODE_ACTIVE);
	assert_int_equal(t.nodes[3].weight, 7);
	assert_false(probe_all(p, 5000));
	b1 = listen_on(false, &port[0]);
	assert_true(b1 >= 0);
	assert_false(probe_all(p, 6000));
	assert_string_equal(log_text(), "");
	assert_true(probe_all(p, 7000));
	assert_string_equal(log_text(), "<6>backend b101 answers again\n");
	t = fill(p, NODE_ACTIVE);
	assert_int_equal(t.nodes[2].state, NODE_ACTIVE);
	/* The same for the own server. */
	close(own);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(probe_all(p, 8000 + 1000 * i), i == 2);
	assert_string_equal(log_text(), "<4>the web server fails its health check: connect: Connection refused\n");
	t = fill(p, NODE_ACTIVE);
	assert_int_equal(t.nodes[0].state, NODE_ACTIVE);
	assert_int_equal(t.nodes[0].flags, NODE_HEARD | NODE_ECHOES | NODE_SERVER_DOWN);
	backends_free(p);
	close(b1);
	close(b2);
	free(c);
}

/* The own server and one real server: which connections the node can serve. */
static void node_as_a_whole(void **state)
{
	static const struct {
		bool serve_here, own_good, good;
		enum backend_form form;
		unsigned weight, member_weight;
		bool clients, peers;
	} cases[] = {
		/* here  own   backend of this form  weight  node's | clients peers */
		{ true, true, true, BACKEND_NAT, 1, 1, true, true },
		{ true, true, false, BACKEND_NAT, 1, 1, true, true },
		{ true, false, true, BACKEND_NAT, 1, 1, true, true },
		{ true, false, false, BACKEND_NAT, 1, 1, false, false },
		{ true, false, true, BACKEND_NAT, 0, 1, false, false },
		{ true, true, true, BACKEND_NAT, 0, 1, true, true },
		{ false, true, false, BACKEND_NAT, 1, 1, false, false },
		{ false, false, true, BACKEND_NAT, 1, 1, true, true },
		{ false, true, true, BACKEND_NAT, 0, 1, false, false },
		/* Connections that peers forward never get to these servers. */
		{ true, false, true, BACKEND_DIRECT, 1, 1, true, false },
		{ true, false, true, BACKEND_TUNNEL, 1, 1, true, false },
		{ true, true, true, BACKEND_DIRECT, 1, 1, true, true },
		{ false, false, true, BACKEND_DIRECT, 1, 0, true, true },
		{ false, false, false, BACKEND_DIRECT, 1, 0, false, false },
	};
	uint16_t port = 0, closed = closed_port();
	int listener = listen_on(false, &port);

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct config *c = make_config(cases[i].own_good ? port : closed);
		struct backend *b = add_backend(c, 101, cases[i].good ? port : closed);
		struct server_probes *p;
		struct load_table t;

		print_message("case %u\n", i);
		c->serve_here = cases[i].serve_here;
		c->member[0].weight = cases[i].member_weight;
		b->form = cases[i].form;
		b->weight = cases[i].weight;
		p = backends_new(c);
		assert_non_null(p);
		probe_all(p, 1000);
		assert_int_equal(backends_serve_clients(p), cases[i].clients);
		assert_int_equal(backends_serve_peers(p), cases[i].peers);
		/* Only connections that this node serves itself count for its own row. */
		t = fill(p, NODE_UNHEALTHY);
		assert_int_equal(t.nodes[0].state, cases[i].clients ? NODE_ACTIVE : NODE_UNHEALTHY);
		t = fill(p, NODE_ACTIVE);
		assert_int_equal(t.nodes[0].state, cases[i].clients ? NODE_ACTIVE : NODE_UNHEALTHY);
		t = fill(p, NODE_DRAINING);
		assert_int_equal(t.nodes[0].state, NODE_DRAINING);
		assert_int_equal((t.nodes[0].flags & NODE_SERVER_DOWN) != 0, cases[i].serve_here && !cases[i].own_good);
		assert_int_equal(t.nodes[2].state, cases[i].good ? NODE_ACTIVE : NODE_UNHEALTHY);
		backends_free(p);
		free(c);
	}
	close(listener);
}

/* Each probe goes to the right address and port: the other ones are closed. */
static void targets(void **state)
{
	uint16_t port = 0, v6_port = 0, closed = closed_port();
	int v4 = listen_on(false, &port), v6 = listen_on(true, &v6_port);
	const struct addr loopback_v6 = addr_from_v6(&in6addr_loopback);
	struct config *c = make_config(port);
	struct server_probes *p;
	struct load_table t;

	(void)state;
	add_backend(c, 101, 0)->v6 = loopback_v6; /* the service port, IPv4 */
	add_backend(c, 102, closed);
	add_backend(c, 103, v6_port)->v6 = loopback_v6;
	if (v6 >= 0)
		c->backend[c->own_backend[2]].v4 = (struct addr) { 0 };
	p = backends_new(c);
	assert_non_null(p);
	probe_all(p, 1000);
	t = fill(p, NODE_ACTIVE);
	assert_int_equal(t.nodes[2].state, NODE_ACTIVE);
	assert_int_equal(t.nodes[3].state, NODE_UNHEALTHY);
	assert_int_equal(t.nodes[4].state, v6 >= 0 ? NODE_ACTIVE : NODE_UNHEALTHY);
	backends_free(p);
	/* [Health] Port= is for servers without their own port. */
	c->health_port = closed;
	c->backend[c->own_backend[1]].port = port;
	p = backends_new(c);
	assert_non_null(p);
	probe_all(p, 1000);
	t = fill(p, NODE_ACTIVE);
	assert_int_equal(t.nodes[0].flags & NODE_SERVER_DOWN, NODE_SERVER_DOWN);
	assert_int_equal(t.nodes[2].state, NODE_UNHEALTHY);
	assert_int_equal(t.nodes[3].state, NODE_ACTIVE);
	backends_free(p);
	/* ServeHere=no: the own server is not probed. */
	c->serve_here = false;
	p = backends_new(c);
	assert_non_null(p);
	probe_all(p, 1000);
	t = fill(p, NODE_ACTIVE);
	assert_int_equal(t.nodes[0].flags & NODE_SERVER_DOWN, 0);
	backends_free(p);
	free(c);
	close(v4);
	if (v6 >= 0)
		close(v6);
	else
		print_message("no IPv6 loopback address on this host: the IPv6 backend was not tried\n");
}

static void full_table(void **state)
{
	struct config *c = make_config(80);
	struct load_table t = { .count = MEMBERS_MAX };
	struct server_probes *p;
	struct pollfd fds[BACKENDS_SOCKETS];
	uint64_t next_ms = 0;

	(void)state;
	c->health = HEALTH_NONE;
	for (unsigned i = 0; i < OWN_BACKENDS_MAX; i++)
		add_backend(c, 101 + i, 80);
	p = backends_new(c);
	assert_non_null(p);
	/* Without probes all are good. */
	assert_false(backends_tick(p, 1000, &next_ms));
	assert_true(next_ms == UINT64_MAX);
	backends_sockets(p, fds);
	for (unsigned i = 0; i < BACKENDS_SOCKETS; i++)
		assert_int_equal(fds[i].fd, -1);
	backends_fill(p, &t);
	assert_int_equal(t.count, LOAD_NODES_MAX);
	assert_int_equal(t.nodes[LOAD_NODES_MAX - 1].id, 100 + OWN_BACKENDS_MAX);
	backends_fill(p, &t);
	assert_int_equal(t.count, LOAD_NODES_MAX);
	backends_free(p);
	backends_free(NULL);
	free(c);
}

/* A server that never answers delays neither the others nor its own result. */
static void no_answer(void **state)
{
	uint16_t port = 0;
	int listener = listen_on(false, &port);
	struct config *c = make_config(closed_port());
	struct server_probes *p;
	struct pollfd fds[BACKENDS_SOCKETS];
	struct load_table t;
	uint64_t next_ms = 0;

	(void)state;
	c->health = HEALTH_HTTP;
	add_backend(c, 101, port);
	add_backend(c, 102, closed_port());
	p = backends_new(c);
	assert_non_null(p);
	backends_tick(p, 1000, &next_ms);
	assert_true(next_ms == 1500);
	/* Connected and asked; the others are refused. */
	for (unsigned i = 0; i < 10 && backends_serve_peers(p); i++) {
		backends_sockets(p, fds);
		if (fds[0].fd < 0 && fds[2].fd < 0)
			break;
		assert_true(poll(fds, BACKENDS_SOCKETS, ANSWERS_MS) > 0);
		backends_ready(p, fds, 1001);
	}
	assert_true(backends_tick(p, 1002, &next_ms));
	assert_true(next_ms == 1500);
	t = fill(p, NODE_ACTIVE);
	assert_int_equal(t.nodes[0].flags & NODE_SERVER_DOWN, NODE_SERVER_DOWN);
	assert_int_equal(t.nodes[2].state, NODE_ACTIVE);
	assert_true(backends_tick(p, 1500, &next_ms));
	assert_true(next_ms == 2000);
	t = fill(p, NODE_ACTIVE);
	assert_int_equal(t.nodes[2].state, NODE_UNHEALTHY);
	assert_int_equal(t.nodes[0].state, NODE_UNHEALTHY);
	backends_free(p);
	close(listener);
	free(c);
}

/* b101 is up and goes, b102 is down and stays, b103 comes. */
static void reload_keeps(void **state)
{
	uint16_t port = 0, closed = closed_port();
	int listener = listen_on(false, &port);
	struct config *before = make_config(closed), *after = make_config(closed);
	struct server_probes *former, *p;
	struct load_table t;

	(void)state;
	add_backend(before, 102, closed);
	add_backend(before, 101, port);
	add_backend(after, 103, port);
	add_backend(after, 102, closed);
	former = backends_new(before);
	p = backends_new(after);
	assert_non_null(former);
	assert_non_null(p);
	probe_all(former, 1000);
	t = fill(former, NODE_ACTIVE);
	assert_int_equal(t.nodes[3].state, NODE_ACTIVE);
	log_text();
	backends_inherit(p, former);
	backends_free(former);
	free(before);
	t = fill(p, NODE_ACTIVE);
	assert_int_equal(t.count, 4);
	assert_int_equal(t.nodes[0].flags & NODE_SERVER_DOWN, NODE_SERVER_DOWN);
	assert_int_equal(t.nodes[2].id, 103);
	assert_int_equal(t.nodes[2].state, NODE_ACTIVE);
	assert_int_equal(t.nodes[3].state, NODE_UNHEALTHY);
	assert_false(probe_all(p, 2000));
	t = fill(p, NODE_ACTIVE);
	assert_int_equal(t.nodes[3].state, NODE_UNHEALTHY);
	/* This was logged before the reload. */
	assert_string_equal(log_text(), "");
	backends_free(p);
	close(listener);
	free(after);
}

static void end_with(struct server_probes *p, struct config *c)
{
	backends_free(p);
	free(c);
}

/* Every service port is asked, and one that fails is taken out alone. */
static void ports(void **state)
{
	uint16_t port = 0, other = 0, closed = closed_port();
	int listener = listen_on(false, &port), second = listen_on(false, &other);
	struct config *c = make_config(port);
	struct server_probes *p;
	struct load_table t;

	(void)state;
	c->port_count = 3;
	c->port[1] = closed;
	c->port[2] = other;
	p = backends_new(c);
	assert_non_null(p);
	log_text();
	assert_true(probe_all(p, 1000));
	assert_int_equal(backends_ports_down(p), 2);
	assert_true(backends_serve_clients(p) && backends_serve_peers(p));
	t = fill(p, NODE_ACTIVE);
	assert_int_equal(t.nodes[0].state, NODE_ACTIVE);
	assert_int_equal(t.nodes[0].ports_down, 2);
	assert_int_equal(t.nodes[0].flags & NODE_SERVER_DOWN, 0);
	assert_non_null(strstr(log_text(), "fails its health check: connect: Connection refused"));
	/* All of them: the node as a whole. */
	close(second);
	close(listener);
	for (unsigned i = 0; i < 3; i++)
		probe_all(p, 2000 + 1000 * i);
	t = fill(p, NODE_ACTIVE);
	assert_int_equal(t.nodes[0].state, NODE_UNHEALTHY);
	assert_int_equal(t.nodes[0].ports_down, 0);
	assert_int_equal(t.nodes[0].flags & NODE_SERVER_DOWN, NODE_SERVER_DOWN);
	end_with(p, c);
}

/* [Health] Port= that is no service port speaks for the node as a whole; with real servers, a port does, too. */
static void ports_as_a_whole(void **state)
{
	uint16_t port = 0, closed = closed_port();
	int listener = listen_on(false, &port);
	struct config *c = make_config(port);
	struct server_probes *p;

	(void)state;
	c->health_port = closed;
	p = backends_new(c);
	assert_non_null(p);
	probe_all(p, 1000);
	assert_false(backends_serve_clients(p));
	assert_int_equal(backends_ports_down(p), 0);
	end_with(p, c);
	c = make_config(port);
	c->health_port = port;
	c->port_count = 2;
	c->port[1] = closed;
	p = backends_new(c);
	assert_non_null(p);
	probe_all(p, 1000);
	assert_int_equal(backends_ports_down(p), 2);
	end_with(p, c);
	c = make_config(port);
	c->port_count = 2;
	c->port[1] = closed;
	add_backend(c, 101, port);
	p = backends_new(c);
	assert_non_null(p);
	probe_all(p, 1000);
	assert_int_equal(backends_ports_down(p), 0);
	assert_int_equal(fill(p, NODE_ACTIVE).nodes[0].flags & NODE_SERVER_DOWN, NODE_SERVER_DOWN);
	assert_true(backends_serve_clients(p));
	end_with(p, c);
	close(listener);
}

/* A reload that turns the order of the ports round: what is known goes by their numbers. */
static void ports_turned_round(void **state)
{
	uint16_t port = 0, closed = closed_port();
	int listener = listen_on(false, &port);
	struct config *before = make_config(port), *after = make_config(closed);
	struct server_probes *former, *p;

	(void)state;
	before->port_count = after->port_count = 2;
	before->port[1] = closed;
	after->port[1] = port;
	former = backends_new(before);
	p = backends_new(after);
	assert_non_null(former);
	assert_non_null(p);
	probe_all(former, 1000);
	log_text();
	backends_inherit(p, former);
	backends_free(former);
	free(before);
	assert_int_equal(backends_ports_down(p), 1);
	assert_false(probe_all(p, 2000));
	assert_string_equal(log_text(), "");
	end_with(p, after);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(level_for_the_journal, log_catch, log_release),
		cmocka_unit_test_setup_teardown(down_and_up, log_catch, log_release),
		cmocka_unit_test(node_as_a_whole),
		cmocka_unit_test(targets),
		cmocka_unit_test(full_table),
		cmocka_unit_test(no_answer),
		cmocka_unit_test_setup_teardown(reload_keeps, log_catch, log_release),
		cmocka_unit_test_setup_teardown(ports, log_catch, log_release),
		cmocka_unit_test(ports_as_a_whole),
		cmocka_unit_test_setup_teardown(ports_turned_round, log_catch, log_release),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
