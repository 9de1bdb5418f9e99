/* SPDX-License-Identifier: GPL-2.0-or-later */
/* owner.h - files that root leaves in another user's directory, so that this user's process can use them next. */
#ifndef DPRD_BASE_OWNER_H
#define DPRD_BASE_OWNER_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * A process of root gives the open file to the owner of this directory; any other process leaves it as it is. Only for
 * a file that this process has just made: another user may have put a link to any other file there. 0 or -errno.
 */
int owner_give(int fd, const char *directory);

/*
 * Gives a directory, and root's files in it, to the owner of the directory above. Only on a file system of BPF, where
 * no file can be a link to one of another kind. 0 or -errno.
 */
int owner_give_all(const char *directory, const char *above);

/*
 * True when a file of this user can be trusted like a file of this process's user. Root also trusts a file of the
 * directory's owner.
 */
bool owner_is_own(uid_t user, const char *directory);

#endif
