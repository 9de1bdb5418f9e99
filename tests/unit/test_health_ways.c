// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Check=command with programs that do well, fail, print too much, hang and leave others behind; Check=https against servers
 * that are none of HTTPS. (A real one is asked in tests/cluster/test_b_76_ways_of_checking.py.) Processes take real time.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "dprd/base/clock.h"
#include "loadcast/health.c" // NOLINT(bugprone-suspicious-include)
#include "tests/unit/valgrind.h"

enum { INTERVAL_MS = 100, TIMEOUT_MS = 30000, SHORT_MS = 300, PATIENCE_MS = 60000 };

static struct config config;
static struct health *health;
static char directory[] = "/tmp/dprd-ways-XXXXXX";
static char script[64], notes[64];

static int start(void **state)
{
	(void)state;
	config = (struct config) {
		.health = HEALTH_COMMAND,
		.health_path = "/alive",
		.health_status_low = 100,
		.health_status_high = 499,
		.health_interval_ms = INTERVAL_MS,
		.health_timeout_ms = TIMEOUT_MS,
		.health_fall = 1,
		.health_rise = 1,
	};
	strcpy(directory, "/tmp/dprd-ways-XXXXXX");
	assert_non_null(mkdtemp(directory));
	snprintf(script, sizeof(script), "%s/check", directory);
	snprintf(notes, sizeof(notes), "%s/notes", directory);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	health_free(health);
	health = NULL;
	unlink(script);
	unlink(notes);
	return rmdir(directory);
}

static void begin(enum health_check check, const char *address, uint16_t port)
{
	struct addr server;

	assert_true(addr_parse(address, &server));
	health_free(health);
	health = health_new(&config, check, &server, port);
	assert_non_null(health);
}

/* A program of these lines of a shell. */
static void command(const char *lines, const char *arguments)
{
	FILE *file;

	SKIP_UNDER_VALGRIND("pidfd_open(2) is not there");
	file = fopen(script, "w");
	assert_non_null(file);
	fprintf(file, "#!/bin/sh\n%s\n", lines);
	fclose(file);
	assert_int_equal(chmod(script, 0700), 0);
	snprintf(config.health_command, sizeof(config.health_command), "%s%s", script, arguments);
	begin(HEALTH_COMMAND, "192.0.2.7", 8080);
}

/* Runs the loop of the daemon until a probe is over. Returns the time that it took. */
static uint64_t probe(void)
{
	uint64_t begun_ms = clock_now_ms(), due_ms = health_tick(health, begun_ms), now_ms = begun_ms, started_ms;

	while (health->step == STEP_IDLE && now_ms < begun_ms + PATIENCE_MS) {
		usleep(1000);
		now_ms = clock_now_ms();
		due_ms = health_tick(health, now_ms);
	}
	started_ms = health->started_ms;
	/* The next one may begin in the same moment. */
	while (health->step != STEP_IDLE && health->started_ms == started_ms && now_ms < begun_ms + PATIENCE_MS) {
		struct pollfd fd = { 0 };
		short events;

		fd.fd = health_socket(health, &events);
		fd.events = events;
		if (poll(&fd, 1, due_ms > now_ms ? (int)(due_ms - now_ms) : 0) > 0)
			health_ready(health, fd.revents, clock_now_ms());
		now_ms = clock_now_ms();
		due_ms = health_tick(health, now_ms);
	}
	return clock_now_ms() - begun_ms;
}

static void check_good(void)
{
	probe();
	assert_true(health_is_good(health));
}

static void check_bad(const char *reason)
{
	probe();
	assert_false(health_is_good(health));
	assert_string_equal(health_reason(health), reason);
}

static void exit_status_decides(void **state)
{
	(void)state;
	command("exit 0", "");
	check_good();
	assert_true(health->known);
	command("exit 1", "");
	check_bad("command: exit status 1");
	command("echo; echo 'two of three disks are full'; echo more; exit 3", "");
	check_bad("command: exit status 3: two of three disks are full");
	command("echo oh >&2; kill -TERM $$", "");
	check_bad("command: ended by signal 15: oh");
	/* Its output is cut, and made harmless. */
	command("printf 'a\\033[2Jb\\377%0200d' 0; exit 1", "");
	probe();
	assert_non_null(strstr(health_reason(health), ": a?[2Jb?000"));
	assert_true(strlen(health_reason(health)) < REASON_BYTES - 1);
	/* Back again. */
	command("exit 0", "");
	health->good = false;
	check_good();
}

static void cannot_start(void **state)
{
	(void)state;
	command("exit 0", "");
	unlink(script);
	check_bad("command: exit status 127: No such file or directory");
	command("exit 0", "");
	assert_int_equal(chmod(script, 0600), 0);
	probe();
	assert_false(health_is_good(health));
	assert_non_null(strstr(health_reason(health), "exit status 127"));
}

/* No shell reads the words, the address and the port are filled in, and nothing else of loadcast gets there. */
static void gets_words_and_nothing_else(void **state)
{
	char text[1024] = "";
	FILE *file;
	int leak = open("/dev/null", O_RDONLY);

	(void)state;
	assert_true(leak >= 3);
	setenv("SECRET", "x", 1);
	command("for word; do printf '%s|' \"$word\"; done >\"$(dirname \"$0\")/notes\"\n"
		"env | grep -c SECRET >>\"$(dirname \"$0\")/notes\"\n"
		"ls /proc/self/fd | tr '\\n' ' ' >>\"$(dirname \"$0\")/notes\"\n"
		"read line && exit 1\n[ \"$(ps -o pgid= $$ 2>/dev/null || echo $$)\" -eq $$ ]",
		" -a %a  --port=%p\t100%% $HOME;ls '*' %p%p");
	check_good();
	file = fopen(notes, "r");
	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	assert_non_null(strstr(text, "-a|192.0.2.7|--port=8080|100%|$HOME;ls|'*'|80808080|0\n"));
	/* The last one is that of ls itself. */
	assert_string_equal(strchr(text, '\n') + 1, "0 1 2 3 ");
	close(leak);
	unsetenv("SECRET");
}

/* loadcast comes before the web server; its command does not, nor does it come before a loadcast that others nice. */
static void is_no_better_than_others(void **state)
{
	static const int nicenesses[] = { -5, 0, 5 };
	int before = getpriority(PRIO_PROCESS, 0);

	(void)state;
	for (unsigned i = 0; i < sizeof(nicenesses) / sizeof(*nicenesses); i++) {
		if (setpriority(PRIO_PROCESS, 0, nicenesses[i])) {
			print_message("skip: a better niceness needs root\n");
			skip();
		}
		command("exit $(nice)", "");
		probe();
		if (nicenesses[i] <= 0)
			assert_true(health_is_good(health));
		else
			assert_string_equal(health_reason(health), "command: exit status 5");
	}
	setpriority(PRIO_PROCESS, 0, before);
}

static unsigned children(void)
{
	return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD ? 0 : 1;
}

/* Its time is up: it and all that it started are killed, and nothing is left to be waited for. */
static void takes_too_long(void **state)
{
	char text[64] = "";
	FILE *file;
	uint64_t begun_ms;

	(void)state;
	config.health_timeout_ms = SHORT_MS;
	config.health_interval_ms = PATIENCE_MS;
	command("sleep 1000 &\necho $! >\"$(dirname \"$0\")/notes\"\nsleep 1000", "");
	assert_in_range(probe(), SHORT_MS, PATIENCE_MS);
	assert_false(health_is_good(health));
	assert_string_equal(health_reason(health), "the command did not end in time");
	/* It is reaped while the next one is not due yet. */
	for (begun_ms = clock_now_ms(); health->command && clock_now_ms() < begun_ms + PATIENCE_MS;) {
		struct pollfd fd = { 0 };
		short events;

		fd.fd = health_socket(health, &events);
		fd.events = events;
		assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
		health_ready(health, fd.revents, clock_now_ms());
	}
	assert_null(health->command);
	assert_int_equal(children(), 0);
	file = fopen(notes, "r");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	/* The orphan belongs to another process now, which may not have waited for it yet. */
	snprintf(text + 32, 32, "/proc/%d/exe", atoi(text));
	for (begun_ms = clock_now_ms(); access(text + 32, F_OK) == 0 && clock_now_ms() < begun_ms + PATIENCE_MS;)
		usleep(1000);
	assert_true(access(text + 32, F_OK) < 0);
}

/* A pipe bounds what is kept of it. */
static void prints_without_end(void **state)
{
	(void)state;
	config.health_timeout_ms = SHORT_MS;
	command("while :; do echo yes; done", "");
	check_bad("the command did not end in time");
	config.health_timeout_ms = TIMEOUT_MS;
	command("i=0; while [ $i -lt 1000 ]; do echo 0123456789; i=$((i + 1)); done", "");
	check_good();
}

/* One that leaves a process behind has ended all the same, and does not leave it. */
static void leaves_one_behind(void **state)
{
	(void)state;
	config.health_interval_ms = PATIENCE_MS;
	command("sleep 1000 &\nexit 0", "");
	assert_true(probe() < TIMEOUT_MS);
	assert_true(health_is_good(health));
	assert_int_equal(children(), 0);
}

/* One that is not even ended by a signal keeps the next one away; each of those is a failure. */
static void never_two(void **state)
{
	struct command *held;
	uint64_t now_ms;

	(void)state;
	command("exit 0", "");
	/* It stands for one that the kernel holds: killed, not ended. */
	held = command_start("/bin/sleep 1000", &health->address, 1);
	assert_non_null(held);
	health->command = held;
	health->killed = true;
	health->known = true;
	config.health_timeout_ms = SHORT_MS;
	now_ms = clock_now_ms();
	health_tick(health, now_ms);
	assert_ptr_equal(health->command, held);
	assert_true(health_is_good(health));
	/* This kills it again, and now it does end. */
	health_tick(health, now_ms + SHORT_MS);
	assert_false(health_is_good(health));
	assert_string_equal(health_reason(health), "the command before was killed, and does not end");
	config.health_timeout_ms = TIMEOUT_MS;
	config.health_interval_ms = PATIENCE_MS;
	check_good();
	assert_null(health->command);
	assert_int_equal(children(), 0);
}

/* A reload: a command that goes on is taken over, one that is none of the file any more is killed. */
static void is_reloaded(void **state)
{
	struct config other;
	struct health *fresh;
	struct command *runs;

	(void)state;
	command("sleep 1000", "");
	health_tick(health, clock_now_ms());
	runs = health->command;
	assert_non_null(runs);
	fresh = health_new(&config, HEALTH_COMMAND, &health->address, health->port);
	health_inherit(fresh, health);
	assert_ptr_equal(fresh->command, runs);
	assert_null(health->command);
	health_free(health);
	other = config;
	strcat(other.health_command, " more");
	health = health_new(&other, HEALTH_COMMAND, &fresh->address, fresh->port);
	health_inherit(health, fresh);
	assert_null(health->command);
	health_free(fresh);
	assert_int_equal(children(), 0);
	health->config = &config;
}

/* --- https --- */

static int listen_on(uint16_t *ret_port, bool v6)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = v6 ? sizeof(any) : sizeof(v4);
	struct sockaddr *address = v6 ? (struct sockaddr *)&any : (struct sockaddr *)&v4;
	int s = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(s, address, size), 0);
	assert_int_equal(listen(s, 8), 0);
	assert_int_equal(getsockname(s, address, &size), 0);
	*ret_port = ntohs(v6 ? any.sin6_port : v4.sin_port);
	return s;
}

/* The connection is on its way. */
static void begins(void)
{
	health_tick(health, clock_now_ms());
	health_tick(health, clock_now_ms());
}

static void no_https(void **state)
{
	char message[CONFIG_ERROR_BYTES];
	uint16_t port;
	int listener, peer;

	(void)state;
	assert_int_equal(https_load(message), 0);
	assert_int_equal(https_load(message), 0);
	for (unsigned v6 = 0; v6 < 2; v6++) {
		/* Nobody accepts. */
		config.health_timeout_ms = SHORT_MS;
		listener = listen_on(&port, v6);
		begin(HEALTH_HTTPS, v6 ? "::1" : "127.0.0.1", port);
		check_bad("the server does not accept connections");
		assert_in_range(health->streak, 0, 1);
		/* The connection is accepted, and says nothing. */
		begin(HEALTH_HTTPS, v6 ? "::1" : "127.0.0.1", port);
		close(accept(listener, NULL, NULL));
		begins();
		peer = accept(listener, NULL, NULL);
		check_bad("no HTTPS answer in time");
		close(peer);
		/* It speaks HTTP. */
		config.health_timeout_ms = TIMEOUT_MS;
		begin(HEALTH_HTTPS, v6 ? "::1" : "127.0.0.1", port);
		begins();
		peer = accept(listener, NULL, NULL);
		assert_true(send(peer, "HTTP/1.1 200 OK\r\n\r\n", 19, MSG_NOSIGNAL) == 19);
		shutdown(peer, SHUT_WR);
		probe();
		assert_false(health_is_good(health));
		assert_memory_equal(health_reason(health), "https: ", 7);
		close(peer);
		close(listener);
		/* Nobody is there. */
		begin(HEALTH_HTTPS, v6 ? "::1" : "127.0.0.1", port);
		probe();
		assert_false(health_is_good(health));
		assert_non_null(strstr(health_reason(health), "connect"));
	}
}

/* How often this file was opened since the last call. */
static unsigned opened(int watch)
{
	_Alignas(struct inotify_event) char events[4096];
	ssize_t bytes = read(watch, events, sizeof(events));

	return bytes > 0 ? (unsigned)bytes / sizeof(struct inotify_event) : 0;
}

/* The authorities of this host are read once, and not for each probe and each server. */
static void authorities_are_kept(void **state)
{
	static const char authorities[] = "/etc/ssl/certs/ca-certificates.crt";
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), listener;
	char message[CONFIG_ERROR_BYTES];
	unsigned times = 0;
	uint16_t port;

	(void)state;
	assert_true(inotify_add_watch(watch, authorities, IN_OPEN) >= 0);
	assert_int_equal(https_load(message), 0);
	config.health_verify = true;
	listener = listen_on(&port, false);
	for (unsigned i = 0; i < 3; i++) {
		begin(HEALTH_HTTPS, "127.0.0.1", port);
		begins();
		close(accept(listener, NULL, NULL));
		probe();
		assert_false(health_is_good(health));
		times += opened(watch);
	}
	assert_int_equal(times, 1);
	close(listener);
	close(watch);
}

static void two_probes(struct health *two[2], uint64_t until_ms)
{
	while (two[0]->step != STEP_IDLE || two[1]->step != STEP_IDLE) {
		struct pollfd fds[2] = { 0 };

		assert_true(clock_now_ms() < until_ms);
		for (unsigned i = 0; i < 2; i++)
			fds[i].fd = health_socket(two[i], &fds[i].events);
		poll(fds, 2, 10);
		for (unsigned i = 0; i < 2; i++) {
			if (fds[i].revents)
				health_ready(two[i], fds[i].revents, clock_now_ms());
		}
		for (unsigned i = 0; i < 2; i++) {
			if (two[i]->step != STEP_IDLE)
				health_tick(two[i], clock_now_ms());
		}
	}
}

/* Each gets its own result, also when one call into libcurl ends both. */
static void two_at_once(void **state)
{
	uint16_t port;
	int listener = listen_on(&port, false), peer;
	struct health *two[2];
	char message[CONFIG_ERROR_BYTES];

	(void)state;
	assert_int_equal(https_load(message), 0);
	config.health_interval_ms = PATIENCE_MS;
	begin(HEALTH_HTTPS, "127.0.0.1", port);
	two[0] = health;
	health = NULL;
	begin(HEALTH_HTTPS, "127.0.0.1", port);
	two[1] = health;
	health_tick(two[0], clock_now_ms());
	health_tick(two[1], clock_now_ms());
	health_tick(two[0], clock_now_ms());
	health_tick(two[1], clock_now_ms());
	/* One is closed, the other speaks HTTP. */
	close(accept(listener, NULL, NULL));
	peer = accept(listener, NULL, NULL);
	assert_true(send(peer, "HTTP/1.1 200 OK\r\n\r\n", 19, MSG_NOSIGNAL) == 19);
	two_probes(two, clock_now_ms() + PATIENCE_MS);
	for (unsigned i = 0; i < 2; i++) {
		assert_false(health_is_good(two[i]));
		assert_memory_equal(health_reason(two[i]), "https: ", 7);
	}
	assert_string_not_equal(health_reason(two[0]), health_reason(two[1]));
	/* One that is given up does not disturb the other. */
	two[0]->next_ms = two[1]->next_ms = 0;
	health_tick(two[0], clock_now_ms());
	health_tick(two[1], clock_now_ms());
	health_free(two[0]);
	health_tick(two[1], clock_now_ms());
	close(listener);
	close(peer);
	two[0] = health_new(&config, HEALTH_NONE, &two[1]->address, port);
	two_probes(two, clock_now_ms() + PATIENCE_MS);
	assert_false(health_is_good(two[1]));
	health_free(two[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(exit_status_decides, start, stop),
		cmocka_unit_test_setup_teardown(cannot_start, start, stop),
		cmocka_unit_test_setup_teardown(gets_words_and_nothing_else, start, stop),
		cmocka_unit_test_setup_teardown(is_no_better_than_others, start, stop),
		cmocka_unit_test_setup_teardown(takes_too_long, start, stop),
		cmocka_unit_test_setup_teardown(prints_without_end, start, stop),
		cmocka_unit_test_setup_teardown(leaves_one_behind, start, stop),
		cmocka_unit_test_setup_teardown(never_two, start, stop),
		cmocka_unit_test_setup_teardown(is_reloaded, start, stop),
		cmocka_unit_test_setup_teardown(no_https, start, stop),
		cmocka_unit_test_setup_teardown(authorities_are_kept, start, stop),
		cmocka_unit_test_setup_teardown(two_at_once, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
