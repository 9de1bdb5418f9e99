// SPDX-License-Identifier: GPL-2.0-or-later
#include "loadcast/core/command_words.h"

#include <stdio.h>
#include <string.h>

_Static_assert((int)COMMAND_TEXT_BYTES >= COMMAND_BYTES / 2 * ADDR_TEXT_BYTES + COMMAND_BYTES, "all places fit");

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

void command_words(const char *command, const struct addr *address, uint16_t port, struct command_words *ret)
{
	char place[ADDR_TEXT_BYTES], number[8], *to = ret->text;
	unsigned count = 0;

	addr_format(address, place);
	snprintf(number, sizeof(number), "%u", port);
	for (const char *from = command; *from && count < COMMAND_WORDS_MAX;) {
		while (is_blank(*from))
			from++;
		if (!*from)
			break;
		ret->word[count++] = to;
		for (; *from && !is_blank(*from); from++) {
			const char *filled = *from != '%'     ? NULL
					     : from[1] == 'a' ? place
					     : from[1] == 'p' ? number
							      : "%";

			if (!filled) {
				*to++ = *from;
				continue;
			}
			memcpy(to, filled, strlen(filled));
			to += strlen(filled);
			from += from[1] != '\0';
		}
		*to++ = '\0';
	}
	ret->word[count] = NULL;
}

void command_line(const char *bytes, size_t size, char line[COMMAND_LINE_BYTES])
{
	size_t length = 0;

	while (size && (*bytes == '\n' || *bytes == '\r' || *bytes == ' ')) {
		bytes++;
		size--;
	}
	for (; length < size && length < COMMAND_LINE_BYTES - 1 && bytes[length] != '\n' && bytes[length] != '\r';
	     length++)
		line[length] = bytes[length] >= ' ' && bytes[length] <= '~' ? bytes[length] : '?';
	line[length] = '\0';
}
