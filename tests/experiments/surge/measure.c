// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * measure.c - counts transfers and writes the log.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/experiments/surge/measure.h"

const char *const outcome_names[OUTCOMES] = { "ok",        "censored", "name",   "refused", "unreachable",
					      "reset",     "timeout",  "closed", "status",  "wrong_length",
					      "malformed", "chunked",  "local" };

static int64_t clock_us(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int measures_open(struct measures *measures, const struct options *options, uint64_t start_us)
{
	memset(measures, 0, sizeof(*measures));
	measures->start_us = start_us;
	measures->from_us = start_us + (uint64_t)(options->warmup_s * 1e6);
	measures->until_us = measures->from_us + (uint64_t)(options->seconds * 1e6);
	measures->in_flight_since_us = start_us;
	measures->to_unix_us = clock_us(CLOCK_REALTIME) - clock_us(CLOCK_MONOTONIC);
	measures->log_is_surge = options->log_is_surge;
	measures->prefix = options->prefix;
	measures->second_count = (unsigned)((measures->until_us - start_us) / 1000000) + 2;
	measures->seconds = calloc(measures->second_count, sizeof(*measures->seconds));
	if (!measures->seconds) {
		fprintf(stderr, "surge run: out of memory\n");
		return STATUS_FAILED;
	}
	if (!options->log)
		return 0;
	measures->log = fopen(options->log, "w");
	if (!measures->log) {
		fprintf(stderr, "surge run: cannot write the log %s: %s\n", options->log, strerror(errno));
		free(measures->seconds);
		return STATUS_FAILED;
	}
	if (!measures->log_is_surge)
		fprintf(measures->log, "# user step file size_bytes start_s connect_ms first_byte_ms end_ms "
				       "received_bytes status server node outcome\n");
	return 0;
}

bool measures_close(struct measures *measures, const struct options *options)
{
	bool good = true;

	if (measures->log) {
		good = !ferror(measures->log);
		if (fclose(measures->log) != 0 || !good) {
			fprintf(stderr, "surge run: the log %s is not complete: disk full?\n", options->log);
			good = false;
		}
	}
	free(measures->response_ms.all);
	free(measures->connect_ms.all);
	free(measures->first_byte_ms.all);
	free(measures->seconds);
	return good;
}

bool measures_inside(const struct measures *measures, uint64_t now_us)
{
	return now_us >= measures->from_us && now_us <= measures->until_us;
}

static void add_value(struct measures *measures, struct values *values, uint64_t us)
{
	if (values->count == values->room) {
		const size_t room = values->room ? values->room * 2 : 4096;
		float *larger = reallocarray(values->all, room, sizeof(*larger));

		if (!larger) {
			measures->out_of_memory = true;
			return;
		}
		values->all = larger;
		values->room = room;
	}
	values->all[values->count++] = (float)us / 1000;
}

static void change_in_flight(struct measures *measures, int change, uint64_t now_us)
{
	const uint64_t from =
		measures->in_flight_since_us > measures->from_us ? measures->in_flight_since_us : measures->from_us;
	const uint64_t until = now_us < measures->until_us ? now_us : measures->until_us;

	if (until > from)
		measures->in_flight_us += (double)measures->in_flight * (double)(until - from);
	measures->in_flight_since_us = now_us;
	measures->in_flight = (unsigned)((int)measures->in_flight + change);
}

void measures_begin(struct measures *measures, unsigned count, uint64_t now_us)
{
	change_in_flight(measures, (int)count, now_us);
}

static struct tally *find_tally(struct tallies *tallies, const char *name)
{
	for (unsigned i = 0; i < tallies->count; i++)
		if (strcmp(tallies->all[i].name, name) == 0)
			return &tallies->all[i];
	if (tallies->count == TALLIES_MAX)
		return &tallies->all[TALLIES_MAX - 1];
	snprintf(tallies->all[tallies->count].name, TALLY_NAME_BYTES, "%s",
		 tallies->count == TALLIES_MAX - 1 ? "others" : name);
	return &tallies->all[tallies->count++];
}

static void count_tally(struct tallies *tallies, const char *name, const struct transfer *transfer)
{
	struct tally *tally = find_tally(tallies, name);

	tally->bytes += transfer->received_bytes;
	if (transfer->outcome == OUTCOME_OK) {
		tally->requests++;
		tally->response_ms += (double)(transfer->end_us - transfer->start_us) / 1000;
	} else {
		tally->errors++;
	}
}

static void print_span(FILE *log, uint64_t from_us, uint64_t until_us)
{
	if (until_us)
		fprintf(log, " %.3f", until_us < from_us ? 0 : (double)(until_us - from_us) / 1000);
	else
		fputs(" -", log);
}

static void write_log(struct measures *measures, const struct transfer *transfer, const char *server)
{
	const int64_t start_us = (int64_t)transfer->start_us + measures->to_unix_us;
	const int64_t end_us = (int64_t)transfer->end_us + measures->to_unix_us;
	FILE *log = measures->log;

	if (measures->log_is_surge) {
		if (transfer->outcome == OUTCOME_OK)
			fprintf(log, "0 %d %u %lld %lld %s%s %llu %lld %lld\n", (int)getpid(), transfer->user,
				(long long)start_us / 1000000, (long long)start_us % 1000000, measures->prefix,
				transfer->file->name, (unsigned long long)transfer->received_bytes,
				(long long)end_us / 1000000, (long long)end_us % 1000000);
		return;
	}
	fprintf(log, "%u %u %s %llu %lld.%06lld", transfer->user, transfer->step, transfer->file->name,
		(unsigned long long)transfer->file->size_bytes, (long long)start_us / 1000000,
		(long long)start_us % 1000000);
	print_span(log, transfer->start_us, transfer->connected_us);
	print_span(log, transfer->start_us, transfer->first_byte_us);
	print_span(log, transfer->start_us, transfer->end_us);
	fprintf(log, " %llu", (unsigned long long)transfer->received_bytes);
	if (transfer->status)
		fprintf(log, " %u", transfer->status);
	else
		fputs(" -", log);
	fprintf(log, " %s %s %s\n", server, transfer->node && *transfer->node ? transfer->node : "-",
		outcome_names[transfer->outcome]);
}

static void count_second(struct measures *measures, const struct transfer *transfer)
{
	const uint64_t number = (transfer->end_us - measures->start_us) / 1000000;
	struct second *second =
		&measures->seconds[number < measures->second_count ? number : measures->second_count - 1];

	second->in_flight = measures->in_flight;
	if (transfer->outcome == OUTCOME_OK) {
		second->requests++;
		second->response_ms += (double)(transfer->end_us - transfer->start_us) / 1000;
	} else if (transfer->outcome != OUTCOME_CENSORED) {
		second->errors++;
	}
}

void measures_end(struct measures *measures, const struct transfer *transfer)
{
	char server[ADDRESS_TEXT_BYTES] = "-";

	change_in_flight(measures, -1, transfer->end_us);
	if (transfer->server)
		address_text(transfer->server, server);
	if (measures->log)
		write_log(measures, transfer, server);
	if (transfer->outcome != OUTCOME_CENSORED)
		count_second(measures, transfer);
	if (!measures_inside(measures, transfer->end_us))
		return;
	measures->outcomes[transfer->outcome]++;
	if (transfer->outcome == OUTCOME_CENSORED) {
		measures->censored_age_ms += (double)(transfer->end_us - transfer->start_us) / 1000;
		return;
	}
	measures->bytes += transfer->received_bytes;
	count_tally(&measures->servers, server, transfer);
	if (transfer->node && *transfer->node)
		count_tally(&measures->nodes, transfer->node, transfer);
	if (transfer->outcome != OUTCOME_OK)
		return;
	add_value(measures, &measures->response_ms, transfer->end_us - transfer->start_us);
	add_value(measures, &measures->first_byte_ms, transfer->first_byte_us - transfer->start_us);
}

void measures_connected(struct measures *measures, uint64_t took_us, uint64_t now_us)
{
	if (!measures_inside(measures, now_us))
		return;
	measures->connections++;
	add_value(measures, &measures->connect_ms, took_us);
}

void measures_looked_up(struct measures *measures, uint64_t took_us, bool found, uint64_t now_us)
{
	if (!measures_inside(measures, now_us))
		return;
	measures->lookups++;
	measures->lookup_failures += !found;
	measures->lookup_ms += (double)took_us / 1000;
}

void measures_woke(struct measures *measures, uint64_t due_us, uint64_t now_us)
{
	const uint64_t late_us = now_us - due_us;

	measures->wakes++;
	measures->lag_us += (double)late_us;
	if (late_us > measures->lag_most_us)
		measures->lag_most_us = late_us;
}

void measures_stop(struct measures *measures, uint64_t now_us)
{
	if (now_us < measures->until_us)
		measures->until_us = now_us > measures->from_us ? now_us : measures->from_us;
	change_in_flight(measures, 0, now_us);
}
