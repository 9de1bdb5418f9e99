// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * flowfile.c - keeps the flow table in a file on tmpfs. A new process makes a new file, takes over the flows of the old
 * file, whatever its size, and renames the new file to the old name.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dprd/base/advice.h"
#include "dprd/base/log.h"
#include "dprd/base/owner.h"
#include "dprd/cluster/state.h"
#include "dprd/plane/flowfile.h"
#include "dprd/plane/private.h"

static void path_of(const struct dprd *d, const char *suffix, char path[PATH_BYTES + 16])
{
	snprintf(path, PATH_BYTES + 16, "%s/flows%s", d->config.run_dir, suffix);
}

void flowfile_adopt(struct dprd *d)
{
	char path[PATH_BYTES + 16];
	struct stat status;
	void *old;
	int fd, adopted;

	path_of(d, "", path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return;
	if (fstat(fd, &status) || !S_ISREG(status.st_mode) || !owner_is_own(status.st_uid, d->config.run_dir) ||
	    status.st_size <= 0) {
		log_warning("%s is not a flow table of dprd; starting without flows", path);
		close(fd);
		return;
	}
	old = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (old == MAP_FAILED)
		return;
	adopted = flow_table_adopt(d->flows, old, (size_t)status.st_size);
	munmap(old, (size_t)status.st_size);
	if (adopted < 0)
		log_warning("%s is damaged or of another version; starting without flows", path);
	else
		log_info("%d forwarded flows taken over from the former process", adopted);
}

int flowfile_open(struct dprd *d)
{
	char path[PATH_BYTES + 16], fresh[PATH_BYTES + 16];
	size_t bytes = flow_table_bytes(&d->flow_limits);
	void *memory = NULL;
	int fd, error;

	path_of(d, "", path);
	path_of(d, ".new", fresh);
	unlink(fresh);
	fd = open(fresh, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		error = -errno;
		log_err("%s: %s; %s", fresh, strerror(-error),
			advice_for(error, "its directory must belong to the user of dprd"));
		return error;
	}
	/* The next dprd may be the unit's, which takes these flows over. */
	owner_give(fd, d->config.run_dir);
	/* All memory is taken now, so that a full tmpfs does not cause SIGBUS later. */
	error = -posix_fallocate(fd, 0, (off_t)bytes);
	if (!error) {
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (memory == MAP_FAILED)
			error = -errno;
	}
	close(fd);
	if (error) {
		unlink(fresh);
		log_err("%s: %zu bytes for the flow table: %s; %s, or lower [Flows] MaxFlows=", fresh, bytes,
			strerror(-error), advice_for(error, "see the limits of its file system"));
		return error;
	}
	d->plane->flow_bytes = bytes;
	d->flows = flow_table_init(memory, &d->flow_limits);
	flowfile_adopt(d);
	if (rename(fresh, path)) {
		error = -errno;
		log_err("%s: %s", path, strerror(-error));
	}
	return error;
}

void flowfile_remove(const struct dprd *d)
{
	char path[PATH_BYTES + 16];

	path_of(d, "", path);
	unlink(path);
}

void flowfile_close(struct dprd *d, bool keep)
{
	if (!d->plane->flow_bytes)
		return;
	/* The table begins where its memory does. */
	munmap(d->flows, d->plane->flow_bytes);
	d->plane->flow_bytes = 0;
	d->flows = NULL;
	if (!keep)
		flowfile_remove(d);
}
