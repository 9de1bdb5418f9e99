// SPDX-License-Identifier: GPL-2.0-or-later
/* Answers of dprd's control socket: to good requests, to bad ones, and to clients without rights. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/upkeep/upkeep.h"
#include "tests/unit/control_ask.h"

static bool has_warning(const json_t *status, const char *part)
{
	const json_t *warning;
	size_t i;

	json_array_foreach(json_object_get(status, "warnings"), i, warning)
	{
		assert_true(strlen(text_at(warning, "advice")) > 0);
		if (strstr(text_at(warning, "text"), part))
			return true;
	}
	return false;
}

static const json_t *member_at(const json_t *status, size_t index)
{
	return json_array_get(json_object_get(status, "members"), index);
}

static void test_status_members(void **context)
{
	const json_t *status = ask("{\"command\":\"status\"}"), *n2, *n3, *n4;
	json_t *copy = json_deep_copy(status);

	(void)context;
	/* The schema comes first, so that a reader knows what follows. */
	assert_string_equal(json_object_iter_key(json_object_iter(copy)), "schema");
	json_decref(copy);
	assert_string_equal(text_at(status, "schema"), "dprd.status/1");
	assert_string_equal(text_at(status, "node"), "n1");
	assert_string_equal(text_at(status, "state"), "active");
	assert_int_equal(json_array_size(json_object_get(status, "members")), 4);
	assert_true(json_is_true(json_object_get(member_at(status, 0), "self")));
	n2 = member_at(status, 1);
	assert_true(json_is_true(json_object_get(n2, "eligible")));
	assert_true(json_is_null(json_object_get(n2, "why_not")));
	assert_int_equal(number_at(n2, "open_connections"), 14);
	assert_int_equal(number_at(n2, "tunnel_mtu_v4"), 1480);
	assert_true(json_is_null(json_object_get(n2, "tunnel_mtu_v6")));
	assert_string_equal(text_at(n2, "cluster_address"), "10.0.0.12");
	n3 = member_at(status, 2);
	assert_true(json_is_false(json_object_get(n3, "eligible")));
	assert_string_equal(text_at(n3, "why_not"), "does not hear this node");
	assert_true(json_is_null(json_object_get(n3, "echo_age_ms")));
	n4 = member_at(status, 3);
	assert_string_equal(text_at(n4, "why_not"), "not heard");
	assert_in_range(number_at(n4, "age_ms"), 3200, 5000);
}

/* An operator who asks from a shell on the wrong host sees it in every answer. */
static void test_every_answer_names_its_node(void **context)
{
	static const char *const names[] = {
#define X(name, argument, rights, options, help) #name,
		COMMANDS_OF_DPRD(X)
#undef X
	};
	char request[120];
	unsigned i;

	(void)context;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const json_t *lines, *last;

		snprintf(request, sizeof(request), "{\"command\":\"%s\",\"client\":\"203.0.113.7\"}", names[i]);
		last = ask(request);
		if (answer.listing.active) {
			do {
				json_decref(answer.line);
				answer.line = control_listing_next(&d, &answer.listing);
			} while (answer.listing.active);
			lines = answer.line;
			last = json_array_get(lines, json_array_size(lines) - 1);
		}
		assert_non_null(last);
		assert_string_equal(text_at(last, "node"), "n1");
	}
}

static void test_status_unknown_is_null(void **context)
{
	const json_t *n4;

	(void)context;
	d.table.nodes[3].age_ms = LOAD_AGE_NEVER_MS;
	n4 = member_at(ask("{\"command\":\"status\"}"), 3);
	assert_true(json_is_null(json_object_get(n4, "age_ms")));
	assert_true(json_is_null(json_object_get(n4, "load")));
	assert_true(json_is_null(json_object_get(n4, "cpu_ratio")));
	assert_string_equal(text_at(n4, "state"), "unknown");
}

static void test_status_law(void **context)
{
	const json_t *status, *totals, *counters, *decisions;

	(void)context;
	d.counters.seen = 15;
	d.counters.reason[REASON_BELOW_MAX_LOAD] = 1;
	d.counters.reason[REASON_CHOSEN] = 2;
	d.counters.reason[REASON_OTHER] = 3;
	d.counters.reason[REASON_NOT_PEER] = 4;
	d.counters.reason[REASON_FROM_PEER] = 5;
	status = ask("{\"command\":\"status\"}");
	totals = json_object_get(status, "totals");
	assert_int_equal(number_at(totals, "served"), 1);
	assert_int_equal(number_at(totals, "forwarded"), 2);
	assert_int_equal(number_at(totals, "passed"), 3);
	assert_int_equal(number_at(totals, "dropped"), 4);
	assert_int_equal(number_at(totals, "decapsulated"), 5);
	assert_true(json_is_true(json_object_get(status, "law_holds")));
	counters = json_object_get(status, "counters");
	decisions = json_object_get(status, "decisions");
	assert_int_equal(number_at(counters, "seen"), 15);
	assert_int_equal(number_at(counters, "chosen"), 2);
	assert_int_equal(number_at(json_object_get(decisions, "not_peer"), "count"), 4);
	assert_string_equal(text_at(json_object_get(decisions, "not_peer"), "kind"), "drop");
	assert_int_equal(json_object_size(decisions), REASONS);
	assert_false(has_warning(status, "do not add up"));

	d.counters.seen++;
	status = ask("{\"command\":\"status\"}");
	assert_true(json_is_false(json_object_get(status, "law_holds")));
	assert_true(has_warning(status, "do not add up"));
}

/* How long decisions took, where connections went, and which configuration each member has. */
static void test_status_for_metrics(void **context)
{
	const json_t *status, *times, *n2;

	(void)context;
	decision_times_add(&d.decision_times, 20, 2);
	decision_times_add(&d.decision_times, UINT64_C(2000000), 1);
	mutex_lock(&d.lock);
	outcomes_made(&d, d.config.member[1].id, true, 3, 0);
	mutex_unlock(&d.lock);
	d.table.nodes[1].service_hash = 0xc0ffee;
	d.table.nodes[1].period_ms = 500;
	status = ask("{\"command\":\"status\"}");
	times = json_object_get(status, "decision_times");
	assert_int_equal(number_at(json_array_get(json_object_get(times, "buckets"), 0), "count"), 0);
	assert_int_equal(number_at(json_array_get(json_object_get(times, "buckets"), 1), "count"), 2);
	assert_int_equal(number_at(json_array_get(json_object_get(times, "buckets"), DECISION_BUCKETS - 1), "count"),
			 2);
	assert_int_equal(number_at(times, "count"), 3);
	assert_float_equal(json_number_value(json_object_get(times, "seconds")), 2.00004, 1e-9);
	n2 = member_at(status, 1);
	assert_int_equal(number_at(n2, "forwarded_v4"), 0);
	assert_int_equal(number_at(n2, "forwarded_v6"), 3);
	assert_true(json_is_null(json_object_get(member_at(status, 0), "forwarded_v4")));
	assert_string_equal(text_at(n2, "config_hash"), "00c0ffee");
	assert_int_equal(number_at(n2, "period_ms"), 500);
	assert_true(json_is_null(json_object_get(member_at(status, 2), "config_hash")));
	assert_int_equal(strlen(text_at(status, "config_hash")), 8);
}

static void test_max_load(void **context)
{
	const json_t *status = ask("{\"command\":\"status\"}");

	(void)context;
	assert_float_equal(json_number_value(json_object_get(status, "max_load")), 20, 1e-9);
	assert_float_equal(json_number_value(json_object_get(status, "own_load")), 24, 1e-9);
	assert_true(json_is_false(json_object_get(status, "max_load_auto")));
	d.config.max_load_auto = true;
	status = ask("{\"command\":\"status\"}");
	/* n1 has 24, n2 14; the others may not get connections. */
	assert_float_equal(json_number_value(json_object_get(status, "max_load")), 19, 1e-9);
}

static void test_warnings_of_peers(void **context)
{
	const json_t *status = ask("{\"command\":\"status\"}");

	(void)context;
	assert_true(has_warning(status, "n3 is heard, but does not hear this node"));
	assert_true(has_warning(status, "n4 has not announced for 3."));
	assert_false(has_warning(status, "n2"));
	d.table.nodes[1].flags |= NODE_CONFLICT | NODE_CONFIG_DIFFERS;
	d.table.nodes[1].flags &= ~(uint32_t)NODE_DPRD_UP;
	set_member_way(&d, 1, false, 0);
	status = ask("{\"command\":\"status\"}");
	assert_true(has_warning(status, "two hosts announce themselves as n2"));
	assert_string_equal(
		advice_of(status, "n2 has other members, addresses or ports in its configuration"),
		"Make dprd.conf the same on both; then on each that changed: systemctl reload dprd loadcast");
	assert_false(has_warning(status, "n2 has Period="));
	d.table.nodes[1].period_ms = 500;
	assert_true(has_warning(ask("{\"command\":\"status\"}"),
				"n2 has Period=500ms in its configuration, and this node has 200ms"));
	status = ask("{\"command\":\"status\"}");
	assert_true(has_warning(status, "dprd does not run on n2"));
	assert_true(has_warning(status, "no route to the cluster address of n2"));
	set_member_way(&d, 1, false, WAY_MTU_LEAST - 1);
	status = ask("{\"command\":\"status\"}");
	assert_true(
		has_warning(status, "the path to n2 takes packets of 255 bytes, and forwarding needs 256; no IPv4"));
	assert_false(has_warning(status, "no route to the cluster address of n2"));
	assert_false(has_warning(status, "as soon as they used to"));
	d.table.nodes[1].shorter_times = 70;
	assert_true(
		has_warning(ask("{\"command\":\"status\"}"), "connections of n2 end 70 times as soon as they used to"));
}

/* The agent of this node is the cause, not its web server. Nothing of a peer's agent is known here but the state. */
static void test_warnings_of_agent(void **context)
{
	const json_t *status;

	(void)context;
	d.table.nodes[0].agent = AGENT_WANTS_DRAIN;
	d.table.nodes[0].state = NODE_DRAINING;
	status = ask("{\"command\":\"status\"}");
	assert_string_equal(text_at(status, "state"), "draining");
	assert_true(has_warning(status, "the agent of this node says \"drain\""));
	assert_non_null(strstr(advice_of(status, "the agent of this node"), "with \"ready\""));
	assert_false(has_warning(status, "gives no answer"));
	d.table.nodes[0].flags |= NODE_AGENT_SILENT;
	assert_true(has_warning(ask("{\"command\":\"status\"}"), "the agent of this node gives no answer"));
	d.table.nodes[0].flags &= ~(uint32_t)NODE_AGENT_SILENT;
	d.table.nodes[0].agent = AGENT_WANTS_MAINT;
	assert_true(has_warning(ask("{\"command\":\"status\"}"), "says \"maint\""));
	d.table.nodes[0].agent = AGENT_SAYS_DOWN;
	d.table.nodes[0].state = NODE_UNHEALTHY;
	status = ask("{\"command\":\"status\"}");
	assert_string_equal(text_at(status, "state"), "unhealthy");
	assert_true(has_warning(status, "says \"down\""));
	assert_false(has_warning(status, "the web server of this node"));
	assert_non_null(strstr(advice_of(status, "the agent of this node"), "with \"up\""));
}

/* Probes do not arrive: at n2, here, or answers could not leave; each warning has what to look at or to mend. */
static void test_warnings_of_ways(void **context)
{
	const json_t *status;

	(void)context;
	d.probes.way[1][0].lost_ms = 1;
	status = ask("{\"command\":\"status\"}");
	assert_true(has_warning(status, "packets that this node forwards to n2 over IPv4 do not arrive"));
	assert_non_null(strstr(advice_of(status, "forwards to n2 over IPv4"), "ip route get 10.0.0.12 from 10.0.0.11"));
	assert_true(json_is_false(json_object_get(member_at(status, 1), "answers_v4")));
	assert_true(json_is_false(json_object_get(member_at(status, 1), "arrives_v4")));
	assert_true(json_is_null(json_object_get(member_at(status, 1), "arrives_v6")));
	assert_true(json_is_null(json_object_get(member_at(status, 0), "arrives_v4")));
	assert_false(has_warning(status, "n2 forwards to this node"));
	/* n2 sends no probes, or not yet long enough; then they are missing. */
	d.probes.way[1][0].lost_ms = 0;
	d.probes.proofs.since_ms = 1;
	d.probes.proofs.looked_ms = 1 + PROOF_LEARN_MS;
	assert_false(has_warning(ask("{\"command\":\"status\"}"), "packets that n2 forwards"));
	d.table.nodes[1].flags |= NODE_TAKES_PROBES;
	status = ask("{\"command\":\"status\"}");
	assert_true(has_warning(status, "packets that n2 forwards to this node over IPv4 do not arrive"));
	assert_non_null(strstr(advice_of(status, "packets that n2 forwards"), "'ip proto 4 and src 10.0.0.12'"));
	assert_false(has_warning(status, "over IPv6"));
	d.probes.proofs.proven[1][0] = true;
	d.probes.mute[1][0] = true;
	assert_true(addr_parse("203.0.113.9", &d.probes.client[0].address));
	status = ask("{\"command\":\"status\"}");
	assert_true(has_warning(status, "packets that n2 forwards to this node over IPv4 could not be answered"));
	assert_non_null(strstr(advice_of(status, "could not be answered"), "ip route get 203.0.113.9 from 192.0.2.12"));
	d.probes.mute[1][0] = false;
	d.ways.member[1][0].next_hop.unanswered = true;
	status = ask("{\"command\":\"status\"}");
	assert_true(has_warning(status, "no host answers for the IPv4 address of n2"));
	assert_true(json_is_false(json_object_get(member_at(status, 1), "answers_v4")));
	d.ways.member[1][0].next_hop.unanswered = false;
	d.ways.limit[1][0] = (struct way_limit) { .kernel_mtu = 1500, .mtu = 1480 };
	status = ask("{\"command\":\"status\"}");
	assert_false(has_warning(status, "packets that"));
	assert_true(has_warning(status,
				"packets of 1500 bytes do not arrive at n2 over IPv4, and no ICMP error says so; "
				"1480 bytes are used"));
}

/* A member was not heard, or is not known: dprd has read the new configuration, and loadcast has not yet. */
static void test_warnings_of_unheard(void **context)
{
	const json_t *status;

	(void)context;
	d.table.nodes[3].age_ms = LOAD_AGE_NEVER_MS;
	status = ask("{\"command\":\"status\"}");
	assert_string_equal(advice_of(status, "n4 has never been heard"),
			    "On n4: systemctl status loadcast; let UDP port 7980 from there through the firewall");
	d.table.count = 3;
	status = ask("{\"command\":\"status\"}");
	assert_false(has_warning(status, "n4 has never been heard"));
	assert_string_equal(advice_of(status, "loadcast does not know n4; it gets no connections"),
			    "It reads dprd.conf by itself: systemctl reload loadcast");
}

/* A node that does not accept announcements is no fault of the network: both sides say why. */
static void test_warnings_of_rejected(void **context)
{
	const json_t *status;

	(void)context;
	d.table.nodes[3].rejected = REJECTION_KEY;
	d.table.nodes[3].rejected_from = d.config.member[3].cluster_v4;
	d.table.nodes[2].rejects = REJECTION_ADDRESS;
	status = ask("{\"command\":\"status\"}");
	assert_string_equal(advice_of(status, "announcements of n4 from 10.0.0.14 are not accepted: they are made with "
					      "another key"),
			    "Compare on both: sha256sum /etc/dprd/cluster.key, and [Cluster] Name=; then on the one "
			    "that changed: systemctl reload dprd loadcast");
	assert_false(has_warning(status, "n4 has not announced"));
	assert_non_null(strstr(advice_of(status, "n3 does not accept the announcements of this node: its dprd.conf has "
						 "another address"),
			       "Make dprd.conf the same on both"));
	assert_false(has_warning(status, "n3 is heard, but"));
	assert_string_equal(text_at(member_at(status, 3), "rejected"), "key");
	assert_string_equal(text_at(member_at(status, 2), "rejects"), "address");
	assert_true(json_is_null(json_object_get(member_at(status, 1), "rejected")));
	for (unsigned cause = 1; cause < REJECTIONS; cause++) {
		d.table.nodes[3].rejected = d.table.nodes[2].rejects = cause;
		status = ask("{\"command\":\"status\"}");
		assert_true(has_warning(status, "announcements of n4 from 10.0.0.14 are not accepted: "));
		assert_false(has_warning(status, "(null)"));
	}
}

/* The peers take a dprd for dead whose status file is old, and blame dprd. The cause is here: no room, no descriptor. */
static void test_warning_of_status_file(void **context)
{
	static struct upkeep upkeep;

	(void)context;
	d.upkeep = &upkeep;
	assert_false(has_warning(ask("{\"command\":\"status\"}"), "status"));
	upkeep.presence.status_error = -ENOSPC;
	assert_non_null(strstr(
		advice_of(ask("{\"command\":\"status\"}"), "cannot write /run/dprd/status: No space left"), "df -h"));
	upkeep.presence.status_error = -EACCES;
	assert_non_null(strstr(advice_of(ask("{\"command\":\"status\"}"), "cannot write /run/dprd/status: "),
			       "belong to the user of dprd"));
	upkeep.presence.status_error = 0;
	d.upkeep = NULL;
}

static void test_warnings_of_table(void **context)
{
	const json_t *status;

	(void)context;
	assert_true(json_is_true(json_object_get(ask("{\"command\":\"status\"}"), "loadcast_has_file")));
	d.table.file_hash++;
	status = ask("{\"command\":\"status\"}");
	assert_true(json_is_false(json_object_get(status, "loadcast_has_file")));
	assert_non_null(strstr(advice_of(status, "loadcast of this node has another dprd.conf than dprd"),
			       "systemctl reload loadcast"));
	d.table.published_ms -= 3200;
	status = ask("{\"command\":\"status\"}");
	assert_true(has_warning(status, "loadcast has not written /run/loadcast/table for 3.2 s"));
	assert_true(json_is_null(json_object_get(status, "loadcast_has_file")));
	assert_false(has_warning(status, "another dprd.conf"));
	assert_false(has_warning(status, "n4")); /* because this node is deaf */
	assert_in_range(number_at(status, "table_age_ms"), 3200, 5000);
	d.table_valid = false;
	status = ask("{\"command\":\"status\"}");
	assert_true(has_warning(status, "there is no load table"));
	assert_true(json_is_null(json_object_get(status, "table_age_ms")));
	assert_true(json_is_null(json_object_get(member_at(status, 1), "age_ms")));
}

static void test_warnings_of_self(void **context)
{
	const json_t *status;

	(void)context;
	assert_false(has_warning(ask("{\"command\":\"status\"}"), "this node"
								  " drains"));
	d.table.nodes[0].state = NODE_UNHEALTHY;
	status = ask("{\"command\":\"status\"}");
	assert_true(has_warning(status, "the web server of this node fails"));
	assert_string_equal(text_at(status, "state"), "unhealthy");
	d.draining = true;
	d.minority = true;
	recent.overruns = 3;
	recent.strangers_recent = 9;
	status = ask("{\"command\":\"status\"}");
	assert_string_equal(text_at(status, "state"), "draining");
	assert_true(has_warning(status, "this node drains"));
	assert_true(has_warning(status, "fewer than half"));
	assert_true(has_warning(status, "overran 3 times"));
	assert_true(has_warning(status, "9 tunnel packets of hosts that are not members"));
}

static void test_warning_of_flood(void **context)
{
	const json_t *status = ask("{\"command\":\"status\"}");

	(void)context;
	assert_false(has_warning(status, "a flood of SYNs"));
	assert_int_equal(number_at(status, "served_undecided"), 0);
	d.flood.on = true;
	recent.undecided = 1234567;
	status = ask("{\"command\":\"status\"}");
	assert_true(has_warning(status, "all except one of 1024 without a decision; 1234567 so far"));
	assert_int_equal(number_at(status, "served_undecided"), 1234567);
	recent.undecided = -1; /* the firewall gave no count */
	status = ask("{\"command\":\"status\"}");
	assert_true(has_warning(status, "a flood of SYNs"));
	assert_true(json_is_null(json_object_get(status, "served_undecided")));
}

static void test_warning_of_full_table(void **context)
{
	unsigned i;

	(void)context;
	for (i = 0; i < 921; i++)
		fixture_flow(&d, "203.0.113.7", (uint16_t)(1000 + i), "n2", TCP_ACK);
	assert_false(has_warning(ask("{\"command\":\"status\"}"), "of 1024 forwarded flows"));
	fixture_flow(&d, "203.0.113.7", 999, "n2", TCP_ACK);
	assert_true(has_warning(ask("{\"command\":\"status\"}"), "922 of 1024 forwarded flows"));
}

static void test_peers(void **context)
{
	const json_t *peers = ask("{\"command\":\"peers\"}");

	(void)context;
	assert_string_equal(text_at(peers, "schema"), "dprd.peers/1");
	assert_int_equal(json_array_size(json_object_get(peers, "members")), 4);
}

static const char *note_of(const json_t *line)
{
	const json_t *notes = json_object_get(line, "notes");

	assert_true(json_is_array(notes));
	assert_in_range(json_array_size(notes), 0, 1);
	return json_string_value(json_array_get(notes, 0));
}

static void set_version(unsigned member, const char *version)
{
	memset(d.table.nodes[member].version, 0, VERSION_BYTES);
	strcpy(d.table.nodes[member].version, version);
}

/* It is a note, not a warning: mixed versions are normal during an upgrade. */
static void test_versions(void **context)
{
	const json_t *peers = ask("{\"command\":\"peers\"}"), *status;
	char expected[200];
	size_t warnings;

	(void)context;
	assert_null(note_of(peers));
	assert_string_equal(text_at(member_at(peers, 1), "version"), dprd_version);
	warnings = json_array_size(json_object_get(ask("{\"command\":\"status\"}"), "warnings"));
	set_version(1, "0.2.0-rc1");
	set_version(2, "");
	set_version(3, "7"); /* not heard: its former version does not count */
	peers = ask("{\"command\":\"peers\"}");
	snprintf(expected, sizeof(expected), "members run other versions than this dprd (%s): n2 0.2.0-rc1, n3 older",
		 dprd_version);
	assert_string_equal(note_of(peers), expected);
	assert_string_equal(text_at(member_at(peers, 1), "version"), "0.2.0-rc1");
	assert_true(json_is_null(json_object_get(member_at(peers, 2), "version")));
	status = ask("{\"command\":\"status\"}");
	assert_string_equal(note_of(status), expected);
	assert_int_equal(json_array_size(json_object_get(status, "warnings")), warnings);
	/* The loadcast of this node may have been forgotten, too. */
	set_version(0, "0.0.9");
	d.table.nodes[3].flags |= NODE_HEARD;
	snprintf(expected, sizeof(expected),
		 "members run other versions than this dprd (%s): n1 0.0.9, n2 0.2.0-rc1, n3 older, and 1 more",
		 dprd_version);
	assert_string_equal(note_of(ask("{\"command\":\"status\"}")), expected);
	d.table_valid = false;
	peers = ask("{\"command\":\"peers\"}");
	assert_null(note_of(peers));
	assert_true(json_is_null(json_object_get(member_at(peers, 1), "version")));
}

static void test_drain_and_undrain(void **context)
{
	(void)context;
	assert_true(json_is_true(json_object_get(ask("{\"command\":\"drain\"}"), "draining")));
	assert_true(d.draining);
	assert_true(json_is_false(json_object_get(ask("{\"command\":\"undrain\"}"), "draining")));
	assert_false(d.draining);
	assert_string_equal(text_at(ask("{\"command\":\"undrain\"}"), "note"), "");
	/* The file that a restart reads cannot be written: the node drains all the same. */
	strcpy(d.config.run_dir, "/nonexistent");
	assert_string_equal(
		text_at(ask("{\"command\":\"drain\"}"), "note"),
		"a restart of dprd will not know that this node drains: /nonexistent: No such file or directory");
	assert_true(d.draining);
}

static void test_others_only_read(void **context)
{
	static const char *const refused[] = { "{\"command\":\"drain\"}", "{\"command\":\"undrain\"}",
					       "{\"command\":\"reload\"}" };
	unsigned i;

	(void)context;
	d.draining = true;
	for (i = 0; i < 3; i++) {
		const char *error = error_of(ask_bytes(refused[i], strlen(refused[i]), false));

		assert_non_null(error);
		assert_non_null(strstr(error, "only root"));
		assert_true(d.draining);
	}
	assert_int_equal(fixture_reloads, 0);
	d.draining = false;
	ask_bytes(refused[0], strlen(refused[0]), false);
	assert_false(d.draining);
	assert_null(error_of(ask_bytes("{\"command\":\"status\"}", 20, false)));
}

static void test_reload(void **context)
{
	const json_t *reply = ask("{\"command\":\"reload\"}"), *errors;

	(void)context;
	assert_string_equal(text_at(reply, "schema"), "dprd.reload/1");
	assert_string_equal(text_at(reply, "note"), "a note");
	fixture_reload_error = -22;
	reply = ask("{\"command\":\"reload\"}");
	assert_string_equal(error_of(reply), "the reload failed: dprd goes on with the former configuration");
	errors = json_object_get(reply, "errors");
	assert_int_equal(json_array_size(errors), 2);
	assert_string_equal(json_string_value(json_array_get(errors, 1)), "dprd.conf:9: ?: not UTF-8");
	assert_int_equal(fixture_reloads, 2);
}

static void test_config(void **context)
{
	const char *text = text_at(ask("{\"command\":\"config\"}"), "text");

	(void)context;
	assert_non_null(strstr(text, "MaxFlows=1024"));
	assert_non_null(strstr(text, "2001:db8::14"));
}

static void test_bad_requests(void **context)
{
	static const char *const bad[] = {
		"",
		"{",
		"null",
		"[]",
		"\"status\"",
		"{}",
		"{\"command\":null}",
		"{\"command\":7}",
		"{\"command\":\"\"}",
		"{\"command\":\"status\\u0000x\"}",
		"{\"command\":\"status\",\"command\":\"drain\"}",
		"{\"command\":\"status\"} x",
		"{\"command\":\"Status\"}",
		"{\"command\":\"\xff\"}",
		"{\"command\":\"flows\",\"limit\":-1}",
		"{\"command\":\"flows\",\"limit\":1e3}",
		"{\"command\":\"flows\",\"limit\":9223372036854775807}",
		"{\"command\":\"flows\",\"limit\":99999999999999999999999999}",
		"{\"command\":\"flows\",\"port\":65536}",
		"{\"command\":\"flows\",\"client\":7}",
		"{\"command\":\"flows\",\"client\":\"203.0.113.7/33\"}",
		"{\"command\":\"flows\",\"client\":\"203.0.113.7/\"}",
		"{\"command\":\"flows\",\"client\":\"203.0.113.7/-1\"}",
		"{\"command\":\"flows\",\"client\":\"2001:db8::/129\"}",
		"{\"command\":\"flows\",\"client\":\"2001:db8::/99999999999999999999\"}",
		"{\"command\":\"flows\",\"client\":\"www\"}",
		"{\"command\":\"flows\",\"node\":\"n9\"}",
		"{\"command\":\"flows\",\"state\":\"free\"}",
		"{\"command\":\"why\"}",
		"{\"command\":\"why\",\"client\":\"203.0.113.0/24\"}",
		"{\"command\":\"why\",\"client\":\"203.0.113.7\",\"port\":\"80\"}",
		"{\"command\":\"why\",\"client\":\"203.0.113.7\",\"limit\":257}",
	};
	unsigned i;

	(void)context;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *error = error_of(ask(bad[i]));

		if (!error || answer.listing.active)
			fail_msg("no error: %s", bad[i]);
	}
	assert_false(d.draining);
}

static void test_long_requests(void **context)
{
	char request[CONTROL_REQUEST_BYTES + 2];

	(void)context;
	memset(request, ' ', sizeof(request));
	request[snprintf(request, sizeof(request), "{\"command\":\"peers\"}")] = ' ';
	assert_null(error_of(ask_bytes(request, CONTROL_REQUEST_BYTES, true)));
	assert_non_null(error_of(ask_bytes(request, CONTROL_REQUEST_BYTES + 1, true)));
	memset(request, '[', sizeof(request));
	assert_non_null(error_of(ask_bytes(request, CONTROL_REQUEST_BYTES, true)));
	memset(request, 0, sizeof(request));
	assert_non_null(error_of(ask_bytes(request, CONTROL_REQUEST_BYTES, true)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_status_members, start, stop),
		cmocka_unit_test_setup_teardown(test_every_answer_names_its_node, start, stop),
		cmocka_unit_test_setup_teardown(test_status_unknown_is_null, start, stop),
		cmocka_unit_test_setup_teardown(test_status_law, start, stop),
		cmocka_unit_test_setup_teardown(test_status_for_metrics, start, stop),
		cmocka_unit_test_setup_teardown(test_max_load, start, stop),
		cmocka_unit_test_setup_teardown(test_warnings_of_peers, start, stop),
		cmocka_unit_test_setup_teardown(test_warnings_of_ways, start, stop),
		cmocka_unit_test_setup_teardown(test_warnings_of_unheard, start, stop),
		cmocka_unit_test_setup_teardown(test_warnings_of_rejected, start, stop),
		cmocka_unit_test_setup_teardown(test_warning_of_status_file, start, stop),
		cmocka_unit_test_setup_teardown(test_warnings_of_table, start, stop),
		cmocka_unit_test_setup_teardown(test_warnings_of_self, start, stop),
		cmocka_unit_test_setup_teardown(test_warnings_of_agent, start, stop),
		cmocka_unit_test_setup_teardown(test_warning_of_flood, start, stop),
		cmocka_unit_test_setup_teardown(test_warning_of_full_table, start, stop),
		cmocka_unit_test_setup_teardown(test_peers, start, stop),
		cmocka_unit_test_setup_teardown(test_versions, start, stop),
		cmocka_unit_test_setup_teardown(test_drain_and_undrain, start, stop),
		cmocka_unit_test_setup_teardown(test_others_only_read, start, stop),
		cmocka_unit_test_setup_teardown(test_reload, start, stop),
		cmocka_unit_test_setup_teardown(test_config, start, stop),
		cmocka_unit_test_setup_teardown(test_bad_requests, start, stop),
		cmocka_unit_test_setup_teardown(test_long_requests, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
