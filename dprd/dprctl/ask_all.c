// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * dprctl/ask_all.c - asks every node for its status at the same time: this one by its control socket, the others by ssh.
 *
 * The answers go into files in memory, so that no slow node makes another one wait.
 */
#define _GNU_SOURCE
#include "dprd/dprctl/dprctl.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dprd/base/clock.h"

enum { ASK_ALL_MS = 10000, ASK_POLL_US = 20000, FAULT_BYTES = 200 };

struct asked {
	int child, out, err; /* child 0: it has ended */
	int status; /* of waitpid */
	double asked_s, answered_s; /* by this host's clock */
};

static double wall_clock_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void start_one(const struct config *config, unsigned i, struct asked *asked)
{
	static const char *const words[] = { "status", "--json", NULL };
	char target[HOST_TEXT_BYTES], *command = host_command(words);

	asked->out = memfd_create("out", MFD_CLOEXEC);
	asked->err = memfd_create("err", MFD_CLOEXEC);
	host_resolve(config, config->member[i].name, target);
	asked->asked_s = wall_clock_s();
	asked->child = command && asked->out >= 0 && asked->err >= 0
			       ? host_start(target, command, false, asked->out, asked->err)
			       : -1;
	free(command);
}

/* Notes the end of those that have ended. Returns how many are still asked. */
static unsigned collect(struct asked *asked, unsigned count)
{
	unsigned left = 0;

	for (unsigned i = 0; i < count; i++) {
		if (asked[i].child <= 0)
			continue;
		if (waitpid(asked[i].child, &asked[i].status, WNOHANG) == 0) {
			left++;
			continue;
		}
		asked[i].child = 0;
		asked[i].answered_s = wall_clock_s();
	}
	return left;
}

static void stop_late(struct asked *asked, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (asked[i].child <= 0)
			continue;
		kill(asked[i].child, SIGKILL);
		waitpid(asked[i].child, &asked[i].status, 0);
	}
}

/* The whole text of the file; NULL when there is none. */
static char *text_in(int fd)
{
	off_t bytes = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
	char *text = bytes > 0 && bytes <= HOST_ANSWER_BYTES_MAX ? calloc(1, (size_t)bytes + 1) : NULL;

	if (text && pread(fd, text, (size_t)bytes, 0) != bytes) {
		free(text);
		text = NULL;
	}
	return text;
}

static json_t *node_json(const char *name, const char *fault, double offset_s, json_t *status)
{
	return json_pack("{s:s, s:s?, s:o, s:o}", "name", name, "fault", fault, "clock_offset_seconds",
			 status && !fault && json_object_get(status, "clock_seconds") ? json_real(offset_s)
										      : json_null(),
			 "status", status ? status : json_null());
}

/* A status of dprd; or why there is none, in fault. */
static json_t *status_or_fault(json_t *answer, char fault[FAULT_BYTES])
{
	const json_t *warning = json_array_get(json_object_get(answer, "warnings"), 0);

	if (strcmp(text_of(answer, "schema"), "dprd.status/1") == 0)
		return answer;
	if (!*fault)
		snprintf(fault, FAULT_BYTES, "%s",
			 warning  ? text_of(warning, "text")
			 : answer ? text_of(answer, "error")
				  : "no answer that this dprctl understands");
	json_decref(answer);
	return NULL;
}

static json_t *read_one(const char *name, struct asked *asked)
{
	char fault[FAULT_BYTES] = "", *out = text_in(asked->out), *err = text_in(asked->err);
	const char *ssh = asked->child ? NULL : host_fault(asked->status);
	json_t *status = out ? json_loads(out, 0, NULL) : NULL, *node;
	double theirs_s = 0;

	if (err)
		err[strcspn(err, "\r\n")] = '\0';
	if (asked->child)
		snprintf(fault, sizeof(fault), asked->child < 0 ? "ssh cannot be started" : "not within %d s",
			 ASK_ALL_MS / 1000);
	else if (ssh)
		snprintf(fault, sizeof(fault), "%s%s%s", ssh, err && *err ? ": " : "", err ? err : "");
	status = status_or_fault(status, fault);
	json_clean(status);
	text_clean(fault);
	number_of(status, "clock_seconds", &theirs_s);
	node = node_json(name, status ? NULL : fault, cluster_clock_offset(asked->asked_s, asked->answered_s, theirs_s),
			 status);
	free(out);
	free(err);
	return node;
}

static json_t *ask_here(const struct dprctl *c, const char *name)
{
	char fault[FAULT_BYTES] = "";
	json_t *answer = NULL;
	int error = dprctl_ask_one(c->run_dir, json_pack("{s:s}", "command", "status"), c->answer_ms, &answer);

	if (error)
		answer = files_status(c, error, clock_now_ms());
	answer = status_or_fault(answer, fault);
	text_clean(fault);
	return node_json(name, answer ? NULL : fault, 0, answer);
}

json_t *ask_all(const struct dprctl *c, const struct config *config, bool own)
{
	struct asked asked[MEMBERS_MAX] = { 0 };
	uint64_t until_ms = clock_now_ms() + ASK_ALL_MS;
	json_t *nodes = json_array(), *here = NULL;

	for (unsigned i = 0; i < config->member_count; i++) {
		asked[i].out = asked[i].err = -1;
		if (!own || i != config->self)
			start_one(config, i, &asked[i]);
	}
	if (own)
		here = ask_here(c, config->member[config->self].name);
	while (collect(asked, config->member_count) && clock_now_ms() < until_ms)
		usleep(ASK_POLL_US);
	stop_late(asked, config->member_count);
	for (unsigned i = 0; i < config->member_count; i++) {
		json_array_append_new(nodes,
				      own && i == config->self ? here : read_one(config->member[i].name, &asked[i]));
		if (asked[i].out >= 0)
			close(asked[i].out);
		if (asked[i].err >= 0)
			close(asked[i].err);
	}
	return json_pack("{s:s, s:s, s:o}", "schema", "dprd.cluster/1", "node",
			 own ? config->member[config->self].name : "-", "nodes", nodes);
}
