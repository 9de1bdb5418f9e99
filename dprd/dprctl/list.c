// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/list.c - prints flows, a line each, and decisions, a paragraph each. */
#include "dprd/dprctl/dprctl.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { ENDPOINT_BYTES = ADDR_TEXT_BYTES + 10 };

static const char *endpoint(char text[ENDPOINT_BYTES], const json_t *object, const char *address, const char *port)
{
	const char *host = text_of(object, address);
	bool v6 = strchr(host, ':');

	snprintf(text, ENDPOINT_BYTES, "%s%.46s%s:%u", v6 ? "[" : "", host, v6 ? "]" : "",
		 (unsigned)json_integer_value(json_object_get(object, port)) % 65536);
	return text;
}

void render_flow_heading(FILE *out)
{
	fprintf(out, "%-26s %-26s %-12s %-10s %8s\n", "CLIENT", "ARRIVED AT", "SERVED BY", "STATE", "IDLE");
}

void render_flow(FILE *out, const json_t *flow)
{
	char client[ENDPOINT_BYTES], service[ENDPOINT_BYTES], idle[CELL_BYTES];

	fprintf(out, "%-26s %-26s %-12s %-10s %8s\n", endpoint(client, flow, "client", "client_port"),
		endpoint(service, flow, "service", "service_port"), text_of(flow, "node"), text_of(flow, "state"),
		cell_age(idle, flow, "idle_ms"));
}

void render_flows_end(FILE *out, const json_t *end)
{
	char shown[CELL_BYTES], total[CELL_BYTES];

	fprintf(out, "%s of %s that %s forwards shown\n", cell_grouped(shown, end, "shown"),
		cell_grouped(total, end, "total"), text_of(end, "node"));
}

static void render_time(FILE *out, double at_s)
{
	time_t seconds = (time_t)at_s;
	unsigned ms = (unsigned)((at_s - floor(at_s)) * 1000);
	struct tm broken;
	char text[32] = "?";

	if (localtime_r(&seconds, &broken))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &broken);
	fprintf(out, "%s.%03u", text, ms);
}

static void render_verdict(FILE *out, const json_t *decision)
{
	const char *verdict = text_of(decision, "verdict");

	if (strcmp(verdict, "forward") == 0)
		fprintf(out, "forwarded to %s", text_of(decision, "target"));
	else if (strcmp(verdict, "serve") == 0)
		fputs("served here", out);
	else if (strcmp(verdict, "drop") == 0)
		fputs("dropped", out);
	else
		fputs("passed on", out);
	fprintf(out, ": %s (%s).\n", text_of(decision, "reason_text"), text_of(decision, "reason"));
}

static void render_table(FILE *out, const json_t *decision)
{
	const json_t *peers = json_object_get(decision, "peers"), *peer;
	char load[CELL_BYTES], age[CELL_BYTES], sent[CELL_BYTES];
	double since;
	size_t i;

	json_array_foreach(peers, i, peer)
	{
		fprintf(out, "%s %s %s (", i ? "," : "; table:", text_of(peer, "name"),
			cell_number(load, peer, "load", 2));
		if (!flag_of(peer, "eligible"))
			fputs("barred, ", out);
		fprintf(out, "%s old", cell_age(age, peer, "age_ms"));
		if (number_of(peer, "sent_since", &since) && since > 0)
			fprintf(out, ", %s sent since", cell_number(sent, peer, "sent_since", 0));
		fputc(')', out);
	}
	if (!json_array_size(peers))
		fputs("; no peer in the table", out);
	fputs(".\n", out);
}

static void render_decision(FILE *out, const json_t *decision, const char *node, double now_s)
{
	char client[ENDPOINT_BYTES], service[ENDPOINT_BYTES], own[CELL_BYTES], max[CELL_BYTES], least[CELL_BYTES];
	double age_ms = 0, advantage = 0;

	number_of(decision, "age_ms", &age_ms);
	render_time(out, now_s - age_ms / 1000);
	fprintf(out, " on %s: SYN of %s to %s ", node, endpoint(client, decision, "client", "client_port"),
		endpoint(service, decision, "service", "service_port"));
	render_verdict(out, decision);
	fprintf(out, "  Policy %s; own load %s", text_of(decision, "policy"),
		cell_number(own, decision, "own_load", 2));
	if (flag_of(decision, "threshold")) {
		fprintf(out, ", MaxLoad %s", cell_number(max, decision, "max_load", 2));
		if (number_of(decision, "min_advantage", &advantage) && advantage > 0)
			fprintf(out, ", MinAdvantage %s", cell_number(least, decision, "min_advantage", 2));
	}
	render_table(out, decision);
}

unsigned render_why(FILE *out, const json_t *answer, double now_s)
{
	const json_t *decisions = json_object_get(answer, "decisions"), *decision;
	size_t i;

	json_array_foreach(decisions, i, decision)
	{
		if (i)
			fputc('\n', out);
		render_decision(out, decision, text_of(answer, "node"), now_s);
	}
	return (unsigned)json_array_size(decisions);
}
