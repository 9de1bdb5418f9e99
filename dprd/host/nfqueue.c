// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/host/nfqueue.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnetfilter_queue/libnetfilter_queue.h>
#include <netinet/in.h> /* before the kernel's own header of the same names */
#include <linux/netfilter/nfnetlink_queue.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	RECEIVE_BUFFER_BYTES = 16 * 1024 * 1024,
	SEND_BUFFER_BYTES = 512 * 1024, /* twice what a worker sends at a time */
	CONFIGURE_BYTES = 8192,
	BIND_TRY_MS = 10,
	BIND_TRIES = 100,
};

/* Sends one configuration message and waits for the kernel's word on it. */
static int configure(struct nfqueue *queue, struct nlmsghdr *message)
{
	char answer[CONFIGURE_BYTES];
	ssize_t bytes;

	message->nlmsg_flags |= NLM_F_ACK;
	if (mnl_socket_sendto(queue->socket, message, message->nlmsg_len) < 0)
		return -errno;
	/* A packet may already be in front of the acknowledgement; it will be sent again by its client. */
	do {
		bytes = mnl_socket_recvfrom(queue->socket, answer, sizeof(answer));
		if (bytes < 0 && errno != EINTR)
			return -errno;
	} while (bytes < (ssize_t)sizeof(struct nlmsghdr) || ((struct nlmsghdr *)answer)->nlmsg_type != NLMSG_ERROR);
	return ((struct nlmsgerr *)mnl_nlmsg_get_payload((struct nlmsghdr *)answer))->error;
}

int nfqueue_check(uint16_t number)
{
	char buffer[CONFIGURE_BYTES] = { 0 };
	struct nfqueue queue = { .socket = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC) };
	struct nlmsghdr *message;
	int error, tries;

	if (!queue.socket)
		return -errno;
	/* Who sets something of a queue without having taken it is told whether it is another's, or nobody's. */
	message = nfq_nlmsg_put(buffer, NFQNL_MSG_CONFIG, number);
	mnl_attr_put_u32(message, NFQA_CFG_QUEUE_MAXLEN, htonl(1));
	error = mnl_socket_bind(queue.socket, 0, MNL_SOCKET_AUTOPID) < 0 ? -errno : configure(&queue, message);
	for (tries = 0; error == -EPERM && tries < BIND_TRIES; tries++) {
		usleep(BIND_TRY_MS * 1000);
		error = configure(&queue, message);
	}
	mnl_socket_close(queue.socket);
	return error == -ENODEV ? 0 : error;
}

int nfqueue_bind(struct nfqueue *queue, unsigned length, unsigned copy_bytes)
{
	char buffer[CONFIGURE_BYTES] = { 0 }; /* attributes are padded, and all of it goes to the kernel */
	struct nlmsghdr *message;
	uint32_t flags = queue->forward ? 0 : NFQA_CFG_F_FAIL_OPEN;
	int size = RECEIVE_BUFFER_BYTES, send_size = SEND_BUFFER_BYTES, fd, error, tries;

	queue->socket = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	if (!queue->socket || mnl_socket_bind(queue->socket, 0, MNL_SOCKET_AUTOPID) < 0)
		return -errno;
	fd = mnl_socket_get_fd(queue->socket);
	/* Without the right to force it the kernel's own limit applies: overruns then come earlier. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &send_size, sizeof(send_size)))
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_size, sizeof(send_size));

	message = nfq_nlmsg_put(buffer, NFQNL_MSG_CONFIG, queue->number);
	nfq_nlmsg_cfg_put_cmd(message, AF_UNSPEC, NFQNL_CFG_CMD_BIND);
	error = configure(queue, message);
	/* The standby process of a former dprd may live a moment longer than that. */
	for (tries = 0; (error == -EPERM || error == -EBUSY) && tries < BIND_TRIES; tries++) {
		usleep(BIND_TRY_MS * 1000);
		error = configure(queue, message);
	}
	if (error)
		return error;
	message = nfq_nlmsg_put(buffer, NFQNL_MSG_CONFIG, queue->number);
	nfq_nlmsg_cfg_put_params(message, NFQNL_COPY_PACKET, copy_bytes);
	mnl_attr_put_u32(message, NFQA_CFG_QUEUE_MAXLEN, htonl(length));
	mnl_attr_put_u32(message, NFQA_CFG_FLAGS, htonl(flags));
	mnl_attr_put_u32(message, NFQA_CFG_MASK, htonl(NFQA_CFG_F_FAIL_OPEN));
	return configure(queue, message);
}
