// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/help.c - the text of "dprctl --help", made of the two tables. */
#include "dprd/dprctl/dprctl.h"

#include <string.h>

enum { NAME_COLUMNS = 24, PREFIX_COMMANDS_MAX = 2 };

/* One row: the name, blanks up to the column, the help; a name that is too long gets a line of its own. */
static void print_row(FILE *out, const char *name, const char *prefix, const char *help)
{
	if (strlen(name) < NAME_COLUMNS)
		fprintf(out, "  %-*s%s%s\n", NAME_COLUMNS, name, prefix, help);
	else
		fprintf(out, "  %s\n  %*s%s%s\n", name, NAME_COLUMNS, "", prefix, help);
}

static void print_command(FILE *out, const struct dprctl_command *command)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s%s", command->name, *command->argument ? " " : "", command->argument);
	print_row(out, name, "", command->help);
}

/* "peers: " for an option of few commands; else an empty text. */
static void list_commands(const struct dprctl_option *option, char prefix[64])
{
	const struct dprctl_command *command;
	unsigned count = 0;
	size_t used = 0;

	prefix[0] = '\0';
	for (command = dprctl_commands; command->name; command++) {
		if (!dprctl_goes_with(option, command))
			continue;
		used = strlen(prefix);
		snprintf(prefix + used, 64 - used, "%s%s", count++ ? ", " : "", command->name);
	}
	used = strlen(prefix);
	if (count && count <= PREFIX_COMMANDS_MAX)
		snprintf(prefix + used, 64 - used, ": ");
	else
		prefix[0] = '\0';
}

static void print_option(FILE *out, const struct dprctl_option *option)
{
	char name[64], letter[8] = "    ", prefix[64];
	const char *argument = option->argument ? option->argument : "";

	if (option->code <= UINT8_MAX)
		snprintf(letter, sizeof(letter), "-%c, ", option->code);
	snprintf(name, sizeof(name), "%s--%s%s%s", letter, option->name,
		 *argument == '[' ? " "
		 : *argument      ? "="
				  : "",
		 argument);
	list_commands(option, prefix);
	print_row(out, name, prefix, option->help);
}

void dprctl_help(FILE *out)
{
	const struct dprctl_command *command;
	const struct dprctl_option *option;

	fputs("usage: dprctl [options] command [arguments]\n\n"
	      "Shows and steers the dprd of this node; see dprctl(8).\n\n",
	      out);
	for (command = dprctl_commands; command->name; command++)
		print_command(out, command);
	fputc('\n', out);
	for (option = dprctl_options; option->name; option++)
		print_option(out, option);
	fputs("\nexit status: 0 fine; 1 there are warnings, or nothing was found; 2 dprd does not answer or\n"
	      "refuses, or the usage is wrong\n",
	      out);
}
