// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/peers.c - members, one line each. Columns keep their places; new ones are added on the right. */
#include "dprd/dprctl/dprctl.h"

#include <string.h>

#include "dprd/base/version.h"

enum column_kind { COLUMN_NUMBER, COLUMN_AGE, COLUMN_PERCENT, COLUMN_TEXT };

struct column {
	const char *heading, *key;
	enum column_kind kind;
	int width;
	bool own; /* "-" for this node, which has no such value */
	bool announced; /* out of date once its node is no longer heard */
};

static const struct column status_columns[] = {
	{ "AGE", "age_ms", COLUMN_AGE, 6, true, false },
	{ "LOAD", "load", COLUMN_NUMBER, 7, false, true },
	{ "OPEN", "open_connections", COLUMN_NUMBER, 6, false, true },
	{ "ARRIVE/s", "arrivals_per_second", COLUMN_NUMBER, 9, false, true },
	{ "FWD", "redirected", COLUMN_NUMBER, 6, false, true },
	{ "QUEUE", "accept_queue", COLUMN_NUMBER, 6, false, true },
	{ "CPU", "cpu_ratio", COLUMN_PERCENT, 5, false, true },
	{ "WEIGHT", "weight", COLUMN_NUMBER, 7, false, false },
	{ 0 },
};

static const struct column peer_columns[] = {
	{ "AGE", "age_ms", COLUMN_AGE, 6, true, false },
	{ "ECHO", "echo_age_ms", COLUMN_AGE, 6, true, false },
	{ "LOAD", "load", COLUMN_NUMBER, 7, false, true },
	{ "SENT", "sent_since", COLUMN_NUMBER, 5, true, true },
	{ "WEIGHT", "weight", COLUMN_NUMBER, 7, false, false },
	{ "OPEN", "open_connections", COLUMN_NUMBER, 6, false, true },
	{ "ARRIVE/s", "arrivals_per_second", COLUMN_NUMBER, 9, false, true },
	{ "FWD", "redirected", COLUMN_NUMBER, 6, false, true },
	{ "SOCKETS", "active_sockets", COLUMN_NUMBER, 8, false, true },
	{ "QUEUE", "accept_queue", COLUMN_NUMBER, 6, false, true },
	{ "CPU", "cpu_ratio", COLUMN_PERCENT, 5, false, true },
	{ "MTU4", "tunnel_mtu_v4", COLUMN_NUMBER, 6, true, false },
	{ "MTU6", "tunnel_mtu_v6", COLUMN_NUMBER, 6, true, false },
	{ "VERSION", "version", COLUMN_TEXT, VERSION_BYTES - 1, false, true },
	{ 0 },
};

const char *member_state_word(const json_t *member)
{
	const char *why_not = text_of(member, "why_not"), *state = text_of(member, "state");

	/* dprctl/files.c gives this reason when dprd does not answer. */
	if (strcmp(why_not, "dprd does not answer") == 0)
		return "?";
	if (strcmp(why_not, "heard") == 0)
		return strcmp(state, "active") == 0 ? "heard" : state;
	if (flag_of(member, "self"))
		return strcmp(state, "active") == 0 ? "up" : state;
	if (flag_of(member, "eligible"))
		return "up";
	if (strcmp(why_not, "not heard") == 0)
		return "LATE";
	if (strcmp(why_not, "never heard") == 0 || strcmp(why_not, "no load table") == 0)
		return "?";
	return strcmp(state, "active") == 0 ? "BARRED" : state;
}

void render_state(FILE *out, const json_t *member, int width, const struct style *style)
{
	const char *word = member_state_word(member), *colour = "31";

	if (strcmp(word, "up") == 0 || strcmp(word, "heard") == 0)
		colour = "32";
	else if (strcmp(word, "draining") == 0 || strcmp(word, "?") == 0)
		colour = "33";
	if (style->colour)
		fprintf(out, "\033[%sm%-*s\033[0m", colour, width, word);
	else
		fprintf(out, "%-*s", width, word);
}

/* True for a node whose old numbers would look like new ones. */
static bool is_silent(const json_t *member)
{
	const char *word = member_state_word(member);

	return !flag_of(member, "self") && (strcmp(word, "LATE") == 0 || strcmp(word, "?") == 0);
}

static const char *column_cell(char cell[CELL_BYTES], const json_t *member, const struct column *column)
{
	if (column->own && flag_of(member, "self"))
		return "-";
	if (column->announced && is_silent(member))
		return "?";
	switch (column->kind) {
	case COLUMN_AGE:
		return cell_age(cell, member, column->key);
	case COLUMN_PERCENT:
		return cell_percent(cell, member, column->key);
	case COLUMN_TEXT:
		return text_of(member, column->key);
	case COLUMN_NUMBER:
		break;
	}
	return cell_number(cell, member, column->key, 1);
}

static int width_of(const json_t *members, const char *key, int least)
{
	const json_t *member;
	size_t i;

	json_array_foreach(members, i, member)
	{
		int length = (int)strlen(text_of(member, key));

		if (length > least && length < 100)
			least = length;
	}
	return least;
}

/* The last column: what is wrong with a member; "": nothing, or its state says it. */
static const char *note_of(const json_t *member)
{
	static const char *const families[][2] = { { "answers_v4", "not over IPv4" },
						   { "answers_v6", "not over IPv6" } };
	const char *why_not = text_of(member, "why_not");
	size_t i;

	if (!flag_of(member, "eligible"))
		return strcmp(member_state_word(member), why_not) == 0 ? "" : why_not;
	for (i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		if (json_is_false(json_object_get(member, families[i][0])))
			return families[i][1];
	}
	return "";
}

static void render_table(FILE *out, const json_t *members, const char *address, const struct column *columns,
			 const struct style *style)
{
	int names = width_of(members, "name", 6), addresses = width_of(members, address, 14);
	const struct column *column;
	const json_t *member;
	char cell[CELL_BYTES];
	size_t i;

	if (!style->no_heading) {
		fprintf(out, "  %-*s %-*s %-9s", names, "NODE", addresses, "ADDRESS", "STATE");
		for (column = columns; column->heading; column++)
			fprintf(out, " %*s", column->width, column->heading);
		fprintf(out, "  NOTE\n");
	}
	json_array_foreach(members, i, member)
	{
		const char *note = note_of(member);

		fprintf(out, "%c %-*s %-*s ", flag_of(member, "self") ? '>' : ' ', names, text_of(member, "name"),
			addresses, text_of(member, address));
		render_state(out, member, 9, style);
		for (column = columns; column->heading; column++)
			fprintf(out, " %*s", column->width, column_cell(cell, member, column));
		fprintf(out, "%s%s\n", *note ? "  " : "", note);
	}
}

void render_members(FILE *out, const json_t *members, const struct style *style)
{
	render_table(out, members, "address", status_columns, style);
}

void render_peers(FILE *out, const json_t *members, const struct style *style)
{
	render_table(out, members, "cluster_address", peer_columns, style);
}

static void dump_value(FILE *out, const json_t *value)
{
	if (json_is_string(value))
		fputs(json_string_value(value), out);
	else if (json_is_boolean(value))
		fputs(json_is_true(value) ? "yes" : "no", out);
	else if (json_is_integer(value))
		fprintf(out, "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value))
		fprintf(out, "%.10g", json_real_value(value));
	else
		fputc('?', out);
}

void render_peers_dump(FILE *out, const json_t *members)
{
	static const char *const keys[] = {
		"name",
		"self",
		"state",
		"eligible",
		"why_not",
		"address",
		"cluster_address",
		"weight",
		"load",
		"open_connections",
		"cpu_ratio",
		"redirected",
		"active_sockets",
		"accept_queue",
		"arrivals_per_second",
		"age_ms",
		"echo_age_ms",
		"sent_since",
		"tunnel_mtu_v4",
		"tunnel_mtu_v6",
		"version",
	};
	const json_t *member;
	size_t i, k;

	json_array_foreach(members, i, member)
	{
		for (k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
			const json_t *value = json_object_get(member, keys[k]);

			if (k)
				fputc('\t', out);
			/* Nothing keeps connections from the member: that is a known value, not "?". */
			if (json_is_null(value) && strcmp(keys[k], "why_not") == 0)
				fputc('-', out);
			else
				dump_value(out, value);
		}
		fputc('\n', out);
	}
}
