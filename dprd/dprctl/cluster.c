// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * dprctl/cluster.c - compares the views that all nodes have of the cluster, and shows them.
 *
 * An object "cluster" has nodes: for each member its name, fault (null: it answers), clock_offset_seconds, and status
 * (its own answer, null without one).
 */
#include "dprd/dprctl/dprctl.h"

#include <math.h>
#include <string.h>

enum { CLOCK_APART_S = 2, LIST_BYTES = 256, LINE_TEXT_BYTES = 640 };

double cluster_clock_offset(double asked_s, double answered_s, double theirs_s)
{
	return theirs_s < asked_s ? theirs_s - asked_s : theirs_s > answered_s ? theirs_s - answered_s : 0;
}

static const json_t *status_of(const json_t *node)
{
	const json_t *status = json_object_get(node, "status");

	return json_is_object(status) ? status : NULL;
}

/* "n1", then "n1, n2", then "n1, n2, ..." when there is no room. */
static void add_name(char list[LIST_BYTES], const char *name)
{
	size_t used = strlen(list);

	if (used + strlen(name) + sizeof(", , ...") > LIST_BYTES) {
		if (used < 5 || strcmp(list + used - 5, ", ...") != 0)
			snprintf(list + used, LIST_BYTES - used, ", ...");
		return;
	}
	snprintf(list + used, LIST_BYTES - used, "%s%s", used ? ", " : "", name);
}

static void add_text(json_t *texts, const char *text)
{
	json_array_append_new(texts, json_string(text));
}

/* The word in dprctl status that a node's own state leads to at its peers. */
static const char *own_word(const json_t *status)
{
	const char *state = text_of(status, "state");

	return strcmp(state, "active") == 0 ? "up" : state;
}

/* How the viewer sees the node, if that differs from what the node says of itself; NULL: they agree. */
static const char *other_word(const json_t *member, const json_t *status)
{
	const char *word = member ? member_state_word(member) : "no member";

	if (strcmp(word, own_word(status)) == 0)
		return NULL;
	/* It gets no forwarded connections because the operator wants it so. */
	return member && strcmp(text_of(member, "why_not"), "weight 0") == 0 ? NULL : word;
}

/* A line for each word that the viewer has for nodes which say something else. */
static void judge_states(json_t *texts, const json_t *nodes, const json_t *viewer)
{
	bool told[MEMBERS_MAX] = { false };
	const json_t *seen, *alike;
	size_t i, k;

	json_array_foreach(nodes, i, seen)
	{
		const json_t *member = member_named(status_of(viewer), text_of(seen, "name")), *other;
		const char *word = seen == viewer || !status_of(seen) ? NULL : other_word(member, status_of(seen));
		char names[LIST_BYTES] = "", line[LINE_TEXT_BYTES];

		if (!word || i >= MEMBERS_MAX || told[i])
			continue;
		json_array_foreach(nodes, k, alike)
		{
			other = member_named(status_of(viewer), text_of(alike, "name"));
			if (k < i || k >= MEMBERS_MAX || alike == viewer || !status_of(alike) ||
			    strcmp(own_word(status_of(alike)), own_word(status_of(seen))) != 0 || !other != !member ||
			    (member && (strcmp(member_state_word(other), word) != 0 ||
					strcmp(text_of(other, "why_not"), text_of(member, "why_not")) != 0)))
				continue;
			told[k] = true;
			add_name(names, text_of(alike, "name"));
		}
		snprintf(line, sizeof(line), "%s sees %s as %s (%s), which say of themselves: %s",
			 text_of(viewer, "name"), names, word,
			 member && json_is_string(json_object_get(member, "why_not")) ? text_of(member, "why_not")
			 : member                                                     ? "gets connections"
										      : "not in its dprd.conf",
			 own_word(status_of(seen)));
		add_text(texts, line);
	}
}

/* A weight that grows after a start is no whole number, and changes from answer to answer. */
static void judge_weights(json_t *texts, const json_t *nodes, const json_t *seen)
{
	const char *name = text_of(seen, "name");
	const json_t *own = json_object_get(member_named(status_of(seen), name), "weight"), *viewer;
	char line[LINE_TEXT_BYTES];
	size_t i;

	json_array_foreach(nodes, i, viewer)
	{
		const json_t *weight = json_object_get(member_named(status_of(viewer), name), "weight");

		if (!json_is_integer(own) || !json_is_integer(weight) || json_equal(own, weight))
			continue;
		snprintf(line, sizeof(line), "%s gives %s the weight %lld, %s itself %lld", text_of(viewer, "name"),
			 name, (long long)json_integer_value(weight), name, (long long)json_integer_value(own));
		add_text(texts, line);
	}
}

/* The value that most nodes have for a key of their status; NULL: no node has one. */
static const char *usual_value(const json_t *nodes, const char *key)
{
	const json_t *node, *other;
	const char *best = NULL;
	unsigned most = 0, count;
	size_t i, k;

	json_array_foreach(nodes, i, node)
	{
		const char *value = json_string_value(json_object_get(status_of(node), key));

		count = 0;
		json_array_foreach(nodes, k, other) count +=
			value &&
			json_equal(json_object_get(status_of(node), key), json_object_get(status_of(other), key));
		if (count > most) {
			most = count;
			best = value;
		}
	}
	return best;
}

/* One line for the nodes that have another value than most. what: "%s" stands for their names. */
static void judge_value(json_t *texts, const json_t *nodes, const char *key, const char *what)
{
	const char *usual = usual_value(nodes, key);
	char names[LIST_BYTES] = "", line[LINE_TEXT_BYTES];
	const json_t *node;
	size_t i;

	json_array_foreach(nodes, i, node)
	{
		if (status_of(node) && usual && strcmp(text_of(status_of(node), key), usual) != 0)
			add_name(names, text_of(node, "name"));
	}
	snprintf(line, sizeof(line), "%s: %s", what, names);
	if (*names)
		add_text(texts, line);
}

static void judge_node(json_t *texts, const json_t *nodes, const json_t *node)
{
	const char *name = text_of(node, "name");
	char line[LINE_TEXT_BYTES];
	double offset;

	if (!status_of(node)) {
		snprintf(line, sizeof(line), "%s does not answer: %s", name, text_of(node, "fault"));
		add_text(texts, line);
		return;
	}
	judge_states(texts, nodes, node);
	judge_weights(texts, nodes, node);
	if (number_of(node, "clock_offset_seconds", &offset) && fabs(offset) > CLOCK_APART_S) {
		snprintf(line, sizeof(line), "the clock of %s is %.1f s %s this host's", name, fabs(offset),
			 offset > 0 ? "ahead of" : "behind");
		add_text(texts, line);
	}
	if (flag_of(status_of(node), "minority")) {
		snprintf(line, sizeof(line), "%s hears fewer than half of the members", name);
		add_text(texts, line);
	}
}

bool cluster_judge(json_t *cluster)
{
	json_t *nodes = json_object_get(cluster, "nodes"), *texts = json_array(), *notes = json_array(), *node;
	bool agree;
	size_t i;

	json_array_foreach(nodes, i, node) judge_node(texts, nodes, node);
	judge_value(texts, nodes, "config_hash", "other members, addresses or ports in dprd.conf than most");
	judge_value(texts, nodes, "cluster", "another name of the cluster than most");
	judge_value(notes, nodes, "version", "another version of dprd than most");
	agree = !json_array_size(texts);
	json_object_set_new(cluster, "disagreements", texts);
	json_object_set_new(cluster, "notes", notes);
	json_object_set_new(cluster, "agree", json_boolean(agree));
	return agree;
}

/* "2 up, LATE n3, draining n2" */
static void render_sees(FILE *out, const json_t *status)
{
	const json_t *members = json_object_get(status, "members"), *member;
	unsigned up = 0;
	size_t i;

	json_array_foreach(members, i, member) up += strcmp(member_state_word(member), "up") == 0;
	fprintf(out, "%u up", up);
	json_array_foreach(members, i, member)
	{
		if (strcmp(member_state_word(member), "up") != 0)
			fprintf(out, ", %s %s", text_of(member, "name"), member_state_word(member));
	}
}

static void render_node(FILE *out, const json_t *node, int names, const char *self, const struct style *style)
{
	const json_t *status = status_of(node), *own = member_named(status, text_of(node, "name"));
	char weight[CELL_BYTES], offset[CELL_BYTES], up[CELL_BYTES] = "?";
	double seconds;

	fprintf(out, "%c %-*s ", strcmp(self, text_of(node, "name")) == 0 ? '>' : ' ', names, text_of(node, "name"));
	if (!status) {
		fprintf(out, "%sdoes not answer: %s%s\n", style->colour ? "\033[31m" : "", text_of(node, "fault"),
			style->colour ? "\033[0m" : "");
		return;
	}
	if (number_of(status, "uptime_seconds", &seconds))
		cell_duration(up, seconds);
	if (own)
		render_state(out, own, 9, style);
	else
		fprintf(out, "%-9s", own_word(status));
	fprintf(out, " %6s %-8s %-10s %-13s %5s %4u  ", cell_number(weight, own, "weight", 1),
		text_of(status, "config_hash"), text_of(status, "version"), up,
		cell_number(offset, node, "clock_offset_seconds", 1), count_warnings(status));
	render_sees(out, status);
	fputc('\n', out);
}

void render_views(FILE *out, const json_t *cluster, const struct style *style)
{
	const json_t *nodes = json_object_get(cluster, "nodes"), *item;
	int names = 6;
	size_t i;

	json_array_foreach(nodes, i, item)
	{
		if ((int)strlen(text_of(item, "name")) > names)
			names = (int)strlen(text_of(item, "name"));
	}
	if (!style->no_heading)
		fprintf(out, "  %-*s %-9s %6s %-8s %-10s %-13s %5s %4s  %s\n", names, "NODE", "STATE", "WEIGHT",
			"CONFIG", "VERSION", "UP", "CLOCK", "WARN", "SEES");
	json_array_foreach(nodes, i, item) render_node(out, item, names, text_of(cluster, "node"), style);
	json_array_foreach(json_object_get(cluster, "disagreements"), i, item)
		fprintf(out, "%s  ! %s%s\n", style->colour ? "\033[33m" : "", json_string_value(item),
			style->colour ? "\033[0m" : "");
	json_array_foreach(json_object_get(cluster, "notes"), i, item)
		fprintf(out, "  note: %s\n", json_string_value(item));
	if (flag_of(cluster, "agree") && !style->no_heading)
		fputs("  all nodes agree\n", out);
}
