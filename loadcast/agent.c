// SPDX-License-Identifier: GPL-2.0-or-later
#include "loadcast/agent.h"

#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dprd/base/log.h"
#include "loadcast/connect.h"

struct agent {
	const struct config *config;
	struct agent_words words;
	int socket; /* -1: no question is open */
	bool connected, silent;
	uint64_t next_ms; /* of the next question, or the end of this one */
	uint64_t asked_ms;
	size_t size;
	char bytes[AGENT_LINE_MAX + 2];
};

struct agent *agent_new(const struct config *config)
{
	struct agent *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->config = config;
	a->words = agent_words_first();
	a->socket = -1;
	return a;
}

static void hang_up(struct agent *a)
{
	if (a->socket >= 0)
		close(a->socket);
	a->socket = -1;
	a->next_ms = a->asked_ms + a->config->health_interval_ms;
}

void agent_free(struct agent *agent)
{
	if (agent)
		hang_up(agent);
	free(agent);
}

static bool exists(const struct agent *a)
{
	return !addr_is_zero(&a->config->agent);
}

void agent_inherit(struct agent *agent, const struct agent *former)
{
	if (!exists(agent) || !addr_equal(&agent->config->agent, &former->config->agent) ||
	    agent->config->agent_port != former->config->agent_port)
		return;
	agent->words = former->words;
	agent->silent = former->silent;
}

static const char *name_of(const struct agent *a, char name[ADDR_TEXT_BYTES + 8])
{
	char text[ADDR_TEXT_BYTES];
	bool v4 = addr_is_v4(&a->config->agent);

	snprintf(name, ADDR_TEXT_BYTES + 8, "%s%s%s:%u", v4 ? "" : "[", addr_format(&a->config->agent, text),
		 v4 ? "" : "]", a->config->agent_port);
	return name;
}

static void question_failed(struct agent *a, const char *why)
{
	char name[ADDR_TEXT_BYTES + 8];

	hang_up(a);
	if (!a->silent)
		log_warning("the agent %s gives no answer: %s; what it said last holds", name_of(a, name), why);
	a->silent = true;
}

/* The line is whole. True: it says something new. */
static bool hear(struct agent *a, size_t length)
{
	struct agent_words before = a->words;
	char name[ADDR_TEXT_BYTES + 8];
	bool known = agent_words_take(&a->words, a->bytes, length), changed;

	for (size_t i = 0; i < length; i++)
		a->bytes[i] = isprint((unsigned char)a->bytes[i]) ? a->bytes[i] : '?';
	if (!known) {
		question_failed(a, "its line has a word that loadcast does not know, or none");
		return false;
	}
	hang_up(a);
	changed = before.percent != a->words.percent || before.down != a->words.down ||
		  before.drain != a->words.drain || before.maint != a->words.maint;
	if (changed || a->silent)
		log_info("the agent %s says: %.*s", name_of(a, name), (int)length, a->bytes);
	a->silent = false;
	return changed;
}

static void ask(struct agent *a, uint64_t now_ms)
{
	int error;

	a->asked_ms = now_ms;
	a->size = 0;
	a->connected = false;
	a->socket = connect_begin(&a->config->agent, a->config->agent_port, &error);
	a->next_ms = now_ms + a->config->health_timeout_ms;
	if (a->socket < 0)
		question_failed(a, strerror(error));
}

uint64_t agent_tick(struct agent *agent, uint64_t now_ms)
{
	if (!exists(agent))
		return UINT64_MAX;
	if (agent->socket >= 0 && now_ms >= agent->next_ms)
		question_failed(agent, "no whole line came in time");
	if (agent->socket < 0 && now_ms >= agent->next_ms)
		ask(agent, now_ms);
	return agent->next_ms;
}

int agent_socket(const struct agent *agent, short *ret_events)
{
	*ret_events = agent->connected ? POLLIN : POLLOUT;
	return agent->socket;
}

static bool read_line(struct agent *a)
{
	ssize_t size = recv(a->socket, a->bytes + a->size, sizeof(a->bytes) - a->size, 0);
	int length;

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (size < 0) {
		question_failed(a, strerror(errno));
		return false;
	}
	a->size += (size_t)size;
	length = agent_line(a->bytes, a->size, !size || a->size == sizeof(a->bytes));
	if (length >= 0)
		return hear(a, (size_t)length);
	if (length < -1)
		question_failed(a, a->size ? "its line is too long" : "it closed without a line");
	return false;
}

bool agent_ready(struct agent *agent, uint64_t now_ms)
{
	int error;

	(void)now_ms;
	if (agent->connected)
		return read_line(agent);
	error = connect_error(agent->socket);
	if (error)
		question_failed(agent, strerror(error));
	agent->connected = true;
	return false;
}

const struct agent_words *agent_words(const struct agent *agent)
{
	return &agent->words;
}

bool agent_is_silent(const struct agent *agent)
{
	return agent->silent;
}
