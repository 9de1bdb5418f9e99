// SPDX-License-Identifier: GPL-2.0-or-later
/* The output of dprctl for real servers: the table, a line of status, metrics. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/dprctl_output.h"

static const struct style plain;

static const char list_text[] =
	"[{'name':'b1','form':'nat','address_v4':'10.1.0.21','address_v6':'fd00::21','port':8080,'weight':2,"
	"'eligible':true,'why_not':null,'connections':17,'chosen':204,'mtu_v4':null,'mtu_v6':null},"
	"{'name':'tower','form':'tunnel','address_v4':'10.1.0.22','address_v6':null,'port':null,'weight':1,"
	"'eligible':false,'why_not':'unhealthy','connections':0,'chosen':12,'mtu_v4':1500,'mtu_v6':null},"
	"{'name':'b3','form':'direct','address_v4':null,'address_v6':'fd00::23','port':null,'weight':0,"
	"'eligible':false,'why_not':'weight 0','connections':3,'chosen':5,'mtu_v4':null,'mtu_v6':1500}]";

/* An answer of dprd with its list under this name. */
static json_t *answer_of(const char *list)
{
	json_t *answer = json_of("{'schema':'dprd.backends/1','node':'n1','policy':'wlc','serve_here':true,"
				 "'serves_here':true,'count':3,'usable':1,'connections':1020}");

	json_object_set_new(answer, list, json_of(list_text));
	return answer;
}

static void test_table(void **context)
{
	json_t *answer = answer_of("backends");
	struct style colour = { .colour = true, .no_heading = true };
	struct output o;

	(void)context;
	open_output(&o);
	render_backends(o.file, answer, &plain);
	assert_shows(&o, ": policy wlc; this node serves connections, too\n");
	assert_string_equal(line_of(&o, "  NAME"),
			    "  NAME   FORM   ADDRESS                        STATE     WEIGHT    OPEN    CHOSEN  NOTE");
	assert_string_equal(line_of(&o, "  b1"),
			    "  b1     nat    10.1.0.21:8080 [fd00::21]:8080 up             2      17       204");
	assert_string_equal(line_of(&o, "  tower"),
			    "  tower  tunnel 10.1.0.22                      unhealthy      1       0        12");
	assert_string_equal(
		line_of(&o, "  b3"),
		"  b3     direct fd00::23                       BARRED         0       3         5  weight 0");
	assert_hides(&o, "\033");
	close_output(&o);
	open_output(&o);
	render_backends(o.file, answer, &colour);
	assert_shows(&o, "\033[32mup       \033[0m");
	assert_shows(&o, "\033[31mBARRED   \033[0m");
	assert_hides(&o, "NAME");
	assert_hides(&o, "policy");
	close_output(&o);
	json_decref(answer);
}

static void test_none(void **context)
{
	json_t *answer = json_of("{'node':'n1','backends':[]}"), *nonsense = json_of("{'backends':[{},7]}");
	json_t *status = json_of("{'backends':null}");
	struct output o;

	(void)context;
	open_output(&o);
	render_backends(o.file, answer, &plain);
	assert_string_equal(text_so_far(&o), "no real servers behind n1\n");
	close_output(&o);
	open_output(&o);
	render_backends_line(o.file, status);
	assert_string_equal(text_so_far(&o), "");
	render_metrics(o.file, status);
	assert_hides(&o, "backend");
	close_output(&o);
	/* A value missing in the answer is shown as "?", never 0. */
	open_output(&o);
	render_backends(o.file, nonsense, &plain);
	assert_string_equal(line_of(&o, "  ?"), "  ?      ?      ?              BARRED         ?       ?         ?  ?");
	close_output(&o);
	json_decref(answer);
	json_decref(nonsense);
	json_decref(status);
}

static void test_line_of_status(void **context)
{
	json_t *status = json_of("{'decisions':{'backend':{'kind':'forward','count':221}}}"), *backends;
	struct output o;

	(void)context;
	backends = answer_of("list");
	json_object_set_new(status, "backends", backends);
	open_output(&o);
	render_status(o.file, status, &plain);
	assert_shows(&o, "\n  backends         1 of 3 real servers get new connections, 1 020 open; policy wlc; "
			 "this node serves connections, too\n");
	close_output(&o);
	json_object_set_new(backends, "serves_here", json_false());
	open_output(&o);
	render_status(o.file, status, &plain);
	assert_shows(&o, "; the web server of this node fails its health check\n");
	close_output(&o);
	json_object_set_new(backends, "serve_here", json_false());
	open_output(&o);
	render_status(o.file, status, &plain);
	assert_shows(&o, "; this node itself serves no connections\n");
	close_output(&o);
	json_decref(status);
}

static void test_metrics(void **context)
{
	json_t *status = json_of("{'decisions':{'backend':{'kind':'forward','count':221}}}");
	struct output o;

	(void)context;
	json_object_set_new(status, "backends", answer_of("list"));
	open_output(&o);
	render_metrics(o.file, status);
	assert_shows(&o, "# TYPE dprd_backend_up gauge\ndprd_backend_up{backend=\"b1\"} 1\n"
			 "dprd_backend_up{backend=\"tower\"} 0\n");
	assert_shows(&o, "dprd_backend_weight{backend=\"b1\"} 2\n");
	assert_shows(&o, "dprd_backend_connections{backend=\"b1\"} 17\n");
	assert_shows(&o, "# TYPE dprd_backend_chosen_total counter\ndprd_backend_chosen_total{backend=\"b1\"} 204\n");
	assert_shows(&o, "dprd_connections_total{action=\"real_server\"} 221\n");
	close_output(&o);
	json_decref(status);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_line_of_status),
		cmocka_unit_test(test_metrics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
