// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * dprctl/member_all.c - dprctl member --all: the same change on every node, one after the other, by ssh.
 *
 * First each node checks the change and writes nothing. Then this node makes it, and the others in the order of the file. At the first
 * failure it is taken back where it was made, the last one first.
 */
#define _GNU_SOURCE
#include "dprd/dprctl/dprctl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ALL_WORDS_MAX = 8 + MEMBER_SERVICES_MAX + MEMBER_CLUSTER_MAX };

/* The arguments of dprctl on the other nodes. */
struct words {
	const char *list[ALL_WORDS_MAX + 1];
	char text[ALL_WORDS_MAX][NAME_BYTES + 16];
	unsigned count;
};

static void add_word(struct words *words, const char *before, const char *text)
{
	unsigned i = words->count;

	if (i == ALL_WORDS_MAX)
		return;
	snprintf(words->text[i], sizeof(words->text[i]), "%s%s", before, text);
	words->list[words->count++] = words->text[i];
	words->list[words->count] = NULL;
}

static void make_words(struct words *words, const struct dprctl *c, char **arguments)
{
	words->count = 0;
	add_word(words, "", "member");
	for (; *arguments; arguments++)
		add_word(words, "", *arguments);
	for (unsigned i = 0; i < c->service_count; i++)
		add_word(words, "--service=", c->service[i]);
	for (unsigned i = 0; i < c->cluster_count; i++)
		add_word(words, "--cluster=", c->cluster[i]);
	if (c->weight)
		add_word(words, "--weight=", c->weight);
}

/* Runs it on one node. silent: without its standard output. *ret_sure: dprctl ran there, so its exit status says all. */
static int run_on(const struct config *config, unsigned node, const struct words *words, bool silent, bool *ret_sure)
{
	char target[HOST_TEXT_BYTES], *command = host_command(words->list);
	int null = silent ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1, child, status;

	host_resolve(config, config->member[node].name, target);
	child = command ? host_start(target, command, false, null, -1) : -1;
	free(command);
	if (null >= 0)
		close(null);
	*ret_sure = true;
	if (child < 0)
		return DPRCTL_FAILED;
	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR)
			return DPRCTL_FAILED;
	}
	*ret_sure = !host_fault(status);
	if (*ret_sure)
		return WEXITSTATUS(status);
	fprintf(stderr, "dprctl: %s: %s\n", config->member[node].name, host_fault(status));
	return DPRCTL_FAILED;
}

/* The nodes that the change is for: this one first. A removed member keeps its file. */
static unsigned list_nodes(const struct config *config, const struct member_change *change, unsigned list[MEMBERS_MAX])
{
	unsigned count = 0;

	list[count++] = config->self;
	for (unsigned i = 0; i < config->member_count; i++) {
		if (i != config->self &&
		    !(change->action == MEMBER_REMOVE && strcmp(config->member[i].name, change->name) == 0))
			list[count++] = i;
	}
	return count;
}

static void take_back(const struct dprctl *c, const struct config *config, const unsigned *list, unsigned count)
{
	const struct member_change undo = { .action = MEMBER_UNDO };
	struct words words = { 0 };
	bool sure;

	add_word(&words, "", "member");
	add_word(&words, "", "undo");
	while (count--) {
		const char *name = config->member[list[count]].name;
		int result = count ? run_on(config, list[count], &words, false, &sure) : member_here(c, &undo, false);

		if (result == DPRCTL_FAILED)
			fprintf(stderr, "dprctl: %s: could NOT be taken back. On %s: dprctl member undo\n", name, name);
		else
			fprintf(stderr, "dprctl: %s: taken back\n", name);
	}
}

/* Each node tries the change without writing. */
static bool all_are_ready(const struct dprctl *c, const struct config *config, const unsigned *list, unsigned count,
			  const struct member_change *change, char **arguments)
{
	struct words words;
	bool sure;

	make_words(&words, c, arguments);
	add_word(&words, "", "--dry-run");
	for (unsigned i = 0; i < count; i++) {
		int result = i ? run_on(config, list[i], &words, true, &sure) : member_here(c, change, true);

		if (result == DPRCTL_OK)
			continue;
		fprintf(stderr, "dprctl: %s cannot make this change. Nothing was changed on any node\n",
			config->member[list[i]].name);
		return false;
	}
	fprintf(stderr, "dprctl: all %u nodes are ready for the change\n", count);
	return true;
}

int member_everywhere(const struct dprctl *c, const struct member_change *change, char **arguments)
{
	const struct config *config = c->config;
	unsigned list[MEMBERS_MAX], count, done;
	struct words words;
	int result = DPRCTL_OK;
	bool sure = true;

	if (!config) {
		fputs("dprctl: --all needs a dprd.conf without errors, on a member\n", stderr);
		return DPRCTL_FAILED;
	}
	count = list_nodes(config, change, list);
	if (!all_are_ready(c, config, list, count, change, arguments))
		return DPRCTL_FAILED;
	if (c->dry_run)
		return DPRCTL_OK;
	make_words(&words, c, arguments);
	for (done = 0; done < count && result == DPRCTL_OK; done++)
		result = done ? run_on(config, list[done], &words, false, &sure) : member_here(c, change, false);
	if (result == DPRCTL_OK)
		return DPRCTL_OK;
	/* With status 1 the file was changed and loadcast does not follow; with 2 that node took its change back. */
	fprintf(stderr, "dprctl: %s failed\n", config->member[list[done - 1]].name);
	if (!sure)
		fprintf(stderr, "dprctl: %s: NOT KNOWN whether it was changed: look at its dprd.conf\n",
			config->member[list[done - 1]].name);
	take_back(c, config, list, result == DPRCTL_DEGRADED ? done : done - 1);
	return DPRCTL_FAILED;
}
