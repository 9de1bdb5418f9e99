// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl: the operator's tool. This file reads its options and calls the command. */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdlib.h>
#include <unistd.h>

#include "dprd/base/version.h"
#include "dprd/dprctl/dprctl.h"

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

static void take_text(struct dprctl *c, int code)
{
	const char **place = code == 'c'             ? &c->config_path
			     : code == 'n'           ? &c->node_name
			     : code == OPTION_TO     ? &c->to
			     : code == OPTION_CLIENT ? &c->client
			     : code == OPTION_STATE  ? &c->state
						     : &c->limit;

	*place = optarg;
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
	case OPTION_TIMEOUT:
		c->timeout_s = seconds("--timeout", optarg, TIMEOUT_S_MAX);
		return WITH_WAIT;
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
		take_text(c, code);
		return code == 'c' || code == 'n' ? 0 : WITH_FILTER;
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
	int wanted = *command->argument ? 1 : 0;

	if (command->options == WITH_ANYTHING)
		return;
	if (count < wanted)
		usage_error("argument missing: ", command->name);
	if (count > wanted)
		usage_error("unexpected argument: ", arguments[wanted]);
	if (given & ~command->options)
		usage_error("an option that does not go with ", command->name);
}

int main(int argc, char **argv)
{
	struct dprctl c = { .timeout_s = TIMEOUT_S_DEFAULT, .answer_ms = DPRCTL_ANSWER_MS };
	struct option list[OPTIONS_MAX + 1];
	char letters[3 * OPTIONS_MAX + 1];
	const struct dprctl_command *command;
	int code, result, given = 0;
	const char *name;

	list_options(list, letters);
	while ((code = getopt_long(argc, argv, letters, list, NULL)) != -1)
		given |= take_option(&c, code, argc, argv);
	name = optind < argc ? argv[optind++] : "status";
	command = dprctl_find(name);
	if (!command)
		usage_error("no such command: ", name);
	check_usage(command, given, argv + optind, argc - optind);
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
