// SPDX-License-Identifier: GPL-2.0-or-later
/* The words of an agent and their effect on a node; and an agent on the loopback address that answers in all ways. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loadcast/agent.c" // NOLINT(bugprone-suspicious-include)

enum { INTERVAL_MS = 1000, TIMEOUT_MS = 200, ANSWER_MS = 60000 };

static struct agent_words words;

static void says(const char *line, enum agent_wish wish, unsigned percent)
{
	assert_true(agent_words_take(&words, line, strlen(line)));
	assert_int_equal(agent_wish(&words), wish);
	assert_int_equal(words.percent, percent);
}

static void says_nothing(const char *line)
{
	const struct agent_words before = words;

	assert_false(agent_words_take(&words, line, strlen(line)));
	assert_memory_equal(&before, &words, sizeof(words));
}

static void good_words(void **state)
{
	(void)state;
	words = agent_words_first();
	assert_int_equal(agent_wish(&words), AGENT_WANTS_ALL);
	says("drain", AGENT_WANTS_DRAIN, 100);
	/* As in HAProxy, "up" is about the server, and "ready" about the wish. */
	says("up", AGENT_WANTS_DRAIN, 100);
	says("ready", AGENT_WANTS_ALL, 100);
	says("maint", AGENT_WANTS_MAINT, 100);
	says("drain ready", AGENT_WANTS_ALL, 100);
	says("down # the disk is full", AGENT_SAYS_DOWN, 100);
	says("ready", AGENT_SAYS_DOWN, 100);
	says("up", AGENT_WANTS_ALL, 100);
	says("fail", AGENT_SAYS_DOWN, 100);
	says("up ready 50%", AGENT_WANTS_ALL, 50);
	says("stopped#x", AGENT_SAYS_DOWN, 50);
	says("up,75%\t", AGENT_WANTS_ALL, 75);
	says("0%", AGENT_WANTS_DRAIN, 0);
	says("150%", AGENT_WANTS_ALL, 100);
	says("maxconn:30", AGENT_WANTS_ALL, 100);
	says(" , up ,, 1% maxconn:1", AGENT_WANTS_ALL, 1);
	says("up ready 100%", AGENT_WANTS_ALL, 100);
}

static void bad_words(void **state)
{
	static const char *const lines[] = { "",
					     " ",
					     " ,, ",
					     "#",
					     "# up",
					     "drian",
					     "DRAIN",
					     "up drian",
					     "drain nonsense",
					     "%",
					     "50",
					     "5000%",
					     "-1%",
					     "+5%",
					     "0x5%",
					     "5 %",
					     "50%%",
					     "1.5%",
					     "maxconn:",
					     "maxconn:x",
					     "maxconn:-1",
					     "maxconn:1234567890",
					     "upup",
					     "\x01",
					     "up\x80",
					     "up;ready",
					     "<html>",
					     "HTTP/1.1 200 OK" };

	(void)state;
	words = agent_words_first();
	says("50%", AGENT_WANTS_ALL, 50);
	for (unsigned i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		says_nothing(lines[i]);
	/* A NUL within is no end. */
	assert_false(agent_words_take(&words, "up\0drain", 8));
}

static void lines(void **state)
{
	char many[AGENT_LINE_MAX + 2];

	(void)state;
	memset(many, 'a', sizeof(many));
	assert_int_equal(agent_line("up", 2, false), -1);
	assert_int_equal(agent_line("up", 2, true), 2);
	assert_int_equal(agent_line("up\nrest", 7, false), 2);
	assert_int_equal(agent_line("up\r\n", 4, false), 2);
	assert_int_equal(agent_line("up\0", 3, false), 2);
	assert_int_equal(agent_line("", 0, false), -1);
	assert_int_equal(agent_line("", 0, true), -2);
	assert_int_equal(agent_line("\n", 1, false), 0);
	assert_int_equal(agent_line(many, AGENT_LINE_MAX, false), -1);
	assert_int_equal(agent_line(many, AGENT_LINE_MAX + 1, false), -2);
	many[AGENT_LINE_MAX] = '\n';
	assert_int_equal(agent_line(many, AGENT_LINE_MAX + 1, false), AGENT_LINE_MAX);
}

/* The parts that the agent and slow start leave of the weight are multiplied; a node with a weight keeps some of it. */
static void meets_slow_start(void **state)
{
	struct agent_words half = { .percent = 50 }, all = agent_words_first(), one = { .percent = 1 }, none = { 0 };

	(void)state;
	assert_int_equal(agent_held(&all, 0), 0);
	assert_int_equal(agent_held(&all, 900), 900);
	assert_int_equal(agent_held(&half, 0), 500);
	assert_int_equal(agent_held(&half, 500), 750);
	assert_int_equal(agent_held(&half, 900), 950);
	assert_int_equal(agent_held(&one, 900), WEIGHT_HELD_MAX);
	assert_int_equal(agent_held(&none, 0), WEIGHT_HELD_MAX);
}

/* --- an agent --- */

static struct config config;
static struct agent *agent;
static int listener;
static uint64_t now_ms;

static int start(void **state)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(any);

	(void)state;
	listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&any, size), 0);
	assert_int_equal(listen(listener, 8), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&any, &size), 0);
	config = (struct config) { .health_interval_ms = INTERVAL_MS,
				   .health_timeout_ms = TIMEOUT_MS,
				   .agent = addr_from_v4(any.sin_addr.s_addr),
				   .agent_port = ntohs(any.sin_port) };
	agent = agent_new(&config);
	now_ms = 5000;
	return 0;
}

static int stop(void **state)
{
	(void)state;
	agent_free(agent);
	return close(listener);
}

/* Goes on until nothing comes of the agent, and returns whether something changed. */
static bool go_on(bool quick)
{
	bool changed = false;
	short events;

	while (agent_socket(agent, &events) >= 0) {
		struct pollfd fd = { .fd = agent_socket(agent, &events) };

		fd.events = events;
		if (poll(&fd, 1, quick ? ANSWER_MS : 50) != 1)
			break;
		changed |= agent_ready(agent, now_ms);
	}
	return changed;
}

/* One question, which the agent answers in so many bytes at a time and then hangs up or not. */
static bool answers(const char *bytes, size_t size, bool hangs_up)
{
	bool changed = false;
	int peer;

	now_ms = agent_tick(agent, now_ms) > now_ms ? agent->next_ms : now_ms;
	if (agent->socket < 0)
		agent_tick(agent, now_ms);
	assert_true(agent->socket >= 0);
	peer = accept(listener, NULL, NULL);
	assert_true(peer >= 0);
	(void)!send(peer, bytes, size, MSG_NOSIGNAL);
	if (hangs_up)
		shutdown(peer, SHUT_WR);
	changed = go_on(hangs_up);
	if (agent->socket >= 0) {
		/* Its time is up. */
		now_ms = agent->next_ms;
		agent_tick(agent, now_ms);
	}
	assert_true(agent->socket < 0);
	close(peer);
	now_ms = agent->next_ms;
	return changed;
}

static bool says_line(const char *line)
{
	return answers(line, strlen(line), true);
}

static void is_heard(void **state)
{
	uint64_t begun_ms = now_ms;

	(void)state;
	assert_true(says_line("drain\n"));
	assert_int_equal(agent_wish(agent_words(agent)), AGENT_WANTS_DRAIN);
	assert_int_equal(now_ms, begun_ms + INTERVAL_MS);
	assert_false(says_line("drain\n"));
	assert_true(says_line("ready 50%\r\nmore"));
	assert_int_equal(agent_words(agent)->percent, 50);
	/* A line counts when it is whole, and the agent need not hang up. */
	assert_true(answers("75%\n", 4, false));
	assert_int_equal(agent_words(agent)->percent, 75);
	assert_true(says_line("25%"));
}

/* All of it changes nothing. */
static void is_not_heard(void **state)
{
	char many[4096];

	(void)state;
	memset(many, 'a', sizeof(many));
	assert_true(says_line("10%\n"));
	assert_false(agent->silent);
	assert_false(says_line("nonsense\n"));
	assert_true(agent->silent);
	assert_false(says_line(""));
	assert_false(answers(many, sizeof(many), true));
	assert_false(answers("down", 4, false));
	shutdown(listener, SHUT_RDWR);
	agent_tick(agent, now_ms);
	go_on(true);
	assert_true(agent->socket < 0);
	assert_int_equal(agent_wish(agent_words(agent)), AGENT_WANTS_ALL);
	assert_int_equal(agent_words(agent)->percent, 10);
	assert_true(agent_is_silent(agent));
}

/* After a reload the words of the same agent hold, and those of another one do not. */
static void is_inherited(void **state)
{
	struct config other = config;
	struct agent *fresh;

	(void)state;
	assert_true(says_line("maint\n"));
	fresh = agent_new(&config);
	agent_inherit(fresh, agent);
	assert_int_equal(agent_wish(agent_words(fresh)), AGENT_WANTS_MAINT);
	agent_free(fresh);
	other.agent_port++;
	fresh = agent_new(&other);
	agent_inherit(fresh, agent);
	assert_int_equal(agent_wish(agent_words(fresh)), AGENT_WANTS_ALL);
	agent_free(fresh);
	other = (struct config) { 0 };
	fresh = agent_new(&other);
	agent_inherit(fresh, agent);
	assert_int_equal(agent_wish(agent_words(fresh)), AGENT_WANTS_ALL);
	assert_true(agent_tick(fresh, now_ms) == UINT64_MAX);
	agent_free(fresh);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_words),
		cmocka_unit_test(bad_words),
		cmocka_unit_test(lines),
		cmocka_unit_test(meets_slow_start),
		cmocka_unit_test_setup_teardown(is_heard, start, stop),
		cmocka_unit_test_setup_teardown(is_not_heard, start, stop),
		cmocka_unit_test_setup_teardown(is_inherited, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
