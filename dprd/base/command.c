// SPDX-License-Identifier: GPL-2.0-or-later
/* command.c - runs a tool and collects what it prints. */
#define _GNU_SOURCE
#include "dprd/base/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dprd/base/advice.h"
#include "dprd/base/log.h"

extern char **environ;

struct pipes {
	int in[2], out[2];
};

static void pipes_close(struct pipes *p)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (p->in[i] >= 0)
			close(p->in[i]);
		if (p->out[i] >= 0)
			close(p->out[i]);
		p->in[i] = p->out[i] = -1;
	}
}

static int child_start(const char *const argv[], struct pipes *p, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int error;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_adddup2(&actions, p->in[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, p->out[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, p->out[1], STDERR_FILENO);
	error = posix_spawnp(ret_pid, argv[0], &actions, &attributes, (char *const *)(uintptr_t)argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return -error;
}

/*
 * Feeds and drains the child until it closes its output. Both directions use poll(2), so that neither side can block.
 */
static char *child_talk(struct pipes *p, const char *input)
{
	size_t left = input ? strlen(input) : 0, used = 0;
	char *output = malloc(COMMAND_OUTPUT_MAX + 1), waste[4096];

	fcntl(p->in[1], F_SETFL, O_NONBLOCK);
	for (;;) {
		struct pollfd fds[2] = { { .fd = p->out[0], .events = POLLIN },
					 { .fd = left ? p->in[1] : -1, .events = POLLOUT } };
		bool keep = output && used < COMMAND_OUTPUT_MAX;
		ssize_t bytes;

		if (!left && p->in[1] >= 0) {
			close(p->in[1]);
			p->in[1] = -1;
		}
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		if (fds[1].revents) {
			bytes = write(p->in[1], input, left);
			if (bytes < 0 && errno != EAGAIN)
				left = 0; /* the child reads no more; its output tells why */
			else if (bytes > 0)
				input += bytes, left -= (size_t)bytes;
		}
		if (!fds[0].revents)
			continue;
		bytes = read(p->out[0], keep ? output + used : waste, keep ? COMMAND_OUTPUT_MAX - used : sizeof(waste));
		if (bytes == 0 || (bytes < 0 && errno != EINTR))
			break;
		if (keep && bytes > 0)
			used += (size_t)bytes;
	}
	if (output)
		output[used] = '\0';
	return output;
}

int command_run(const char *const argv[], const char *input, char **ret_output)
{
	struct pipes p = { { -1, -1 }, { -1, -1 } };
	struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
	char *output;
	int status, error;
	pid_t pid;

	if (ret_output)
		*ret_output = NULL;
	if (pipe2(p.in, O_CLOEXEC) || pipe2(p.out, O_CLOEXEC)) {
		error = -errno;
		pipes_close(&p);
		return error;
	}
	error = child_start(argv, &p, &pid);
	if (error) {
		pipes_close(&p);
		return error;
	}
	close(p.in[0]);
	close(p.out[1]);
	p.in[0] = p.out[1] = -1;
	sigaction(SIGPIPE, &ignore, &before);
	output = child_talk(&p, input);
	sigaction(SIGPIPE, &before, NULL);
	pipes_close(&p);
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR) {
			free(output);
			return -errno;
		}
	}
	if (ret_output)
		*ret_output = output;
	else
		free(output);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int command_run_logged(const char *const argv[], const char *input, bool quiet)
{
	char *output;
	int status = command_run(argv, input, &output);

	if (status < 0 && !quiet)
		log_err("cannot run %s: %s; %s", argv[0], strerror(-status),
			advice_for(status, "install the packages nftables, iptables and iproute2"));
	else if (status && !quiet)
		log_err("%s failed: %.600s", argv[0], output ? output : "");
	free(output);
	return status < 0 ? status : status ? -EIO : 0;
}
