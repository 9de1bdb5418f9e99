// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "dprd/web/poll.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "dprd/base/clock.h"
#include "dprd/base/log.h"
#include "dprd/web/core/history.h"

enum {
	POLL_MS = 1000, /* the shortest time between two questions for the status */
	LOOK_MS = 3000, /* after this time without a request nobody looks */
	FRESH_WAIT_MS = 300, /* a request waits this long for a new answer */
	WHY_PER_S = 10,
};

struct text {
	char *bytes;
	size_t count;
};

struct web_poll {
	pthread_t thread;
	pthread_mutex_t lock; /* guards all that stands below it */
	pthread_cond_t changed;
	bool stopping, up; /* up: dprd answered the last question */
	uint64_t looked_ms, answered_ms, history_ms;
	char run_dir[PATH_BYTES];
	struct text text[WEB_TARGETS];
	uint64_t why_second;
	unsigned why_count;
	bool why_runs;
	/* The thread's own. */
	struct dprctl dprctl;
	struct stat file;
	struct history history;
};

static uint64_t max_ms(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The time of the next question. */
static uint64_t due_ms(const struct web_poll *poll, uint64_t now_ms)
{
	uint64_t history_ms = poll->history_ms + HISTORY_PERIOD_MS;
	bool watched = poll->looked_ms && now_ms - poll->looked_ms < LOOK_MS;
	uint64_t look_ms = poll->answered_ms + POLL_MS;

	return watched && look_ms < history_ms ? look_ms : history_ms;
}

/* Waits for a change until this time of clock_now_ms(), as long as pthread's clock agrees. */
static void wait_until(struct web_poll *poll, uint64_t until_ms)
{
	uint64_t now_ms = clock_now_ms(), left_ms = until_ms > now_ms ? until_ms - now_ms : 0;
	struct timespec at;

	if (!left_ms)
		return;
	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += (time_t)(left_ms / 1000);
	at.tv_nsec += (long)(left_ms % 1000) * 1000000;
	if (at.tv_nsec >= 1000000000) {
		at.tv_nsec -= 1000000000;
		at.tv_sec++;
	}
	pthread_cond_timedwait(&poll->changed, &poll->lock, &at);
}

static bool file_changed(const struct stat *a, const struct stat *b)
{
	return a->st_ino != b->st_ino || a->st_mtim.tv_sec != b->st_mtim.tv_sec ||
	       a->st_mtim.tv_nsec != b->st_mtim.tv_nsec || a->st_size != b->st_size;
}

/* Reads the file when it is another one than last time. False: there is none. */
static bool read_config(struct web_poll *poll)
{
	struct stat file = { 0 };
	bool good;

	if (stat(poll->dprctl.config_path, &file) == 0 && poll->dprctl.run_dir && !file_changed(&file, &poll->file))
		return true;
	poll->file = file;
	poll->dprctl.config = NULL;
	good = dprctl_read_config(&poll->dprctl);
	pthread_mutex_lock(&poll->lock);
	if (poll->dprctl.run_dir)
		snprintf(poll->run_dir, sizeof(poll->run_dir), "%s", poll->dprctl.run_dir);
	pthread_mutex_unlock(&poll->lock);
	return good;
}

/* The status as "dprctl status --json" has it: that of dprd, or else that of the files. */
static json_t *ask_status(struct web_poll *poll, bool *ret_up)
{
	json_t *status;
	int error = dprctl_ask_one(poll->dprctl.run_dir, json_pack("{s:s}", "command", "status"),
				   poll->dprctl.answer_ms, &status);

	if (!error && json_object_get(status, "error"))
		error = -EPROTO;
	*ret_up = !error;
	if (!error)
		return status;
	json_decref(status);
	/* The members and the place of the socket may be others by now. */
	read_config(poll);
	return files_status(&poll->dprctl, error, clock_now_ms());
}

static struct text json_text(const json_t *value)
{
	char *bytes = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(12));

	return (struct text) { .bytes = bytes, .count = bytes ? strlen(bytes) : 0 };
}

static struct text metrics_text(const json_t *status, bool up)
{
	struct text text = { 0 };
	FILE *out = open_memstream(&text.bytes, &text.count);

	if (!out)
		return text;
	if (up)
		render_metrics(out, status);
	else
		render_up(out, false);
	if (fclose(out) == 0)
		return text;
	free(text.bytes);
	return (struct text) { 0 };
}

static void keep(struct web_poll *poll, enum web_target target, struct text text)
{
	free(poll->text[target].bytes);
	poll->text[target] = text;
}

static bool add_history(struct web_poll *poll, const json_t *status, bool up, uint64_t now_ms)
{
	static struct history_sample sample; /* the thread's own, too */
	struct timespec wall;

	if (poll->history_ms && now_ms < poll->history_ms + HISTORY_PERIOD_MS)
		return false;
	clock_gettime(CLOCK_REALTIME, &wall);
	history_read(up ? status : NULL, (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000, now_ms, &sample);
	history_add(&poll->history, &sample);
	return true;
}

/* One question, and all the texts of its answer. */
static void poll_once(struct web_poll *poll)
{
	bool up, added;
	json_t *status = ask_status(poll, &up), *past = NULL;
	uint64_t now_ms = clock_now_ms();
	struct text texts[2] = { json_text(status), metrics_text(status, up) }, history = { 0 };

	added = add_history(poll, status, up, now_ms);
	if (added) {
		past = history_json(&poll->history);
		history = json_text(past);
	}
	json_decref(status);
	json_decref(past);
	pthread_mutex_lock(&poll->lock);
	keep(poll, WEB_STATUS, texts[0]);
	keep(poll, WEB_METRICS, texts[1]);
	if (added) {
		keep(poll, WEB_HISTORY, history);
		/* Points keep their distance, although an answer takes a moment. */
		poll->history_ms = max_ms(poll->history_ms + HISTORY_PERIOD_MS, now_ms - HISTORY_PERIOD_MS / 2);
	}
	poll->answered_ms = now_ms;
	poll->up = up;
	pthread_cond_broadcast(&poll->changed);
	pthread_mutex_unlock(&poll->lock);
}

static void *poll_run(void *context)
{
	struct web_poll *poll = context;

	pthread_mutex_lock(&poll->lock);
	while (!poll->stopping) {
		uint64_t now_ms = clock_now_ms(), next_ms = due_ms(poll, now_ms);

		if (now_ms < next_ms) {
			wait_until(poll, next_ms);
			continue;
		}
		pthread_mutex_unlock(&poll->lock);
		poll_once(poll);
		pthread_mutex_lock(&poll->lock);
	}
	pthread_mutex_unlock(&poll->lock);
	return NULL;
}

static void poll_free(struct web_poll *poll)
{
	unsigned i;

	for (i = 0; i < WEB_TARGETS; i++)
		free(poll->text[i].bytes);
	pthread_cond_destroy(&poll->changed);
	pthread_mutex_destroy(&poll->lock);
	free(poll);
}

struct web_poll *web_poll_start(const char *config_path, const char *node_name)
{
	struct web_poll *poll = calloc(1, sizeof(*poll));
	pthread_condattr_t attributes;
	int error;

	if (!poll) {
		log_err("out of memory");
		return NULL;
	}
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_mutex_init(&poll->lock, NULL);
	pthread_cond_init(&poll->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	poll->dprctl =
		(struct dprctl) { .config_path = config_path, .node_name = node_name, .answer_ms = DPRCTL_ANSWER_MS };
	if (!read_config(poll)) {
		poll_free(poll);
		return NULL;
	}
	poll_once(poll);
	error = pthread_create(&poll->thread, NULL, poll_run, poll);
	if (error) {
		log_err("cannot start a thread: %s", strerror(error));
		poll_free(poll);
		return NULL;
	}
	return poll;
}

void web_poll_stop(struct web_poll *poll)
{
	pthread_mutex_lock(&poll->lock);
	poll->stopping = true;
	pthread_cond_broadcast(&poll->changed);
	pthread_mutex_unlock(&poll->lock);
	pthread_join(poll->thread, NULL);
	poll_free(poll);
}

char *web_poll_text(struct web_poll *poll, enum web_target target, size_t *ret_bytes)
{
	uint64_t now_ms = clock_now_ms(), until_ms = now_ms + FRESH_WAIT_MS;
	char *copy = NULL;

	pthread_mutex_lock(&poll->lock);
	/* The thread sleeps until the next point of the history while nobody looks. */
	if (now_ms - poll->looked_ms >= LOOK_MS)
		pthread_cond_broadcast(&poll->changed);
	poll->looked_ms = now_ms;
	while (target != WEB_HISTORY && now_ms < until_ms && now_ms > poll->answered_ms + POLL_MS) {
		wait_until(poll, until_ms);
		now_ms = clock_now_ms();
	}
	if (poll->text[target].bytes)
		copy = strndup(poll->text[target].bytes, poll->text[target].count);
	*ret_bytes = copy ? poll->text[target].count : 0;
	pthread_mutex_unlock(&poll->lock);
	return copy;
}

/* One question at a time, and a few each second: each takes a moment of dprd's main thread. */
static bool why_begin(struct web_poll *poll, char run_dir[PATH_BYTES])
{
	uint64_t second = clock_now_ms() / 1000;
	bool may;

	pthread_mutex_lock(&poll->lock);
	if (poll->why_second != second)
		poll->why_count = 0;
	poll->why_second = second;
	may = !poll->why_runs && poll->why_count < WHY_PER_S;
	if (may) {
		poll->why_runs = true;
		poll->why_count++;
		snprintf(run_dir, PATH_BYTES, "%s", poll->run_dir);
	}
	pthread_mutex_unlock(&poll->lock);
	return may;
}

/* A question to a frozen dprd would hold up all connections of a thread of the server. */
static bool is_up(struct web_poll *poll)
{
	bool up;

	pthread_mutex_lock(&poll->lock);
	up = poll->up;
	pthread_mutex_unlock(&poll->lock);
	return up;
}

static void why_end(struct web_poll *poll)
{
	pthread_mutex_lock(&poll->lock);
	poll->why_runs = false;
	pthread_mutex_unlock(&poll->lock);
}

unsigned web_poll_why(struct web_poll *poll, const struct endpoint *client, char **ret)
{
	static const char silent[] = "{\"error\":\"dprd does not answer\"}";
	char run_dir[PATH_BYTES];
	json_t *answer = NULL;
	int error;

	if (!is_up(poll)) {
		*ret = strdup(silent);
		return 503;
	}
	if (!why_begin(poll, run_dir)) {
		*ret = strdup("{\"error\":\"too many questions at a time: ask again in a second\"}");
		return 429;
	}
	error = dprctl_ask_one(
		run_dir,
		json_pack("{s:s, s:s, s:i}", "command", "why", "client", client->client, "port", (int)client->port),
		DPRCTL_ANSWER_MS, &answer);
	why_end(poll);
	if (error)
		*ret = strdup(silent);
	else
		*ret = json_dumps(answer, JSON_COMPACT | JSON_REAL_PRECISION(12));
	error = error || json_object_get(answer, "error");
	json_decref(answer);
	return error ? 503 : 200;
}
