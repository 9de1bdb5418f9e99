// SPDX-License-Identifier: GPL-2.0-or-later
/* dprd-web: which requests have an answer, and the ring of the last ten minutes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/web/core/history.h"
#include "dprd/web/core/request.h"

static const char *const names[] = { "n1.lab", "Web.Example" };

static unsigned route(const char *method, const char *path, const char *host, enum web_target *ret)
{
	const struct web_request request = {
		.method = method, .path = path, .host = host, .names = names, .name_count = 2
	};

	*ret = WEB_TARGETS;
	return web_route(&request, ret);
}

static void test_targets(void **context)
{
	static const struct {
		const char *path;
		enum web_target target;
	} cases[] = {
		{ "/", WEB_PAGE },           { "/style.css", WEB_STYLE },    { "/page.js", WEB_SCRIPT },
		{ "/icon.svg", WEB_ICON },   { "/status.json", WEB_STATUS }, { "/history.json", WEB_HISTORY },
		{ "/metrics", WEB_METRICS }, { "/why.json", WEB_WHY },
	};
	enum web_target target;
	size_t i;

	(void)context;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(route("GET", cases[i].path, "localhost", &target), 200);
		assert_int_equal(target, cases[i].target);
		assert_int_equal(route("HEAD", cases[i].path, "localhost", &target), 200);
		assert_int_equal(target, cases[i].target);
	}
}

static void test_refusals(void **context)
{
	static const char *const methods[] = { "POST", "PUT", "DELETE", "OPTIONS", "get", "", "GETS" };
	static const char *const paths[] = {
		"", "*", "//", "/drain", "/status", "/status.json/", "/Metrics", "/../etc/passwd"
	};
	char longest[WEB_PATH_BYTES + 1];
	enum web_target target;
	size_t i;

	(void)context;
	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		assert_int_equal(route(methods[i], "/", "localhost", &target), 405);
	for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		assert_int_equal(route("GET", paths[i], "localhost", &target), 404);
		assert_int_equal(target, WEB_TARGETS);
	}
	memset(longest, 'a', WEB_PATH_BYTES);
	longest[WEB_PATH_BYTES] = '\0';
	assert_int_equal(route("GET", longest, "localhost", &target), 414);
	assert_int_equal(route("GET", "/", NULL, &target), 400);
	assert_int_equal(route("GET", "/", "", &target), 400);
	assert_int_equal(route("GET", "/", "evil.example", &target), 421);
}

static void test_hosts(void **context)
{
	static const char *const good[] = { "localhost",   "LOCALHOST:7981", "127.0.0.1",   "192.0.2.11:80", "[::1]",
					    "[::1]:65535", "n1.lab",         "N1.LAB:7981", "web.example" };
	static const char *const bad[] = { "",
					   ":80",
					   "localhost.",
					   "localhost:",
					   "localhost:0",
					   "localhost:65536",
					   "localhost:x",
					   "localhost:1x",
					   "localhost:000001",
					   "xlocalhost",
					   "n1",
					   "n1.lab.evil",
					   "[localhost]",
					   "[n1.lab]",
					   "[::1",
					   "[::1]x",
					   "[]",
					   "evil.example",
					   "127.0.0.1.evil.example" };
	char longest[2 * WEB_HOST_BYTES];
	size_t i;

	(void)context;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (!web_host_allowed(good[i], names, 2))
			fail_msg("refused: %s", good[i]);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (web_host_allowed(bad[i], names, 2))
			fail_msg("allowed: %s", bad[i]);
	}
	memset(longest, '1', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_false(web_host_allowed(longest, names, 2));
	assert_false(web_host_allowed("n1.lab", names, 0));
}

static void test_listen(void **context)
{
	char address[WEB_HOST_BYTES];
	unsigned port;

	(void)context;
	assert_true(web_parse_listen("127.0.0.1:7981", address, &port));
	assert_string_equal(address, "127.0.0.1");
	assert_int_equal(port, 7981);
	assert_true(web_parse_listen("[::1]:1", address, &port));
	assert_string_equal(address, "::1");
	assert_false(web_parse_listen("127.0.0.1", address, &port));
	assert_false(web_parse_listen("localhost:7981", address, &port));
	assert_false(web_parse_listen("127.0.0.1:0", address, &port));
}

static struct history history;
static struct history_sample sample;

static int start(void **context)
{
	(void)context;
	memset(&history, 0, sizeof(history));
	sample = (struct history_sample) { .up = true, .at_ms = 1000, .now_ms = 1000, .run = 7 };
	return 0;
}

/* Five seconds later this many connections more were served. */
static void later(double served)
{
	sample.at_ms += HISTORY_PERIOD_MS;
	sample.now_ms += HISTORY_PERIOD_MS;
	sample.total[HISTORY_SERVED] += served;
	history_add(&history, &sample);
}

static void set_member(unsigned i, const char *name, double load, bool counts)
{
	struct history_member *m = &sample.member[i];

	snprintf(m->name, sizeof(m->name), "%s", name);
	m->load = m->arrivals = load;
	m->counts = counts;
	if (i >= sample.member_count)
		sample.member_count = i + 1;
}

/* The last value of a column; NAN: null. */
static double last_of(const json_t *object, const char *key)
{
	const json_t *column = json_object_get(object, key), *value;

	assert_true(json_array_size(column) > 0);
	value = json_array_get(column, json_array_size(column) - 1);
	return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static double last(const char *key)
{
	json_t *made = history_json(&history);
	double value = last_of(made, key);

	json_decref(made);
	return value;
}

static void test_rates(void **context)
{
	(void)context;
	history_add(&history, &sample);
	assert_true(isnan(last("served_per_second")));
	later(50);
	assert_true(fabs(last("served_per_second") - 10) < 1e-6);
	assert_true(fabs(last("forwarded_per_second")) < 1e-6);
	/* Another process of dprd counts anew, even when its count is higher. */
	sample.run = 8;
	later(50);
	assert_true(isnan(last("served_per_second")));
	later(5);
	assert_true(fabs(last("served_per_second") - 1) < 1e-6);
	sample.up = false;
	later(0);
	assert_true(isnan(last("served_per_second")));
	sample.up = true;
	later(5);
	assert_true(isnan(last("served_per_second")));
	later(-1);
	assert_true(isnan(last("served_per_second")));
}

static void test_imbalance(void **context)
{
	(void)context;
	set_member(0, "n1", 4, true);
	history_add(&history, &sample);
	assert_true(isnan(last("imbalance")));
	set_member(1, "n2", 2, true);
	set_member(2, "n3", 100, false);
	later(0);
	assert_true(fabs(last("imbalance") - 0.333) < 1e-6);
	set_member(1, "n2", 4, true);
	later(0);
	assert_true(fabs(last("imbalance")) < 1e-6);
	set_member(0, "n1", 0, true);
	set_member(1, "n2", 0, true);
	later(0);
	assert_true(fabs(last("imbalance")) < 1e-6);
}

static void test_ring(void **context)
{
	json_t *made;
	unsigned i;

	(void)context;
	set_member(0, "n1", 1, true);
	for (i = 0; i < 3 * HISTORY_POINTS; i++)
		later(i);
	made = history_json(&history);
	assert_int_equal(json_array_size(json_object_get(made, "at_ms")), HISTORY_POINTS);
	assert_true(fabs(last_of(made, "at_ms") - (double)sample.at_ms) < 1);
	assert_int_equal(json_integer_value(json_array_get(json_object_get(made, "at_ms"), 0)),
			 sample.at_ms - (HISTORY_POINTS - 1) * HISTORY_PERIOD_MS);
	assert_int_equal(json_array_size(json_object_get(json_array_get(json_object_get(made, "members"), 0), "load")),
			 HISTORY_POINTS);
	json_decref(made);
}

/* Names come and go by reloads; there are never more than MEMBERS_MAX, and a new one has nothing of an old one. */
static void test_names(void **context)
{
	char name[NAME_BYTES];
	json_t *made, *member;
	unsigned i;

	(void)context;
	for (i = 0; i < MEMBERS_MAX; i++) {
		snprintf(name, sizeof(name), "old%u", i);
		set_member(i, name, 1, true);
	}
	later(0);
	set_member(5, "fresh", 2, true);
	later(0);
	made = history_json(&history);
	assert_int_equal(json_array_size(json_object_get(made, "members")), MEMBERS_MAX);
	member = json_array_get(json_object_get(made, "members"), 5);
	assert_string_equal(json_string_value(json_object_get(member, "name")), "fresh");
	assert_true(json_is_null(json_array_get(json_object_get(member, "load"), 0)));
	assert_true(fabs(last_of(member, "load") - 2) < 1e-6);
	json_decref(made);
	sample.member_count = 0;
	for (i = 0; i < HISTORY_POINTS; i++)
		later(0);
	made = history_json(&history);
	assert_int_equal(json_array_size(json_object_get(made, "members")), 0);
	json_decref(made);
}

static void test_read(void **context)
{
	json_t *status = json_loads("{\"pid\": 7, \"totals\": {\"served\": 60}, \"counters\": {\"syns_taken\": 5},"
				    "\"decisions\": {\"chosen\": {\"count\": 30}, \"draining\": {\"count\": 3},"
				    "\"unhealthy\": {\"count\": 1}, \"known_flow\": {\"count\": 900}}, \"members\": ["
				    "{\"name\": \"n1\", \"self\": true, \"eligible\": false, \"load\": 4},"
				    "{\"name\": \"n2\", \"self\": false, \"eligible\": false, \"load\": 9},"
				    "{\"name\": \"n3\", \"self\": false, \"eligible\": true, \"load\": null}, 3]}",
				    0, NULL);

	(void)context;
	assert_non_null(status);
	history_read(status, 1, 2, &sample);
	assert_true(sample.up);
	assert_true(fabs(sample.total[HISTORY_SERVED] - 60) < 1e-9);
	assert_true(fabs(sample.total[HISTORY_FORWARDED] - 34) < 1e-9);
	assert_true(fabs(sample.total[HISTORY_TAKEN] - 5) < 1e-9);
	assert_int_equal(sample.member_count, 4);
	assert_true(fabs(sample.member[0].load - 4) < 1e-9);
	assert_false(sample.member[0].counts);
	/* The last words of a node that is not heard are old. */
	assert_true(isnan(sample.member[1].load));
	assert_true(sample.member[2].counts && isnan(sample.member[2].load));
	json_decref(status);
	history_read(NULL, 1, 2, &sample);
	assert_false(sample.up);
	assert_int_equal(sample.member_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_listen),
		cmocka_unit_test_setup(test_rates, start),
		cmocka_unit_test_setup(test_imbalance, start),
		cmocka_unit_test_setup(test_ring, start),
		cmocka_unit_test_setup(test_names, start),
		cmocka_unit_test_setup(test_read, start),
	};

	return cmocka_run_group_tests_name("web", tests, NULL, NULL);
}
