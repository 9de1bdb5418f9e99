// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * dprctl/member_all.c - dprctl member --all: the same change on every node, one after the other, by ssh.
 *
 * First each node checks the change and writes nothing. Those whose file is as wanted already are left alone: "undo" there
 * would take back another change. Then this node makes it, and the others in the order of the file. At the first failure
 * it is taken back where it was made, the last one first.
 */
#define _GNU_SOURCE
#include "dprd/dprctl/dprctl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRIED_BYTES = 4096 };
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

/* Runs it on one node. out: for its standard output, -1: the own one. *ret_sure: its exit status tells all. */
static int run_on(const struct config *config, unsigned node, const struct words *words, int out, bool *ret_sure)
{
	char target[HOST_TEXT_BYTES], *command = host_command(words->list);
	int child, status;

	host_resolve(config, config->member[node].name, target);
	child = command ? host_start(target, command, false, out, -1) : -1;
	free(command);
	*ret_sure = true;
	if (child < 0)
		return DPRCTL_FAILED;
	while (waitpid(child, &status, 0) < 0) {
		*ret_sure = errno == EINTR;
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
	bool sure, same;

	add_word(&words, "", "member");
	add_word(&words, "", "undo");
	while (count--) {
		const char *name = config->member[list[count]].name;
		int result = list[count] == config->self ? member_here(c, &undo, false, &same)
							 : run_on(config, list[count], &words, -1, &sure);

		if (result == DPRCTL_FAILED)
			fprintf(stderr, "dprctl: %s: could NOT be taken back. On %s: dprctl member undo\n", name, name);
		else
			fprintf(stderr, "dprctl: %s: taken back\n", name);
	}
}

/* Another node tries the change. *ret_same: its file is as wanted already. */
static int try_there(const struct config *config, unsigned node, const struct words *words, bool *ret_same)
{
	int out = memfd_create("tried", MFD_CLOEXEC), result;
	char text[TRIED_BYTES] = "";
	bool sure;

	if (out < 0)
		return DPRCTL_FAILED;
	result = run_on(config, node, words, out, &sure);
	*ret_same = pread(out, text, sizeof(text) - 1, 0) > 0 && strstr(text, MEMBER_SAME);
	close(out);
	return result;
}

/* Each node tries the change without writing. Those that need none leave the list. */
static bool all_are_ready(const struct dprctl *c, const struct config *config, unsigned *list, unsigned *count,
			  const struct member_change *change, char **arguments)
{
	unsigned tried = *count;
	struct words words;

	make_words(&words, c, arguments);
	add_word(&words, "", "--dry-run");
	*count = 0;
	for (unsigned i = 0; i < tried; i++) {
		bool same = false;
		int result = list[i] == config->self ? member_here(c, change, true, &same)
						     : try_there(config, list[i], &words, &same);

		if (result != DPRCTL_OK) {
			fprintf(stderr, "dprctl: %s cannot make this change. Nothing was changed on any node\n",
				config->member[list[i]].name);
			return false;
		}
		if (same && list[i] != config->self)
			fprintf(stderr, "dprctl: %s: dprd.conf " MEMBER_SAME "\n", config->member[list[i]].name);
		if (!same)
			list[(*count)++] = list[i];
	}
	fprintf(stderr, "dprctl: all %u nodes are ready for the change\n", tried);
	return true;
}

int member_everywhere(const struct dprctl *c, const struct member_change *change, char **arguments)
{
	const struct config *config = c->config;
	unsigned list[MEMBERS_MAX], count, done;
	struct words words;
	int result = DPRCTL_OK;
	bool sure = true, same;

	if (!config) {
		fputs("dprctl: --all needs a dprd.conf without errors, on a member\n", stderr);
		return DPRCTL_FAILED;
	}
	count = list_nodes(config, change, list);
	if (!all_are_ready(c, config, list, &count, change, arguments))
		return DPRCTL_FAILED;
	if (c->dry_run)
		return DPRCTL_OK;
	make_words(&words, c, arguments);
	for (done = 0; done < count && result == DPRCTL_OK; done++)
		result = list[done] == config->self ? member_here(c, change, false, &same)
						    : run_on(config, list[done], &words, -1, &sure);
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
