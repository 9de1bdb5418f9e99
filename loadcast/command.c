// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "loadcast/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	OUTPUT_BYTES = 4096, /* that are looked at */
	EXIT_NO_PROGRAM = 127, /* as shells have it */
	KILLED_MS = 100, /* a killed process ends within this time, unless the kernel holds it */
};

struct command {
	pid_t pid; /* 0: it has ended */
	int process; /* pidfd_open(2) */
	int output;
};

/* In the new process. Nothing here allocates. */
static _Noreturn void run(char *const words[], int output)
{
	static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", locale[] = "LC_ALL=C";
	char *const environment[] = { path, locale, NULL };
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const char *error;
	sigset_t none;

	setpgid(0, 0);
	/* loadcast itself runs before the web server (Nice= of its unit). A check must not. */
	if (getpriority(PRIO_PROCESS, 0) < 0)
		setpriority(PRIO_PROCESS, 0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
	    dup2(output, STDERR_FILENO) < 0)
		_exit(EXIT_NO_PROGRAM);
	close_range(STDERR_FILENO + 1, ~0U, 0);
	execve(words[0], words, environment);
	error = strerrordesc_np(errno);
	(void)!write(STDOUT_FILENO, error, strlen(error));
	_exit(EXIT_NO_PROGRAM);
}

struct command *command_start(const char *text, const struct addr *address, uint16_t port)
{
	struct command *c = calloc(1, sizeof(*c));
	struct command_words words = { .word = { NULL } };
	int ends[2];

	if (!c)
		return NULL;
	command_words(text, address, port, &words);
	/* A parent that ignores its children has loadcast ignore its own, too. */
	signal(SIGCHLD, SIG_DFL);
	if (pipe2(ends, O_CLOEXEC) < 0) {
		free(c);
		return NULL;
	}
	c->pid = fork();
	if (c->pid == 0)
		run(words.word, ends[1]);
	close(ends[1]);
	if (c->pid < 0) {
		close(ends[0]);
		free(c);
		return NULL;
	}
	/* The child does it, too: it may come first or second. */
	setpgid(c->pid, c->pid);
	c->process = (int)syscall(SYS_pidfd_open, c->pid, 0);
	c->output = ends[0];
	return c;
}

void command_kill(const struct command *command)
{
	/* As long as it was not waited for, its number is its own. */
	if (command->pid && kill(-command->pid, SIGKILL) < 0)
		kill(command->pid, SIGKILL);
}

void command_free(struct command *command)
{
	if (!command)
		return;
	if (command->pid) {
		struct pollfd process = { .fd = command->process, .events = POLLIN };

		command_kill(command);
		poll(&process, 1, KILLED_MS);
		waitpid(command->pid, NULL, WNOHANG);
	}
	if (command->process >= 0)
		close(command->process);
	close(command->output);
	free(command);
}

int command_descriptor(const struct command *command)
{
	return command->process;
}

static void take_reason(const struct command *c, int status, char reason[COMMAND_REASON_BYTES])
{
	char bytes[OUTPUT_BYTES], line[COMMAND_LINE_BYTES] = "";
	ssize_t size;

	/* A process that it left behind may still hold the other end. */
	fcntl(c->output, F_SETFL, O_NONBLOCK);
	size = read(c->output, bytes, sizeof(bytes));
	if (size > 0)
		command_line(bytes, (size_t)size, line);
	snprintf(reason, COMMAND_REASON_BYTES, "%s %d%s%s", WIFSIGNALED(status) ? "ended by signal" : "exit status",
		 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), line[0] ? ": " : "", line);
}

bool command_ended(struct command *command, bool *ret_good, char reason[COMMAND_REASON_BYTES])
{
	siginfo_t end = { 0 };
	int status = 0;

	if (waitid(P_PID, (id_t)command->pid, &end, WEXITED | WNOHANG | WNOWAIT) < 0 || !end.si_pid)
		return false;
	/* Processes that it left behind in its group end, too, while the number of the group is still its own. */
	command_kill(command);
	waitpid(command->pid, &status, 0);
	command->pid = 0;
	*ret_good = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
	if (!*ret_good)
		take_reason(command, status, reason);
	return true;
}
