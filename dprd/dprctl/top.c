// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * dprctl/top.c - the lines of dprctl top, from two answers to "status" and the time between them. No terminal here.
 *
 * A rate is the growth of a counter of this node. Values that peers announce are shown as announced.
 */
#define _GNU_SOURCE
#include "dprd/dprctl/dprctl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BAR_MOST = 30, BAR_LEAST = 6, FIXED_COLUMNS = 67 };

/* Orders of the rows; the keys of a member that they compare. */
static const struct {
	const char *name, *key; /* key NULL: as in the file */
} orders[] = {
	{ "file", NULL }, { "load", "load" }, { "open", "open_connections" }, { "new/s", "arrivals_per_second" }
};

/* The growth of a counter per second; false: not known, or dprd was started anew. */
static bool rate_of(const json_t *now, const json_t *before, const char *key, double seconds, double *ret)
{
	double a, b;

	if (seconds <= 0 || !number_of(now, key, &a) || !number_of(before, key, &b) || a < b)
		return false;
	*ret = (a - b) / seconds;
	return true;
}

double top_quantile_s(const json_t *now, const json_t *before, double part)
{
	const json_t *times = json_object_get(now, "decision_times"), *old = json_object_get(before, "decision_times");
	const json_t *buckets = json_object_get(times, "buckets"), *earlier = json_object_get(old, "buckets"), *bucket;
	double total, total_before, count, count_before, seconds;
	size_t i;

	if (!number_of(times, "count", &total) || !number_of(old, "count", &total_before) || total <= total_before)
		return NAN;
	json_array_foreach(buckets, i, bucket)
	{
		if (!number_of(bucket, "count", &count) || !number_of(bucket, "seconds", &seconds) ||
		    !number_of(json_array_get(earlier, i), "count", &count_before))
			return NAN;
		if (count - count_before >= part * (total - total_before))
			return seconds;
	}
	return INFINITY;
}

/* "64us", "1.0ms"; "-": there was no decision. */
static const char *cell_time(char cell[CELL_BYTES], double seconds)
{
	if (isnan(seconds))
		return "-";
	if (isinf(seconds))
		return "long";
	if (seconds < 1e-3)
		snprintf(cell, CELL_BYTES, "%.0fus", seconds * 1e6);
	else
		snprintf(cell, CELL_BYTES, "%.1fms", seconds * 1e3);
	return cell;
}

static const char *cell_rate(char cell[CELL_BYTES], bool known, double rate)
{
	if (!known)
		return "?";
	snprintf(cell, CELL_BYTES, "%.1f", fmin(rate, 1e12));
	return cell;
}

/* Connections per second that this node forwards to the member, over both families. */
static bool to_rate(const json_t *member, const json_t *before, double seconds, double *ret)
{
	double v4, v6;

	if (!rate_of(member, before, "forwarded_v4", seconds, &v4) ||
	    !rate_of(member, before, "forwarded_v6", seconds, &v6))
		return false;
	*ret = v4 + v6;
	return true;
}

static int by_number(const void *a, const void *b, void *key)
{
	const json_t *one = *(const json_t *const *)a, *two = *(const json_t *const *)b;
	double x = -1, y = -1;

	number_of(one, key, &x);
	number_of(two, key, &y);
	return x < y ? 1 : x > y ? -1 : strcmp(text_of(one, "name"), text_of(two, "name"));
}

unsigned top_list(const json_t *now, unsigned order, const json_t *list[MEMBERS_MAX])
{
	const json_t *members = json_object_get(now, "members"), *member;
	const char *key = orders[order % TOP_ORDERS].key;
	unsigned count = 0;
	size_t i;

	json_array_foreach(members, i, member)
	{
		if (count < MEMBERS_MAX)
			list[count++] = member;
	}
	if (key)
		qsort_r(list, count, sizeof(list[0]), by_number, (void *)(uintptr_t)key);
	return count;
}

static void add_line(struct top_lines *lines, enum top_look look, const char *text)
{
	if (lines->count == TOP_LINES_MAX)
		return;
	snprintf(lines->line[lines->count].text, TOP_LINE_BYTES, "%s", text);
	lines->line[lines->count++].look = look;
}

static void add_head(struct top_lines *lines, const struct top *top)
{
	const json_t *now = top->now, *before = top->before, *members = json_object_get(now, "members"), *member;
	char text[TOP_LINE_BYTES], arrive[CELL_BYTES], taken[CELL_BYTES], p50[CELL_BYTES], p99[CELL_BYTES];
	const json_t *counts = json_object_get(now, "counters"), *old = json_object_get(before, "counters");
	double rate = 0;
	unsigned up = 0;
	bool known;
	size_t i;

	json_array_foreach(members, i, member) up += strcmp(member_state_word(member), "up") == 0;
	snprintf(text, sizeof(text), "%s on %s: %s, %u of %zu members up, %u warnings, policy %s%s%s",
		 text_of(now, "cluster"), text_of(now, "node"), text_of(now, "state"), up, json_array_size(members),
		 count_warnings(now), text_of(now, "policy"), top->frozen ? "   FROZEN" : "",
		 top->fault ? "   dprd DOES NOT ANSWER" : "");
	add_line(lines, top->fault ? TOP_BAD : TOP_TITLE, text);
	known = rate_of(counts, old, "syns_taken", top->seconds, &rate);
	snprintf(text, sizeof(text), "here: %s new/s, %s/s taken from peers; decisions p50 %s, p99 %s; sorted by %s",
		 cell_number(arrive, now, "arrivals_per_second", 1), cell_rate(taken, known, rate),
		 cell_time(p50, top_quantile_s(now, before, 0.5)), cell_time(p99, top_quantile_s(now, before, 0.99)),
		 orders[top->order % TOP_ORDERS].name);
	add_line(lines, TOP_PLAIN, text);
}

static void draw_bar(char bar[BAR_MOST + 3], const json_t *member, double most, int width)
{
	double load = 0;
	int filled;

	number_of(member, "load", &load);
	filled = most > 0 && load > 0 ? (int)lround(fmin(load / most, 1) * width) : 0;
	*bar++ = '|';
	for (int i = 0; i < width; i++)
		*bar++ = i < filled ? '#' : ' ';
	*bar++ = '|';
	*bar = '\0';
}

static enum top_look look_of(const json_t *member)
{
	const char *word = member_state_word(member);

	return strcmp(word, "up") == 0 ? TOP_GOOD : strcmp(word, "draining") == 0 ? TOP_WARN : TOP_BAD;
}

static void add_member(struct top_lines *lines, const struct top *top, const json_t *member, int names, double most,
		       int bar)
{
	char text[TOP_LINE_BYTES], drawn[BAR_MOST + 3] = "", arrive[CELL_BYTES], open[CELL_BYTES], load[CELL_BYTES],
						    forwards[CELL_BYTES], to[CELL_BYTES], age[CELL_BYTES];
	const char *word = member_state_word(member);
	bool self = flag_of(member, "self"), silent = !self && (strcmp(word, "LATE") == 0 || strcmp(word, "?") == 0);
	double rate = 0;
	bool known = to_rate(member, member_named(top->before, text_of(member, "name")), top->seconds, &rate);

	if (bar >= BAR_LEAST && !silent)
		draw_bar(drawn, member, most, bar);
	else if (bar >= BAR_LEAST)
		snprintf(drawn, sizeof(drawn), "%*s", bar + 2, "");
	snprintf(text, sizeof(text), "%c%-*s %-9s %8s %6s %7s %s %6s %8s %6s", self ? '>' : ' ', names,
		 text_of(member, "name"), word, silent ? "?" : cell_number(arrive, member, "arrivals_per_second", 1),
		 silent ? "?" : cell_number(open, member, "open_connections", 0),
		 silent ? "?" : cell_number(load, member, "load", 1), drawn,
		 silent ? "?" : cell_number(forwards, member, "redirected", 0), self ? "-" : cell_rate(to, known, rate),
		 self ? "-" : cell_age(age, member, "age_ms"));
	add_line(lines, look_of(member), text);
}

void top_lines(const struct top *top, int width, struct top_lines *lines)
{
	const json_t *list[MEMBERS_MAX];
	unsigned count = top_list(top->now, top->order, list);
	char text[TOP_LINE_BYTES];
	double most = 0, load;
	int names = 6, bar;

	lines->count = 0;
	for (unsigned i = 0; i < count; i++) {
		int length = (int)strlen(text_of(list[i], "name"));

		names = length > names && length < NAME_BYTES ? length : names;
		if (number_of(list[i], "load", &load) && load > most)
			most = load;
	}
	bar = width - FIXED_COLUMNS - (names - 6);
	bar = bar > BAR_MOST ? BAR_MOST : bar < BAR_LEAST ? 0 : bar;
	add_head(lines, top);
	snprintf(text, sizeof(text), " %-*s %-9s %8s %6s %7s %*s %6s %8s %6s", names, "NODE", "STATE", "NEW/s", "OPEN",
		 "LOAD", bar ? bar + 2 : 0, "", "FWD", "TO/s", "AGE");
	add_line(lines, TOP_HEADING, text);
	lines->first = lines->count;
	for (unsigned i = 0; i < count; i++)
		add_member(lines, top, list[i], names, most, bar);
}
