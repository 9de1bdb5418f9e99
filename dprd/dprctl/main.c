// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl: the operator's tool. This file reads its options and calls the command. */
#define _GNU_SOURCE
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dprd/base/version.h"
#include "dprd/dprctl/dprctl.h"

enum { WORDS_MAX = 64, INTERVAL_S_DEFAULT = 2, INTERVAL_S_MAX = 3600 };
enum { WATCH_S_DEFAULT = 2, WATCH_S_MAX = 86400, TIMEOUT_S_DEFAULT = 600, TIMEOUT_S_MAX = 30 * 86400 };

static int dispatch(struct dprctl *c, const struct dprctl_command *command, char **arguments)
{
	/* In the order of dprctl_commands[]. */
	static dprctl_run *const commands[] = {
#define X(name, argument, rights, options, help) command_##name,
		COMMANDS_OF_DPRD(X) COMMANDS_OF_DPRCTL(X)
#undef X
	};

	return commands[command - dprctl_commands](c, arguments);
}

static void usage_error(const char *what, const char *which)
{
	fprintf(stderr, "dprctl: %s%s\ntry: dprctl --help\n", what, which);
	exit(DPRCTL_FAILED);
}

static unsigned seconds(const char *option, const char *text, unsigned long max)
{
	unsigned long value;

	if (!parse_count(text, max, &value) || !value)
		usage_error(option, " takes a number of seconds");
	return (unsigned)value;
}

/* The number may be a word of its own: no command is a number. */
static unsigned watch_seconds(int argc, char **argv)
{
	unsigned long value;

	if (!optarg && optind < argc && parse_count(argv[optind], WATCH_S_MAX, &value))
		optarg = argv[optind++];
	return optarg ? seconds("--watch", optarg, WATCH_S_MAX) : WATCH_S_DEFAULT;
}

static int take_text(struct dprctl *c, int code)
{
	const struct {
		int code, goes_with;
		const char **place;
	} texts[] = {
		{ 'c', 0, &c->config_path },
		{ 'n', 0, &c->node_name },
		{ OPTION_HOST, 0, &c->host },
		{ OPTION_FORMAT, WITH_FORMAT, &c->format },
		{ OPTION_WEIGHT, WITH_MEMBER, &c->weight },
		{ OPTION_TO, WITH_FILTER, &c->to },
		{ OPTION_CLIENT, WITH_FILTER, &c->client },
		{ OPTION_STATE, WITH_FILTER, &c->state },
		{ OPTION_LIMIT, WITH_FILTER, &c->limit },
	};
	unsigned i = 0;

	while (texts[i].code != code)
		i++;
	*texts[i].place = optarg;
	return texts[i].goes_with;
}

static void add_address(const char *option, const char **list, unsigned *count, unsigned most)
{
	struct addr address;

	if (!addr_parse(optarg, &address))
		usage_error(option, " takes an IPv4 or IPv6 address");
	if (*count == most)
		usage_error(option, " is there too often");
	list[(*count)++] = optarg;
}

/* Options of init. */
static int take_init(struct dprctl *c, int code)
{
	if (code == OPTION_FORCE)
		c->init.force = true;
	else if (code == OPTION_KEY)
		c->init.key = optarg;
	else if (c->init.member_count < MEMBERS_MAX)
		c->init.member[c->init.member_count++] = optarg;
	else
		usage_error("too many members: ", optarg);
	return WITH_INIT;
}

/* Puts one option into *c. Returns the commands that it goes with; 0: all. */
static int take_option(struct dprctl *c, int code, int argc, char **argv)
{
	switch (code) {
	case OPTION_JSON:
		c->json = true;
		return WITH_JSON;
	case 'H':
		c->no_heading = true;
		return WITH_HEADING;
	case OPTION_WATCH:
		c->watch = true;
		c->watch_s = watch_seconds(argc, argv);
		return WITH_WATCH;
	case OPTION_ALL:
		c->all = true;
		return WITH_ALL;
	case OPTION_DUMP:
		c->dump = true;
		return WITH_DUMP;
	case OPTION_WAIT:
		c->wait = true;
		return WITH_WAIT;
	case OPTION_DRY_RUN:
		c->dry_run = true;
		return WITH_MEMBER;
	case OPTION_ONCE:
		c->once = true;
		return WITH_TOP;
	case OPTION_INTERVAL:
		c->interval_s = seconds("--interval", optarg, INTERVAL_S_MAX);
		return WITH_TOP;
	case OPTION_SERVICE:
		add_address("--service", c->service, &c->service_count, MEMBER_SERVICES_MAX);
		return WITH_ADDRESSES;
	case OPTION_CLUSTER:
		add_address("--cluster", c->cluster, &c->cluster_count, MEMBER_CLUSTER_MAX);
		return WITH_ADDRESSES;
	case OPTION_TIMEOUT:
		c->timeout_s = seconds("--timeout", optarg, TIMEOUT_S_MAX);
		return WITH_WAIT;
	case OPTION_MEMBER:
	case OPTION_KEY:
	case OPTION_FORCE:
		return take_init(c, code);
	case OPTION_KEYS:
		config_print_keys(stdout);
		exit(DPRCTL_OK);
	case OPTION_COMPLETION:
		if (!dprctl_completion(stdout, optarg))
			usage_error("--completion is for bash, zsh or fish, not ", optarg);
		exit(DPRCTL_OK);
	case OPTION_VERSION:
		printf("dprctl %s\n", dprd_version);
		exit(DPRCTL_OK);
	case 'h':
		dprctl_help(stdout);
		exit(DPRCTL_OK);
	case '?':
		fputs("try: dprctl --help\n", stderr);
		exit(DPRCTL_FAILED);
	default:
		return take_text(c, code);
	}
}

static int watch(struct dprctl *c, const struct dprctl_command *command, char **arguments)
{
	bool terminal = isatty(STDOUT_FILENO);
	int result;

	do {
		if (terminal)
			fputs("\033[H\033[J", stdout);
		result = dispatch(c, command, arguments);
		if (!terminal && !c->json)
			putchar('\n');
		if (fflush(stdout) || ferror(stdout))
			return DPRCTL_FAILED;
	} while (sleep(c->watch_s) == 0);
	return result;
}

/* Makes the lists that getopt_long(3) takes. */
static void list_options(struct option list[OPTIONS_MAX + 1], char letters[3 * OPTIONS_MAX + 1])
{
	const struct dprctl_option *option;
	char *at = letters;

	for (option = dprctl_options; option->name; option++, list++) {
		int argument = !option->argument            ? no_argument
			       : option->argument[0] == '[' ? optional_argument
							    : required_argument;

		*list = (struct option) { .name = option->name, .has_arg = argument, .val = option->code };
		if (option->code > UINT8_MAX)
			continue;
		*at++ = (char)option->code;
		if (argument == required_argument)
			*at++ = ':';
	}
	*list = (struct option) { 0 };
	*at = '\0';
}

/* Checks the words after the options; exits with a line when they do not go together. */
static void check_usage(const struct dprctl_command *command, int given, char **arguments, int count)
{
	const char *argument = command->argument;
	int least = *argument && *argument != '[' ? 1 : 0;
	int most = strstr(argument, "...") ? count : *argument ? 1 : 0;

	if (command->options == WITH_ANYTHING)
		return;
	if (count < least)
		usage_error("argument missing: ", command->name);
	if (count > most)
		usage_error("unexpected argument: ", arguments[most]);
	if (given & ~command->options)
		usage_error("an option that does not go with ", command->name);
}

/* The words for dprctl on another host. Options that are about this host stay here. */
struct remote {
	const char *words[WORDS_MAX + 1];
	unsigned count;
};

static void add_word(struct remote *remote, const char *dashes, const char *name, const char *value)
{
	char *word = NULL;

	if (remote->count == WORDS_MAX)
		usage_error("too many words", "");
	if (asprintf(&word, "%s%s%s%s", dashes, name, value ? "=" : "", value ? value : "") < 0)
		usage_error("out of memory", "");
	remote->words[remote->count++] = word;
}

static void add_option(struct remote *remote, int code)
{
	const struct dprctl_option *option = dprctl_options;

	while (option->code != code)
		option++;
	if (code != OPTION_HOST && code != 'c')
		add_word(remote, "--", option->name, option->argument ? optarg : NULL);
}

static void forget_words(struct remote *remote)
{
	while (remote->count)
		free((char *)(uintptr_t)remote->words[--remote->count]);
}

/* Runs the command on the other host. A command that goes on needs a terminal there, to get the end of this one. */
static int run_there(const struct dprctl *c, struct remote *remote, const char *name, char **arguments)
{
	bool live = c->watch || (strcmp(name, "top") == 0 && !c->once);
	bool terminal = live && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	int result;
	bool own;

	if (!host_is_good(c->host))
		usage_error("not a host: ", c->host);
	add_word(remote, "", name, NULL);
	for (; *arguments; arguments++) {
		if (**arguments == '-')
			usage_error("not for another host: ", *arguments);
		add_word(remote, "", *arguments, NULL);
	}
	result = host_run(dprctl_read_members(c, &own), c->host, remote->words, terminal);
	forget_words(remote);
	return result;
}

int main(int argc, char **argv)
{
	struct remote remote = { 0 };
	struct dprctl c = { .timeout_s = TIMEOUT_S_DEFAULT,
			    .answer_ms = DPRCTL_ANSWER_MS,
			    .interval_s = INTERVAL_S_DEFAULT };
	struct option list[OPTIONS_MAX + 1];
	char letters[3 * OPTIONS_MAX + 1];
	const struct dprctl_command *command;
	int code, result, given = 0;
	const char *name;

	/* Otherwise the exit status of ssh would get lost where the caller ignores this signal. */
	signal(SIGCHLD, SIG_DFL);
	list_options(list, letters);
	while ((code = getopt_long(argc, argv, letters, list, NULL)) != -1) {
		given |= take_option(&c, code, argc, argv);
		add_option(&remote, code);
	}
	name = optind < argc ? argv[optind++] : "status";
	command = dprctl_find(name);
	if (!command)
		usage_error("no such command: ", name);
	check_usage(command, given, argv + optind, argc - optind);
	if (c.host)
		return run_there(&c, &remote, name, argv + optind);
	forget_words(&remote);
	if (command->rights != RIGHTS_ANYBODY && !dprctl_read_config(&c))
		return DPRCTL_FAILED;
	if (command->rights != RIGHTS_ANYBODY && !dprctl_is_meant(&c))
		return DPRCTL_FAILED;
	if (c.watch && command->options != WITH_ANYTHING)
		result = watch(&c, command, argv + optind);
	else
		result = dispatch(&c, command, argv + optind);
	if (fflush(stdout) || ferror(stdout)) {
		perror("dprctl: standard output");
		return DPRCTL_FAILED;
	}
	return result;
}
