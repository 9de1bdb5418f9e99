// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The words of an agent, and the output of a command: any bytes end in a state that is in range, or change nothing; a line is
 * found in the same place however many bytes come at a time; nothing is read behind them.
 */
#include <stdlib.h>
#include <string.h>

#include "loadcast/core/agent_words.h"
#include "loadcast/core/command_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool condition)
{
	if (!condition)
		abort();
}

/* The bytes alone, so that a reader beyond their end is found. */
static char *copy_of(const uint8_t *data, size_t size)
{
	char *bytes = calloc(1, size + !size);

	demand(bytes);
	if (size)
		memcpy(bytes, data, size);
	return bytes;
}

static void hear(const uint8_t *data, size_t size)
{
	struct agent_words words = agent_words_first(), before = words;
	char *bytes = copy_of(data, size);
	int length = agent_line(bytes, size, true), part = -1;

	for (size_t known = 0; known <= size && part == -1; known++)
		part = agent_line(bytes, known, known == size);
	demand(length >= -2 && length != -1 && length <= AGENT_LINE_MAX && length <= (int)size);
	demand(part == length);
	if (length >= 0 && !agent_words_take(&words, bytes, (size_t)length))
		demand(words.down == before.down && words.drain == before.drain && words.maint == before.maint &&
		       words.percent == before.percent);
	demand(words.percent <= 100 && agent_wish(&words) < AGENT_WISHES);
	for (uint32_t held = 0; held <= 900; held += 300) {
		demand(agent_held(&words, held) <= WEIGHT_HELD_MAX);
		demand(agent_held(&words, held) >= held || !words.percent);
	}
	free(bytes);
}

static void print(const uint8_t *data, size_t size)
{
	char *bytes = copy_of(data, size), line[COMMAND_LINE_BYTES];

	memset(line, 1, sizeof(line));
	command_line(bytes, size, line);
	demand(memchr(line, 0, sizeof(line)));
	for (const char *c = line; *c; c++)
		demand(*c >= ' ' && *c <= '~');
	free(bytes);
}

static void split(const uint8_t *data, size_t size)
{
	struct addr address = { .words = { ~0U, ~0U, ~0U, ~0U } };
	char command[COMMAND_BYTES] = "";
	struct command_words words;
	unsigned i;

	memcpy(command, data, size < sizeof(command) ? size : sizeof(command) - 1);
	command_words(command, &address, 65535, &words);
	for (i = 0; i <= COMMAND_WORDS_MAX && words.word[i]; i++) {
		demand(words.word[i] >= words.text && words.word[i] < words.text + sizeof(words.text));
		demand(words.word[i][0] && !strpbrk(words.word[i], " \t"));
	}
	demand(i <= COMMAND_WORDS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	hear(data, size);
	print(data, size);
	split(data, size);
	return 0;
}
