// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl cluster: which views differ, in words; and the difference of two texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/dprctl_output.h"

static const struct style plain;

#define MEMBER(name, self, state, eligible, why_not, weight)                                                \
	"{'name':'" name "','self':" self ",'state':'" state "','eligible':" eligible ",'why_not':" why_not \
	",'weight':" weight "}"
#define UP(name, self) MEMBER(name, self, "active", "true", "null", "1")
#define NODE(name, offset, state, hash, version, members)                                                     \
	"{'name':'" name "','fault':null,'clock_offset_seconds':" offset ",'status':{'node':'" name           \
	"','cluster':'web','version':'" version "','state':'" state "','minority':false,'config_hash':'" hash \
	"','uptime_seconds':60,'warnings':[],'members':[" members "]}}"
#define CLUSTER(nodes) "{'schema':'dprd.cluster/1','node':'n1','nodes':[" nodes "]}"
#define GOOD(name, a, b, c) NODE(name, "0.0", "active", "aa", "1", UP("n1", a) "," UP("n2", b) "," UP("n3", c))

/* True and the texts, one below the other. */
static bool judge(const char *text, struct output *o)
{
	json_t *cluster = json_of(text);
	bool agree = cluster_judge(cluster);

	open_output(o);
	render_views(o->file, cluster, &plain);
	assert_int_equal(agree, flag_of(cluster, "agree"));
	json_decref(cluster);
	return agree;
}

static void test_all_agree(void **context)
{
	struct output o;

	(void)context;
	assert_true(judge(CLUSTER(GOOD("n1", "true", "false", "false") "," GOOD(
				  "n2", "false", "true", "false") "," GOOD("n3", "false", "false", "true")),
			  &o));
	assert_shows(&o, "  all nodes agree\n");
	assert_hides(&o, "!");
	assert_string_equal(line_of(&o, "> n1"),
			    "> n1     up             1 aa       1          1 min 0 s         0    0  3 up");
	close_output(&o);
}

static void test_who_sees_whom_as_what(void **context)
{
	struct output o;

	(void)context;
	assert_false(judge(
		CLUSTER(NODE(
			"n1", "0.0", "active", "aa", "1",
			UP("n1", "true") "," MEMBER("n2", "false", "active", "false", "'not heard'", "1") "," MEMBER(
				"n3", "false", "active", "false", "'not heard'",
				"1")) "," GOOD("n2", "false", "true", "false") "," GOOD("n3", "false", "false",
											"true")),
		&o));
	assert_shows(&o, "  ! n1 sees n2, n3 as LATE (not heard), which say of themselves: up\n");
	assert_hides(&o, "! n2");
	assert_hides(&o, "all nodes agree");
	close_output(&o);
	/* A draining node that all see so, and a weight of 0, are no disagreement; a member that a file lacks is one. */
	assert_false(judge(
		CLUSTER(NODE(
			"n1", "0.0", "active", "aa", "1",
			UP("n1", "true") "," MEMBER("n2", "false", "draining", "false", "'draining'", "1") "," MEMBER(
				"n3", "false", "active", "false", "'weight 0'",
				"0")) "," NODE("n2", "0.0", "draining", "aa", "1",
					       UP("n1", "false") "," MEMBER(
						       "n2", "true", "draining", "false", "'draining'",
						       "1")) "," NODE("n3", "0.0", "active", "aa", "1",
								      UP("n1", "false") "," MEMBER(
									      "n2", "false", "draining", "false",
									      "'draining'",
									      "1") "," MEMBER("n3", "true", "active",
											      "true", "null", "0"))),
		&o));
	assert_shows(&o, "  ! n2 sees n3 as no member (not in its dprd.conf), which say of themselves: up\n");
	assert_hides(&o, "! n1");
	assert_hides(&o, "! n3");
	close_output(&o);
}

static void test_other_facts(void **context)
{
	struct output o;

	(void)context;
	assert_false(judge(CLUSTER(GOOD("n1", "true", "false", "false") "," NODE(
				   "n2", "-7.5", "active", "bb", "2",
				   UP("n1", "false") "," MEMBER("n2", "true", "active", "true", "null", "5") "," UP(
					   "n3", "false")) ","
							   "{'name':'n3','fault':'it cannot be "
							   "reached','clock_offset_seconds':null,'status':null}"),
			   &o));
	assert_shows(&o, "  ! n3 does not answer: it cannot be reached\n");
	assert_shows(&o, "  n3     does not answer: it cannot be reached\n");
	assert_shows(&o, "  ! n1 gives n2 the weight 1, n2 itself 5\n");
	assert_shows(&o, "  ! the clock of n2 is 7.5 s behind this host's\n");
	assert_shows(&o, "  ! other members, addresses or ports in dprd.conf than most: n2\n");
	assert_shows(&o, "  note: another version of dprd than most: n2\n");
	close_output(&o);
}

static void test_clocks(void **context)
{
	(void)context;
	assert_true(cluster_clock_offset(10, 12, 11) == 0);
	assert_true(cluster_clock_offset(10, 12, 9.5) == -0.5);
	assert_true(cluster_clock_offset(10, 12, 13) == 1);
}

static void assert_diff(const char *old, const char *new, const char *wanted)
{
	struct output o;

	open_output(&o);
	render_diff(o.file, "f", old, new);
	assert_string_equal(text_so_far(&o), wanted);
	close_output(&o);
}

static void test_differences(void **context)
{
	(void)context;
	assert_diff("a\nb\n", "a\nb\n", "");
	assert_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n",
		    "--- f\n+++ f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n");
	assert_diff("a\n", "a\nb", "--- f\n+++ f\n@@ -1,1 +1,2 @@\n a\n+b\n\\ No newline at end of file\n");
	assert_diff("a\na\n", "a\na\na\n", "--- f\n+++ f\n@@ -1,2 +1,3 @@\n a\n a\n+a\n");
}

/* Another host's text cannot steer the terminal, at any depth, and stays text that JSON takes. */
static void test_texts_of_another_host(void **context)
{
	json_t *value = json_of("{'a':'n1\\u001b[2J','b':[1,{'c':['\\u009b','\\u00e4b\\u007f',null]}]}");
	char text[] = "x\033]0;\xe4\a", *made;

	(void)context;
	json_clean(value);
	made = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(made, "{\"a\":\"n1?[2J\",\"b\":[1,{\"c\":[\"??\",\"??b?\",null]}]}");
	free(made);
	json_decref(value);
	json_clean(NULL);
	text_clean(text);
	assert_string_equal(text, "x?]0;??");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_agree),   cmocka_unit_test(test_who_sees_whom_as_what),
		cmocka_unit_test(test_other_facts), cmocka_unit_test(test_clocks),
		cmocka_unit_test(test_differences), cmocka_unit_test(test_texts_of_another_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
