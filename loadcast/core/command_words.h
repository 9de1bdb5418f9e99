/* SPDX-License-Identifier: GPL-2.0-or-later */
/* command_words.h - the words of [Health] Command=, and the first line of what the command printed. Pure. */
#ifndef LOADCAST_COMMAND_WORDS_H
#define LOADCAST_COMMAND_WORDS_H

#include <stddef.h>

#include "dprd/config/config.h"

enum {
	COMMAND_WORDS_MAX = COMMAND_BYTES / 2,
	COMMAND_TEXT_BYTES = 8192, /* more than COMMAND_BYTES / 2 places that are filled in */
	COMMAND_LINE_BYTES = 100, /* with NUL */
};

/* The arguments of execv(2): text has the words, word[] points into it, NULL at the end. */
struct command_words {
	char *word[COMMAND_WORDS_MAX + 1];
	char text[COMMAND_TEXT_BYTES];
};

/* Splits the command at blanks; %a becomes the address, %p the port, %% a "%". */
void command_words(const char *command, const struct addr *address, uint16_t port, struct command_words *ret);

/* The first line that is not empty, cut, with "?" for what cannot be printed. Empty: there is none. */
void command_line(const char *bytes, size_t size, char line[COMMAND_LINE_BYTES]);

#endif
