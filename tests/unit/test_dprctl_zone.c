// SPDX-License-Identifier: GPL-2.0-or-later
/* The DNS records of dprctl: only members that work, and never none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/dprctl_output.h"

#define MEMBER(name, self, state, why_not, addresses)                                                \
	"{'name':'" name "','self':" self ",'state':'" state "','eligible':false,'why_not':" why_not \
	",'address':'192.0.2.99','addresses':[" addresses "]}"
#define STATUS(more, members) "{'node':'n1','cluster':'web'," more ",'members':[" members "]}"

static const char fresh[] = "'table_fresh':true,'minority':false";

static json_t *status_with(const char *head, const char *members)
{
	char text[2048];

	snprintf(text, sizeof(text), STATUS("%s", "%s"), head, members);
	return json_of(text);
}

static void show(struct output *o, json_t *status, const char *name, enum zone_format format)
{
	open_output(o);
	render_zone(o->file, status, name, format);
	json_decref(status);
}

static const char three[] = MEMBER("n1", "true", "active", "null", "'192.0.2.11','2001:db8::11'") "," MEMBER(
	"n2", "false", "active", "'not heard'", "'192.0.2.12'") "," MEMBER("n3", "false", "active", "'weight 0'",
									   "'192.0.2.13'");

static void test_members_that_work(void **context)
{
	struct output o;

	(void)context;
	show(&o, status_with(fresh, three), "www.example.org.", ZONE_BIND);
	assert_string_equal(text_so_far(&o), "www.example.org.\t30\tIN\tA\t192.0.2.11 ; n1\n"
					     "www.example.org.\t30\tIN\tAAAA\t2001:db8::11 ; n1\n"
					     "; without n2: not heard\n"
					     "www.example.org.\t30\tIN\tA\t192.0.2.13 ; n3\n");
	close_output(&o);
	show(&o, status_with(fresh, three), "www.example.org.", ZONE_DNSMASQ);
	assert_string_equal(text_so_far(&o), "host-record=www.example.org,192.0.2.11,30\n"
					     "host-record=www.example.org,2001:db8::11,30\n"
					     "# without n2: not heard\n"
					     "host-record=www.example.org,192.0.2.13,30\n");
	close_output(&o);
	show(&o, status_with(fresh, three), "www", ZONE_HOSTS);
	assert_shows(&o, "2001:db8::11\twww # n1\n# without n2: not heard\n");
	close_output(&o);
	show(&o, status_with(fresh, three), "www", ZONE_JSON);
	assert_string_equal(text_so_far(&o),
			    "{\"schema\":\"dprd.zone/1\",\"node\":\"n1\",\"name\":\"www\",\"ttl_seconds\":30,"
			    "\"all\":false,\"all_because\":null,\"records\":["
			    "{\"type\":\"A\",\"address\":\"192.0.2.11\",\"member\":\"n1\"},"
			    "{\"type\":\"AAAA\",\"address\":\"2001:db8::11\",\"member\":\"n1\"},"
			    "{\"type\":\"A\",\"address\":\"192.0.2.13\",\"member\":\"n3\"}]}\n");
	close_output(&o);
}

static void assert_all(const char *head, const char *members, const char *because)
{
	struct output o;
	char line[128];

	snprintf(line, sizeof(line), "; %s: all members are listed\n", because);
	show(&o, status_with(head, members), "www", ZONE_BIND);
	assert_shows(&o, line);
	assert_shows(&o, "192.0.2.11 ; n1\n");
	assert_shows(&o, "192.0.2.12 ; n2\n");
	assert_hides(&o, "without");
	close_output(&o);
}

static void test_never_none(void **context)
{
	static const char none[] = MEMBER("n1", "true", "draining", "'draining'", "'192.0.2.11'") "," MEMBER(
		"n2", "false", "unhealthy", "'unhealthy'", "'192.0.2.12'");

	(void)context;
	assert_all(fresh, none, "no member works");
	assert_all("'table_fresh':true,'minority':true", three, "this node hears fewer than half of the members");
	assert_all("'table_fresh':false,'minority':false", three, "this node has no news of the other members");
}

static void test_reasons(void **context)
{
	static const struct {
		const char *why_not;
		bool listed;
	} reasons[] = { { "its dprd is not running", true },       { "does not hear this node", true },
			{ "path to it too narrow", true },         { "never heard", false },
			{ "two hosts use its name", false },       { "no host answers for its address", false },
			{ "its connections get no answer", false } };

	(void)context;
	for (unsigned i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		char members[1024], own[] = MEMBER("n1", "true", "active", "null", "'192.0.2.11'");
		struct output o;

		snprintf(members, sizeof(members),
			 "%s,{'name':'n2','self':false,'state':'active','eligible':false,'why_not':'%s',"
			 "'address':'192.0.2.12'}",
			 own, reasons[i].why_not);
		show(&o, status_with(fresh, members), "www", ZONE_BIND);
		if (reasons[i].listed)
			assert_shows(&o, "192.0.2.12 ; n2\n");
		else
			assert_shows(&o, "; without n2: ");
		assert_shows(&o, "192.0.2.11 ; n1\n");
		close_output(&o);
	}
}

static void test_names(void **context)
{
	static const char *const good[] = { "www", "www.example.org.", "@", "*.example.org", "_http._tcp", "a-b" };
	static const char *const bad[] = { "", "a b", "a..b", "-a", "a;b", "a\nb", "a@b", ".", "w*" };
	char longest[256];

	(void)context;
	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(zone_is_name(good[i]));
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(zone_is_name(bad[i]));
	memset(longest, 'a', 255);
	longest[254] = '\0';
	assert_false(zone_is_name(longest));
	longest[253] = '\0';
	assert_true(zone_is_name(longest));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_members_that_work),
		cmocka_unit_test(test_never_none),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
