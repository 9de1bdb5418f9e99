// SPDX-License-Identifier: GPL-2.0-or-later
/* "dprctl init": a first dprd.conf and a key, from options and from answers on a terminal. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <grp.h>
#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "dprd/dprctl/init.h"

static char directory[] = "/tmp/test_init.XXXXXX", path_config[64], path_key[64], path_other[64], path_output[64];
static struct config config; /* these are too large for a stack */
static struct config_errors errors;

static int make_directory(void **context)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)context;
	assert_non_null(mkdtemp(directory));
	snprintf(path_config, sizeof(path_config), "%s/dprd.conf", directory);
	snprintf(path_key, sizeof(path_key), "%s/cluster.key", directory);
	snprintf(path_other, sizeof(path_other), "%s/other.key", directory);
	snprintf(path_output, sizeof(path_output), "%s/output", directory);
	/* Without a terminal, nothing is asked. */
	assert_int_equal(dup2(fd, STDIN_FILENO), STDIN_FILENO);
	close(fd);
	return 0;
}

static int clean(void **context)
{
	(void)context;
	unlink(path_config);
	rmdir(path_config);
	unlink(path_key);
	unlink(path_other);
	unlink(path_output);
	return 0;
}

/* Fails when init has left a file of another name. */
static int remove_directory(void **context)
{
	clean(context);
	return rmdir(directory);
}

static struct dprctl with_members(void)
{
	struct dprctl c = { .config_path = path_config, .node_name = "n1" };

	c.init.member[0] = "n1=192.0.2.11,2001:db8::11@10.0.0.11";
	c.init.member[1] = "n2=192.0.2.12@10.0.0.12";
	c.init.member_count = 2;
	c.init.key = "generate";
	return c;
}

/* Runs init; its exit status, and what it printed. */
static int run(struct dprctl *c, char output[4096])
{
	int status, fd = open(path_output, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ssize_t got;
	pid_t child;

	assert_true(fd >= 0);
	fflush(NULL);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		dup2(fd, STDOUT_FILENO);
		dup2(fd, STDERR_FILENO);
		status = command_init(c, NULL);
		fflush(NULL);
		_exit(status);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	got = pread(fd, output, 4095, 0);
	assert_true(got >= 0);
	output[got] = '\0';
	close(fd);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void assert_written(struct dprctl *c)
{
	char output[4096];

	if (run(c, output) != DPRCTL_OK)
		fail_msg("%s", output);
	assert_int_equal(config_read(path_config, NULL, &config, &errors), 0);
}

/* It fails with these words, and leaves neither file. */
static void assert_refused(struct dprctl *c, const char *shows)
{
	char output[4096];

	if (run(c, output) != DPRCTL_FAILED || !strstr(output, shows))
		fail_msg("wanted \"%s\":\n%s", shows, output);
	assert_int_not_equal(access(path_config, F_OK), 0);
	assert_int_not_equal(access(path_key, F_OK), 0);
}

static unsigned mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

/* Group dprd may read it where there is one and init may give it away, and no other group. */
static void assert_key_is_secret(void)
{
	const struct group *group = getgrnam("dprd");
	struct stat st;

	assert_int_equal(stat(path_key, &st), 0);
	assert_int_equal(st.st_mode & 07777, group && st.st_gid == group->gr_gid ? 0640 : 0600);
}

static void test_both_files(void **context)
{
	char message[CONFIG_ERROR_BYTES];
	struct dprctl c = with_members();
	uint8_t key[32];
	mode_t former = umask(0);

	(void)context;
	assert_written(&c);
	umask(former);
	assert_int_equal(mode_of(path_config), 0644);
	assert_key_is_secret();
	assert_int_equal(config_read_key(path_key, key, message), 0);
	assert_int_equal(config.member_count, 2);
	assert_string_equal(config.node_name, "n1");
	assert_string_equal(config.key_file, path_key);
	assert_int_equal(config.member[0].service_count, 2);
	assert_true(config.member[1].own_cluster_address);
}

static void test_never_overwrites(void **context)
{
	uint8_t former[32], key[32];
	char message[CONFIG_ERROR_BYTES], output[4096];
	struct dprctl c = with_members();

	(void)context;
	assert_written(&c);
	assert_int_equal(config_read_key(path_key, former, message), 0);
	assert_int_equal(run(&c, output), DPRCTL_FAILED);
	assert_non_null(strstr(output, "--force"));
	/* A key alone stays, too, whatever is asked for. */
	unlink(path_config);
	assert_int_equal(run(&c, output), DPRCTL_FAILED);
	assert_int_not_equal(access(path_config, F_OK), 0);
	assert_int_equal(config_read_key(path_key, key, message), 0);
	assert_memory_equal(key, former, sizeof(key));
	/* Without --key the key that is there is used. */
	c.init.key = NULL;
	assert_written(&c);
	assert_int_equal(config_read_key(path_key, key, message), 0);
	assert_memory_equal(key, former, sizeof(key));
	c.init.key = "generate";
	c.init.force = true;
	assert_written(&c);
	assert_int_equal(config_read_key(path_key, key, message), 0);
	assert_memory_not_equal(key, former, sizeof(key));
}

static void test_key_of_another_node(void **context)
{
	char message[CONFIG_ERROR_BYTES];
	uint8_t key[32];
	struct dprctl c = with_members();
	FILE *file = fopen(path_other, "w");

	(void)context;
	assert_non_null(file);
	fputs("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n", file);
	assert_int_equal(fclose(file), 0);
	c.init.key = path_other;
	assert_int_equal(chmod(path_other, 0644), 0);
	assert_refused(&c, "readable by everyone");
	assert_int_equal(chmod(path_other, 0600), 0);
	assert_written(&c);
	assert_int_equal(config_read_key(path_key, key, message), 0);
	assert_int_equal(key[1], 0x11);
	assert_int_equal(key[31], 0xff);
	assert_key_is_secret();
}

static void test_refused(void **context)
{
	static const struct {
		const char *member, *shows;
	} cases[] = {
		{ "n3", "no \"=\"" },
		{ "=192.0.2.13", "not a name" },
		{ "n3=", "no address behind the \"=\"" },
		{ "n3=192.0.2.13@", "no address behind the \"@\"" },
		{ "n3=192.0.2.13\nName=x", "no address" },
		{ "n2=192.0.2.13", "this name is taken" },
		{ "n3=192.0.2.1l@10.0.0.13", "Service: \"192.0.2.1l\" is not an address" },
		{ "n3=192.0.2.13", "Cluster" }, /* all members have one, or none */
		{ "n3=192.0.2.12@10.0.0.13", "belongs to [Member \"n2\"] already" },
	};
	struct dprctl c = with_members();

	(void)context;
	c.init.member_count = 3;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		c.init.member[2] = cases[i].member;
		assert_refused(&c, cases[i].shows);
	}
	c.init.member_count = 2;
	c.init.key = NULL;
	assert_refused(&c, "--key=generate on the first node");
	c.init.key = "generate";
	c.node_name = "n9";
	assert_refused(&c, "this node, n9, has no address");
	c.node_name = "n1";
	c.config_path = "/nonexistent/dprd.conf";
	assert_refused(&c, "/nonexistent/");
}

static void test_service_of_this_node(void **context)
{
	struct dprctl c = { .config_path = path_config, .node_name = "n7" };

	(void)context;
	c.init.key = "generate";
	c.service[0] = "192.0.2.17";
	c.service[1] = "2001:db8::17";
	c.service_count = 2;
	c.cluster[0] = "10.0.0.17";
	c.cluster_count = 1;
	assert_written(&c);
	assert_string_equal(config.node_name, "n7");
	assert_int_equal(config.member[0].service_count, 2);
	assert_true(config.member[0].own_cluster_address);
	clean(NULL);
	/* The loopback interface has no address that others reach. */
	c.cluster[0] = "lo";
	assert_refused(&c, "neither an address nor an interface");
	c.cluster[0] = "10.0.0.17";
	c.service_count = 0;
	c.init.member[c.init.member_count++] = "n7=192.0.2.17";
	assert_refused(&c, "--cluster goes with --service");
}

/* The key that init made goes again when the configuration cannot be put in place. */
static void test_all_or_nothing(void **context)
{
	struct dprctl c = with_members();
	char output[4096];

	(void)context;
	assert_int_equal(mkdir(path_config, 0700), 0);
	c.init.force = true;
	assert_int_equal(run(&c, output), DPRCTL_FAILED);
	assert_int_not_equal(access(path_key, F_OK), 0);
}

/* Types all answers at once on a terminal, and reads what init prints. */
static int talk(struct dprctl *c, const char *answers, char output[8192])
{
	size_t used = 0;
	ssize_t got;
	int terminal, status;
	pid_t child;

	fflush(NULL);
	child = forkpty(&terminal, NULL, NULL, NULL);
	assert_true(child >= 0);
	if (!child) {
		status = command_init(c, NULL);
		fflush(NULL);
		_exit(status);
	}
	assert_int_equal(write(terminal, answers, strlen(answers)), strlen(answers));
	while (used < 8191 && (got = read(terminal, output + used, 8191 - used)) > 0)
		used += (size_t)got;
	output[used] = '\0';
	assert_int_equal(waitpid(child, &status, 0), child);
	close(terminal);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_questions(void **context)
{
	struct dprctl c = { .config_path = path_config, .node_name = "n1" };
	char output[8192];

	(void)context;
	if (talk(&c, "192.0.2.11\n10.0.0.11\nn2=192.0.2.12@10.0.0.12\nnonsense\nn3=192.0.2.13@10.0.0.13\n\n\n", output))
		fail_msg("%s", output);
	assert_int_equal(config_read(path_config, NULL, &config, &errors), 0);
	assert_int_equal(config.member_count, 3);
	assert_string_equal(config.member[2].name, "n3");
	assert_non_null(strstr(output, "no \"=\" between name and address"));
	assert_key_is_secret();
	clean(NULL);
	/* The input ends early: ^D. */
	assert_int_equal(talk(&c, "192.0.2.11\n\004", output), DPRCTL_FAILED);
	assert_int_not_equal(access(path_config, F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_both_files, clean),
		cmocka_unit_test_teardown(test_never_overwrites, clean),
		cmocka_unit_test_teardown(test_key_of_another_node, clean),
		cmocka_unit_test_teardown(test_refused, clean),
		cmocka_unit_test_teardown(test_service_of_this_node, clean),
		cmocka_unit_test_teardown(test_all_or_nothing, clean),
		cmocka_unit_test_teardown(test_questions, clean),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
