// SPDX-License-Identifier: GPL-2.0-or-later
/* Lists of the control socket: flows by filter and in pieces, decisions by client. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/control_ask.h"

/* Puts all lines of a listing into an array, except the last one, which goes to *ret_end. */
static json_t *list(const char *request, json_t **ret_end)
{
	json_t *all = json_array(), *part;
	unsigned rounds = 0;

	ask(request);
	assert_null(answer.line);
	assert_true(answer.listing.active);
	while (answer.listing.active) {
		part = control_listing_next(&d, &answer.listing);
		assert_non_null(part);
		assert_true(json_array_size(part) <= CONTROL_FLOWS_CHUNK + 1);
		json_array_extend(all, part);
		json_decref(part);
		assert_true(++rounds < 1000);
	}
	*ret_end = json_incref(json_array_get(all, json_array_size(all) - 1));
	assert_string_equal(text_at(*ret_end, "schema"), "dprd.flows/1");
	json_array_remove(all, json_array_size(all) - 1);
	return all;
}

static size_t count_listed(const char *request)
{
	json_t *end, *all = list(request, &end);
	size_t count = json_array_size(all);

	assert_int_equal(number_at(end, "shown"), count);
	json_decref(end);
	json_decref(all);
	return count;
}

static void test_flows_listed(void **context)
{
	json_t *end, *all;
	const json_t *flow;

	(void)context;
	fixture_flow(&d, "203.0.113.7", 50122, "n2", TCP_ACK);
	all = list("{\"command\":\"flows\"}", &end);
	assert_int_equal(json_array_size(all), 1);
	flow = json_array_get(all, 0);
	assert_null(json_object_get(flow, "schema"));
	assert_string_equal(text_at(flow, "client"), "203.0.113.7");
	assert_int_equal(number_at(flow, "client_port"), 50122);
	assert_string_equal(text_at(flow, "service"), "192.0.2.11");
	assert_int_equal(number_at(flow, "service_port"), 80);
	assert_string_equal(text_at(flow, "node"), "n2");
	assert_string_equal(text_at(flow, "state"), "confirmed");
	assert_null(json_object_get(flow, "packets"));
	assert_int_equal(number_at(end, "total"), 1);
	assert_true(json_is_true(json_object_get(end, "complete")));
	json_decref(all);
	json_decref(end);
}

static void test_flows_filtered(void **context)
{
	(void)context;
	fixture_flow(&d, "203.0.113.7", 1, "n2", TCP_ACK);
	fixture_flow(&d, "203.0.113.7", 2, "n3", TCP_FIN | TCP_ACK);
	fixture_flow(&d, "203.0.113.200", 2, "n2", 0);
	fixture_flow(&d, "198.51.100.1", 2, "n2", TCP_RST);
	fixture_flow(&d, "2001:db8:1::7", 2, "n3", TCP_ACK);
	assert_int_equal(count_listed("{\"command\":\"flows\"}"), 5);
	assert_int_equal(count_listed("{\"command\":\"flows\",\"client\":\"203.0.113.7\"}"), 2);
	assert_int_equal(count_listed("{\"command\":\"flows\",\"client\":\"203.0.113.7\",\"port\":2}"), 1);
	assert_int_equal(count_listed("{\"command\":\"flows\",\"client\":\"203.0.113.0/24\"}"), 3);
	assert_int_equal(count_listed("{\"command\":\"flows\",\"client\":\"203.0.113.0/25\"}"), 2);
	assert_int_equal(count_listed("{\"command\":\"flows\",\"client\":\"0.0.0.0/0\"}"), 4);
	assert_int_equal(count_listed("{\"command\":\"flows\",\"client\":\"2001:db8::/32\"}"), 1);
	assert_int_equal(count_listed("{\"command\":\"flows\",\"client\":\"2001:db8:2::/47\"}"), 0);
	assert_int_equal(count_listed("{\"command\":\"flows\",\"node\":\"n3\"}"), 2);
	assert_int_equal(count_listed("{\"command\":\"flows\",\"state\":\"half_open\"}"), 1);
	assert_int_equal(count_listed("{\"command\":\"flows\",\"state\":\"closing\"}"), 1);
	assert_int_equal(count_listed("{\"command\":\"flows\",\"state\":\"reset\",\"node\":\"n2\"}"), 1);
	assert_int_equal(count_listed("{\"command\":\"flows\",\"limit\":3}"), 3);
	assert_int_equal(count_listed("{\"command\":\"flows\",\"limit\":0}"), 0);
}

static bool is_complete(const char *request)
{
	json_t *end, *all = list(request, &end);
	bool complete = json_is_true(json_object_get(end, "complete"));

	json_decref(all);
	json_decref(end);
	return complete;
}

/* A list that was cut short says so. */
static void test_flows_cut_short(void **context)
{
	(void)context;
	fixture_flow(&d, "203.0.113.7", 1, "n2", TCP_ACK);
	fixture_flow(&d, "203.0.113.7", 2, "n3", TCP_ACK);
	fixture_flow(&d, "203.0.113.7", 3, "n2", TCP_ACK);
	assert_true(is_complete("{\"command\":\"flows\"}"));
	assert_true(is_complete("{\"command\":\"flows\",\"limit\":4}"));
	assert_false(is_complete("{\"command\":\"flows\",\"limit\":2}"));
	assert_false(is_complete("{\"command\":\"flows\",\"limit\":0}"));
	/* There is no such flow, and all were searched. */
	assert_true(is_complete("{\"command\":\"flows\",\"state\":\"reset\"}"));
}

/* More than one piece; every flow exactly once. */
static void test_flows_in_pieces(void **context)
{
	bool seen[1000] = { false };
	json_t *end, *all;
	const json_t *flow;
	size_t i;

	(void)context;
	for (i = 0; i < 1000; i++)
		fixture_flow(&d, "203.0.113.7", (uint16_t)(i + 1), "n2", TCP_ACK);
	all = list("{\"command\":\"flows\"}", &end);
	assert_int_equal(json_array_size(all), 1000);
	json_array_foreach(all, i, flow)
	{
		long long port = number_at(flow, "client_port");

		assert_in_range(port, 1, 1000);
		assert_false(seen[port - 1]);
		seen[port - 1] = true;
	}
	json_decref(all);
	json_decref(end);
}

static void test_why(void **context)
{
	const json_t *reply, *decisions, *first;

	(void)context;
	fixture_decision(&d, "203.0.113.7", 50122, REASON_BELOW_MAX_LOAD);
	fixture_decision(&d, "203.0.113.9", 50122, REASON_CHOSEN);
	fixture_decision(&d, "203.0.113.7", 50123, REASON_CHOSEN);
	reply = ask("{\"command\":\"why\",\"client\":\"203.0.113.7\"}");
	decisions = json_object_get(reply, "decisions");
	assert_int_equal(json_array_size(decisions), 2);
	first = json_array_get(decisions, 0);
	assert_int_equal(number_at(first, "client_port"), 50123);
	assert_string_equal(text_at(first, "verdict"), "forward");
	assert_string_equal(text_at(first, "reason"), "chosen");
	assert_string_equal(text_at(first, "target"), "n2");
	assert_string_equal(text_at(json_array_get(json_object_get(first, "peers"), 0), "name"), "n2");
	assert_true(json_is_null(json_object_get(json_array_get(decisions, 1), "target")));
	reply = ask("{\"command\":\"why\",\"client\":\"203.0.113.7\",\"port\":50122}");
	assert_int_equal(json_array_size(json_object_get(reply, "decisions")), 1);
	assert_true(json_is_false(json_object_get(reply, "more")));
	reply = ask("{\"command\":\"why\",\"client\":\"203.0.113.7\",\"limit\":1}");
	assert_int_equal(json_array_size(json_object_get(reply, "decisions")), 1);
	assert_true(json_is_true(json_object_get(reply, "more")));
	reply = ask("{\"command\":\"why\",\"client\":\"203.0.113.1\"}");
	assert_int_equal(json_array_size(json_object_get(reply, "decisions")), 0);
}

static void test_why_is_bounded(void **context)
{
	const json_t *reply;
	unsigned i;

	(void)context;
	for (i = 0; i < 300; i++)
		fixture_decision(&d, "203.0.113.7", (uint16_t)(i + 1), REASON_CHOSEN);
	reply = ask("{\"command\":\"why\",\"client\":\"203.0.113.7\"}");
	assert_int_equal(json_array_size(json_object_get(reply, "decisions")), CONTROL_WHY_MAX);
	assert_true(json_is_true(json_object_get(reply, "more")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_flows_listed, start, stop),
		cmocka_unit_test_setup_teardown(test_flows_filtered, start, stop),
		cmocka_unit_test_setup_teardown(test_flows_cut_short, start, stop),
		cmocka_unit_test_setup_teardown(test_flows_in_pieces, start, stop),
		cmocka_unit_test_setup_teardown(test_why, start, stop),
		cmocka_unit_test_setup_teardown(test_why_is_bounded, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
