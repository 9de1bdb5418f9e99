// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "loadcast/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "dprd/base/log.h"

struct lease {
	char path[PATH_BYTES]; /* of the socket */
	int listener, connection;
	int module; /* the module's file; -1: not loaded */
	struct bucket_lease_cell *cell; /* NULL: no map yet */
};

static int fail(struct lease *lease, char message[CONFIG_ERROR_BYTES], const char *what)
{
	snprintf(message, CONFIG_ERROR_BYTES,
		 "cannot set up the socket %s: %s: %s (its directory must exist and belong to this user)", lease->path,
		 what, strerror(errno));
	return -1;
}

/* The socket stands beside the load table. */
static int set_path(struct lease *lease, const struct config *config, char message[CONFIG_ERROR_BYTES])
{
	const char *slash = strrchr(config->table_file, '/');
	int directory = slash ? (int)(slash - config->table_file) : 0;
	int size = snprintf(lease->path, sizeof(lease->path), "%.*s/lease", directory, config->table_file);
	struct sockaddr_un limit;

	if (size > 0 && (size_t)size < sizeof(limit.sun_path))
		return 0;
	snprintf(message, CONFIG_ERROR_BYTES, "[Run] Table=%s: the path is too long for a socket beside the load table",
		 config->table_file);
	return -1;
}

static int listen_at(struct lease *lease, char message[CONFIG_ERROR_BYTES])
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	memcpy(address.sun_path, lease->path, strlen(lease->path) + 1);
	lease->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (lease->listener < 0)
		return fail(lease, message, "socket");
	/* A former run left this file: this process also owns the load table beside it. */
	unlink(lease->path);
	if (bind(lease->listener, (struct sockaddr *)&address, sizeof(address)) < 0)
		return fail(lease, message, "bind");
	/* Only dprd's group may write here: a writer decides which node serves. */
	if (chmod(lease->path, 0660) < 0 || listen(lease->listener, 1) < 0)
		return fail(lease, message, "listen");
	return 0;
}

struct lease *lease_open(const struct config *config, char message[CONFIG_ERROR_BYTES])
{
	struct lease *lease = calloc(1, sizeof(*lease));

	if (!lease) {
		snprintf(message, CONFIG_ERROR_BYTES, "out of memory");
		return NULL;
	}
	lease->listener = lease->connection = lease->module = -1;
	if (set_path(lease, config, message) < 0 || listen_at(lease, message) < 0) {
		lease_close(lease);
		return NULL;
	}
	return lease;
}

static void close_if_open(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void lease_close(struct lease *lease)
{
	if (!lease)
		return;
	close_if_open(&lease->connection);
	if (lease->listener >= 0)
		unlink(lease->path);
	close_if_open(&lease->listener);
	close_if_open(&lease->module);
	if (lease->cell)
		munmap(lease->cell, sizeof(*lease->cell));
	free(lease);
}

void lease_sockets(const struct lease *lease, int sockets[LEASE_SOCKETS])
{
	sockets[0] = lease->listener;
	sockets[1] = lease->connection;
}

/* Only a BPF map is mapped, because a file of a file system could be shortened while it is mapped. */
static void take_map(struct lease *lease, int fd)
{
	struct stat status;
	void *memory;

	if (fstat(fd, &status) < 0 || (status.st_mode & S_IFMT) != 0) {
		log_warning("%s: dprd sent a file descriptor that is not a BPF map", lease->path);
		return;
	}
	memory = mmap(NULL, sizeof(*lease->cell), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) {
		log_warning("%s: cannot map the BPF map that dprd sent: %s", lease->path, strerror(errno));
		return;
	}
	if (lease->cell)
		munmap(lease->cell, sizeof(*lease->cell));
	lease->cell = memory;
	log_info("dprd sent the map that holds the lease for its BPF programs");
}

static void take_message(struct lease *lease)
{
	char text[sizeof(LEASE_MESSAGE)] = { 0 };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec data = { text, sizeof(text) - 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
	};
	ssize_t size = recvmsg(lease->connection, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *with = CMSG_FIRSTHDR(&message);
	int fd = -1;

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (size > 0 && with && with->cmsg_type == SCM_RIGHTS && with->cmsg_len == CMSG_LEN(sizeof(fd)))
		memcpy(&fd, CMSG_DATA(with), sizeof(fd));
	if (size <= 0) {
		/* dprd is gone; its programs and the map stay in the kernel. */
		close_if_open(&lease->connection);
	} else if (fd >= 0 && strcmp(text, LEASE_MESSAGE) == 0 && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		take_map(lease, fd);
	} else {
		log_warning("%s: ignored a message that is not from dprd", lease->path);
	}
	close_if_open(&fd);
}

void lease_ready(struct lease *lease)
{
	int fd = accept4(lease->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0) {
		/* The newest connection comes from the dprd that runs. */
		close_if_open(&lease->connection);
		lease->connection = fd;
	}
	if (lease->connection >= 0)
		take_message(lease);
}

bool lease_has_kernel(struct lease *lease)
{
	if (lease->module < 0)
		lease->module = open(LEASE_MODULE_FILE, O_WRONLY | O_CLOEXEC);
	return lease->module >= 0 || lease->cell;
}

static bool write_module(struct lease *lease, const struct bucket_share *share, uint64_t until_ns)
{
	struct bucket_lease all = { .version = BUCKET_LEASE_VERSION, .until_ns = until_ns, .share = *share };

	if (write(lease->module, &all, sizeof(all)) == (ssize_t)sizeof(all))
		return true;
	log_warning("cannot write the lease to %s: %s", LEASE_MODULE_FILE, strerror(errno));
	close_if_open(&lease->module);
	return false;
}

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void write_cell(struct bucket_lease_cell *cell, const struct bucket_share *share, uint64_t until_ns)
{
	uint32_t active = cell->active & 1;

	if (memcmp(&cell->share[active], share, sizeof(*share)) != 0) {
		/* Programs in the kernel may read the active share on all processors meanwhile. */
		cell->share[!active] = *share;
		__atomic_store_n(&cell->changed_ns, monotonic_ns(), __ATOMIC_RELEASE);
		__atomic_store_n(&cell->active, !active, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&cell->until_ns, until_ns, __ATOMIC_RELEASE);
}

bool lease_write(struct lease *lease, const struct bucket_share *share, uint64_t until_ns)
{
	bool written = false;

	if (lease->module >= 0)
		written = write_module(lease, share, until_ns);
	if (lease->cell) {
		write_cell(lease->cell, share, until_ns);
		written = true;
	}
	return written;
}
