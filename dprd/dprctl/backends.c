// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/backends.c - the real servers behind this node, one line each. */
#include "dprd/dprctl/dprctl.h"

#include <string.h>

enum { ADDRESSES_BYTES = 2 * (ADDR_TEXT_BYTES + 8) + 1 };

/* "10.1.0.21:8080 [fd00::21]:8080": where this node reaches it. */
static const char *addresses_of(char cell[ADDRESSES_BYTES], const json_t *backend)
{
	const char *v4 = json_string_value(json_object_get(backend, "address_v4"));
	const char *v6 = json_string_value(json_object_get(backend, "address_v6"));
	char port[CELL_BYTES + 1] = "", number[CELL_BYTES];
	double value;

	if (number_of(backend, "port", &value))
		snprintf(port, sizeof(port), ":%s", cell_number(number, backend, "port", 0));
	if (!v4 && !v6)
		return "?";
	snprintf(cell, ADDRESSES_BYTES, "%s%s%s%s%s%s%s", v4 ? v4 : "", v4 ? port : "", v4 && v6 ? " " : "",
		 v6 && *port ? "[" : "", v6 ? v6 : "", v6 && *port ? "]" : "", v6 ? port : "");
	return cell;
}

static const char *state_word(const json_t *backend)
{
	if (flag_of(backend, "eligible"))
		return "up";
	return strcmp(text_of(backend, "why_not"), "unhealthy") == 0 ? "unhealthy" : "BARRED";
}

static void render_one(FILE *out, const json_t *backend, int names, int addresses, const struct style *style)
{
	const char *word = state_word(backend), *why_not = text_of(backend, "why_not");
	char cell[CELL_BYTES], where[ADDRESSES_BYTES];
	bool note = !flag_of(backend, "eligible") && strcmp(word, why_not) != 0;

	fprintf(out, "  %-*s %-6s %-*s ", names, text_of(backend, "name"), text_of(backend, "form"), addresses,
		addresses_of(where, backend));
	if (style->colour)
		fprintf(out, "\033[%sm%-9s\033[0m", flag_of(backend, "eligible") ? "32" : "31", word);
	else
		fprintf(out, "%-9s", word);
	fprintf(out, " %6s", cell_number(cell, backend, "weight", 0));
	fprintf(out, " %7s", cell_number(cell, backend, "connections", 0));
	fprintf(out, " %9s", cell_number(cell, backend, "chosen", 0));
	fprintf(out, "%s%s\n", note ? "  " : "", note ? why_not : "");
}

/* Tells whether the node itself serves connections beside its real servers. */
static const char *own_part(const json_t *backends)
{
	if (!flag_of(backends, "serve_here"))
		return "this node itself serves no connections";
	return flag_of(backends, "serves_here") ? "this node serves connections, too"
						: "the web server of this node fails its health check";
}

void render_backends(FILE *out, const json_t *answer, const struct style *style)
{
	const json_t *list = json_object_get(answer, "backends"), *backend;
	int names = 6, addresses = 14;
	char cell[ADDRESSES_BYTES];
	size_t i;

	if (!json_array_size(list)) {
		if (!style->no_heading)
			fprintf(out, "no real servers behind %s\n", text_of(answer, "node"));
		return;
	}
	json_array_foreach(list, i, backend)
	{
		int name = (int)strlen(text_of(backend, "name")), address = (int)strlen(addresses_of(cell, backend));

		names = name > names ? name : names;
		addresses = address > addresses ? address : addresses;
	}
	if (!style->no_heading)
		fprintf(out, "%s: policy %s; %s\n  %-*s %-6s %-*s %-9s %6s %7s %9s  NOTE\n", text_of(answer, "node"),
			text_of(answer, "policy"), own_part(answer), names, "NAME", "FORM", addresses, "ADDRESS",
			"STATE", "WEIGHT", "OPEN", "CHOSEN");
	json_array_foreach(list, i, backend) render_one(out, backend, names, addresses, style);
}

void render_backends_line(FILE *out, const json_t *status)
{
	const json_t *backends = json_object_get(status, "backends");
	char usable[CELL_BYTES], count[CELL_BYTES], open[CELL_BYTES];

	if (!json_is_object(backends))
		return;
	fprintf(out, "  backends         %s of %s real servers get new connections, %s open; policy %s; %s\n",
		cell_number(usable, backends, "usable", 0), cell_number(count, backends, "count", 0),
		cell_grouped(open, backends, "connections"), text_of(backends, "policy"), own_part(backends));
}
