// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/web/core/history.h"

#include <math.h>
#include <string.h>

static double number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* New connections that a policy, a drain or a sick web server sent to a peer; dprctl metrics counts the same. */
static double forwarded_of(const json_t *status)
{
	static const char *const reasons[] = { "chosen", "draining", "unhealthy" };
	const json_t *decisions = json_object_get(status, "decisions");
	double sum = 0;
	size_t i;

	for (i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		double count = number(json_object_get(decisions, reasons[i]), "count");

		if (!isnan(count))
			sum += count;
	}
	return sum;
}

static void read_member(const json_t *member, struct history_member *ret)
{
	const char *name = json_string_value(json_object_get(member, "name"));
	bool self = json_is_true(json_object_get(member, "self"));
	size_t bytes = name ? strnlen(name, NAME_BYTES - 1) : 0;

	*ret = (struct history_member) { .load = (double)NAN, .arrivals = (double)NAN };
	if (bytes)
		memcpy(ret->name, name, bytes);
	ret->counts = json_is_true(json_object_get(member, "eligible"));
	if (!self && !ret->counts)
		return;
	ret->load = number(member, "load");
	ret->arrivals = number(member, "arrivals_per_second");
}

void history_read(const json_t *status, int64_t at_ms, uint64_t now_ms, struct history_sample *ret)
{
	const json_t *totals = json_object_get(status, "totals"), *member;
	size_t i;

	*ret = (struct history_sample) { .at_ms = at_ms, .now_ms = now_ms };
	ret->up = json_is_object(totals);
	if (!ret->up)
		return;
	ret->run = number(status, "pid");
	ret->total[HISTORY_SERVED] = number(totals, "served");
	ret->total[HISTORY_FORWARDED] = forwarded_of(status);
	ret->total[HISTORY_TAKEN] = number(json_object_get(status, "counters"), "syns_taken");
	json_array_foreach(json_object_get(status, "members"), i, member)
	{
		if (ret->member_count < MEMBERS_MAX)
			read_member(member, &ret->member[ret->member_count++]);
	}
}

static double imbalance_of(const struct history_sample *sample)
{
	double sum = 0, squares = 0, mean, variance;
	unsigned count = 0, i;

	for (i = 0; i < sample->member_count; i++) {
		const struct history_member *m = &sample->member[i];

		if (!m->counts || isnan(m->load))
			continue;
		sum += m->load;
		squares += m->load * m->load;
		count++;
	}
	if (count < 2)
		return (double)NAN;
	mean = sum / count;
	variance = squares / count - mean * mean;
	return mean > 0 && variance > 0 ? sqrt(variance) / mean : 0;
}

static void put_values(struct history *history, const struct history_sample *sample, struct history_point *point)
{
	double seconds = (double)(sample->now_ms - history->now_ms) / 1000;
	bool same = history->known && sample->up && history->run == sample->run && sample->now_ms > history->now_ms;
	unsigned i;

	for (i = 0; i < HISTORY_IMBALANCE; i++) {
		double grown = sample->total[i] - history->total[i];

		point->value[i] = same && grown >= 0 ? (float)(grown / seconds) : NAN;
	}
	point->value[HISTORY_IMBALANCE] = sample->up ? (float)imbalance_of(sample) : NAN;
	history->known = sample->up;
	history->run = sample->run;
	history->now_ms = sample->now_ms;
	memcpy(history->total, sample->total, sizeof(history->total));
}

static bool has_name(const struct history_sample *sample, const char *name)
{
	unsigned i;

	for (i = 0; i < sample->member_count; i++) {
		if (strcmp(sample->member[i].name, name) == 0)
			return true;
	}
	return false;
}

static void clear_slot(struct history *history, unsigned slot)
{
	unsigned i;

	for (i = 0; i < HISTORY_POINTS; i++)
		history->point[i].load[slot] = history->point[i].arrivals[slot] = NAN;
	history->name[slot][0] = '\0';
}

/* The slot of a member. A name that the file no longer has makes room when all slots are taken. */
static unsigned slot_of(struct history *history, const struct history_sample *sample, const char *name)
{
	unsigned slot, free_slot = MEMBERS_MAX;

	for (slot = 0; slot < MEMBERS_MAX; slot++) {
		if (strcmp(history->name[slot], name) == 0)
			return slot;
		if (!history->name[slot][0] && free_slot == MEMBERS_MAX)
			free_slot = slot;
	}
	for (slot = 0; slot < MEMBERS_MAX && free_slot == MEMBERS_MAX; slot++) {
		if (!has_name(sample, history->name[slot]))
			free_slot = slot;
	}
	if (free_slot == MEMBERS_MAX)
		return free_slot;
	clear_slot(history, free_slot);
	memcpy(history->name[free_slot], name, strlen(name) + 1);
	return free_slot;
}

void history_add(struct history *history, const struct history_sample *sample)
{
	struct history_point *point = &history->point[history->next];
	unsigned i;

	*point = (struct history_point) { .at_ms = sample->at_ms, .up = sample->up };
	for (i = 0; i < MEMBERS_MAX; i++)
		point->load[i] = point->arrivals[i] = NAN;
	put_values(history, sample, point);
	for (i = 0; i < sample->member_count; i++) {
		const struct history_member *m = &sample->member[i];
		unsigned slot = m->name[0] ? slot_of(history, sample, m->name) : MEMBERS_MAX;

		if (slot == MEMBERS_MAX)
			continue;
		point->load[slot] = (float)m->load;
		point->arrivals[slot] = (float)m->arrivals;
	}
	history->next = (history->next + 1) % HISTORY_POINTS;
	history->count += history->count < HISTORY_POINTS;
}

static const struct history_point *point_at(const struct history *history, unsigned i)
{
	return &history->point[(history->next + HISTORY_POINTS - history->count + i) % HISTORY_POINTS];
}

/* Three digits behind the point are enough for a picture. */
static json_t *value_json(float value)
{
	return isfinite(value) ? json_real(round((double)value * 1000) / 1000) : json_null();
}

static json_t *column_json(const struct history *history, enum history_value value)
{
	json_t *column = json_array();
	unsigned i;

	for (i = 0; i < history->count; i++)
		json_array_append_new(column, value_json(point_at(history, i)->value[value]));
	return column;
}

static json_t *member_json(const struct history *history, unsigned slot)
{
	json_t *load = json_array(), *arrivals = json_array();
	bool seen = false;
	unsigned i;

	for (i = 0; i < history->count; i++) {
		const struct history_point *point = point_at(history, i);

		seen = seen || isfinite(point->load[slot]) || isfinite(point->arrivals[slot]);
		json_array_append_new(load, value_json(point->load[slot]));
		json_array_append_new(arrivals, value_json(point->arrivals[slot]));
	}
	if (!seen) {
		json_decref(load);
		json_decref(arrivals);
		return NULL;
	}
	return json_pack("{s:s, s:o, s:o}", "name", history->name[slot], "load", load, "arrivals_per_second", arrivals);
}

json_t *history_json(const struct history *history)
{
	json_t *at = json_array(), *up = json_array(), *members = json_array();
	unsigned i;

	for (i = 0; i < history->count; i++) {
		json_array_append_new(at, json_integer(point_at(history, i)->at_ms));
		json_array_append_new(up, json_boolean(point_at(history, i)->up));
	}
	for (i = 0; i < MEMBERS_MAX; i++) {
		json_t *member = history->name[i][0] ? member_json(history, i) : NULL;

		if (member)
			json_array_append_new(members, member);
	}
	return json_pack("{s:s, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", "dprd.history/1", "period_seconds",
			 HISTORY_PERIOD_MS / 1000.0, "at_ms", at, "up", up, "served_per_second",
			 column_json(history, HISTORY_SERVED), "forwarded_per_second",
			 column_json(history, HISTORY_FORWARDED), "taken_per_second",
			 column_json(history, HISTORY_TAKEN), "imbalance", column_json(history, HISTORY_IMBALANCE),
			 "members", members);
}
