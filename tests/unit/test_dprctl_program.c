// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl as a program: its arguments, its behaviour without dprd, and its exit status. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "dprd/base/clock.h"
#include "dprd/dprctl/dprctl.h"
#include "dprd/base/status.h"
#include "loadcast/load.h"
#include "tests/unit/own_clock.h"

/* The program itself, under another name. A process that a busy host does not run must not look like a frozen dprd. */
int dprctl_main(int argc, char **argv);
#define main dprctl_main
#define DPRCTL_ANSWER_MS 60000
#include "dprd/dprctl/main.c" // NOLINT(bugprone-suspicious-include): to run it in processes of this one
#undef main
#undef DPRCTL_ANSWER_MS

/* Only dprctl's sleep takes time, and on a busy host more than was asked for. */
static unsigned oversleep_ms;

__attribute__((visibility("hidden"))) int usleep(useconds_t us)
{
	own_clock_ms += us / 1000 + oversleep_ms;
	return 0;
}

static char directory[] = "/tmp/test_dprctl.XXXXXX", path_config[64];

static const char config_text[] = "[Cluster]\nName=web\n[Node]\nName=n1\n[Run]\nDirectory=%s\nTable=%s/table\n"
				  "[Member \"n1\"]\nService=192.0.2.11\nCluster=10.0.0.11\n"
				  "[Member \"n2\"]\nService=192.0.2.12\nCluster=10.0.0.12\n";

static void write_config(const char *more)
{
	FILE *file = fopen(path_config, "w");

	assert_non_null(file);
	fprintf(file, config_text, directory, directory);
	fputs(more, file);
	assert_int_equal(fclose(file), 0);
}

static int make_directory(void **context)
{
	(void)context;
	assert_non_null(mkdtemp(directory));
	snprintf(path_config, sizeof(path_config), "%s/dprd.conf", directory);
	write_config("");
	return 0;
}

static int remove_directory(void **context)
{
	static const char *const names[] = { "dprd.conf", "table", "status", "output" };
	char path[96];
	unsigned i;

	(void)context;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		unlink(path);
	}
	return rmdir(directory);
}

/* Runs dprctl with these words (split at blanks); its exit status, and what it printed, both outputs. */
static int run(const char *words, char *output, size_t bytes)
{
	char path[96], copy[300], *argv[16] = { (char *)(uintptr_t) "dprctl" }, *save = NULL;
	int status, fd, argc = 1;
	ssize_t got;
	pid_t child;

	snprintf(copy, sizeof(copy), "%s", words);
	for (char *word = strtok_r(copy, " ", &save); word && argc < 15; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	snprintf(path, sizeof(path), "%s/output", directory);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	fflush(NULL);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		dup2(fd, STDOUT_FILENO);
		dup2(fd, STDERR_FILENO);
		status = dprctl_main(argc, argv);
		fflush(NULL);
		_exit(status);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	got = pread(fd, output, bytes - 1, 0);
	assert_true(got >= 0);
	output[got] = '\0';
	close(fd);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_usage_errors(void **context)
{
	static const char *const wrong[] = {
		"nonsense",
		"--nonsense",
		"-x",
		"status more",
		"why",
		"why a b",
		"genkey --json",
		"status --all",
		"status --limit 3",
		"peers --to n2",
		"flows --dump",
		"why --wait 203.0.113.7",
		"drain --timeout",
		"drain --timeout 0",
		"drain --timeout x",
		"status --watch=0",
		"status --watch=x",
		"drain --watch",
		"-c",
		"version more",
		"--completion=tcsh",
		"--completion",
	};
	char output[4096];
	unsigned i;

	(void)context;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		int status = run(wrong[i], output, sizeof(output));

		/* The failure must not come from a missing dprd. */
		if (status != DPRCTL_FAILED || !strstr(output, "try: dprctl --help"))
			fail_msg("dprctl %s: %d, %s", wrong[i], status, output);
	}
}

static void test_no_such_config(void **context)
{
	char output[4096];

	(void)context;
	assert_int_equal(run("-c /nonexistent/dprd.conf status", output, sizeof(output)), DPRCTL_FAILED);
	assert_non_null(strstr(output, "/nonexistent/dprd.conf"));
}

static void run_config(const char *words, int expected, const char *shows)
{
	char output[8192], line[200];
	int status;

	snprintf(line, sizeof(line), "-c %s %s", path_config, words);
	status = run(line, output, sizeof(output));
	if (status != expected || !strstr(output, shows))
		fail_msg("dprctl %s: %d, wanted %d and \"%s\":\n%s", words, status, expected, shows, output);
}

static void test_arguments_checked_before_asking(void **context)
{
	(void)context;
	run_config("why www:80", DPRCTL_FAILED, "www:80 is not a client");
	run_config("flows --client 203.0.113.0/33", DPRCTL_FAILED, "is not a client");
	run_config("flows --limit x", DPRCTL_FAILED, "--limit is a number");
}

static void test_no_dprd_needed(void **context)
{
	char output[4096], other[4096];

	(void)context;
	assert_int_equal(run("genkey", output, sizeof(output)), DPRCTL_OK);
	assert_int_equal(strlen(output), 65);
	assert_int_equal(strspn(output, "0123456789abcdef"), 64);
	assert_int_equal(output[64], '\n');
	assert_int_equal(run("genkey", other, sizeof(other)), DPRCTL_OK);
	assert_string_not_equal(output, other);
	assert_int_equal(run("version", output, sizeof(output)), DPRCTL_OK);
	assert_string_equal(output, "dprctl " DPRD_VERSION "\n");
	assert_int_equal(run("help", output, sizeof(output)), DPRCTL_OK);
	assert_int_equal(run("--help", other, sizeof(other)), DPRCTL_OK);
	assert_string_equal(output, other);
	assert_int_equal(run("help more --watch", other, sizeof(other)), DPRCTL_OK);
	assert_string_equal(output, other);
}

/* Every command and every option, in the help and in what each shell completes; and every key of the file. */
static void test_all_of_the_tables(void **context)
{
	static const char *const texts[] = { "--help", "--completion=bash", "--completion=zsh", "--completion=fish" };
	char output[16384], word[64];
	unsigned i;

	(void)context;
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(run(texts[i], output, sizeof(output)), DPRCTL_OK);
		for (const struct dprctl_command *command = dprctl_commands; command->name; command++)
			assert_non_null(strstr(output, command->name));
		for (const struct dprctl_option *option = dprctl_options; option->name; option++) {
			snprintf(word, sizeof(word), strcmp(texts[i], "--completion=fish") == 0 ? "-l %s " : "--%s",
				 option->name);
			assert_non_null(strstr(output, word));
		}
	}
	assert_int_equal(run("--keys", output, sizeof(output)), DPRCTL_OK);
	assert_non_null(strstr(output, "Queue\tLength\trestart\t1024\n"));
	assert_non_null(strstr(output, "Balance\tPolicy\treload\tli\n"));
}

static void test_nobody_there(void **context)
{
	(void)context;
	run_config("status", DPRCTL_FAILED, "! dprd does not run: no program listens on");
	run_config("status", DPRCTL_FAILED, "! there is no load table");
	run_config("status --json", DPRCTL_FAILED, "{\"schema\":\"dprd.files/1\",\"node\":\"n1\",\"answers\":false");
	run_config("peers", DPRCTL_FAILED, "systemctl start dprd");
	run_config("flows", DPRCTL_FAILED, "dprd does not run");
	run_config("why 203.0.113.7", DPRCTL_FAILED, "dprd does not run");
	run_config("drain --wait", DPRCTL_FAILED, "dprd does not run");
	run_config("reload", DPRCTL_FAILED, "dprd does not run");
	run_config("metrics", DPRCTL_FAILED, "dprd does not run");
}

static void test_files_still_tell(void **context)
{
	struct load_table table = { .count = 2, .published_ms = clock_now_ms(), .period_ms = 200 };
	struct dprd_status facts = { .written_ms = clock_now_ms() - 12300, .pid = 4711, .redirected = 17 };
	char path[96];

	(void)context;
	table.nodes[0] = (struct node_load) { .id = member_id("n1"), .flags = NODE_HEARD, .weight = 1 };
	table.nodes[1] = (struct node_load) { .id = member_id("n2"), .flags = NODE_HEARD, .weight = 1, .age_ms = 150 };
	table.nodes[1].sample.open_connections = 14;
	snprintf(path, sizeof(path), "%s/table", directory);
	assert_int_equal(load_table_publish(path, &table), 0);
	snprintf(path, sizeof(path), "%s/status", directory);
	assert_int_equal(status_publish(path, &facts), 0);
	run_config("status", DPRCTL_FAILED, "process 4711 last wrote 12.3s ago; it forwarded 17 connections");
	run_config("status", DPRCTL_FAILED, "  n2     192.0.2.12     heard ");
	run_config("status --json", DPRCTL_FAILED, "\"open_connections\":14");
	unlink(path);
	run_config("status", DPRCTL_FAILED, "status: it was stopped, or never ran");
	snprintf(path, sizeof(path), "%s/table", directory);
	assert_int_equal(truncate(path, 20), 0);
	run_config("status", DPRCTL_FAILED, "table: no load table. systemctl restart loadcast");
	unlink(path);
}

/* Files that this user may not read are there: no daemon is to be started anew. */
static void test_files_without_rights(void **context)
{
	static const char *const names[] = { "table", "status" };
	struct dprctl c = { .run_dir = directory };
	char path[96], table[96], output[8192] = "";
	struct style style = { 0 };
	json_t *status;
	FILE *out;

	(void)context;
	snprintf(table, sizeof(table), "%s/table", directory);
	c.table_file = table;
	for (unsigned i = 0; i < 2; i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0);
		assert_true(fd >= 0);
		close(fd);
	}
	assert_int_equal(chmod(directory, 0711), 0);
	if (geteuid() == 0)
		assert_int_equal(seteuid(65534), 0);
	status = files_status(&c, -EACCES, clock_now_ms());
	if (geteuid() == 65534)
		assert_int_equal(seteuid(0), 0);
	out = fmemopen(output, sizeof(output), "w");
	assert_non_null(out);
	render_files(out, status, &style);
	fclose(out);
	json_decref(status);
	assert_non_null(strstr(output, "cannot read "));
	assert_null(strstr(output, "or never ran"));
	assert_null(strstr(output, "systemctl restart"));
	assert_non_null(strstr(output, "table. Run dprctl as root, or as a member of the group dprd"));
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		unlink(path);
	}
}

/* A broken configuration must not keep the operator from reaching dprd. */
static void test_wrong_config(void **context)
{
	char shows[96];

	(void)context;
	write_config("[Balance]\nMaxLaod=3\n");
	snprintf(shows, sizeof(shows), "no program listens on %s/control", directory);
	run_config("status", DPRCTL_FAILED, shows);
	run_config("status", DPRCTL_FAILED, "MaxLaod");
	write_config("");
}

/* A dprd that answers whatever it is asked with this line: a process. */
static pid_t start_answering(const char *line)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), client;
	char request[256];
	pid_t child;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", directory);
	unlink(address.sun_path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 8), 0);
	child = fork();
	assert_true(child >= 0);
	if (child) {
		close(fd);
		return child;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails does not stop it */
	for (;;) {
		client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (client >= 0 && read(client, request, sizeof(request)) > 0)
			send(client, line, strlen(line), MSG_NOSIGNAL);
		close(client);
	}
}

static void stop_answering(pid_t child)
{
	char path[96];

	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	snprintf(path, sizeof(path), "%s/control", directory);
	unlink(path);
}

static void run_drain_in(const char *state, const char *ports, int expected, const char *shows)
{
	char answer[200];
	pid_t child;

	snprintf(answer, sizeof(answer),
		 "{\"schema\":\"dprd.status/1\",\"node\":\"n1\",\"state\":\"%s\",%s"
		 "\"flows\":{\"half_open\":0,\"confirmed\":3,\"closing\":3}}\n",
		 state, ports);
	child = start_answering(answer);
	run_config("drain --wait --timeout 4", expected, shows);
	stop_answering(child);
}

static void run_drain(const char *ports, int expected, const char *shows)
{
	run_drain_in("draining", ports, expected, shows);
}

/* dprd, not the file, tells which ports count; and an unknown number does not count as 0. */
static void test_drain_waits(void **context)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(address);
	int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), client;
	char ports[64];

	(void)context;
	assert_int_equal(bind(server, (struct sockaddr *)&address, bytes), 0);
	assert_int_equal(listen(server, 1), 0);
	assert_int_equal(getsockname(server, (struct sockaddr *)&address, &bytes), 0);
	snprintf(ports, sizeof(ports), "\"ports\":[1,%u],", ntohs(address.sin_port));
	run_drain(ports, DPRCTL_OK, "n1 is drained: no forwarded flow");
	/* Quiet for a moment, but open again. */
	run_drain_in("active", ports, DPRCTL_FAILED, "n1 no longer drains");

	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	run_drain(ports, DPRCTL_DEGRADED, "1 connections are left");
	/* The answer names the time that was given, however late dprctl gets the processor. */
	oversleep_ms = 300;
	run_drain(ports, DPRCTL_DEGRADED, "n1: after 4 s, ");
	oversleep_ms = 0;
	write_config("[Balance]\nMaxLaod=3\n");
	run_drain(ports, DPRCTL_DEGRADED, "1 connections are left");
	run_drain("", DPRCTL_DEGRADED, "the answer of dprd has no ports");
	run_drain("\"ports\":[],", DPRCTL_DEGRADED, "the answer of dprd has no ports");
	run_drain("\"ports\":[65536],", DPRCTL_DEGRADED, "the answer of dprd has no ports");
	write_config("");
	close(client);
	close(server);
}

/* One command for two daemons: it waits until loadcast has the file of dprd, or says that it has not. */
static void test_reload_of_both(void **context)
{
	static const char answer[] = "{\"schema\":\"x/1\",\"node\":\"n1\",\"note\":\"\",\"loadcast_has_file\":%s}\n";
	static const struct {
		const char *has_file, *shows;
		int expected;
	} cases[] = {
		{ "true", "n1: configuration read again\n", DPRCTL_OK },
		{ "null", "n1: configuration read again\n", DPRCTL_OK }, /* loadcast does not run: the status says so */
		{ "false", "loadcast of n1 still has the former dprd.conf", DPRCTL_DEGRADED },
	};
	char line[200];

	(void)context;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pid_t child;

		snprintf(line, sizeof(line), answer, cases[i].has_file);
		child = start_answering(line);
		run_config("reload", cases[i].expected, cases[i].shows);
		stop_answering(child);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_usage_errors),
		cmocka_unit_test(test_no_such_config),
		cmocka_unit_test(test_arguments_checked_before_asking),
		cmocka_unit_test(test_no_dprd_needed),
		cmocka_unit_test(test_all_of_the_tables),
		cmocka_unit_test(test_nobody_there),
		cmocka_unit_test(test_files_still_tell),
		cmocka_unit_test(test_files_without_rights),
		cmocka_unit_test(test_wrong_config),
		cmocka_unit_test(test_drain_waits),
		cmocka_unit_test(test_reload_of_both),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
