// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/metrics.c - the status in the text format of Prometheus: base units, counters end in _total. */
#include "dprd/dprctl/dprctl.h"

#include <string.h>

/* Label values: backslash, quote and line end are escaped. */
static void label(FILE *out, const char *name, const char *value)
{
	fprintf(out, "%s=\"", name);
	for (; *value; value++) {
		if (*value == '\n')
			fputs("\\n", out);
		else if (*value == '\\' || *value == '"')
			fprintf(out, "\\%c", *value);
		else
			fputc(*value, out);
	}
	fputc('"', out);
}

static void family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* One sample; none when the value is not known. */
static void sample(FILE *out, const char *name, const char *label_name, const char *label_value, const json_t *object,
		   const char *key, double scale)
{
	double value;

	if (!number_of(object, key, &value))
		return;
	fputs(name, out);
	if (label_name) {
		fputc('{', out);
		label(out, label_name, label_value);
		fputc('}', out);
	}
	fprintf(out, " %.15g\n", value * scale);
}

static void info(FILE *out, const json_t *status)
{
	static const char *const labels[][2] = {
		{ "node", "node" },     { "cluster", "cluster" },         { "version", "version" },
		{ "policy", "policy" }, { "load_metric", "load_metric" }, { "plane", "datapath" },
		{ "state", "state" },   { "config", "config_hash" },
	};
	size_t i;

	family(out, "dprd_info", "gauge", "Version, policy, plane and state of this dprd.");
	fputs("dprd_info{", out);
	for (i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
		if (i)
			fputc(',', out);
		label(out, labels[i][0], text_of(status, labels[i][1]));
	}
	fputs("} 1\n", out);
}

static void answers(FILE *out, const json_t *members)
{
	static const char *const families[][2] = { { "ipv4", "answers_v4" }, { "ipv6", "answers_v6" } };
	const json_t *member;
	size_t i, f;

	family(out, "dprd_member_answers", "gauge", "0 while connections forwarded to it get no answer, else 1.");
	json_array_foreach(members, i, member)
	{
		for (f = 0; f < 2; f++) {
			if (!json_is_boolean(json_object_get(member, families[f][1])))
				continue;
			fputs("dprd_member_answers{", out);
			label(out, "member", text_of(member, "name"));
			fputc(',', out);
			label(out, "family", families[f][0]);
			fprintf(out, "} %d\n", flag_of(member, families[f][1]));
		}
	}
}

/* New connections that this node forwarded to each member. */
static void forwarded(FILE *out, const json_t *members)
{
	static const char *const families[][2] = { { "ipv4", "forwarded_v4" }, { "ipv6", "forwarded_v6" } };
	const json_t *member;
	double count;
	size_t i, f;

	family(out, "dprd_forwarded_total", "counter", "New connections that this node forwarded to the member.");
	json_array_foreach(members, i, member)
	{
		for (f = 0; f < 2; f++) {
			if (!number_of(member, families[f][1], &count))
				continue;
			fputs("dprd_forwarded_total{", out);
			label(out, "member", text_of(member, "name"));
			fputc(',', out);
			label(out, "family", families[f][0]);
			fprintf(out, "} %.15g\n", count);
		}
	}
}

static void ports_of(FILE *out, const json_t *member, const json_t *ports)
{
	const char *state = text_of(member, "state"), *word = member_state_word(member);
	const json_t *port, *down;
	size_t i, k;

	/* A draining member does not say how its web server is, and a silent one says nothing. */
	if ((strcmp(state, "active") != 0 && strcmp(state, "unhealthy") != 0) || strcmp(word, "LATE") == 0 ||
	    strcmp(word, "?") == 0)
		return;
	json_array_foreach(ports, i, port)
	{
		bool up = strcmp(state, "active") == 0;

		json_array_foreach(json_object_get(member, "ports_down"), k, down)
		{
			if (json_equal(down, port))
				up = false;
		}
		fputs("dprd_member_port_up{", out);
		label(out, "member", text_of(member, "name"));
		fprintf(out, ",port=\"%lld\"} %d\n", (long long)json_integer_value(port), up);
	}
}

static void ports(FILE *out, const json_t *status)
{
	const json_t *member;
	size_t i;

	family(out, "dprd_member_port_up", "gauge",
	       "1 when the port passes its health check on the member and is in its dprd.conf, else 0.");
	json_array_foreach(json_object_get(status, "members"), i, member)
		ports_of(out, member, json_object_get(status, "ports"));
}

/* Members whose announcements do not pass, in one direction or the other. */
static void rejections(FILE *out, const json_t *members)
{
	static const char *const directions[][2] = { { "from", "rejected" }, { "to", "rejects" } };
	const json_t *member;
	size_t i, k;

	family(out, "dprd_member_rejected", "gauge",
	       "1 while announcements from the member are not accepted here, or those to it not there, with the "
	       "cause.");
	json_array_foreach(members, i, member)
	{
		for (k = 0; k < 2; k++) {
			if (!json_is_string(json_object_get(member, directions[k][1])))
				continue;
			fputs("dprd_member_rejected{", out);
			label(out, "member", text_of(member, "name"));
			fputc(',', out);
			label(out, "direction", directions[k][0]);
			fputc(',', out);
			label(out, "cause", text_of(member, directions[k][1]));
			fputs("} 1\n", out);
		}
	}
}

static void decision_times(FILE *out, const json_t *status)
{
	const json_t *times = json_object_get(status, "decision_times"), *bucket;
	double seconds, count;
	size_t i;

	if (!number_of(times, "count", &count) || !number_of(times, "seconds", &seconds))
		return;
	family(out, "dprd_decision_seconds", "histogram",
	       "From the arrival of a batch of packets at dprd to their verdicts, for each SYN.");
	json_array_foreach(json_object_get(times, "buckets"), i, bucket)
	{
		double at_most, counted;

		if (number_of(bucket, "seconds", &at_most) && number_of(bucket, "count", &counted))
			fprintf(out, "dprd_decision_seconds_bucket{le=\"%g\"} %.15g\n", at_most, counted);
	}
	fprintf(out, "dprd_decision_seconds_bucket{le=\"+Inf\"} %.15g\n", count);
	fprintf(out, "dprd_decision_seconds_sum %.15g\ndprd_decision_seconds_count %.15g\n", seconds, count);
}

static void members(FILE *out, const json_t *status)
{
	static const struct {
		const char *name, *help, *key;
		double scale;
	} gauges[] = {
		{ "dprd_member_load", "Load in the configured metric.", "load", 1 },
		{ "dprd_member_weight", "Weight: the lower one of configured and announced.", "weight", 1 },
		{ "dprd_member_open_connections", "TCP connections.", "open_connections", 1 },
		{ "dprd_member_accept_queue", "Connections waiting for accept.", "accept_queue", 1 },
		{ "dprd_member_cpu_ratio", "Utilisation of its processors.", "cpu_ratio", 1 },
		{ "dprd_member_arrivals_per_second", "New connections that reach it.", "arrivals_per_second", 1 },
		{ "dprd_member_forwarded_connections", "Connections that it forwards.", "redirected", 1 },
		{ "dprd_member_announce_age_seconds", "Age of its newest announcement.", "age_ms", 1e-3 },
	};
	const json_t *list = json_object_get(status, "members"), *member;
	size_t i, g;

	family(out, "dprd_member_up", "gauge", "1 when the member may get new connections, else 0.");
	json_array_foreach(list, i, member)
	{
		fputs("dprd_member_up{", out);
		label(out, "member", text_of(member, "name"));
		fprintf(out, "} %d\n", flag_of(member, "eligible"));
	}
	answers(out, list);
	forwarded(out, list);
	ports(out, status);
	rejections(out, list);
	family(out, "dprd_member_info", "gauge", "State, version and hash of settings of the member.");
	json_array_foreach(list, i, member)
	{
		fputs("dprd_member_info{", out);
		label(out, "member", text_of(member, "name"));
		fputc(',', out);
		label(out, "state", text_of(member, "state"));
		fputc(',', out);
		label(out, "version", text_of(member, "version"));
		fputc(',', out);
		label(out, "config", text_of(member, "config_hash"));
		fputs("} 1\n", out);
	}
	for (g = 0; g < sizeof(gauges) / sizeof(gauges[0]); g++) {
		family(out, gauges[g].name, "gauge", gauges[g].help);
		json_array_foreach(list, i, member) sample(out, gauges[g].name, "member", text_of(member, "name"),
							   member, gauges[g].key, gauges[g].scale);
	}
}

/* New connections only: copies of a SYN and packets of flows have other reasons. */
static void connections(FILE *out, const json_t *status)
{
	static const char *const redirecting[] = { "chosen", "draining", "unhealthy" };
	const json_t *decisions = json_object_get(status, "decisions"), *decision, *totals;
	double redirected = 0, count;
	const char *name;
	size_t i;

	for (i = 0; i < sizeof(redirecting) / sizeof(redirecting[0]); i++) {
		if (number_of(json_object_get(decisions, redirecting[i]), "count", &count))
			redirected += count;
	}
	totals = json_object_get(status, "totals");
	family(out, "dprd_connections_total", "counter", "New connections that were decided.");
	sample(out, "dprd_connections_total", "action", "served", totals, "served", 1);
	fprintf(out, "dprd_connections_total{action=\"forwarded\"} %.15g\n", redirected);
	sample(out, "dprd_connections_total", "action", "real_server", json_object_get(decisions, "backend"), "count",
	       1);
	family(out, "dprd_decisions_total", "counter", "Packets by the reason of their verdict.");
	json_object_foreach((json_t *)(uintptr_t)decisions, name, decision)
	{
		if (!number_of(decision, "count", &count))
			continue;
		fputs("dprd_decisions_total{", out);
		label(out, "reason", name);
		fputc(',', out);
		label(out, "verdict", text_of(decision, "kind"));
		fprintf(out, "} %.15g\n", count);
	}
}

static void packets(FILE *out, const json_t *status)
{
	static const char *const verdicts[] = {
		"served", "forwarded", "passed", "dropped", "decapsulated",
	};
	const json_t *totals = json_object_get(status, "totals");
	size_t i;

	family(out, "dprd_packets_total", "counter", "Packets by verdict.");
	for (i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++)
		sample(out, "dprd_packets_total", "verdict", verdicts[i], totals, verdicts[i], 1);
}

static void single(FILE *out, const json_t *object, const char *name, const char *type, const char *help,
		   const char *key)
{
	family(out, name, type, help);
	sample(out, name, NULL, NULL, object, key, 1);
}

static void counters(FILE *out, const json_t *status)
{
	static const struct {
		const char *name, *help, *key;
	} table[] = {
		{ "dprd_forwarded_bytes_total", "Bytes forwarded, without outer headers.", "forward_bytes" },
		{ "dprd_decapsulated_bytes_total", "Bytes decapsulated.", "decapsulated_bytes" },
		{ "dprd_segmented_total", "Packets too big for the tunnel, sent on as smaller segments.", "segmented" },
		{ "dprd_syns_total", "SYNs decided.", "syns" },
		{ "dprd_syns_taken_total", "SYNs of peers that this node served.", "syns_taken" },
		{ "dprd_batches_total", "Batches of packets received.", "batches" },
		{ "dprd_stale_batches_total", "Batches that may have waited too long.", "stale_batches" },
		{ "dprd_flows_made_total", "Forwarded flows made.", "flows_made" },
		{ "dprd_flows_evicted_total", "Half-open flows removed to make room.", "flows_evicted" },
		{ "dprd_flows_expired_total", "Flows that timed out.", "flows_expired" },
		{ "dprd_flows_dead_peer_total", "Flows removed because their node is gone.", "flows_dead_peer" },
		{ "dprd_ways_lost_total", "Times connections to a member of one family got no answer.", "ways_lost" },
		{ "dprd_probes_sent_total", "Probes of the ways to members that were sent.", "probes_sent" },
		{ "dprd_routes_restored_total", "Times that local routes were missing and set up again.",
		  "routes_restored" },
		{ "dprd_rules_restored_total", "Times that the firewall rules were missing and set up again.",
		  "rules_restored" },
		{ "dprd_verdict_errors_total", "Verdicts that the kernel did not take.", "verdict_errors" },
		{ "dprd_queue_overruns_total", "Overruns of the kernel's queue.", "queue_overruns" },
		{ "dprd_tunnel_errors_total", "Tunnel packets that the kernel refused to send.", "tunnel_errors" },
		{ "dprd_set_errors_total", "Changes of the kernel's flow set that failed.", "set_errors" },
		{ "dprd_too_big_total", "ICMP too-big messages sent to clients.", "too_big_sent" },
		{ "dprd_standby_served_total", "SYNs that the standby process let pass while dprd stood still.",
		  "standby_served" },
		{ "dprd_standby_tunnelled_total",
		  "Tunnel packets that the standby process decapsulated while dprd stood still.", "standby_tunnelled" },
		{ "dprd_standby_forwarded_total",
		  "Packets of flows that the standby process sent on while dprd stood still.", "standby_forwarded" },
		{ "dprd_table_errors_total", "Load tables that could not be read.", "table_errors" },
	};
	const json_t *counts = json_object_get(status, "counters"), *flows = json_object_get(status, "flows");
	size_t i;

	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		single(out, counts, table[i].name, "counter", table[i].help, table[i].key);
	single(out, status, "dprd_announcements_rejected_total", "counter", "Announcements that were not accepted.",
	       "announcements_rejected");
	single(out, status, "dprd_served_undecided_total", "counter",
	       "SYNs of floods that this node served without a decision.", "served_undecided");
	single(out, status, "dprd_strangers_dropped_total", "counter", "Tunnel packets of hosts that are not members.",
	       "strangers_dropped");
	family(out, "dprd_flows", "gauge", "Forwarded flows.");
	sample(out, "dprd_flows", "state", "half_open", flows, "half_open", 1);
	sample(out, "dprd_flows", "state", "confirmed", flows, "confirmed", 1);
	sample(out, "dprd_flows", "state", "closing", flows, "closing", 1);
	family(out, "dprd_flows_max", "gauge", "Room for forwarded flows.");
	sample(out, "dprd_flows_max", "state", "half_open", flows, "max_half_open", 1);
	sample(out, "dprd_flows_max", "state", "confirmed", flows, "max_confirmed", 1);
}

static void shared(FILE *out, const json_t *status)
{
	const json_t *shared = json_object_get(status, "shared"), *counts, *count;
	const char *name;

	if (!json_is_object(shared))
		return;
	counts = json_object_get(shared, "counters");
	family(out, "dprd_shared_share_ratio", "gauge",
	       "The part of new connections to shared addresses that this node accepts.");
	sample(out, "dprd_shared_share_ratio", NULL, NULL, shared, "percent", 1e-2);
	family(out, "dprd_shared_lease_seconds", "gauge",
	       "Time left in which this node accepts new connections to shared addresses.");
	sample(out, "dprd_shared_lease_seconds", NULL, NULL, shared, "lease_ms", 1e-3);
	family(out, "dprd_shared_frames_total", "counter", "Frames to shared addresses by verdict.");
	json_object_foreach((json_t *)(uintptr_t)counts, name, count)
		sample(out, "dprd_shared_frames_total", "verdict", name, counts, name, 1);
}

static void backends(FILE *out, const json_t *status)
{
	static const struct {
		const char *name, *type, *help, *key;
	} table[] = {
		{ "dprd_backend_weight", "gauge", "Configured weight.", "weight" },
		{ "dprd_backend_connections", "gauge", "Open connections.", "connections" },
		{ "dprd_backend_chosen_total", "counter", "New connections given to it.", "chosen" },
	};
	const json_t *list = json_object_get(json_object_get(status, "backends"), "list"), *backend;
	size_t i, t;

	if (!json_array_size(list))
		return;
	family(out, "dprd_backend_up", "gauge", "1 when the real server may get new connections, else 0.");
	json_array_foreach(list, i, backend)
	{
		fputs("dprd_backend_up{", out);
		label(out, "backend", text_of(backend, "name"));
		fprintf(out, "} %d\n", flag_of(backend, "eligible"));
	}
	for (t = 0; t < sizeof(table) / sizeof(table[0]); t++) {
		family(out, table[t].name, table[t].type, table[t].help);
		json_array_foreach(list, i, backend)
			sample(out, table[t].name, "backend", text_of(backend, "name"), backend, table[t].key, 1);
	}
}

void render_up(FILE *out, bool up)
{
	family(out, "dprd_up", "gauge", "1 when dprd answers, else 0.");
	fprintf(out, "dprd_up %d\n", up);
}

void render_metrics(FILE *out, const json_t *status)
{
	render_up(out, true);
	info(out, status);
	single(out, status, "dprd_uptime_seconds", "gauge", "Since dprd started.", "uptime_seconds");
	single(out, status, "dprd_own_load", "gauge", "Own load per unit of weight.", "own_load");
	single(out, status, "dprd_max_load", "gauge", "Own load from which connections are forwarded.", "max_load");
	family(out, "dprd_table_age_seconds", "gauge", "Age of the load table.");
	sample(out, "dprd_table_age_seconds", NULL, NULL, status, "table_age_ms", 1e-3);
	family(out, "dprd_warnings", "gauge", "Warnings of dprctl status.");
	fprintf(out, "dprd_warnings %u\n", count_warnings(status));
	members(out, status);
	connections(out, status);
	packets(out, status);
	decision_times(out, status);
	counters(out, status);
	shared(out, status);
	backends(out, status);
}
