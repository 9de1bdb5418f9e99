// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/status.c - one page about this node and its cluster; the warnings, with what to do, come last. */
#include "dprd/dprctl/dprctl.h"

#include <string.h>

static void render_head(FILE *out, const json_t *status)
{
	const json_t *ports = json_object_get(status, "ports"), *port;
	char cell[CELL_BYTES];
	double uptime = 0;
	size_t i;

	fprintf(out, "* %s   dprd %s, up %s, %s, policy %s, load %s, port", text_of(status, "node"),
		text_of(status, "version"),
		number_of(status, "uptime_seconds", &uptime) ? cell_duration(cell, uptime) : "?",
		text_of(status, "datapath"), text_of(status, "policy"), text_of(status, "load_metric"));
	json_array_foreach(ports, i, port) fprintf(out, " %lld", (long long)json_integer_value(port));
	fputc('\n', out);
}

static void render_datapath(FILE *out, const json_t *status)
{
	fprintf(out, "  datapath %s: %s\n", text_of(status, "datapath"), text_of(status, "datapath_why"));
	fprintf(out, "  new connections are decided by %s",
		strcmp(text_of(status, "decided_by"), "programs") ? "dprd" : "the BPF programs");
	if (json_is_string(json_object_get(status, "decided_why")))
		fprintf(out, ": %s", text_of(status, "decided_why"));
	fputc('\n', out);
}

static void render_cluster(FILE *out, const json_t *status)
{
	const json_t *members = json_object_get(status, "members"), *member;
	char period[CELL_BYTES], age[CELL_BYTES];
	unsigned up = 0;
	size_t i;

	json_array_foreach(members, i, member) up += strcmp(member_state_word(member), "up") == 0;
	fprintf(out, "  cluster \"%s\"   %u of %zu members up; announcements every %s ms; table %s old\n",
		text_of(status, "cluster"), up, json_array_size(members),
		cell_number(period, status, "announce_period_ms", 0), cell_age(age, status, "table_age_ms"));
}

/* The peer with the lowest load per unit of weight, NULL when none may get a connection. */
static const json_t *least_loaded(const json_t *status)
{
	const json_t *members = json_object_get(status, "members"), *member, *best = NULL;
	double load, weight, lowest = 0;
	size_t i;

	json_array_foreach(members, i, member)
	{
		if (flag_of(member, "self") || !flag_of(member, "eligible") || !number_of(member, "load", &load) ||
		    !number_of(member, "weight", &weight) || weight <= 0)
			continue;
		if (!best || load / weight < lowest) {
			best = member;
			lowest = load / weight;
		}
	}
	return best;
}

/* Says how decide() would treat a new connection at this moment. */
static const char *deciding(const json_t *status, const json_t *least)
{
	double own, max;
	bool loads = number_of(status, "own_load", &own) && number_of(status, "max_load", &max);
	const char *state = text_of(status, "state");

	if (flag_of(status, "minority"))
		return "serve here: fewer than half of the members are heard";
	if (!least)
		return "serve here: no peer may take a connection";
	if (strcmp(state, "draining") == 0)
		return "forward: this node drains";
	if (strcmp(state, "unhealthy") == 0)
		return "forward: this node's web server fails its health check";
	if (strcmp(text_of(status, "policy"), "local") == 0)
		return "serve here: policy local";
	if (!flag_of(status, "policy_threshold"))
		return "the policy chooses";
	if (!loads)
		return "?";
	return own < max ? "serve here: the load of this node is below MaxLoad"
			 : "the policy chooses: MaxLoad is reached";
}

/* "shared   192.0.2.100 (01:00:5e:00:02:64) by bpf: why; lease ...; n1 33.2 %, ..." */
static void render_shared(FILE *out, const json_t *status)
{
	const json_t *shared = json_object_get(status, "shared"), *addresses, *members, *item;
	char cell[CELL_BYTES];
	double lease_ms;
	size_t i;

	if (!json_is_object(shared))
		return;
	addresses = json_object_get(shared, "addresses");
	members = json_object_get(shared, "members");
	json_array_foreach(addresses, i, item)
		fprintf(out, "  %-16s %s at %s on %s\n", i ? "" : "shared", text_of(item, "address"),
			text_of(item, "mac"), text_of(item, "interface"));
	fprintf(out, "  %-16s by %s: %s\n", "", text_of(shared, "form"), text_of(shared, "why"));
	if (number_of(shared, "lease_ms", &lease_ms))
		fprintf(out, "  %-16s lease for %.0f ms, own share %s %%;", "", lease_ms,
			cell_number(cell, shared, "percent", 1));
	else
		fprintf(out, "  %-16s no lease: this node accepts no new connection;", "");
	json_array_foreach(members, i, item)
		fprintf(out, "%s %s %s %%", i ? "," : "", text_of(item, "name"), cell_number(cell, item, "percent", 1));
	fputc('\n', out);
}

static void render_deciding(FILE *out, const json_t *status)
{
	const json_t *least = least_loaded(status);
	char own[CELL_BYTES], max[CELL_BYTES], load[CELL_BYTES], age[CELL_BYTES];

	fprintf(out, "  deciding         %s\n", deciding(status, least));
	fprintf(out, "  load             %s here, MaxLoad %s%s", cell_number(own, status, "own_load", 1),
		cell_number(max, status, "max_load", 1), flag_of(status, "max_load_auto") ? " (auto)" : "");
	if (least)
		fprintf(out, "; least loaded %s with %s (%s old)", text_of(least, "name"),
			cell_number(load, least, "load", 1), cell_age(age, least, "age_ms"));
	fputs("\n\n", out);
}

static void render_counts(FILE *out, const json_t *status)
{
	const json_t *flows = json_object_get(status, "flows"), *totals = json_object_get(status, "totals");
	const json_t *counters = json_object_get(status, "counters");
	char a[CELL_BYTES], b[CELL_BYTES], c[CELL_BYTES], e[CELL_BYTES], f[CELL_BYTES], g[CELL_BYTES];

	fprintf(out, "\n  flows    %s of %s", cell_grouped(a, flows, "confirmed"),
		cell_grouped(b, flows, "max_confirmed"));
	fprintf(out, ", half-open %s of %s", cell_grouped(a, flows, "half_open"),
		cell_grouped(b, flows, "max_half_open"));
	fprintf(out, "   SYNs %s, %s/s   queue overruns %s\n", cell_grouped(a, counters, "syns"),
		cell_number(b, status, "arrivals_per_second", 1), cell_grouped(c, counters, "queue_overruns"));
	fprintf(out, "  packets  %s seen %s %s served + %s forwarded + %s passed + %s dropped + %s decapsulated\n",
		cell_grouped(a, totals, "seen"), flag_of(status, "law_holds") ? "=" : "is NOT",
		cell_grouped(b, totals, "served"), cell_grouped(c, totals, "forwarded"),
		cell_grouped(e, totals, "passed"), cell_grouped(f, totals, "dropped"),
		cell_grouped(g, totals, "decapsulated"));
}

unsigned count_warnings(const json_t *status)
{
	return (unsigned)json_array_size(json_object_get(status, "warnings"));
}

void render_warnings(FILE *out, const json_t *status, const struct style *style)
{
	const json_t *warnings = json_object_get(status, "warnings"), *warning;
	size_t i;

	json_array_foreach(warnings, i, warning)
		fprintf(out, "%s  ! %s. %s%s\n", style->colour ? "\033[33m" : "", text_of(warning, "text"),
			text_of(warning, "advice"), style->colour ? "\033[0m" : "");
	if (!count_warnings(status) && !style->no_heading)
		fputs("  no warnings\n", out);
}

void render_notes(FILE *out, const json_t *answer, const struct style *style)
{
	const json_t *notes = json_object_get(answer, "notes"), *note;
	size_t i;

	if (style->no_heading)
		return;
	json_array_foreach(notes, i, note) fprintf(out, "  note: %s\n", json_string_value(note));
}

void render_status(FILE *out, const json_t *status, const struct style *style)
{
	if (!style->no_heading) {
		render_head(out, status);
		render_cluster(out, status);
		render_datapath(out, status);
		render_shared(out, status);
		render_backends_line(out, status);
		render_deciding(out, status);
	}
	render_members(out, json_object_get(status, "members"), style);
	if (!style->no_heading)
		render_counts(out, status);
	render_warnings(out, status, style);
	render_notes(out, status, style);
}
