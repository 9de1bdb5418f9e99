/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * commands.h - the words of the command line: each takes the rest of it and returns the exit status.
 */
#ifndef TESTS_EXPERIMENTS_SURGE_COMMANDS_H
#define TESTS_EXPERIMENTS_SURGE_COMMANDS_H

int command_files(int argc, char **argv);
int command_run(int argc, char **argv);
int command_selfcheck(int argc, char **argv);

#endif
