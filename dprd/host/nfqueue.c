// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/host/nfqueue.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnetfilter_queue/libnetfilter_queue.h>
#include <netinet/in.h> /* before the kernel's own header of the same names */
#include <linux/netfilter.h>
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

/* Sends one configuration message and waits for the kernel's answer. */
static int configure(struct nfqueue *queue, struct nlmsghdr *message)
{
	char answer[CONFIGURE_BYTES];
	ssize_t bytes;

	message->nlmsg_flags |= NLM_F_ACK;
	if (mnl_socket_sendto(queue->socket, message, message->nlmsg_len) < 0)
		return -errno;
	/* A packet may come before the acknowledgement. It is lost here, and its client sends it again. */
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
	/*
	 * Setting an option of a queue that this socket has not bound fails, and the error tells whether another socket
	 * has it.
	 */
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
	uint32_t flags = queue->fail_open ? NFQA_CFG_F_FAIL_OPEN : 0;
	int size = RECEIVE_BUFFER_BYTES, send_size = SEND_BUFFER_BYTES, fd, error, tries;

	queue->socket = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	if (!queue->socket || mnl_socket_bind(queue->socket, 0, MNL_SOCKET_AUTOPID) < 0)
		return -errno;
	fd = mnl_socket_get_fd(queue->socket);
	/* Without the right to force the size, the kernel's limit applies, and overruns come earlier. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &send_size, sizeof(send_size)))
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_size, sizeof(send_size));

	message = nfq_nlmsg_put(buffer, NFQNL_MSG_CONFIG, queue->number);
	nfq_nlmsg_cfg_put_cmd(message, AF_UNSPEC, NFQNL_CFG_CMD_BIND);
	error = configure(queue, message);
	/* The standby process of a former dprd lives a moment longer than that dprd, and holds the queue. */
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

void nfqueue_close(struct nfqueue *queue)
{
	if (queue->socket)
		mnl_socket_close(queue->socket);
	queue->socket = NULL;
}

int nfqueue_fd(const struct nfqueue *queue)
{
	return mnl_socket_get_fd(queue->socket);
}

/* Only these attributes: nfq_nlmsg_parse() would check twenty more. False: the message has no packet. */
static bool take_attributes(const struct nlmsghdr *message, struct nfqueue_packet *ret)
{
	const struct nlattr *attribute;
	bool has_id = false;

	*ret = (struct nfqueue_packet) { 0 };
	mnl_attr_for_each(attribute, message, sizeof(struct nfgenmsg))
	{
		void *payload = mnl_attr_get_payload(attribute);
		uint16_t type = mnl_attr_get_type(attribute), bytes = mnl_attr_get_payload_len(attribute);

		if (type == NFQA_PACKET_HDR && bytes >= sizeof(struct nfqnl_msg_packet_hdr)) {
			ret->id = ntohl(((const struct nfqnl_msg_packet_hdr *)payload)->packet_id);
			has_id = true;
		} else if (type == NFQA_MARK && bytes >= sizeof(ret->mark)) {
			ret->mark = ntohl(mnl_attr_get_u32(attribute));
		} else if (type == NFQA_PAYLOAD) {
			ret->bytes = payload;
			ret->captured = bytes;
		}
	}
	return has_id;
}

enum nfqueue_message nfqueue_read(void *message, size_t bytes, struct nfqueue_packet *ret)
{
	const struct nlmsghdr *header = message;

	if (!mnl_nlmsg_ok(header, (int)bytes))
		return NFQUEUE_OTHER;
	if (header->nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)mnl_nlmsg_get_payload(header))->error ? NFQUEUE_ERROR : NFQUEUE_OTHER;
	if (header->nlmsg_type != (NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET))
		return NFQUEUE_OTHER;
	return take_attributes(header, ret) ? NFQUEUE_PACKET : NFQUEUE_OTHER;
}

size_t nfqueue_write(void *buffer, uint16_t queue, const struct nfqueue_verdict *verdict)
{
	struct nlmsghdr *message =
		nfq_nlmsg_put(buffer, verdict->up_to ? NFQNL_MSG_VERDICT_BATCH : NFQNL_MSG_VERDICT, queue);

	nfq_nlmsg_verdict_put(message, (int)verdict->id, verdict->accept ? NF_ACCEPT : NF_DROP);
	if (verdict->replace)
		nfq_nlmsg_verdict_put_pkt(message, verdict->replace, verdict->replace_bytes);
	if (verdict->set_mark)
		nfq_nlmsg_verdict_put_mark(message, verdict->mark);
	return NLMSG_ALIGN(message->nlmsg_len);
}

bool nfqueue_send(int fd, const void *messages, size_t bytes)
{
	return send(fd, messages, bytes, 0) >= 0;
}
