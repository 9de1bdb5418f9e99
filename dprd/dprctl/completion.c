// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/completion.c - writes the completions for bash, zsh and fish from the two tables. */
#include "dprd/dprctl/dprctl.h"

#include <string.h>

static bool has_letter(const struct dprctl_option *option)
{
	return option->code <= UINT8_MAX;
}

static bool needs_argument(const struct dprctl_option *option)
{
	return option->argument && option->argument[0] != '[';
}

/* True for an option of every command. */
static bool is_common(const struct dprctl_option *option)
{
	return !option->goes_with && !option->alone;
}

/* True for an option that stands before a command; "dprctl" alone is the default command. */
static bool comes_first(const struct dprctl_option *option)
{
	return option->alone || dprctl_goes_with(option, dprctl_commands);
}

static const char *command_names(char text[256])
{
	const struct dprctl_command *command;

	text[0] = '\0';
	for (command = dprctl_commands; command->name; command++)
		snprintf(text + strlen(text), 256 - strlen(text), "%s%s", *text ? " " : "", command->name);
	return text;
}

/* bash ------------------------------------------------------------------------------------------------------------- */

static const char bash_head[] = "# bash completion for dprctl(8), made by \"dprctl --completion=bash\"\n"
				"\n"
				"_dprctl_members() {\n"
				"	dprctl peers --dump 2>/dev/null | cut -f 1\n"
				"}\n"
				"\n"
				"_dprctl_nodes() {\n"
				"	_dprctl_members\n"
				"	dprctl backends --no-heading 2>/dev/null | awk '{ print $1 }'\n"
				"}\n"
				"\n"
				"_dprctl() {\n"
				"	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} "
				"command=\"\" words=\"\" i\n";

static const char bash_middle[] = "\n"
				  "	# bash splits \"--option=value\" at the \"=\".\n"
				  "	[ \"$current\" != \"=\" ] || current=\"\"\n"
				  "	[ \"$previous\" != \"=\" ] || previous=${COMP_WORDS[COMP_CWORD - 2]}\n"
				  "	for ((i = 1; i < COMP_CWORD; i++)); do\n"
				  "		case \" $commands \" in\n"
				  "		*\" ${COMP_WORDS[i]} \"*)\n"
				  "			command=${COMP_WORDS[i]}\n"
				  "			break\n"
				  "			;;\n"
				  "		esac\n"
				  "	done\n";

static const char bash_tail[] = "	mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
				"}\n"
				"\n"
				"complete -F _dprctl dprctl\n";

static void bash_argument(FILE *out, const struct dprctl_option *option)
{
	static const char *const offers[] = {
		[COMPLETES_NOTHING] = "COMPREPLY=()",
		[COMPLETES_FILES] = "mapfile -t COMPREPLY < <(compgen -f -- \"$current\")",
		[COMPLETES_MEMBERS] = "mapfile -t COMPREPLY < <(compgen -W \"$(_dprctl_members)\" -- \"$current\")",
		[COMPLETES_NODES] = "mapfile -t COMPREPLY < <(compgen -W \"$(_dprctl_nodes)\" -- \"$current\")",
	};

	fputs("	", out);
	if (has_letter(option))
		fprintf(out, "-%c | ", option->code);
	fprintf(out, "--%s)\n		", option->name);
	if (option->words)
		fprintf(out, "mapfile -t COMPREPLY < <(compgen -W \"%s\" -- \"$current\")\n", option->words);
	else
		fprintf(out, "%s\n", offers[option->completes]);
	fputs("		return\n		;;\n", out);
}

/* The long options that go with a command, beside those of every command; NULL: those before any command. */
static void bash_words(FILE *out, const struct dprctl_command *command)
{
	const struct dprctl_option *option;

	fprintf(out, "	%s) words=\"%s", command ? command->name : "\"\"", command ? "" : "$commands ");
	for (option = dprctl_options; option->name; option++) {
		if (!is_common(option) && (command ? dprctl_goes_with(option, command) : comes_first(option)))
			fprintf(out, "--%s ", option->name);
	}
	fputs("\" ;;\n", out);
}

static void complete_bash(FILE *out)
{
	const struct dprctl_command *command;
	const struct dprctl_option *option;
	char names[256];

	fputs(bash_head, out);
	fprintf(out, "	local commands=\"%s\"\n", command_names(names));
	fputs(bash_middle, out);
	fputs("	case $previous in\n", out);
	for (option = dprctl_options; option->name; option++) {
		if (needs_argument(option))
			bash_argument(out, option);
	}
	fputs("	esac\n	case $command in\n", out);
	for (command = dprctl_commands; command->name; command++)
		bash_words(out, command);
	bash_words(out, NULL);
	fputs("	esac\n	words+=\"", out);
	for (option = dprctl_options; option->name; option++) {
		if (is_common(option))
			fprintf(out, " --%s", option->name);
	}
	fputs("\"\n", out);
	fputs(bash_tail, out);
}

/* zsh -------------------------------------------------------------------------------------------------------------- */

static const char zsh_head[] =
	"#compdef dprctl\n"
	"# zsh completion for dprctl(8), made by \"dprctl --completion=zsh\"\n"
	"\n"
	"_dprctl_members() {\n"
	"	compadd -- ${(f)\"$(dprctl peers --dump 2>/dev/null | cut -f 1)\"}\n"
	"}\n"
	"\n"
	"_dprctl_nodes() {\n"
	"	_dprctl_members\n"
	"	compadd -- ${(f)\"$(dprctl backends --no-heading 2>/dev/null | awk '{ print $1 }')\"}\n"
	"}\n"
	"\n";

static const char zsh_find[] = "	local command word\n"
			       "	for word in ${words[2,CURRENT-1]}; do\n"
			       "		if (( ${commands[(I)$word:*]} )); then\n"
			       "			command=$word\n"
			       "			break\n"
			       "		fi\n"
			       "	done\n";

/* "(-c --config)"{-c+,--config=}"[help]:FILE:_files" */
static void zsh_option(FILE *out, const struct dprctl_option *option)
{
	static const char *const offers[] = { [COMPLETES_NOTHING] = " ",
					      [COMPLETES_FILES] = "_files",
					      [COMPLETES_MEMBERS] = "_dprctl_members",
					      [COMPLETES_NODES] = "_dprctl_nodes" };
	const char *equals = needs_argument(option) ? "=" : "";

	if (has_letter(option))
		fprintf(out, "\n\t\t'(-%c --%s)'{-%c%s,--%s%s}'", option->code, option->name, option->code,
			needs_argument(option) ? "+" : "", option->name, equals);
	else
		fprintf(out, "\n\t\t'--%s%s", option->name, equals);
	fputc('[', out);
	for (const char *at = option->help; *at; at++)
		fprintf(out, *at == '\'' ? "'\\''" : strchr("[]:", *at) ? "\\%c" : "%c", *at);
	fputc(']', out);
	if (needs_argument(option) && option->words)
		fprintf(out, ":%s:(%s)", option->argument, option->words);
	else if (needs_argument(option))
		fprintf(out, ":%s:%s", option->name, offers[option->completes]);
	fputc('\'', out);
}

/* The options that go with a command, beside those of every command; NULL: those before any command. */
static void zsh_options(FILE *out, const struct dprctl_command *command)
{
	const struct dprctl_option *option;

	fprintf(out, "	%s) options+=(", command ? command->name : "''");
	for (option = dprctl_options; option->name; option++) {
		if (is_common(option))
			continue;
		if (command ? dprctl_goes_with(option, command) : comes_first(option))
			zsh_option(out, option);
	}
	fputs(") ;;\n", out);
}

static void complete_zsh(FILE *out)
{
	const struct dprctl_command *command;
	const struct dprctl_option *option;

	fputs(zsh_head, out);
	fputs("_dprctl() {\n	local -a options commands=(\n", out);
	for (command = dprctl_commands; command->name; command++)
		fprintf(out, "		'%s:%s'\n", command->name, command->help);
	fputs("	)\n", out);
	fputs(zsh_find, out);
	fputs("	options=(", out);
	for (option = dprctl_options; option->name; option++) {
		if (is_common(option))
			zsh_option(out, option);
	}
	fputs(")\n	case $command in\n", out);
	for (command = dprctl_commands; command->name; command++)
		zsh_options(out, command);
	zsh_options(out, NULL);
	fputs("	esac\n"
	      "	if [[ -n $command ]]; then\n"
	      "		_arguments -s -S $options '*: : '\n"
	      "	else\n"
	      "		_arguments -s -S $options '1:command:{_describe command commands}'\n"
	      "	fi\n"
	      "}\n"
	      "\n"
	      "_dprctl \"$@\"\n",
	      out);
}

/* fish ------------------------------------------------------------------------------------------------------------- */

static const char fish_head[] = "# fish completion for dprctl(8), made by \"dprctl --completion=fish\"\n"
				"\n"
				"function __dprctl_members\n"
				"	dprctl peers --dump 2>/dev/null | cut -f 1\n"
				"end\n"
				"\n"
				"function __dprctl_nodes\n"
				"	__dprctl_members\n"
				"	dprctl backends --no-heading 2>/dev/null | awk '{ print $1 }'\n"
				"end\n"
				"\n";

/* The commands that the option goes with, as fish asks for them; the default command needs no name. */
static void fish_condition(FILE *out, const struct dprctl_option *option)
{
	const struct dprctl_command *command;

	if (option->alone || dprctl_goes_with(option, dprctl_commands))
		fputs("not __fish_seen_subcommand_from $commands", out);
	if (option->alone)
		return;
	fputs(dprctl_goes_with(option, dprctl_commands) ? "; or __fish_seen_subcommand_from"
							: "__fish_seen_subcommand_from",
	      out);
	for (command = dprctl_commands; command->name; command++) {
		if (dprctl_goes_with(option, command))
			fprintf(out, " %s", command->name);
	}
}

/* Text within single quotes. */
static void fish_text(FILE *out, const char *text)
{
	fputc('\'', out);
	for (; *text; text++)
		fprintf(out, *text == '\'' || *text == '\\' ? "\\%c" : "%c", *text);
	fputc('\'', out);
}

static void fish_option(FILE *out, const struct dprctl_option *option)
{
	static const char *const offers[] = { [COMPLETES_NOTHING] = " -x",
					      [COMPLETES_FILES] = " -r -F",
					      [COMPLETES_MEMBERS] = " -x -a '(__dprctl_members)'",
					      [COMPLETES_NODES] = " -x -a '(__dprctl_nodes)'" };

	fputs("complete -c dprctl", out);
	if (option->alone || option->goes_with) {
		fputs(" -n \"", out);
		fish_condition(out, option);
		fputc('"', out);
	}
	if (has_letter(option))
		fprintf(out, " -s %c", option->code);
	fprintf(out, " -l %s", option->name);
	if (needs_argument(option) && option->words)
		fprintf(out, " -x -a '%s'", option->words);
	else if (needs_argument(option))
		fputs(offers[option->completes], out);
	fputs(" -d ", out);
	fish_text(out, option->help);
	fputc('\n', out);
}

static void complete_fish(FILE *out)
{
	const struct dprctl_command *command;
	const struct dprctl_option *option;
	char names[256];

	fputs(fish_head, out);
	fprintf(out, "set -l commands %s\n", command_names(names));
	fputs("complete -c dprctl -f\n", out);
	for (command = dprctl_commands; command->name; command++) {
		fprintf(out, "complete -c dprctl -n \"not __fish_seen_subcommand_from $commands\" -a %s -d ",
			command->name);
		fish_text(out, command->help);
		fputc('\n', out);
	}
	for (option = dprctl_options; option->name; option++)
		fish_option(out, option);
}

bool dprctl_completion(FILE *out, const char *shell)
{
	static const struct {
		const char *shell;
		void (*complete)(FILE *out);
	} shells[] = { { "bash", complete_bash }, { "zsh", complete_zsh }, { "fish", complete_fish } };

	for (unsigned i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
		if (strcmp(shells[i].shell, shell) == 0) {
			shells[i].complete(out);
			return true;
		}
	}
	return false;
}
