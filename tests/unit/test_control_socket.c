// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The control socket and its clients: a loop in one thread, as dprd's, and clients in the other. Good
 * ones, greedy ones, slow ones, and one without rights.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "dprd/control/socket.h"
#include "dprd/host/flowset.h"
#include "dprd/dprctl/dprctl.h"
#include "tests/unit/control_fixture.h"
#include "tests/unit/own_clock.h"
#include "tests/unit/valgrind.h"

/* Longer than any host is busy. */
enum { WAIT_MS = 60000, STEP_MS = 50, STEPS_MAX = WAIT_MS / STEP_MS };

static struct dprd d;
static struct control *control;
static pthread_t thread;
static int stop_fd = -1, open_error;
static char directory[] = "/tmp/test_control.XXXXXX", path[64];

static int on_stop(sd_event_source *source, int fd, uint32_t events, void *context)
{
	(void)fd;
	(void)events;
	(void)context;
	return sd_event_exit(sd_event_source_get_event(source), 0);
}

static void *loop(void *context)
{
	sem_t *ready = context;

	open_error = sd_event_new(&d.event);
	if (open_error >= 0)
		open_error = sd_event_add_io(d.event, NULL, stop_fd, EPOLLIN, on_stop, NULL);
	if (open_error >= 0)
		open_error = control_open(&d, &control);
	sem_post(ready);
	if (open_error >= 0)
		sd_event_loop(d.event);
	control_close(control);
	d.event = sd_event_unref(d.event);
	return NULL;
}

static int start(void **context)
{
	static sem_t ready;

	(void)context;
	fixture_start(&d);
	d.set = flowset_new(); /* it is asked for the firewall's counters each second */
	assert_non_null(d.set);
	snprintf(d.config.run_dir, sizeof(d.config.run_dir), "%s", directory);
	stop_fd = eventfd(0, EFD_CLOEXEC);
	sem_init(&ready, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, loop, &ready), 0);
	sem_wait(&ready);
	assert_true(open_error >= 0);
	return 0;
}

static int stop(void **context)
{
	(void)context;
	assert_int_equal(eventfd_write(stop_fd, 1), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	close(stop_fd);
	flowset_free(d.set);
	fixture_stop(&d);
	/* Closing removes the socket. */
	assert_int_equal(access(path, F_OK), -1);
	return 0;
}

static int make_directory(void **context)
{
	(void)context;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/control", directory);
	return 0;
}

static int remove_directory(void **context)
{
	(void)context;
	return rmdir(directory);
}

static int client(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, path, strlen(path) + 1);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void put(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Reads until this many lines, or the end, came; returns the number of bytes. */
static size_t get(int fd, char *text, size_t room, unsigned lines)
{
	struct pollfd poller = { .fd = fd, .events = POLLIN };
	size_t used = 0;
	ssize_t got;

	while (lines && poll(&poller, 1, WAIT_MS) == 1) {
		got = recv(fd, text + used, room - 1 - used, 0);
		if (got <= 0)
			break;
		for (ssize_t i = 0; i < got; i++)
			lines -= text[used + (size_t)i] == '\n' && lines;
		used += (size_t)got;
	}
	text[used] = '\0';
	return used;
}

/* True when the other side closes before it was silent for within_ms. */
static bool closes(int fd, int within_ms)
{
	struct pollfd poller = { .fd = fd, .events = POLLIN };
	char waste[4096];

	while (poll(&poller, 1, within_ms) == 1) {
		if (recv(fd, waste, sizeof(waste), 0) <= 0)
			return true;
	}
	return false;
}

static json_t *ask(const char *command)
{
	json_t *answer;

	assert_int_equal(dprctl_ask_one(directory, json_pack("{s:s}", "command", command), WAIT_MS, &answer), 0);
	return answer;
}

static void test_one_answer(void **context)
{
	struct stat facts;
	json_t *status;

	(void)context;
	assert_int_equal(stat(path, &facts), 0);
	assert_int_equal(facts.st_mode & 0777, 0660);
	status = ask("status");
	assert_string_equal(text_of(status, "schema"), "dprd.status/1");
	json_decref(status);
}

static void test_requests_in_pieces_and_in_heaps(void **context)
{
	static char text[200000];
	const char *at = text;
	int fd = client();
	unsigned lines = 0;

	(void)context;
	put(fd, "{\"comm");
	usleep(20000);
	put(fd, "and\":\"peers\"}\n{\"command\":\"why\",\"client\":\"203.0.113.7\"}\nnonsense\n");
	get(fd, text, sizeof(text), 3);
	assert_non_null(strstr(text, "dprd.peers/1"));
	assert_non_null(strstr(text, "dprd.why/1"));
	assert_non_null(strstr(text, "{\"error\":\"not JSON"));
	for (; (at = strchr(at, '\n')); at++)
		lines++;
	assert_int_equal(lines, 3);
	close(fd);
}

static bool count_line(void *context, const json_t *line)
{
	unsigned *lines = context;

	(*lines)++;
	return json_is_object(line);
}

static void test_long_listing(void **context)
{
	unsigned i, lines = 0, made = 0;

	(void)context;
	mutex_lock(&d.lock);
	for (i = 0; i < 1000; i++)
		made += fixture_flow(&d, "2001:db8:ffff:ffff:ffff:ffff:ffff:7", (uint16_t)(i + 1), "n2", TCP_ACK);
	mutex_unlock(&d.lock);
	assert_int_equal(dprctl_ask(directory, json_pack("{s:s}", "command", "flows"), WAIT_MS, count_line, &lines), 0);
	assert_in_range(made, 900, 1000);
	assert_int_equal(lines, made + 1);
}

static void test_too_long_a_line(void **context)
{
	char line[CONTROL_REQUEST_BYTES + 2], text[300];
	int fd = client();

	(void)context;
	memset(line, ' ', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	put(fd, line);
	get(fd, text, sizeof(text), 1);
	assert_non_null(strstr(text, "longer than 4096 bytes"));
	assert_true(closes(fd, WAIT_MS));
	close(fd);
}

/* Sends as much as the other side takes. True while it is connected. */
static bool send_all(int fd, const char *text)
{
	while (send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
		;
	return errno == EAGAIN;
}

/* The loop takes clients in turn: when a new one is served, it has taken all that came before. */
static void await_turn(void)
{
	json_decref(ask("peers"));
}

/* Waits until the loop has taken the client, and read one line of it. */
static void await_taken(int fd)
{
	char text[300];

	put(fd, "x\n");
	assert_true(get(fd, text, sizeof(text), 1) > 0);
}

/* Sends until the other side has taken no more for a while: it waits for its answers to be read. */
static void fill(int fd, const char *text)
{
	int answers, before = 0;

	/* No more fits in, and no more answers come: on a busy host the server may only have waited for its turn. */
	for (unsigned quiet = 0; quiet < 10;) {
		ssize_t sent = send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);

		assert_true(sent > 0 || errno == EAGAIN);
		assert_int_equal(ioctl(fd, FIONREAD, &answers), 0);
		quiet = sent > 0 || !answers || answers > before ? 0 : quiet + 1;
		before = answers;
		if (sent < 0)
			usleep(5000);
	}
}

/* Clients that ask nothing take all places: each new one is served, as the most silent one makes room. */
static void test_idle_clients_make_room(void **context)
{
	int fds[CONTROL_CLIENTS_MAX];
	unsigned i;

	(void)context;
	for (i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		fds[i] = client();
		await_taken(fds[i]);
		own_clock_ms++;
	}
	json_decref(ask("config"));
	assert_true(closes(fds[0], WAIT_MS));
	assert_false(closes(fds[1], 0));
	json_decref(ask("config"));
	assert_false(closes(fds[1], 0)); /* the place of the last one was free */
	for (i = 0; i < CONTROL_CLIENTS_MAX; i++)
		close(fds[i]);
}

/* Clients that ask and do not read: they are being answered, so a new one is refused, for a second. */
static void test_too_many_clients(void **context)
{
	static const char request[] = "{\"command\":\"status\"}\n";
	int fds[CONTROL_CLIENTS_MAX], late;
	char text[300];
	unsigned i;

	(void)context;
	SKIP_UNDER_VALGRIND("clients and server take turns");
	for (i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		fds[i] = client();
		fill(fds[i], request);
	}
	late = client();
	get(late, text, sizeof(text), 1);
	assert_string_equal(text, "{\"error\":\"too many clients\"}\n");
	assert_true(closes(late, WAIT_MS));
	close(late);
	own_clock_ms += 1000;
	json_decref(ask("config"));
	for (i = 0; i < CONTROL_CLIENTS_MAX; i++)
		close(fds[i]);
}

/* Processor time of this process within this time, in milliseconds. */
static unsigned costs_ms(unsigned ms)
{
	struct timespec before, after;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	usleep(ms * 1000);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	return (unsigned)((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000);
}

static void limit_descriptors(rlim_t count, struct rlimit *former)
{
	struct rlimit low;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, former), 0);
	low = (struct rlimit) { .rlim_cur = count, .rlim_max = former->rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
}

static int unconnected(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	return fd;
}

static void connect_client(int fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	memcpy(address.sun_path, path, strlen(path) + 1);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

/* No descriptor is left for a client: it is told so. */
static void test_no_descriptor(void **context)
{
	int first = unconnected(), second = unconnected(), holes[64];
	struct rlimit former;
	char text[300];
	unsigned count = 0;

	(void)context;
	SKIP_UNDER_VALGRIND("the limit of open files is not the kernel's");
	limit_descriptors(64, &former);
	/* The loop may still close those of clients that are gone. */
	for (unsigned quiet = 0; quiet < 5; quiet++) {
		usleep(10000);
		while (count < 64 && (holes[count] = dup(first)) >= 0)
			count++, quiet = 0;
	}
	for (unsigned i = 0; i < 2; i++) {
		connect_client(i ? second : first);
		get(i ? second : first, text, sizeof(text), 1);
		assert_non_null(strstr(text, "no file descriptor left (raise LimitNOFILE="));
		assert_true(closes(i ? second : first, WAIT_MS));
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &former), 0);
	while (count)
		close(holes[--count]);
	json_decref(ask("config"));
	close(first);
	close(second);
}

/* Not even the spare one can be used: the client waits, the loop does not turn without a pause, and recovers. */
static void test_no_descriptor_at_all(void **context)
{
	struct rlimit former;
	char text[300];
	int fd;

	(void)context;
	SKIP_UNDER_VALGRIND("the limit of open files is not the kernel's");
	await_turn();
	fd = unconnected();
	limit_descriptors(3, &former);
	connect_client(fd);
	assert_true(costs_ms(1000) < 50);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &former), 0);
	put(fd, "{\"command\":\"config\"}\n");
	assert_true(get(fd, text, sizeof(text), 1) > 0);
	close(fd);
}

/*
 * One client sends nothing, one sends byte by byte, one asks and never reads: all are closed, and others are served
 * meanwhile.
 */
static void test_idle_clients_are_closed(void **context)
{
	static const char request[] = "{\"command\":\"status\"}\n";
	int first = client(), silent, dripping, deaf;
	unsigned steps;

	(void)context;
	await_turn();
	own_clock_ms++;
	silent = client(), dripping = client(), deaf = client();
	assert_true(send_all(deaf, request));
	await_turn();
	own_clock_ms += CONTROL_IDLE_MS - 1;
	send(dripping, " ", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	/* The check that closes this client leaves the others, which came 1 ms later. */
	assert_true(closes(first, WAIT_MS));
	await_turn();
	assert_false(closes(silent, 0));
	assert_false(closes(dripping, 0));
	own_clock_ms++;
	assert_true(closes(silent, WAIT_MS));
	assert_true(closes(dripping, WAIT_MS));
	/* Answers for which this socket has room may have been written a moment ago. */
	for (steps = 0; steps < STEPS_MAX && send_all(deaf, request); steps++) {
		own_clock_ms += CONTROL_IDLE_MS;
		usleep(STEP_MS * 1000);
	}
	assert_true(steps < STEPS_MAX);
	await_turn();
	close(first);
	close(silent);
	close(dripping);
	close(deaf);
}

/* -n names the member that answers, or nothing is done. */
static void test_meant_node(void **context)
{
	struct dprctl c = { .run_dir = directory, .answer_ms = WAIT_MS };

	(void)context;
	assert_true(dprctl_is_meant(&c));
	c.node_name = d.config.node_name;
	assert_true(dprctl_is_meant(&c));
	c.node_name = "n2";
	assert_string_not_equal(c.node_name, d.config.node_name);
	assert_false(dprctl_is_meant(&c));
	c.run_dir = "/nonexistent";
	assert_true(dprctl_is_meant(&c));
}

/* The text that a command prints. */
static void output_of(dprctl_run *command, struct dprctl *c, int expected, char text[4096])
{
	int own = dup(STDOUT_FILENO), file = memfd_create("output", MFD_CLOEXEC), result;
	ssize_t bytes;

	fflush(stdout);
	assert_true(own >= 0 && file >= 0 && dup2(file, STDOUT_FILENO) >= 0);
	result = command(c, NULL);
	fflush(stdout);
	dup2(own, STDOUT_FILENO);
	bytes = pread(file, text, 4095, 0);
	close(own);
	close(file);
	assert_int_equal(result, expected);
	assert_true(bytes >= 0);
	text[bytes] = '\0';
}

/* Each answer to a change names its node; a refusal has no heading. */
static void test_text_of_answers(void **context)
{
	struct dprctl c = { .run_dir = directory, .table_file = "/nonexistent", .answer_ms = WAIT_MS, .to = "nobody" };
	char text[4096], expected[128];

	(void)context;
	output_of(command_flows, &c, DPRCTL_FAILED, text);
	assert_string_equal(text, "");
	c.to = NULL;
	output_of(command_flows, &c, DPRCTL_OK, text);
	assert_non_null(strstr(text, "CLIENT"));
	output_of(command_drain, &c, DPRCTL_OK, text);
	snprintf(expected, sizeof(expected), "%s drains; 0 forwarded flows go on\n", d.config.node_name);
	assert_string_equal(text, expected);
	output_of(command_undrain, &c, DPRCTL_OK, text);
	snprintf(expected, sizeof(expected), "%s no longer drains\n", d.config.node_name);
	assert_string_equal(text, expected);
	strcpy(d.config.run_dir, "/nonexistent");
	output_of(command_drain, &c, DPRCTL_DEGRADED, text);
	snprintf(d.config.run_dir, sizeof(d.config.run_dir), "%s", directory);
	output_of(command_undrain, &c, DPRCTL_OK, text);
	output_of(command_metrics, &c, DPRCTL_OK, text);
	assert_non_null(strstr(text, "\ndprd_up 1\n"));
	c.run_dir = "/nonexistent";
	output_of(command_metrics, &c, DPRCTL_FAILED, text);
	assert_non_null(strstr(text, "\ndprd_up 0\n"));
	assert_null(strstr(text, "dprd_info"));
}

/* Runs in a child as another user, whom the file's mode admits like a member of the group. */
static int drain_as_nobody(void)
{
	json_t *answer;
	int result = 3;

	if (setgid(65534) || setuid(65534))
		return 4;
	if (dprctl_ask_one(directory, json_pack("{s:s}", "command", "drain"), WAIT_MS, &answer))
		return 5;
	if (json_object_get(answer, "error"))
		result = 0;
	json_decref(answer);
	if (result || dprctl_ask_one(directory, json_pack("{s:s}", "command", "status"), WAIT_MS, &answer))
		return result ? result : 6;
	result = json_object_get(answer, "schema") ? 0 : 7;
	json_decref(answer);
	return result;
}

static void test_who_may_drain(void **context)
{
	json_t *answer = ask("drain");
	int status;
	pid_t child;

	(void)context;
	assert_true(flag_of(answer, "draining"));
	json_decref(answer);
	json_decref(ask("undrain"));
	if (geteuid() != 0) {
		print_message("skip: another user's request needs root\n");
		skip();
	}
	assert_int_equal(chmod(directory, 0755), 0);
	assert_int_equal(chmod(path, 0666), 0);
	child = fork();
	if (!child)
		_exit(drain_as_nobody());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_false(d.draining);
}

/* A socket that a killed dprd left does not hinder the next one. */
static void test_stale_socket(void **context)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	json_t *answer;

	memcpy(address.sun_path, path, strlen(path) + 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	assert_int_equal(dprctl_ask_one(directory, json_pack("{s:s}", "command", "status"), WAIT_MS, &answer),
			 -ECONNREFUSED);
	start(context);
	assert_int_equal(dprctl_ask_one(directory, json_pack("{s:s}", "command", "status"), WAIT_MS, &answer), 0);
	json_decref(answer);
	stop(context);
	assert_int_equal(dprctl_ask_one(directory, json_pack("{s:s}", "command", "status"), WAIT_MS, &answer), -ENOENT);
}

/* A process listens but does not answer: a frozen dprd. */
static void test_frozen(void **context)
{
	enum { ANSWER_MS = 100 };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	json_t *request = json_pack("{s:s}", "command", "status"), *answer;
	struct timespec start, end;

	(void)context;
	memcpy(address.sun_path, path, strlen(path) + 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	clock_gettime(CLOCK_MONOTONIC_RAW, &start);
	assert_int_equal(dprctl_ask_one(directory, request, ANSWER_MS, &answer), -ETIMEDOUT);
	clock_gettime(CLOCK_MONOTONIC_RAW, &end);
	assert_in_range((end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000, ANSWER_MS - 10,
			WAIT_MS);
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_answer, start, stop),
		cmocka_unit_test_setup_teardown(test_requests_in_pieces_and_in_heaps, start, stop),
		cmocka_unit_test_setup_teardown(test_long_listing, start, stop),
		cmocka_unit_test_setup_teardown(test_too_long_a_line, start, stop),
		cmocka_unit_test_setup_teardown(test_idle_clients_make_room, start, stop),
		cmocka_unit_test_setup_teardown(test_too_many_clients, start, stop),
		cmocka_unit_test_setup_teardown(test_no_descriptor, start, stop),
		cmocka_unit_test_setup_teardown(test_no_descriptor_at_all, start, stop),
		cmocka_unit_test_setup_teardown(test_idle_clients_are_closed, start, stop),
		cmocka_unit_test_setup_teardown(test_meant_node, start, stop),
		cmocka_unit_test_setup_teardown(test_text_of_answers, start, stop),
		cmocka_unit_test_setup_teardown(test_who_may_drain, start, stop),
		cmocka_unit_test(test_stale_socket),
		cmocka_unit_test(test_frozen),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
