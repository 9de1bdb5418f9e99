// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/base/smallfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_whole(int fd, const void *data, size_t size)
{
	ssize_t written = write(fd, data, size);

	if (written < 0)
		return -errno;
	/* tmpfs is full: half a file must not be published. */
	if ((size_t)written != size)
		return -ENOSPC;
	/* Readers run as other users, whatever umask this process has. */
	return fchmod(fd, 0644) < 0 ? -errno : 0;
}

int smallfile_replace(const char *path, const void *data, size_t size)
{
	char next[PATH_MAX];
	int fd, error;

	if (snprintf(next, sizeof(next), "%s.new", path) >= (int)sizeof(next))
		return -ENAMETOOLONG;
	fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	error = write_whole(fd, data, size);
	if (close(fd) < 0 && !error)
		error = -errno;
	if (!error && rename(next, path) < 0)
		error = -errno;
	if (error)
		unlink(next);
	return error;
}

static struct smallfile_stamp stamp_of(const struct stat *st)
{
	return (struct smallfile_stamp) {
		.device = st->st_dev,
		.inode = st->st_ino,
		.changed_ns = (uint64_t)st->st_ctim.tv_sec * 1000000000 + (uint64_t)st->st_ctim.tv_nsec,
	};
}

bool smallfile_is(const char *path, const struct smallfile_stamp *stamp)
{
	struct smallfile_stamp now;
	struct stat st;

	if (lstat(path, &st) < 0)
		return false;
	now = stamp_of(&st);
	return now.device == stamp->device && now.inode == stamp->inode && now.changed_ns == stamp->changed_ns;
}

int smallfile_read(const char *path, void *data, size_t room, struct smallfile_stamp *ret_stamp)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	ssize_t size;
	int ret;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0) {
		ret = -errno;
	} else if (!S_ISREG(st.st_mode)) {
		ret = -EINVAL;
	} else if ((size_t)st.st_size > room) {
		ret = -EFBIG;
	} else {
		size = read(fd, data, room);
		ret = size < 0 ? -errno : (int)size;
		if (ret_stamp)
			*ret_stamp = stamp_of(&st);
	}
	close(fd);
	return ret;
}
