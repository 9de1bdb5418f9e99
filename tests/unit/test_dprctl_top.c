// SPDX-License-Identifier: GPL-2.0-or-later
/* The lines of dprctl top: rates, quantiles, order, and widths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/dprctl_output.h"

#define BUCKETS(a, b, all)                                                                                             \
	"'decision_times':{'buckets':[{'seconds':1.6e-05,'count':" a "},{'seconds':0.002,'count':" b "}],'count':" all \
	"}"

static const char earlier[] = "{'node':'n1','cluster':'web','counters':{'syns_taken':100}," BUCKETS(
	"10", "10",
	"10") ","
	      "'members':[{'name':'n1','self':true},{'name':'n2','self':false,'forwarded_v4':10,'forwarded_v6':5}]}";
static const char later[] =
	"{'node':'n1','cluster':'web','state':'active','policy':'li','warnings':[{}],'arrivals_per_second':468.25,"
	"'counters':{'syns_taken':142}," BUCKETS(
		"60", "109",
		"110") ","
		       "'members':["
		       "{'name':'n1','self':true,'state':'active','eligible':false,'why_not':null,'load':10,'open_"
		       "connections':11,"
		       "'redirected':7,'arrivals_per_second':468,'age_ms':0},"
		       "{'name':'n2','self':false,'state':'active','eligible':true,'why_not':null,'load':20,'open_"
		       "connections':9,"
		       "'redirected':0,'arrivals_per_second':50,'age_ms':100,'forwarded_v4':30,'forwarded_v6':7},"
		       "{'name':'n3','self':false,'state':'active','eligible':false,'why_not':'not heard','load':5,"
		       "'open_connections':99,'age_ms':4000}]}";

static struct top_lines lines;

static void make(const struct top *top, int width)
{
	top_lines(top, width, &lines);
}

static void assert_line(unsigned i, const char *wanted)
{
	assert_true(i < lines.count);
	assert_string_equal(lines.line[i].text, wanted);
}

static void test_rates(void **context)
{
	json_t *before = json_of(earlier), *now = json_of(later);
	const struct top top = { .now = now, .before = before, .seconds = 2 };

	(void)context;
	make(&top, 80);
	assert_line(0, "web on n1: active, 2 of 3 members up, 1 warnings, policy li");
	assert_line(1, "here: 468.2 new/s, 21.0/s taken from peers; decisions p50 16us, p99 2.0ms; sorted by file");
	assert_line(3, ">n1     up             468     11      10 |#######      |      7        -      -");
	assert_line(4, " n2     up              50      9      20 |#############|      0     11.0   0.1s");
	/* A silent member's numbers are old. */
	assert_line(5, " n3     LATE             ?      ?       ?                      ?        ?   4.0s");
	assert_int_equal(lines.first, 3);
	assert_int_equal(lines.line[4].look, TOP_GOOD);
	assert_int_equal(lines.line[5].look, TOP_BAD);
	json_decref(before);
	json_decref(now);
}

/* At first, and when dprd was started anew: counters begin at 0. */
static void test_no_rates(void **context)
{
	json_t *before = json_of(later), *now = json_of(earlier);
	const struct top first = { .now = now }, anew = { .now = now, .before = before, .seconds = 2, .fault = true };

	(void)context;
	make(&first, 80);
	assert_non_null(strstr(lines.line[1].text, ", ?/s taken from peers; decisions p50 -, p99 -;"));
	make(&anew, 80);
	assert_non_null(strstr(lines.line[1].text, ", ?/s taken from peers; decisions p50 -, p99 -;"));
	assert_non_null(strstr(lines.line[0].text, "dprd DOES NOT ANSWER"));
	json_decref(before);
	json_decref(now);
}

static void test_quantiles(void **context)
{
	json_t *before = json_of(earlier), *now = json_of(later);

	(void)context;
	assert_true(top_quantile_s(now, before, 0.5) == 1.6e-05);
	assert_true(top_quantile_s(now, before, 0.51) == 0.002);
	assert_true(isinf(top_quantile_s(now, before, 1)));
	assert_true(isnan(top_quantile_s(now, NULL, 0.5)));
	assert_true(isnan(top_quantile_s(now, now, 0.5)));
	json_decref(before);
	json_decref(now);
}

static void test_orders(void **context)
{
	static const char *const wanted[TOP_ORDERS] = { "n1n2n3", "n2n1n3", "n3n1n2", "n1n2n3" };
	json_t *now = json_of(later);

	(void)context;
	for (unsigned order = 0; order < TOP_ORDERS; order++) {
		const json_t *list[MEMBERS_MAX];
		char names[16] = "";

		assert_int_equal(top_list(now, order, list), 3);
		for (unsigned i = 0; i < 3; i++)
			strcat(names, text_of(list[i], "name"));
		assert_string_equal(names, wanted[order]);
	}
	json_decref(now);
}

/* No line is wider than the terminal by more than what a narrow one cuts off, and there is no bar without room. */
static void test_widths(void **context)
{
	json_t *now = json_of(later);
	const struct top top = { .now = now };

	(void)context;
	for (int width = 1; width < 400; width++) {
		make(&top, width);
		assert_int_equal(lines.count, 6);
		assert_int_equal(strlen(lines.line[3].text), strlen(lines.line[4].text));
		assert_int_equal(strlen(lines.line[2].text), strlen(lines.line[5].text));
		if (width >= 66)
			assert_true((int)strlen(lines.line[3].text) <= width);
		assert_int_equal(strchr(lines.line[3].text, '|') != NULL, width >= 73);
	}
	json_decref(now);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rates),  cmocka_unit_test(test_no_rates), cmocka_unit_test(test_quantiles),
		cmocka_unit_test(test_orders), cmocka_unit_test(test_widths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
