// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/table.c - the commands and the options, from which help and the completions of the shells are made. */
#include "dprd/dprctl/dprctl.h"

#include <string.h>

const struct dprctl_command dprctl_commands[] = {
#define X(name, argument, rights, options, help) { #name, argument, rights, options, help },
	COMMANDS_OF_DPRD(X) COMMANDS_OF_DPRCTL(X)
#undef X
		{ 0 },
};

const struct dprctl_option dprctl_options[] = {
	{ .name = "config",
	  .code = 'c',
	  .argument = "FILE",
	  .completes = COMPLETES_FILES,
	  .help = "configuration (default " CONFIG_PATH_DEFAULT ")" },
	{ .name = "node",
	  .code = 'n',
	  .argument = "NAME",
	  .completes = COMPLETES_MEMBERS,
	  .help = "which member this is (default: as dprd(8))" },
	{ .name = "host",
	  .code = OPTION_HOST,
	  .argument = "HOST",
	  .completes = COMPLETES_MEMBERS,
	  .help = "run dprctl there, by ssh: [USER@] and a member or host" },
	{ .name = "json", .code = OPTION_JSON, .goes_with = WITH_JSON, .help = "print dprd's answer as it is" },
	{ .name = "no-heading",
	  .code = 'H',
	  .goes_with = WITH_HEADING,
	  .help = "print tables without headings, for scripts" },
	{ .name = "watch",
	  .code = OPTION_WATCH,
	  .argument = "[SECONDS]",
	  .goes_with = WITH_WATCH,
	  .help = "repeat (default: every 2 seconds)" },
	{ .name = "dump", .code = OPTION_DUMP, .goes_with = WITH_DUMP, .help = "print tab-separated values" },
	{ .name = "to",
	  .code = OPTION_TO,
	  .argument = "NODE",
	  .goes_with = WITH_FILTER,
	  .completes = COMPLETES_NODES,
	  .help = "only flows to this member or real server" },
	{ .name = "client",
	  .code = OPTION_CLIENT,
	  .argument = "ADDR[/LEN][:PORT]",
	  .goes_with = WITH_FILTER,
	  .help = "only flows of this client" },
	{ .name = "state",
	  .code = OPTION_STATE,
	  .argument = "STATE",
	  .goes_with = WITH_FILTER,
	  .words = "half_open confirmed closing reset",
	  .help = "only flows in this state" },
	{ .name = "limit",
	  .code = OPTION_LIMIT,
	  .argument = "N",
	  .goes_with = WITH_FILTER,
	  .help = "at most N flows (default 1000, 0: all)" },
	{ .name = "all",
	  .code = OPTION_ALL,
	  .goes_with = WITH_ALL,
	  .help = "all decisions that dprd remembers; a change on all nodes" },
	{ .name = "wait",
	  .code = OPTION_WAIT,
	  .goes_with = WITH_WAIT,
	  .help = "wait until all connections have ended" },
	{ .name = "timeout",
	  .code = OPTION_TIMEOUT,
	  .argument = "SECONDS",
	  .goes_with = WITH_WAIT,
	  .help = "wait no longer than this (default 600)" },
	{ .name = "format",
	  .code = OPTION_FORMAT,
	  .argument = "FORMAT",
	  .goes_with = WITH_FORMAT,
	  .words = "bind dnsmasq hosts json",
	  .help = "the form of the records (default bind)" },
	{ .name = "service",
	  .code = OPTION_SERVICE,
	  .argument = "ADDR",
	  .goes_with = WITH_ADDRESSES,
	  .help = "a service address of the new one; repeat it for more" },
	{ .name = "cluster",
	  .code = OPTION_CLUSTER,
	  .argument = "ADDR",
	  .goes_with = WITH_ADDRESSES,
	  .help = "its address for the other nodes" },
	{ .name = "weight",
	  .code = OPTION_WEIGHT,
	  .argument = "N",
	  .goes_with = WITH_MEMBER,
	  .help = "how much the new one can carry (default 1)" },
	{ .name = "dry-run",
	  .code = OPTION_DRY_RUN,
	  .goes_with = WITH_MEMBER,
	  .help = "only print how dprd.conf would change" },
	{ .name = "member",
	  .code = OPTION_MEMBER,
	  .argument = "NAME=ADDRESS[@CLUSTER]",
	  .goes_with = WITH_INIT,
	  .help = "another node; once for each" },
	{ .name = "key",
	  .code = OPTION_KEY,
	  .argument = "generate|FILE",
	  .goes_with = WITH_INIT,
	  .completes = COMPLETES_FILES,
	  .help = "a fresh key, or another node's" },
	{ .name = "force", .code = OPTION_FORCE, .goes_with = WITH_INIT, .help = "overwrite the files that are there" },
	{ .name = "once", .code = OPTION_ONCE, .goes_with = WITH_TOP, .help = "print it once, as lines" },
	{ .name = "interval",
	  .code = OPTION_INTERVAL,
	  .argument = "SECONDS",
	  .goes_with = WITH_TOP,
	  .help = "the time between two views (default 2)" },
	{ .name = "keys",
	  .code = OPTION_KEYS,
	  .alone = true,
	  .help = "print all keys of dprd.conf with their defaults" },
	{ .name = "completion",
	  .code = OPTION_COMPLETION,
	  .argument = "SHELL",
	  .alone = true,
	  .words = "bash zsh fish",
	  .help = "print the completions for this shell" },
	{ .name = "version", .code = OPTION_VERSION, .alone = true, .help = "print the version" },
	{ .name = "help", .code = 'h', .alone = true, .help = "print this" },
	{ 0 },
};

const struct dprctl_command *dprctl_find(const char *name)
{
	const struct dprctl_command *command;

	for (command = dprctl_commands; command->name; command++) {
		if (strcmp(command->name, name) == 0)
			return command;
	}
	return NULL;
}

bool dprctl_goes_with(const struct dprctl_option *option, const struct dprctl_command *command)
{
	return !option->alone && command->options != WITH_ANYTHING &&
	       (!option->goes_with || (option->goes_with & command->options));
}
