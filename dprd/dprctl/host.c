// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * dprctl/host.c - runs dprctl on another node, by ssh.
 *
 * The remote shell reads one line of words; each of them is quoted so that it arrives as it is. ssh never asks for a
 * password, gives up an attempt to connect after 5 s, and a host that became silent after 15 s.
 */
#define _GNU_SOURCE
#include "dprd/dprctl/dprctl.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SSH_FAILED = 255, SHELL_FOUND_NOTHING = 127, SHELL_MAY_NOT = 126, EXEC_FAILED = 254 };

bool host_quote(FILE *out, const char *word)
{
	const char *at;

	if (strchr(word, '\n') || strchr(word, '\r'))
		return false;
	for (at = word; *at && (isalnum((unsigned char)*at) || strchr("_-./:=,@%+", *at)); at++)
		;
	/* zsh replaces a word that begins with "=". */
	if (*word && !*at && *word != '=') {
		fputs(word, out);
		return true;
	}
	fputc('\'', out);
	for (at = word; *at; at++)
		fputs(*at == '\'' ? "'\\''" : (char[2]) { *at, '\0' }, out);
	fputc('\'', out);
	return true;
}

char *host_command(const char *const *words)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	bool good = out != NULL;

	if (!out)
		return NULL;
	fputs("dprctl", out);
	for (; *words && good; words++) {
		fputc(' ', out);
		good = host_quote(out, *words);
	}
	if (fclose(out) || !good) {
		free(text);
		return NULL;
	}
	return text;
}

bool host_is_good(const char *host)
{
	const char *at = strrchr(host, '@'), *name = at ? at + 1 : host;

	if (*host == '-' || *host == '@' || !*name || *name == '-' || strlen(host) >= HOST_TEXT_BYTES)
		return false;
	for (const char *c = host; *c; c++)
		if (isspace((unsigned char)*c) || iscntrl((unsigned char)*c))
			return false;
	return true;
}

void host_resolve(const struct config *config, const char *host, char ret[HOST_TEXT_BYTES])
{
	const char *at = strrchr(host, '@'), *name = at ? at + 1 : host;
	char address[ADDR_TEXT_BYTES];

	snprintf(ret, HOST_TEXT_BYTES, "%s", host);
	for (unsigned i = 0; config && i < config->member_count; i++) {
		const struct member *m = &config->member[i];

		if (strcmp(m->name, name) != 0)
			continue;
		addr_format(addr_is_zero(&m->cluster_v4) ? &m->cluster_v6 : &m->cluster_v4, address);
		snprintf(ret, HOST_TEXT_BYTES, "%.*s%s", (int)(name - host), host, address);
		return;
	}
}

unsigned host_ssh_words(const char *ssh, char *copy, const char *host, char *command, bool terminal,
			const char *words[SSH_WORDS_MAX + 1])
{
	static const char *const always[] = { "-o", "BatchMode=yes",         "-o", "ConnectTimeout=5",
					      "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=2" };
	unsigned count = 0, room = SSH_WORDS_MAX - 12;
	char *save = NULL;

	snprintf(copy, SSH_TEXT_BYTES, "%s", ssh && *ssh ? ssh : "ssh");
	for (char *word = strtok_r(copy, " ", &save); word && count < room; word = strtok_r(NULL, " ", &save))
		words[count++] = word;
	for (unsigned i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		words[count++] = always[i];
	if (terminal)
		words[count++] = "-t";
	words[count++] = "--";
	words[count++] = host;
	words[count++] = command;
	words[count] = NULL;
	return count;
}

int host_start(const char *host, char *command, bool terminal, int out, int err)
{
	const struct rlimit most = { HOST_ANSWER_BYTES_MAX, HOST_ANSWER_BYTES_MAX };
	const char *words[SSH_WORDS_MAX + 1];
	char copy[SSH_TEXT_BYTES];
	pid_t child;

	host_ssh_words(getenv("DPRCTL_SSH"), copy, host, command, terminal, words);
	fflush(NULL);
	child = fork();
	if (child)
		return child < 0 ? -errno : child;
	/* Only a command with a terminal reads it. */
	if (!terminal && !freopen("/dev/null", "r", stdin))
		_exit(EXEC_FAILED);
	/* A file in memory grows no further; then a signal ends ssh. */
	if (out >= 0 && setrlimit(RLIMIT_FSIZE, &most))
		_exit(EXEC_FAILED);
	if (out >= 0)
		dup2(out, STDOUT_FILENO);
	if (err >= 0)
		dup2(err, STDERR_FILENO);
	execvp(words[0], (char *const *)(uintptr_t)words);
	fprintf(stderr, "cannot run %s: %s\n", words[0], strerror(errno));
	fflush(stderr);
	_exit(EXEC_FAILED);
}

const char *host_fault(int status)
{
	if (!WIFEXITED(status))
		return "ssh was ended";
	switch (WEXITSTATUS(status)) {
	case EXEC_FAILED:
		return "ssh cannot be run";
	case SSH_FAILED:
		return "it cannot be reached by ssh";
	case SHELL_FOUND_NOTHING:
		return "dprctl is not installed there, or not in the PATH of this user";
	case SHELL_MAY_NOT:
		return "this user may not run dprctl there";
	default:
		return NULL;
	}
}

int host_wait(const char *shown, int child)
{
	const char *fault;
	int status;

	while (waitpid(child, &status, 0) < 0) {
		if (errno == EINTR)
			continue;
		perror("dprctl: waitpid");
		return DPRCTL_FAILED;
	}
	fault = host_fault(status);
	if (!fault)
		return WEXITSTATUS(status);
	fprintf(stderr, "dprctl: %s: %s. Try: ssh %s dprctl version\n", shown, fault, shown);
	return DPRCTL_FAILED;
}

int host_run(const struct config *config, const char *host, const char *const *words, bool terminal)
{
	char target[HOST_TEXT_BYTES], *command = host_command(words);
	int child;

	if (!command) {
		fputs("dprctl: an argument with a line end cannot go to another host\n", stderr);
		return DPRCTL_FAILED;
	}
	host_resolve(config, host, target);
	child = host_start(target, command, terminal, -1, -1);
	free(command);
	if (child < 0) {
		fprintf(stderr, "dprctl: cannot start ssh: %s\n", strerror(-child));
		return DPRCTL_FAILED;
	}
	return host_wait(target, child);
}
