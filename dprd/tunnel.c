// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Raw sockets with the header included: what leaves here needs neither ip_forward nor an exception
 * from rp_filter on this node. They are opened for the tunnel's own protocol, so that the kernel
 * learns the path MTU from ICMP errors about tunnel packets; a filter keeps them from receiving.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dprd/dprd.h"

enum {
	SCRATCH_BYTES = 512 * 1024,
	SEND_BUFFER_BYTES = 4 * 1024 * 1024,
};

struct tunnel {
	int socket[2]; /* IPv4, IPv6 */
	unsigned count;
	unsigned scratch_used;
	struct mmsghdr messages[TUNNEL_PACKETS_MAX];
	struct iovec pieces[TUNNEL_PACKETS_MAX][2];
	union {
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} to[TUNNEL_PACKETS_MAX];
	unsigned tags[TUNNEL_PACKETS_MAX];
	bool is_v6[TUNNEL_PACKETS_MAX];
	uint8_t scratch[SCRATCH_BYTES];
};

static int raw_socket(int family, int protocol, int level, int header_included)
{
	struct sock_filter reject = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = { .len = 1, .filter = &reject };
	int one = 1, buffer = SEND_BUFFER_BYTES;
	int fd = socket(family, SOCK_RAW | SOCK_CLOEXEC, protocol);

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ||
	    setsockopt(fd, level, header_included, &one, sizeof(one))) {
		int error = errno;

		close(fd);
		errno = error;
		return -1;
	}
	/* Best effort: a smaller buffer only means earlier ENOBUFS, which is counted. */
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer)))
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
	return fd;
}

struct tunnel *tunnel_new(void)
{
	struct tunnel *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->socket[0] = raw_socket(AF_INET, IPPROTO_IPIP, IPPROTO_IP, IP_HDRINCL);
	t->socket[1] = raw_socket(AF_INET6, IPPROTO_IPV6, IPPROTO_IPV6, IPV6_HDRINCL);
	/* A host without IPv6 still forwards IPv4. */
	if (t->socket[0] < 0 || (t->socket[1] < 0 && errno != EAFNOSUPPORT)) {
		tunnel_free(t);
		return NULL;
	}
	return t;
}

void tunnel_free(struct tunnel *t)
{
	int family;

	if (!t)
		return;
	for (family = 0; family < 2; family++) {
		if (t->socket[family] >= 0)
			close(t->socket[family]);
	}
	free(t);
}

bool tunnel_has_room(const struct tunnel *t, unsigned packets, unsigned bytes)
{
	return packets <= TUNNEL_PACKETS_MAX - t->count && bytes <= SCRATCH_BYTES - t->scratch_used;
}

uint8_t *tunnel_scratch(struct tunnel *t, unsigned bytes)
{
	uint8_t *room = t->scratch + t->scratch_used;

	if (bytes > SCRATCH_BYTES - t->scratch_used)
		return NULL;
	t->scratch_used += bytes;
	return room;
}

bool tunnel_add(struct tunnel *t, const struct addr *destination, const void *head, unsigned head_bytes,
		const void *body, unsigned body_bytes, unsigned tag)
{
	unsigned i = t->count;
	struct msghdr *message;

	if (i == TUNNEL_PACKETS_MAX)
		return false;
	message = &t->messages[i].msg_hdr;
	t->pieces[i][0] = (struct iovec) { .iov_base = (void *)(uintptr_t)head, .iov_len = head_bytes };
	t->pieces[i][1] = (struct iovec) { .iov_base = (void *)(uintptr_t)body, .iov_len = body_bytes };
	t->is_v6[i] = !addr_is_v4(destination);
	memset(&t->to[i], 0, sizeof(t->to[i]));
	*message = (struct msghdr) { .msg_name = &t->to[i], .msg_iov = t->pieces[i], .msg_iovlen = body_bytes ? 2 : 1 };
	if (t->is_v6[i]) {
		t->to[i].v6.sin6_family = AF_INET6;
		memcpy(&t->to[i].v6.sin6_addr, destination->bytes, 16);
		message->msg_namelen = sizeof(t->to[i].v6);
	} else {
		t->to[i].v4.sin_family = AF_INET;
		t->to[i].v4.sin_addr.s_addr = addr_v4(destination);
		message->msg_namelen = sizeof(t->to[i].v4);
	}
	t->tags[i] = tag;
	t->count++;
	return true;
}

void tunnel_flush(struct tunnel *t, void (*failed)(void *context, unsigned tag, int error), void *context)
{
	unsigned from = 0;

	while (from < t->count) {
		unsigned to = from + 1;
		int sent;

		while (to < t->count && t->is_v6[to] == t->is_v6[from])
			to++;
		sent = sendmmsg(t->socket[t->is_v6[from]], &t->messages[from], to - from, MSG_DONTWAIT);
		if (sent > 0) {
			from += (unsigned)sent;
			continue;
		}
		if (sent < 0 && errno == EINTR)
			continue;
		failed(context, t->tags[from], errno);
		from++;
	}
	t->count = 0;
	t->scratch_used = 0;
}

unsigned tunnel_path_mtu(const struct addr *source, const struct addr *destination)
{
	bool v4 = addr_is_v4(destination);
	struct sockaddr_in to4 = { .sin_family = AF_INET, .sin_port = htons(9) }, from4 = { .sin_family = AF_INET };
	struct sockaddr_in6 to6 = { .sin6_family = AF_INET6, .sin6_port = htons(9) },
			    from6 = { .sin6_family = AF_INET6 };
	int fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int mtu = 0, failed;
	socklen_t length = sizeof(mtu);

	if (fd < 0)
		return 0;
	if (v4) {
		from4.sin_addr.s_addr = addr_v4(source);
		to4.sin_addr.s_addr = addr_v4(destination);
		failed = bind(fd, (struct sockaddr *)&from4, sizeof(from4)) ||
			 connect(fd, (struct sockaddr *)&to4, sizeof(to4)) ||
			 getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &length);
	} else {
		memcpy(&from6.sin6_addr, source->bytes, 16);
		memcpy(&to6.sin6_addr, destination->bytes, 16);
		failed = bind(fd, (struct sockaddr *)&from6, sizeof(from6)) ||
			 connect(fd, (struct sockaddr *)&to6, sizeof(to6)) ||
			 getsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &mtu, &length);
	}
	close(fd);
	return failed || mtu < 0 ? 0 : (unsigned)mtu;
}
