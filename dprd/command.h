/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * command.h - runs one of the system's network tools (nft, iptables, ip), without a shell.
 */
#ifndef DPRD_COMMAND_H
#define DPRD_COMMAND_H

/*
 * Runs argv (NULL at the end) with input as its standard input (NULL: none) and waits. *ret_output,
 * when asked for, is what it printed on both outputs, at most 1 MiB, NUL at the end; the caller
 * frees it. The exit status, or -errno when it could not be run.
 */
int command_run(const char *const argv[], const char *input, char **ret_output);

#endif
