// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * shared/lease.c - the lease of shared addresses: reads it, and gives its memory to loadcast. loadcast has no rights on
 * BPF programs; it gets the descriptor of the map, and keeps the memory when dprd is gone.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "dprd/base/log.h"
#include "dprd/cluster/state.h"
#include "dprd/fastpath/fastpath.h"
#include "dprd/shared/module.h"
#include "dprd/shared/shared.h"
#include "loadcast/lease.h"

/* A lease that was read while it was written is read again. */
enum { READ_TRIES = 3 };

static bool read_cell(const struct bucket_lease_cell *cell, struct shared_lease *ret)
{
	unsigned tries;

	for (tries = 0; tries < READ_TRIES; tries++) {
		uint32_t active = __atomic_load_n(&cell->active, __ATOMIC_ACQUIRE) & 1;

		ret->changed_ns = __atomic_load_n(&cell->changed_ns, __ATOMIC_RELAXED);
		ret->share = cell->share[active];
		ret->until_ns = __atomic_load_n(&cell->until_ns, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if ((__atomic_load_n(&cell->active, __ATOMIC_RELAXED) & 1) == active)
			break;
	}
	if (ret->share.count > BUCKET_MEMBERS_MAX)
		ret->share.count = 0;
	return ret->until_ns || ret->changed_ns;
}

bool shared_lease_read(struct dprd *d, struct shared_lease *ret)
{
	struct shared_module_state state;

	if (d->shared->used == SHARED_USES_BPF)
		return read_cell(d->fastpath->lease, ret);
	if (d->shared->used != SHARED_USES_MODULE || shared_module_get(&state) || !state.has_lease)
		return false;
	*ret = (struct shared_lease) { .until_ns = state.lease_until_ns,
				       .changed_ns = state.share_changed_ns,
				       .share = state.share };
	return true;
}

static int connect_to_loadcast(const struct config *config)
{
	const char *slash = strrchr(config->table_file, '/');
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int bytes = snprintf(address.sun_path, sizeof(address.sun_path), "%.*s/lease",
			     slash ? (int)(slash - config->table_file) : 0, config->table_file);
	int fd;

	if (bytes < 0 || (size_t)bytes >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (!connect(fd, (struct sockaddr *)&address, sizeof(address)))
		return fd;
	bytes = -errno;
	close(fd);
	return bytes;
}

static int send_map(int fd, int map_fd)
{
	char text[] = LEASE_MESSAGE;
	struct iovec data = { text, sizeof(text) - 1 };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
	};
	struct cmsghdr *with = CMSG_FIRSTHDR(&message);

	with->cmsg_level = SOL_SOCKET;
	with->cmsg_type = SCM_RIGHTS;
	with->cmsg_len = CMSG_LEN(sizeof(map_fd));
	memcpy(CMSG_DATA(with), &map_fd, sizeof(map_fd));
	return sendmsg(fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* True when the other end closed. It never sends anything. */
static bool is_gone(int fd)
{
	char byte;
	ssize_t got = recv(fd, &byte, sizeof(byte), MSG_DONTWAIT);

	return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

void shared_lease_offer(struct dprd *d)
{
	struct shared *s = d->shared;
	int fd;

	if (s->used != SHARED_USES_BPF)
		return;
	if (s->loadcast_fd >= 0) {
		if (!is_gone(s->loadcast_fd))
			return;
		close(s->loadcast_fd);
		s->loadcast_fd = -1;
	}
	fd = connect_to_loadcast(&d->config);
	if (fd < 0)
		return;
	if (send_map(fd, fastpath_lease_fd(d->fastpath))) {
		close(fd);
		return;
	}
	log_info("loadcast has taken the map that holds the lease of the shared addresses");
	s->loadcast_fd = fd;
}
