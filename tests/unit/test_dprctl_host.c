// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl for another host: the words that a shell takes as they are, the way to a member, and the end of ssh. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "dprd/dprctl/dprctl.h"
#include "tests/unit/dprctl_output.h"

static void assert_command(const char *const *words, const char *wanted)
{
	char *command = host_command(words);

	assert_string_equal(command, wanted);
	free(command);
}

static void test_words_are_quoted(void **context)
{
	const char *plain[] = { "status", "--json", "--client=203.0.113.0/24", NULL };
	const char *odd[] = { "flows", "--to=a b", "it's", "$(reboot)", "", "=ls", "a;b", NULL };
	const char *line[] = { "flows", "a\nb", NULL };

	(void)context;
	assert_command(plain, "dprctl status --json --client=203.0.113.0/24");
	assert_command(odd, "dprctl flows '--to=a b' 'it'\\''s' '$(reboot)' '' '=ls' 'a;b'");
	assert_null(host_command(line));
}

/* A real shell takes apart what was quoted: random words arrive as they were. */
static void test_a_shell_reads_the_same_words(void **context)
{
	static const char bytes[] = "aZ0 '\"\\$`!*?[]{}()<>|&;#~=%-\t";
	char word[2][12], line[256], answer[64];
	const char *words[] = { word[0], word[1], NULL };

	(void)context;
	srandom(7);
	for (unsigned round = 0; round < 200; round++) {
		char *command, wanted[64];
		FILE *shell;

		for (unsigned w = 0; w < 2; w++) {
			unsigned length = (unsigned)random() % 10;

			for (unsigned i = 0; i < length; i++)
				word[w][i] = bytes[(unsigned)random() % (sizeof(bytes) - 1)];
			word[w][length] = '\0';
		}
		command = host_command(words);
		assert_non_null(command);
		snprintf(line, sizeof(line), "dprctl() { printf '<%%s>' \"$@\"; }; %s", command);
		shell = popen(line, "r");
		assert_non_null(shell);
		snprintf(wanted, sizeof(wanted), "<%s><%s>", word[0], word[1]);
		memset(answer, 0, sizeof(answer));
		assert_true(fread(answer, 1, sizeof(answer) - 1, shell) > 0);
		assert_int_equal(pclose(shell), 0);
		assert_string_equal(answer, wanted);
		free(command);
	}
}

static void test_a_member_becomes_its_cluster_address(void **context)
{
	static struct config config;
	static struct config_errors errors;
	static const char text[] = "[Cluster]\nName=web\n[Member \"n1\"]\nService=192.0.2.11\nCluster=10.0.0.11\n"
				   "[Member \"n2\"]\nService=2001:db8::12\nCluster=fd00::12\n";
	static const char *const cases[][2] = { { "n1", "10.0.0.11" },
						{ "root@n2", "root@fd00::12" },
						{ "n3", "n3" },
						{ "n1@other", "n1@other" },
						{ "a@b@n1", "a@b@10.0.0.11" } };
	char host[HOST_TEXT_BYTES];

	(void)context;
	assert_int_equal(config_parse("dprd.conf", text, strlen(text), "n1", &config, &errors), 0);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		host_resolve(&config, cases[i][0], host);
		assert_string_equal(host, cases[i][1]);
	}
	host_resolve(NULL, "n1", host);
	assert_string_equal(host, "n1");
}

static void test_hosts_that_are_none(void **context)
{
	static const char *const bad[] = { "", "-oProxyCommand=x", "@n1", "root@", "root@-x", "a b", "n1\n" };
	char longest[HOST_TEXT_BYTES + 1];

	(void)context;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(host_is_good(bad[i]));
	memset(longest, 'a', HOST_TEXT_BYTES);
	longest[HOST_TEXT_BYTES] = '\0';
	assert_false(host_is_good(longest));
	assert_true(host_is_good("n2"));
	assert_true(host_is_good("root@2001:db8::1"));
}

static void test_the_words_of_ssh(void **context)
{
	static char command[] = "dprctl status";
	const char *words[SSH_WORDS_MAX + 1];
	char copy[SSH_TEXT_BYTES], many[SSH_TEXT_BYTES] = "ssh";
	unsigned count = host_ssh_words(NULL, copy, "n2", command, false, words);

	(void)context;
	assert_int_equal(count, 12);
	assert_string_equal(words[0], "ssh");
	assert_string_equal(words[2], "BatchMode=yes");
	assert_string_equal(words[6], "ServerAliveInterval=5");
	assert_string_equal(words[9], "--");
	assert_string_equal(words[10], "n2");
	assert_ptr_equal(words[11], command);
	assert_null(words[12]);
	count = host_ssh_words("ssh -F  x", copy, "n2", command, true, words);
	assert_int_equal(count, 15);
	assert_string_equal(words[2], "x");
	assert_string_equal(words[11], "-t");
	for (unsigned i = 0; i < 60; i++)
		strcat(many, " -v");
	assert_int_equal(host_ssh_words(many, copy, "n2", command, true, words), SSH_WORDS_MAX);
}

static int status_of(const char *shell)
{
	pid_t child = fork();
	int status;

	if (!child) {
		execl("/bin/sh", "sh", "-c", shell, (char *)NULL);
		_exit(99);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void test_the_end_of_ssh(void **context)
{
	(void)context;
	assert_null(host_fault(status_of("exit 0")));
	assert_null(host_fault(status_of("exit 1")));
	assert_null(host_fault(status_of("exit 2")));
	assert_non_null(strstr(host_fault(status_of("exit 255")), "reached"));
	assert_non_null(strstr(host_fault(status_of("exit 127")), "not installed"));
	assert_non_null(strstr(host_fault(status_of("exit 126")), "may not"));
	assert_non_null(strstr(host_fault(status_of("kill -9 $$")), "ended"));
}

/* ssh is a shell here that runs the last word as a remote shell would. */
static void test_the_exit_status_comes_through(void **context)
{
	const char *words[] = { "why", "it's", NULL };
	char path[] = "/tmp/test_dprctl_host.XXXXXX", output[64] = "";
	int fd = mkstemp(path), child;
	char *command = host_command(words);

	(void)context;
	assert_true(fd >= 0);
	setenv("DPRCTL_SSH", "/nonexistent/ssh", 1);
	child = host_start("n2", command, false, fd, fd);
	assert_true(child > 0);
	assert_int_equal(host_wait("n2", child), DPRCTL_FAILED);
	assert_true(pread(fd, output, sizeof(output) - 1, 0) > 0);
	assert_non_null(strstr(output, "/nonexistent/ssh"));
	setenv("DPRCTL_SSH", "false", 1);
	assert_int_equal(host_run(NULL, "n2", words, false), DPRCTL_DEGRADED);
	setenv("DPRCTL_SSH", "true", 1);
	assert_int_equal(host_run(NULL, "n2", words, false), DPRCTL_OK);
	close(fd);
	unlink(path);
	free(command);
}

/* A host that never ends its answer fills no memory. */
static void test_an_endless_answer(void **context)
{
	int out = memfd_create("out", MFD_CLOEXEC), child, status;
	char command[] = "dprctl status";
	struct stat st;

	(void)context;
	setenv("DPRCTL_SSH", "sh -c yes", 1);
	child = host_start("n2", command, false, out, -1);
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_false(WIFEXITED(status) && !WEXITSTATUS(status));
	assert_int_equal(fstat(out, &st), 0);
	assert_int_equal(st.st_size, HOST_ANSWER_BYTES_MAX);
	close(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words_are_quoted),
		cmocka_unit_test(test_a_shell_reads_the_same_words),
		cmocka_unit_test(test_a_member_becomes_its_cluster_address),
		cmocka_unit_test(test_hosts_that_are_none),
		cmocka_unit_test(test_the_words_of_ssh),
		cmocka_unit_test(test_the_end_of_ssh),
		cmocka_unit_test(test_the_exit_status_comes_through),
		cmocka_unit_test(test_an_endless_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
