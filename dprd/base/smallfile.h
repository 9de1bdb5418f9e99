/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * smallfile.h - one small file on tmpfs that one process replaces and others copy whole.
 *
 * Readers see the old or the new content, never a mixture. They trust neither the file's kind nor
 * its size: its directory belongs to the writer, who may be hostile.
 */
#ifndef DPRD_BASE_SMALLFILE_H
#define DPRD_BASE_SMALLFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Identifies one of the files that were at a path. All 0: none. */
struct smallfile_stamp {
	uint64_t device, inode, changed_ns;
};

/* Writes path.new (mode 0644) and renames it to path. 0 or -errno. */
int smallfile_replace(const char *path, const void *data, size_t size);

/*
 * Copies at most room bytes. Returns their number, or -errno: -ENOENT; -EINVAL when it is not a regular file; -EFBIG
 * when there is more; -ELOOP for a link. Never blocks. ret_stamp may be NULL.
 */
int smallfile_read(const char *path, void *data, size_t room, struct smallfile_stamp *ret_stamp);

/* True when the file still exists and was not replaced. It takes one system call, while reading the file takes four. */
bool smallfile_is(const char *path, const struct smallfile_stamp *stamp);

#endif
