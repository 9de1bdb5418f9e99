/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * agent_words.h - what a node's agent says, in the words of HAProxy's agent-check. Pure.
 *
 * An agent sends one line of words with blanks or commas between them:
 *
 *   up, down, fail, stopped   the server works, or not
 *   ready, drain, maint       new connections are welcome, or not; "up" does not end a drain
 *   75%                       this part of the node's weight; 0% is a drain
 *   maxconn:N                 is for HAProxy alone
 *   # and the rest            a description
 *
 * A line with any other word says nothing: a half of it is not obeyed.
 */
#ifndef LOADCAST_AGENT_WORDS_H
#define LOADCAST_AGENT_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "loadcast/load.h"

enum { AGENT_LINE_MAX = 128 }; /* bytes, without its end */

/* The state until the agent says something else. */
struct agent_words {
	bool down, drain, maint;
	unsigned percent; /* of the weight: 0 to 100 */
};

static inline struct agent_words agent_words_first(void)
{
	return (struct agent_words) { .percent = 100 };
}

/*
 * Bytes that came so far; ended: no more will come. Returns the length of the line in them, -1 while it is not whole, or
 * -2 when it is no line: too long, or empty at the end.
 */
int agent_line(const char *bytes, size_t size, bool ended);

/* Takes a line in. False, and *words stays as it is: it has a word that is none of an agent's, or none at all. */
bool agent_words_take(struct agent_words *words, const char *line, size_t length);

enum agent_wish agent_wish(const struct agent_words *words);

/* The part of its weight that a node holds back, when it holds back slow_start_permille for another reason. */
uint32_t agent_held(const struct agent_words *words, uint32_t slow_start_permille);

#endif
