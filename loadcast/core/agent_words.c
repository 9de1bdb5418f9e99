// SPDX-License-Identifier: GPL-2.0-or-later
#include "loadcast/core/agent_words.h"

#include <string.h>

enum { PERCENT_MAX = 100, PERCENT_DIGITS = 3, MAXCONN_DIGITS = 9 };

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == ',';
}

static bool is_end(char c)
{
	return c == '\n' || c == '\r' || c == '\0';
}

int agent_line(const char *bytes, size_t size, bool ended)
{
	size_t length = 0;

	while (length < size && !is_end(bytes[length]))
		length++;
	if (length > AGENT_LINE_MAX || (length == size && ended && !length))
		return -2;
	return length < size || ended ? (int)length : -1;
}

static bool is_word(const char *word, size_t length, const char *wanted)
{
	return length == strlen(wanted) && memcmp(word, wanted, length) == 0;
}

/* Digits in all of the text, and not too many of them. */
static bool is_number(const char *text, size_t length, size_t digits_max)
{
	if (!length || length > digits_max)
		return false;
	while (length--) {
		if (text[length] < '0' || text[length] > '9')
			return false;
	}
	return true;
}

/* More than all is all: a node takes no more than its weight in dprd.conf. */
static bool take_percent(struct agent_words *words, const char *word, size_t length)
{
	unsigned percent = 0;

	if (!length || word[length - 1] != '%' || !is_number(word, length - 1, PERCENT_DIGITS))
		return false;
	for (size_t i = 0; i < length - 1; i++)
		percent = percent * 10 + (unsigned)(word[i] - '0');
	words->percent = percent < PERCENT_MAX ? percent : PERCENT_MAX;
	return true;
}

static bool is_maxconn(const char *word, size_t length)
{
	static const char name[] = "maxconn:";
	const size_t skip = sizeof(name) - 1;

	return length > skip && memcmp(word, name, skip) == 0 && is_number(word + skip, length - skip, MAXCONN_DIGITS);
}

static bool take_word(struct agent_words *words, const char *word, size_t length)
{
	if (is_word(word, length, "up"))
		words->down = false;
	else if (is_word(word, length, "down") || is_word(word, length, "fail") || is_word(word, length, "stopped"))
		words->down = true;
	else if (is_word(word, length, "ready"))
		words->drain = words->maint = false;
	else if (is_word(word, length, "drain"))
		words->drain = true;
	else if (is_word(word, length, "maint"))
		words->maint = true;
	else
		return take_percent(words, word, length) || is_maxconn(word, length);
	return true;
}

bool agent_words_take(struct agent_words *words, const char *line, size_t length)
{
	struct agent_words fresh = *words;
	size_t at = 0, begin;
	bool any = false;

	for (;;) {
		while (at < length && is_blank(line[at]))
			at++;
		if (at == length || line[at] == '#')
			break;
		for (begin = at; at < length && !is_blank(line[at]) && line[at] != '#';)
			at++;
		if (!take_word(&fresh, line + begin, at - begin))
			return false;
		any = true;
	}
	if (any)
		*words = fresh;
	return any;
}

enum agent_wish agent_wish(const struct agent_words *words)
{
	if (words->maint)
		return AGENT_WANTS_MAINT;
	if (words->down)
		return AGENT_SAYS_DOWN;
	return words->drain || !words->percent ? AGENT_WANTS_DRAIN : AGENT_WANTS_ALL;
}

uint32_t agent_held(const struct agent_words *words, uint32_t slow_start_permille)
{
	uint32_t kept = (1000 - slow_start_permille) * words->percent / PERCENT_MAX;

	return kept ? 1000 - kept : WEIGHT_HELD_MAX;
}
