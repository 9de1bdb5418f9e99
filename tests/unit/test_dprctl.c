// SPDX-License-Identifier: GPL-2.0-or-later
/* The output of dprctl for an answer, and its reading of addresses and numbers. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/unit/dprctl_output.h"

static const struct style plain;

static const char status_text[] =
	"{'schema':'dprd.status/1','node':'n1','cluster':'web','version':'0.1.0','pid':12,'uptime_seconds':273120,"
	"'datapath':'nfqueue','policy':'li','policy_threshold':true,'load_metric':'connections','ports':[80,8080],"
	"'state':'active','config_hash':'00c0ffee','own_load':24,'max_load':20.5,'max_load_auto':true,'announce_period_"
	"ms':200,"
	"'table_age_ms':120,'law_holds':true,'arrivals_per_second':468.25,'announcements_rejected':7,"
	"'served_undecided':2000000,'strangers_dropped':null,"
	"'totals':{'seen':1234567,'served':1000000,'forwarded':234000,'passed':500,'dropped':60,'decapsulated':7},"
	"'decisions':{'chosen':{'kind':'forward','count':40},'draining':{'kind':'forward','count':2},"
	"'same_syn':{'kind':'forward','count':5},'below_max_load':{'kind':'serve','count':1000000}},"
	"'counters':{'syns':468000,'queue_overruns':3,'forward_bytes':99},"
	"'flows':{'half_open':12,'confirmed':1314,'max_half_open':16384,'max_confirmed':65536},"
	"'members':["
	"{'name':'n1','self':true,'state':'active','eligible':true,'why_not':null,'address':'192.0.2.11','weight':1,"
	"'load':24,'open_connections':24,'cpu_ratio':0.61,'redirected':206,'accept_queue':0,"
	"'arrivals_per_second':468,'age_ms':0},"
	"{'name':'n2','self':false,'state':'active','eligible':true,'why_not':null,'address':'192.0.2.12','weight':1,"
	"'load':12,'open_connections':12,'cpu_ratio':0.482,'redirected':0,'accept_queue':1,'arrivals_per_second':117,"
	"'age_ms':700,'echo_age_ms':210,'sent_since':3,'tunnel_mtu_v4':1480,'tunnel_mtu_v6':null,"
	"'cluster_address':'10.0.0.12','version':'0.2.0-rc1','config_hash':'00c0ffef','forwarded_v4':17,"
	"'forwarded_v6':0,'ports_down':[8080],'rejected':null},"
	"{'name':'n3','self':false,'state':'active','eligible':false,'why_not':'not heard','address':'192.0.2.13',"
	"'weight':1,'load':9,'open_connections':9,'cpu_ratio':0.47,'redirected':0,'age_ms':3200,'rejected':'key'},"
	"{'name':'n4','self':false,'state':'active','eligible':false,'why_not':'does not hear this node',"
	"'address':'192.0.2.14','weight':1,'load':2,'open_connections':2,'age_ms':100,'rejects':'address'}],"
	"'decision_times':{'buckets':[{'seconds':1.6e-05,'count':3},{'seconds':3.2e-05,'count':5}],'count':6,"
	"'seconds':0.25},"
	"'warnings':[{'text':'n3 has not announced for 3.2 s','advice':'on n3: systemctl status loadcast'}],"
	"'notes':['members run other versions than this dprd (0.1.0): n2 0.2.0-rc1']}";

static void test_status_text(void **context)
{
	json_t *status = json_of(status_text);
	struct output o;

	(void)context;
	open_output(&o);
	render_status(o.file, status, &plain);
	assert_shows(&o, "* n1   dprd 0.1.0, up 3 d 3 h, nfqueue, policy li, load connections, port 80 8080\n");
	assert_shows(&o, "cluster \"web\"   2 of 4 members up; announcements every 200 ms; table 0.1s old\n");
	assert_shows(&o, "deciding         the policy chooses: MaxLoad is reached\n");
	assert_shows(&o, "24 here, MaxLoad 20.5 (auto); least loaded n2 with 12 (0.7s old)\n");
	assert_shows(&o,
		     "flows    1 314 of 65 536, half-open 12 of 16 384   SYNs 468 000, 468.2/s   queue overruns 3\n");
	assert_shows(&o, "packets  1 234 567 seen = 1 000 000 served + 234 000 forwarded + 500 passed + 60 dropped + "
			 "7 decapsulated\n");
	assert_string_equal(
		line_of(&o, "> n1"),
		"> n1     192.0.2.11     up             -      24     24       468    206      0   61%       1");
	assert_string_equal(
		line_of(&o, "  n2"),
		"  n2     192.0.2.12     up          0.7s      12     12       117      0      1   48%       1");
	/* Old values of a silent node are not shown as new. */
	assert_string_equal(
		line_of(&o, "  n3"),
		"  n3     192.0.2.13     LATE        3.2s       ?      ?         ?      ?      ?     ?       1"
		"  not heard");
	assert_string_equal(
		line_of(&o, "  n4"),
		"  n4     192.0.2.14     BARRED      0.1s       2      2         ?      ?      ?     ?       1"
		"  does not hear this node");
	assert_string_equal(strrchr(line_of(&o, "  ! "), '!'),
			    "! n3 has not announced for 3.2 s. on n3: systemctl status loadcast");
	assert_string_equal(line_of(&o, "  note: "),
			    "  note: members run other versions than this dprd (0.1.0): n2 0.2.0-rc1");
	assert_hides(&o, "no warnings");
	assert_hides(&o, "\033");
	close_output(&o);
	json_decref(status);
}

/* A member that is a choice for one family only says so. */
static void test_one_family(void **context)
{
	json_t *status = json_of(status_text), *n2 = json_array_get(json_object_get(status, "members"), 1);
	struct output o;

	(void)context;
	json_object_set_new(n2, "answers_v4", json_true());
	json_object_set_new(n2, "answers_v6", json_false());
	open_output(&o);
	render_status(o.file, status, &plain);
	assert_string_equal(
		line_of(&o, "  n2"),
		"  n2     192.0.2.12     up          0.7s      12     12       117      0      1   48%       1"
		"  not over IPv6");
	close_output(&o);
	json_decref(status);
}

static void test_status_colours_and_headings(void **context)
{
	json_t *status = json_of(status_text);
	struct style style = { .colour = true, .no_heading = true };
	struct output o;

	(void)context;
	json_array_clear(json_object_get(status, "warnings"));
	open_output(&o);
	render_status(o.file, status, &style);
	assert_shows(&o, "\033[32mup       \033[0m");
	assert_shows(&o, "\033[31mLATE     \033[0m");
	assert_hides(&o, "NODE");
	assert_hides(&o, "cluster");
	assert_hides(&o, "note");
	close_output(&o);
	open_output(&o);
	render_status(o.file, status, &plain);
	assert_shows(&o, "\n  no warnings\n");
	close_output(&o);
	json_decref(status);
}

/* An empty answer shows only question marks, never zeros. */
static void test_status_of_nothing(void **context)
{
	json_t *status = json_of("{'schema':'dprd.status/1','members':[{},7,{'name':'n2','load':'x'}]}");
	struct output o;

	(void)context;
	open_output(&o);
	render_status(o.file, status, &plain);
	render_peers(o.file, json_object_get(status, "members"), &plain);
	render_metrics(o.file, status);
	assert_shows(&o, "flows    ? of ?");
	assert_shows(&o, "is NOT");
	assert_hides(&o, " nan");
	close_output(&o);
	json_decref(status);
}

static void test_deciding(void **context)
{
	static const struct {
		const char *key, *value, *shows;
	} cases[] = {
		{ "own_load", "3", "serve here: the load of this node is below MaxLoad" },
		{ "state", "'draining'", "forward: this node drains" },
		{ "state", "'unhealthy'", "forward: this node's web server fails" },
		{ "minority", "true", "serve here: fewer than half" },
		{ "policy", "'local'", "serve here: policy local" },
		{ "policy_threshold", "false", "the policy chooses" },
		{ "members", "[]", "serve here: no peer may take" },
	};
	unsigned i;

	(void)context;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *status = json_of(status_text), *value;
		char wrapped[64];
		struct output o;

		snprintf(wrapped, sizeof(wrapped), "[%s]", cases[i].value);
		value = json_of(wrapped);
		json_object_set(status, cases[i].key, json_array_get(value, 0));
		open_output(&o);
		render_status(o.file, status, &plain);
		assert_shows(&o, cases[i].shows);
		close_output(&o);
		json_decref(value);
		json_decref(status);
	}
}

static void test_peers_text(void **context)
{
	json_t *status = json_of(status_text);
	const json_t *members = json_object_get(status, "members");
	struct output o;

	(void)context;
	open_output(&o);
	render_peers(o.file, members, &plain);
	render_notes(o.file, status, &plain);
	assert_shows(&o, "  note: members run other versions");
	assert_shows(&o, "ECHO");
	assert_string_equal(line_of(&o, "  n2"),
			    "  n2     10.0.0.12      up          0.7s   0.2s      12     3       1"
			    "     12       117      0        ?      1   48%   1480      ?   0.2.0-rc1");
	close_output(&o);
	open_output(&o);
	render_peers_dump(o.file, members);
	assert_string_equal(line_of(&o, "n2"),
			    "n2\tno\tactive\tyes\t-\t192.0.2.12\t10.0.0.12\t1\t12\t12\t0.482\t0\t?\t1"
			    "\t117\t700\t210\t3\t1480\t?\t0.2.0-rc1");
	close_output(&o);
	json_decref(status);
}

static void test_flows_text(void **context)
{
	json_t *flow = json_of("{'client':'203.0.113.7','client_port':50122,'service':'2001:db8::11',"
			       "'service_port':80,'node':'n3','state':'confirmed','idle_ms':1234}");
	json_t *end = json_of("{'schema':'dprd.flows/1','node':'n1','shown':2,'total':1314}");
	struct output o;

	(void)context;
	open_output(&o);
	render_flow_heading(o.file);
	render_flow(o.file, flow);
	render_flows_end(o.file, end);
	assert_string_equal(line_of(&o, "203"),
			    "203.0.113.7:50122          [2001:db8::11]:80          n3           confirmed      1.2s");
	assert_shows(&o, "2 of 1 314 that n1 forwards shown\n");
	close_output(&o);
	json_decref(flow);
	json_decref(end);
}

static void test_why_text(void **context)
{
	json_t *answer = json_of(
		"{'node':'n1','decisions':[{'age_ms':2500,'client':'203.0.113.7','client_port':50122,"
		"'service':'192.0.2.11','service_port':80,'verdict':'forward','reason':'chosen',"
		"'reason_text':'the policy chose a peer','policy':'li','threshold':true,'own_load':24,'max_load':20,"
		"'min_advantage':0,'target':'n3','peers':[{'name':'n3','load':9,'age_ms':400,'sent_since':0,'eligible':"
		"true},"
		"{'name':'n2','load':12.5,'age_ms':700,'sent_since':3,'eligible':true},"
		"{'name':'n4','load':1,'age_ms':90000,'sent_since':0,'eligible':false}]},"
		"{'age_ms':9000,'client':'203.0.113.7','client_port':1,'service':'192.0.2.11','service_port':80,"
		"'verdict':'serve','reason':'no_peer','reason_text':'no peer may take "
		"it','policy':'li','threshold':false,"
		"'own_load':1,'peers':[]}]}");
	struct output o;

	(void)context;
	setenv("TZ", "UTC", 1);
	tzset();
	open_output(&o);
	assert_int_equal(render_why(o.file, answer, 1000000002.5 + 0.25), 2);
	assert_string_equal(text_so_far(&o),
			    "2001-09-09 01:46:40.250 on n1: SYN of 203.0.113.7:50122 to 192.0.2.11:80 forwarded to n3: "
			    "the policy chose a peer (chosen).\n"
			    "  Policy li; own load 24, MaxLoad 20; table: n3 9 (0.4s old), n2 12.50 (0.7s old, 3 sent "
			    "since), n4 1 (barred, 90.0s old).\n"
			    "\n"
			    "2001-09-09 01:46:33.750 on n1: SYN of 203.0.113.7:1 to 192.0.2.11:80 served here: "
			    "no peer may take it (no_peer).\n"
			    "  Policy li; own load 1; no peer in the table.\n");
	close_output(&o);
	json_decref(answer);
}

static void test_metrics(void **context)
{
	json_t *status = json_of(status_text);
	struct output o;

	(void)context;
	json_object_set_new(status, "cluster", json_string("a\"b\\c\nd"));
	open_output(&o);
	render_metrics(o.file, status);
	assert_shows(&o, "dprd_info{node=\"n1\",cluster=\"a\\\"b\\\\c\\nd\",version=\"0.1.0\",policy=\"li\","
			 "load_metric=\"connections\",plane=\"nfqueue\",state=\"active\",config=\"00c0ffee\"} 1\n");
	assert_shows(&o, "# TYPE dprd_up gauge\ndprd_up 1\n");
	assert_shows(&o, "dprd_member_info{member=\"n1\",state=\"active\",version=\"");
	assert_shows(&o,
		     "dprd_member_info{member=\"n2\",state=\"active\",version=\"0.2.0-rc1\",config=\"00c0ffef\"} 1\n");
	assert_shows(&o, "dprd_forwarded_total{member=\"n2\",family=\"ipv4\"} 17\n");
	assert_shows(&o, "dprd_forwarded_total{member=\"n2\",family=\"ipv6\"} 0\n");
	assert_hides(&o, "dprd_forwarded_total{member=\"n1\""); /* itself */
	assert_shows(&o, "dprd_member_port_up{member=\"n1\",port=\"8080\"} 1\n");
	assert_shows(&o, "dprd_member_port_up{member=\"n2\",port=\"80\"} 1\n");
	assert_shows(&o, "dprd_member_port_up{member=\"n2\",port=\"8080\"} 0\n");
	assert_hides(&o, "dprd_member_port_up{member=\"n3\""); /* it is silent */
	assert_shows(&o, "dprd_member_rejected{member=\"n3\",direction=\"from\",cause=\"key\"} 1\n");
	assert_shows(&o, "dprd_member_rejected{member=\"n4\",direction=\"to\",cause=\"address\"} 1\n");
	assert_hides(&o, "dprd_member_rejected{member=\"n2\"");
	assert_shows(&o, "# TYPE dprd_decision_seconds histogram\n");
	assert_shows(&o, "dprd_decision_seconds_bucket{le=\"1.6e-05\"} 3\n"
			 "dprd_decision_seconds_bucket{le=\"3.2e-05\"} 5\n"
			 "dprd_decision_seconds_bucket{le=\"+Inf\"} 6\n"
			 "dprd_decision_seconds_sum 0.25\ndprd_decision_seconds_count 6\n");
	assert_shows(&o, "# TYPE dprd_member_up gauge\ndprd_member_up{member=\"n1\"} 1\n");
	assert_shows(&o, "dprd_member_up{member=\"n3\"} 0\n");
	assert_shows(&o, "dprd_member_announce_age_seconds{member=\"n3\"} 3.2\n");
	assert_shows(&o, "dprd_connections_total{action=\"served\"} 1000000\n");
	assert_shows(&o, "dprd_connections_total{action=\"forwarded\"} 42\n");
	assert_shows(&o, "dprd_decisions_total{reason=\"same_syn\",verdict=\"forward\"} 5\n");
	assert_shows(&o, "dprd_packets_total{verdict=\"forwarded\"} 234000\n");
	assert_shows(&o, "dprd_flows{state=\"confirmed\"} 1314\n");
	assert_shows(&o, "dprd_announcements_rejected_total 7\n");
	assert_shows(&o, "dprd_served_undecided_total 2000000\n");
	assert_hides(&o, "dprd_strangers_dropped_total 0");
	assert_shows(&o, "dprd_forwarded_bytes_total 99\n");
	assert_hides(&o, "dprd_decapsulated_bytes_total 0"); /* the answer did not say */
	close_output(&o);
	json_decref(status);
}

static const char shared_text[] = "{'form':'bpf','why':'the kernel module is not loaded','lease_ms':640,'percent':33.3,"
				  "'addresses':[{'address':'192.0.2.100','mac':'01:00:5e:00:02:64','interface':'eth0'},"
				  "{'address':'2001:db8::100','mac':'33:33:00:00:01:00','interface':'eth1'}],"
				  "'members':[{'name':'n1','self':true,'weight':1,'percent':33.3},"
				  "{'name':'n2','self':false,'weight':2,'percent':66.7}],"
				  "'counters':{'accept_syn':17,'refuse_syn':34,'refuse_socket':900}}";

static void test_shared(void **context)
{
	json_t *status = json_of(status_text), *shared = json_of(shared_text);
	struct output o;

	(void)context;
	json_object_set_new(status, "shared", json_null());
	open_output(&o);
	render_status(o.file, status, &plain);
	render_metrics(o.file, status);
	assert_hides(&o, "shared");
	close_output(&o);

	json_object_set_new(status, "shared", shared);
	open_output(&o);
	render_status(o.file, status, &plain);
	render_metrics(o.file, status);
	assert_shows(&o, "  shared           192.0.2.100 at 01:00:5e:00:02:64 on eth0\n"
			 "                   2001:db8::100 at 33:33:00:00:01:00 on eth1\n"
			 "                   by bpf: the kernel module is not loaded\n"
			 "                   lease for 640 ms, own share 33.3 %; n1 33.3 %, n2 66.7 %\n");
	assert_shows(&o, "dprd_shared_share_ratio 0.333\n");
	assert_shows(&o, "dprd_shared_lease_seconds 0.64\n");
	assert_shows(&o, "dprd_shared_frames_total{verdict=\"refuse_socket\"} 900\n");
	close_output(&o);

	json_object_set_new(shared, "lease_ms", json_null());
	open_output(&o);
	render_status(o.file, status, &plain);
	assert_shows(&o, "no lease: this node accepts no new connection; n1 33.3 %");
	close_output(&o);
	json_decref(status);
}

static void test_endpoints(void **context)
{
	static const struct {
		const char *text, *client; /* client NULL: refused */
		unsigned port;
		bool prefix;
	} cases[] = {
		{ "203.0.113.7:50122", "203.0.113.7", 50122, false },
		{ "203.0.113.7", "203.0.113.7", 0, false },
		{ "[2001:db8::7]:50122", "2001:db8::7", 50122, false },
		{ "[2001:db8::7]", "2001:db8::7", 0, false },
		{ "2001:db8::7", "2001:db8::7", 0, false },
		{ "203.0.113.0/24", "203.0.113.0/24", 0, true },
		{ "203.0.113.0/24:80", "203.0.113.0/24", 80, true },
		{ "[2001:db8::/32]:80", "2001:db8::/32", 80, true },
		{ "2001:db8::/32", "2001:db8::/32", 0, true },
		{ "203.0.113.0/24", NULL, 0, false },
		{ "203.0.113.0/33", NULL, 0, true },
		{ "203.0.113.0/", NULL, 0, true },
		{ "203.0.113.7:", NULL, 0, false },
		{ "203.0.113.7:0", NULL, 0, false },
		{ "203.0.113.7:65536", NULL, 0, false },
		{ "203.0.113.7:-1", NULL, 0, false },
		{ "203.0.113.7:80x", NULL, 0, false },
		{ "203.0.113.7:99999999999999999999", NULL, 0, false },
		{ "[2001:db8::7", NULL, 0, false },
		{ "[2001:db8::7]80", NULL, 0, false },
		{ "[]:80", NULL, 0, false },
		{ "", NULL, 0, false },
		{ ":80", NULL, 0, false },
		{ "www:80", NULL, 0, false },
		{ "11111111111111111111111111111111111111111111111111111111111111111111111111111", NULL, 0, false },
	};
	struct endpoint found;
	unsigned i;

	(void)context;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool good = parse_endpoint(cases[i].text, cases[i].prefix, &found);

		if (good != !!cases[i].client ||
		    (good && (strcmp(found.client, cases[i].client) != 0 || found.port != cases[i].port)))
			fail_msg("%s", cases[i].text);
	}
}

static void test_counts(void **context)
{
	unsigned long value = 7;

	(void)context;
	assert_true(parse_count("0", 10, &value));
	assert_int_equal(value, 0);
	assert_true(parse_count("10", 10, &value));
	assert_int_equal(value, 10);
	assert_false(parse_count("11", 10, &value));
	assert_false(parse_count("", 10, &value));
	assert_false(parse_count("+1", 10, &value));
	assert_false(parse_count("18446744073709551616", ~0UL, &value));
}

static void test_served_connections(void **context)
{
	static const char tcp[] =
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
		"   0: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0\n"
		"   1: 0B0200C0:0050 077100CB:C3CA 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0\n"
		"   2: 0B0200C0:0050 077100CB:C3CB 06 00000000:00000000 00:00000000 00000000     0        0 3 1 0\n"
		"   3: 0B0200C0:0016 077100CB:C3CC 01 00000000:00000000 00:00000000 00000000     0        0 4 1 0\n"
		"   4: 0B0200C0:1F90 077100CB:C3CD 08 00000000:00000000 00:00000000 00000000     0        0 5 1 0\n"
		"   5: 0000000000000000FFFF00000B0200C0:0050 0000000000000000FFFF0000077100CB:D431 01 0:0 00:0 0 0 0 "
		"6\n"
		"nonsense\n";
	static const uint16_t ports[] = { 80, 8080 };
	FILE *file = fmemopen((void *)(uintptr_t)tcp, sizeof(tcp) - 1, "r");

	(void)context;
	assert_non_null(file);
	assert_int_equal(count_served(file, ports, 2), 3);
	fclose(file);
}

/* "?" stands for a value that is unknown or not a number. */
static void test_cells(void **context)
{
	json_t *known = json_of("{'age_ms':3249,'old_ms':250000,'count':1234567,'ratio':0.47,'half':0.5}");
	json_t *unknown = json_of("{'age_ms':null,'count':'7','ratio':1e9}");
	char cell[CELL_BYTES];

	(void)context;
	assert_string_equal(cell_age(cell, known, "age_ms"), "3.2s");
	assert_string_equal(cell_age(cell, known, "old_ms"), "250s");
	assert_string_equal(cell_age(cell, unknown, "age_ms"), "?");
	assert_string_equal(cell_age(cell, unknown, "absent"), "?");
	assert_string_equal(cell_grouped(cell, known, "count"), "1 234 567");
	assert_string_equal(cell_grouped(cell, unknown, "count"), "?");
	assert_string_equal(cell_percent(cell, known, "ratio"), "47%");
	assert_string_equal(cell_percent(cell, unknown, "ratio"), "?");
	assert_string_equal(cell_number(cell, known, "half", 1), "0.5");
	assert_string_equal(cell_number(cell, unknown, "age_ms", 1), "?");
	json_decref(known);
	json_decref(unknown);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_status_text),
		cmocka_unit_test(test_one_family),
		cmocka_unit_test(test_status_colours_and_headings),
		cmocka_unit_test(test_status_of_nothing),
		cmocka_unit_test(test_deciding),
		cmocka_unit_test(test_peers_text),
		cmocka_unit_test(test_flows_text),
		cmocka_unit_test(test_why_text),
		cmocka_unit_test(test_metrics),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_endpoints),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_cells),
		cmocka_unit_test(test_served_connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
