/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * command.h - runs one of the system's network tools (nft, iptables, ip), without a shell.
 */
#ifndef DPRD_COMMAND_H
#define DPRD_COMMAND_H

#include <stdbool.h>

enum { COMMAND_OUTPUT_MAX = 1 << 20 };

/*
 * Runs argv (NULL at the end) with input as its standard input (NULL: none) and waits. *ret_output (unless ret_output
 * is NULL) is the text of both outputs, at most COMMAND_OUTPUT_MAX, NUL at the end; the caller frees it. Returns the
 * exit status, or -errno when it could not be run.
 */
int command_run(const char *const argv[], const char *input, char **ret_output);
/* The same; logs a failure with the output of the tool, except when quiet. 0 or -errno (-EIO: the tool failed). */
int command_run_logged(const char *const argv[], const char *input, bool quiet);

#endif
