// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One dprd per run directory, one loadcast per load table: the locks end when the process ends, also when it is killed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dprd/base/advice.h"
#include "dprd/base/lock.h"
#include "dprd/base/log.h"
#include "dprd/base/owner.h"

enum { LOCK_TRY_MS = 10, LOCK_TRIES = 50 };

/*
 * A file that root makes, for example with --purge, gets the owner of the directory: the unit's dprd must open it. A
 * file that existed before keeps its owner, because that user may have put a link to another file there.
 */
static int open_lock(const char *directory, const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	int error;

	if (fd < 0)
		return errno == EEXIST ? open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
	error = owner_give(fd, directory);
	if (error)
		log_warning("cannot give %s to the owner of its directory: %s; only root can use it", path,
			    strerror(-error));
	return fd;
}

int lock_watch(const char *run_dir)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/lock", run_dir);
	return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

bool lock_is_taken(int fd)
{
	/* lock_take() of a process that starts at this moment tries again. */
	if (flock(fd, LOCK_SH | LOCK_NB))
		return true;
	flock(fd, LOCK_UN);
	return false;
}

static int take(const char *directory, const char *path, const char *program)
{
	int fd = open_lock(directory, path), tries;

	/* A tool (nft, ip) that a former process started may hold the lock for a moment after that process ended. */
	for (tries = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && tries < LOCK_TRIES; tries++)
		usleep(LOCK_TRY_MS * 1000);
	if (fd < 0 || tries == LOCK_TRIES) {
		int error = fd < 0 ? errno : EWOULDBLOCK;

		if (error == EWOULDBLOCK)
			log_err("%s: another %s is running here", path, program);
		else
			log_err("%s: %s; %s", path, strerror(error),
				advice_for(-error, "it must belong to the user of this program"));
		if (fd >= 0)
			close(fd);
		return -error;
	}
	return fd;
}

int lock_take(const char *run_dir)
{
	char path[PATH_MAX];

	if (mkdir(run_dir, 0755) && errno != EEXIST) {
		int error = -errno;

		log_err("cannot make the run directory %s: %s; %s", run_dir, strerror(-error),
			advice_for(error,
				   "root must make it, for the user of dprd: systemd-tmpfiles --create dprd.conf"));
		return error;
	}
	snprintf(path, sizeof(path), "%s/lock", run_dir);
	return take(run_dir, path, "dprd");
}

int lock_take_beside(const char *file, const char *program)
{
	char path[PATH_MAX], directory[PATH_MAX], *slash;

	snprintf(directory, sizeof(directory), "%s", file);
	slash = strrchr(directory, '/');
	if (slash)
		slash[slash == directory] = '\0';
	if (!slash || snprintf(path, sizeof(path), "%s.lock", file) >= (int)sizeof(path))
		return -EINVAL;
	return take(directory, path, program);
}
