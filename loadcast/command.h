/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * command.h - one run of [Health] Command=.
 *
 * The program runs without a shell, in a process group of its own, with the rights of loadcast, no descriptor of its, and
 * nearly no environment. What it prints waits in a pipe, whose size bounds it: a program that prints more stands still
 * until its time is up.
 */
#ifndef LOADCAST_COMMAND_H
#define LOADCAST_COMMAND_H

#include "loadcast/core/command_words.h"

enum { COMMAND_REASON_BYTES = COMMAND_LINE_BYTES + 28 };

struct command;

/* Starts it. NULL with errno set. */
struct command *command_start(const char *text, const struct addr *address, uint16_t port);

/* Kills what still runs, and waits for it for a moment. */
void command_free(struct command *command); /* NULL is fine */

/* Kills the whole process group; its end is still to be waited for. */
void command_kill(const struct command *command);

/* The descriptor to poll; it is readable once the program has ended. -1: the kernel has none for it. */
int command_descriptor(const struct command *command);

/*
 * True when the program has ended. *ret_good: with the exit status 0; else reason says how. It is true only once: then
 * only command_free() may follow.
 */
bool command_ended(struct command *command, bool *ret_good, char reason[COMMAND_REASON_BYTES]);

#endif
