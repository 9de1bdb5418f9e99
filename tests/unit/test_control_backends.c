// SPDX-License-Identifier: GPL-2.0-or-later
/* Answers of dprd's control socket about the real servers behind this node. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/control_backends.h"

static const json_t *ask_status(void)
{
	return ask("{\"command\":\"status\"}");
}

static void test_without(void **context)
{
	const json_t *answer_json = ask("{\"command\":\"backends\"}");

	(void)context;
	assert_string_equal(text_at(answer_json, "schema"), "dprd.backends/1");
	assert_int_equal(number_at(answer_json, "count"), 0);
	assert_int_equal(json_array_size(json_object_get(answer_json, "backends")), 0);
	assert_true(json_is_null(json_object_get(ask_status(), "backends")));
	assert_null(advice_of(ask_status(), "real server"));
}

static void test_list(void **context)
{
	const json_t *all = ask("{\"command\":\"backends\"}"), *list = json_object_get(all, "backends"), *b;

	(void)context;
	assert_string_equal(text_at(all, "node"), "n1");
	assert_string_equal(text_at(all, "policy"), "wrr");
	assert_true(json_is_true(json_object_get(all, "serve_here")));
	assert_true(json_is_true(json_object_get(all, "serves_here")));
	assert_int_equal(number_at(all, "count"), 3);
	assert_int_equal(number_at(all, "usable"), 1);
	assert_int_equal(number_at(all, "connections"), 20);
	assert_int_equal(json_array_size(list), 3);
	b = json_array_get(list, 0);
	assert_string_equal(text_at(b, "name"), "b1");
	assert_string_equal(text_at(b, "form"), "nat");
	assert_string_equal(text_at(b, "address_v4"), "10.1.0.21");
	assert_string_equal(text_at(b, "address_v6"), "fd00::21");
	assert_int_equal(number_at(b, "port"), 8080);
	assert_int_equal(number_at(b, "weight"), 2);
	assert_true(json_is_true(json_object_get(b, "eligible")));
	assert_true(json_is_null(json_object_get(b, "why_not")));
	assert_int_equal(number_at(b, "connections"), 17);
	assert_int_equal(number_at(b, "chosen"), 204);
	b = json_array_get(list, 1);
	assert_string_equal(text_at(b, "form"), "tunnel");
	assert_true(json_is_null(json_object_get(b, "address_v6")));
	assert_true(json_is_null(json_object_get(b, "port")));
	assert_true(json_is_false(json_object_get(b, "eligible")));
	assert_string_equal(text_at(b, "why_not"), "unhealthy");
	assert_true(json_is_null(json_object_get(b, "mtu_v4")));
	assert_string_equal(text_at(json_array_get(list, 2), "why_not"), "weight 0");
	set_backend_way(&d, 1, false, 1480);
	b = json_array_get(json_object_get(ask("{\"command\":\"backends\"}"), "backends"), 1);
	assert_int_equal(number_at(b, "mtu_v4"), 1480);
	/* The kernel alone knows the way of a translated connection. */
	set_backend_way(&d, 0, false, 1500);
	b = json_array_get(json_object_get(ask("{\"command\":\"backends\"}"), "backends"), 0);
	assert_true(json_is_null(json_object_get(b, "mtu_v4")));
}

static void test_status(void **context)
{
	const json_t *backends = json_object_get(ask_status(), "backends");

	(void)context;
	assert_int_equal(number_at(backends, "count"), 3);
	assert_int_equal(number_at(backends, "usable"), 1);
	assert_int_equal(number_at(backends, "connections"), 20);
	assert_int_equal(json_array_size(json_object_get(backends, "list")), 3);
	/* Real servers are not members. */
	assert_int_equal(json_array_size(json_object_get(ask_status(), "members")), 4);
}

static void test_warnings(void **context)
{
	const json_t *status = ask_status();

	(void)context;
	assert_string_equal(advice_of(status, "the real server b2"), "Check that 10.1.0.22 listens on port 80");
	d.config.health = HEALTH_HTTP;
	status = ask_status();
	assert_string_equal(advice_of(status, "the real server b2 gets no new connections: unhealthy"),
			    "Check it: curl -gi http://10.1.0.22:80/");
	assert_null(advice_of(status, "real server b1"));
	assert_null(advice_of(status, "real server b3")); /* the operator set its weight */
	assert_null(advice_of(status, "none of the real servers"));
	d.table.nodes[4].state = NODE_UNHEALTHY;
	d.table.nodes[5].state = NODE_ACTIVE;
	backend_reconfigure(&d, NULL);
	status = ask_status();
	assert_string_equal(advice_of(status, "the real server b1"), "Check it: curl -gi http://10.1.0.21:8080/");
	assert_string_equal(advice_of(status, "the real server b2"), "ip route get 10.1.0.22");
	d.table.count = 6;
	d.table.nodes[5].id = 1;
	backend_reconfigure(&d, NULL);
	assert_string_equal(advice_of(ask_status(), "the real server b2"),
			    "loadcast does not know it: systemctl reload loadcast");
	assert_non_null(advice_of(ask_status(), "none of the real servers behind this node takes new connections; its "
						"own web server gets them all"));
	d.config.serve_here = false;
	assert_non_null(advice_of(ask_status(), "none of the real servers"));
	assert_null(advice_of(ask_status(), "gets them all"));
	/* Only one warning tells that the load table is old. */
	d.table.published_ms -= 5000;
	assert_null(advice_of(ask_status(), "real server"));
}

static void test_warnings_of_self(void **context)
{
	const json_t *status;

	(void)context;
	d.table.nodes[0].flags |= NODE_SERVER_DOWN;
	status = ask_status();
	assert_non_null(advice_of(status, "the web server of this node fails its health check; its real servers take"));
	assert_string_equal(text_at(status, "state"), "active");
	assert_true(json_is_false(json_object_get(json_object_get(status, "backends"), "serves_here")));
	d.table.nodes[0].state = NODE_UNHEALTHY;
	assert_string_equal(advice_of(ask_status(), "no web server of this node passes its health check"),
			    "See which: dprctl backends");
}

/* Flows and decisions name the real server that they lead to. */
static void test_names(void **context)
{
	struct packet packet = { .key = { .client_port = htons(50122), .service_port = htons(80) } };
	uint32_t b1 = config_own_backend(&d.config, 0)->id;
	struct verdict verdict = { .kind = VERDICT_FORWARD, .reason = REASON_BACKEND, .node_id = b1 };
	struct decide_env env = { .view = &d.view, .policy = d.policy };
	struct flow evicted;
	const json_t *decision;
	json_t *lines;

	(void)context;
	assert_true(addr_parse("203.0.113.7", &packet.key.client));
	assert_true(addr_parse("192.0.2.11", &packet.key.service));
	assert_true(flow_add(d.flows, &packet.key, b1, 77, clock_flow_ms(), &evicted));
	why_remember(d.why, clock_now_ms(), &packet, &verdict, &env, 20);
	fixture_flow(&d, "203.0.113.8", 1, "n2", TCP_ACK);
	ask("{\"command\":\"flows\",\"node\":\"b1\"}");
	assert_true(answer.listing.active);
	lines = control_listing_next(&d, &answer.listing);
	assert_int_equal(json_array_size(lines), 2);
	assert_string_equal(text_at(json_array_get(lines, 0), "node"), "b1");
	json_decref(lines);
	assert_non_null(error_of(ask("{\"command\":\"flows\",\"node\":\"b4\"}"))); /* another node's */
	decision = json_array_get(json_object_get(ask("{\"command\":\"why\",\"client\":\"203.0.113.7\"}"), "decisions"),
				  0);
	assert_string_equal(text_at(decision, "target"), "b1");
	assert_string_equal(text_at(decision, "reason"), "backend");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_without, start, stop),
		cmocka_unit_test_setup_teardown(test_list, start_with_backends, stop),
		cmocka_unit_test_setup_teardown(test_status, start_with_backends, stop),
		cmocka_unit_test_setup_teardown(test_warnings, start_with_backends, stop),
		cmocka_unit_test_setup_teardown(test_warnings_of_self, start_with_backends, stop),
		cmocka_unit_test_setup_teardown(test_names, start_with_backends, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
