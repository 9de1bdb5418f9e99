// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "dprd/base/owner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* True when this process is root and the directory belongs to another user. */
static bool other_owner(const char *directory, struct stat *ret)
{
	return geteuid() == 0 && stat(directory, ret) == 0 && ret->st_uid != 0;
}

int owner_give(int fd, const char *directory)
{
	struct stat owner;

	if (!other_owner(directory, &owner))
		return 0;
	return fchown(fd, owner.st_uid, owner.st_gid) < 0 ? -errno : 0;
}

int owner_give_all(const char *directory, const char *above)
{
	struct stat owner, own, file;
	struct dirent *entry;
	DIR *files = NULL;
	int error = 0, fd;

	if (!other_owner(above, &owner))
		return 0;
	/* The other user may have put a link to another directory there. */
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		files = fdopendir(fd);
	if (!files) {
		error = -errno;
		if (fd >= 0)
			close(fd);
		return error;
	}
	if (fstat(dirfd(files), &own) < 0)
		error = -errno;
	while (!error && (entry = readdir(files))) {
		if (entry->d_name[0] == '.' || fstatat(dirfd(files), entry->d_name, &file, AT_SYMLINK_NOFOLLOW) < 0 ||
		    file.st_uid != 0 || file.st_nlink != 1)
			continue;
		if (fchownat(dirfd(files), entry->d_name, owner.st_uid, owner.st_gid, AT_SYMLINK_NOFOLLOW) < 0)
			error = -errno;
	}
	if (!error && own.st_uid == 0 && fchown(dirfd(files), owner.st_uid, owner.st_gid) < 0)
		error = -errno;
	closedir(files);
	return error;
}

bool owner_is_own(uid_t user, const char *directory)
{
	struct stat owner;

	return user == geteuid() || (other_owner(directory, &owner) && user == owner.st_uid);
}
