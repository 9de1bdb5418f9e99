// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * tunnel.c - sends by raw sockets with the header included: such packets need neither ip_forward nor an exception from
 * rp_filter on this node. The sockets have the protocol of the tunnel, so that the kernel learns the path MTU from ICMP
 * errors about tunnel packets; a filter keeps them from receiving. Packets that may go straight to a hardware address
 * leave by a packet socket, at two thirds of the cost.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dprd/host/tunnel.h"

enum {
	SCRATCH_BYTES = 512 * 1024,
	SEND_BUFFER_BYTES = 4 * 1024 * 1024,
	ERRORS_MAX = 1024, /* forgotten at once; the kernel keeps no more than fit its buffer */
};

enum socket_kind { SOCKET_V4, SOCKET_V6, SOCKET_DIRECT, SOCKETS };

struct tunnel {
	int socket[SOCKETS];
	unsigned count;
	unsigned scratch_used;
	struct mmsghdr messages[TUNNEL_PACKETS_MAX];
	struct iovec pieces[TUNNEL_PACKETS_MAX][2];
	union {
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_ll direct;
	} to[TUNNEL_PACKETS_MAX];
	unsigned tags[TUNNEL_PACKETS_MAX];
	uint8_t way[TUNNEL_PACKETS_MAX]; /* enum socket_kind */
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
	/* A failure is fine: a smaller buffer only means that ENOBUFS comes earlier, which is counted. */
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer)))
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
	return fd;
}

struct tunnel *tunnel_new(void)
{
	struct tunnel *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	/* With protocol 0 the socket receives nothing. */
	t->socket[SOCKET_DIRECT] = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	t->socket[SOCKET_V4] = raw_socket(AF_INET, IPPROTO_IPIP, IPPROTO_IP, IP_HDRINCL);
	t->socket[SOCKET_V6] = raw_socket(AF_INET6, IPPROTO_IPV6, IPPROTO_IPV6, IPV6_HDRINCL);
	/* A host without IPv6 still forwards IPv4. */
	if (t->socket[SOCKET_V4] < 0 || (t->socket[SOCKET_V6] < 0 && errno != EAFNOSUPPORT)) {
		tunnel_free(t);
		return NULL;
	}
	return t;
}

void tunnel_free(struct tunnel *t)
{
	int i;

	if (!t)
		return;
	for (i = 0; i < SOCKETS; i++) {
		if (t->socket[i] >= 0)
			close(t->socket[i]);
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

/* Fills the next message, except the length of its address. */
static void set_pieces(struct tunnel *t, const void *head, unsigned head_bytes, const void *body, unsigned body_bytes)
{
	unsigned i = t->count;

	t->pieces[i][0] = (struct iovec) { .iov_base = (void *)(uintptr_t)head, .iov_len = head_bytes };
	t->pieces[i][1] = (struct iovec) { .iov_base = (void *)(uintptr_t)body, .iov_len = body_bytes };
	t->messages[i].msg_hdr =
		(struct msghdr) { .msg_name = &t->to[i], .msg_iov = t->pieces[i], .msg_iovlen = body_bytes ? 2 : 1 };
}

bool tunnel_add(struct tunnel *t, const struct addr *destination, const void *head, unsigned head_bytes,
		const void *body, unsigned body_bytes, unsigned tag)
{
	unsigned i = t->count;
	struct msghdr *message;

	if (i == TUNNEL_PACKETS_MAX)
		return false;
	message = &t->messages[i].msg_hdr;
	set_pieces(t, head, head_bytes, body, body_bytes);
	t->way[i] = addr_is_v4(destination) ? SOCKET_V4 : SOCKET_V6;
	memset(&t->to[i], 0, sizeof(t->to[i]));
	if (t->way[i] == SOCKET_V6) {
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

bool tunnel_add_direct(struct tunnel *t, const struct neighbour *to, bool v6, const void *head, unsigned head_bytes,
		       const void *body, unsigned body_bytes, unsigned tag)
{
	unsigned i = t->count;

	if (i == TUNNEL_PACKETS_MAX || !to->known)
		return false;
	set_pieces(t, head, head_bytes, body, body_bytes);
	t->way[i] = SOCKET_DIRECT;
	memset(&t->to[i], 0, sizeof(t->to[i]));
	t->to[i].direct = (struct sockaddr_ll) { .sll_family = AF_PACKET,
						 .sll_protocol = htons(v6 ? ETH_P_IPV6 : ETH_P_IP),
						 .sll_ifindex = (int)to->interface,
						 .sll_halen = ETH_ALEN };
	memcpy(t->to[i].direct.sll_addr, to->hardware, ETH_ALEN);
	t->messages[i].msg_hdr.msg_namelen = sizeof(t->to[i].direct);
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

		while (to < t->count && t->way[to] == t->way[from])
			to++;
		sent = sendmmsg(t->socket[t->way[from]], &t->messages[from], to - from, MSG_DONTWAIT);
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

int tunnel_learn_mtu(void)
{
	struct sock_filter reject = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = { .len = 1, .filter = &reject };
	int one = 1, fd = socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_IPV6);

	if (fd < 0)
		return -1;
	if (!setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) &&
	    !setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &one, sizeof(one)))
		return fd;
	close(fd);
	return -1;
}

void tunnel_forget_errors(int learner)
{
	uint8_t byte;
	int i;

	for (i = 0; i < ERRORS_MAX && recv(learner, &byte, sizeof(byte), MSG_ERRQUEUE | MSG_DONTWAIT) >= 0; i++)
		;
}

/* A socket that sends to the discard port of this address; -1: no route. */
static int discard_socket(const struct addr *destination)
{
	bool v4 = addr_is_v4(destination);
	struct sockaddr_in to4 = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct sockaddr_in6 to6 = { .sin6_family = AF_INET6, .sin6_port = htons(9) };
	int fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (v4)
		to4.sin_addr.s_addr = addr_v4(destination);
	else
		memcpy(&to6.sin6_addr, destination->bytes, 16);
	if (fd < 0 ||
	    !connect(fd, v4 ? (struct sockaddr *)&to4 : (struct sockaddr *)&to6, v4 ? sizeof(to4) : sizeof(to6)))
		return fd;
	close(fd);
	return -1;
}

bool tunnel_preferred_source(const struct addr *destination, struct addr *ret)
{
	struct sockaddr_in6 from = { 0 };
	socklen_t length = sizeof(from);
	int fd = discard_socket(destination);
	bool found = fd >= 0 && !getsockname(fd, (struct sockaddr *)&from, &length);

	if (found)
		*ret = addr_is_v4(destination) ? addr_from_v4(((struct sockaddr_in *)(void *)&from)->sin_addr.s_addr)
					       : addr_from_v6(&from.sin6_addr);
	if (fd >= 0)
		close(fd);
	return found;
}

void tunnel_discard(const struct addr *destination)
{
	int fd = discard_socket(destination);

	if (fd < 0)
		return;
	send(fd, NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL);
	close(fd);
}
