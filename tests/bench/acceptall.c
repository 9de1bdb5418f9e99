// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * acceptall - the empty NFQUEUE program: receives one packet, accepts it, receives the next one.
 *
 * dprd is compared with it. It uses plain libnetfilter_queue over libmnl as in its manual, with the same queue length,
 * fail-open and socket buffer as dprd, so that only the programs differ. It prints "ready" when its queue is bound, and
 * the number of accepted packets when it is told to end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnetfilter_queue/libnetfilter_queue.h>
#include <netinet/in.h> /* before the kernel's own header of the same names */
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 16384, COPY_BYTES = 128, RECEIVE_BUFFER_BYTES = 16 * 1024 * 1024 };

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

static void die(const char *what)
{
	fprintf(stderr, "acceptall: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void send_message(struct mnl_socket *socket, const struct nlmsghdr *message)
{
	if (mnl_socket_sendto(socket, message, message->nlmsg_len) < 0)
		die("send");
}

static void bind_queue(struct mnl_socket *socket, unsigned number, unsigned length)
{
	char buffer[BUFFER_BYTES];
	int size = RECEIVE_BUFFER_BYTES;
	struct nlmsghdr *message;
	ssize_t bytes;

	setsockopt(mnl_socket_get_fd(socket), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	message = nfq_nlmsg_put(buffer, NFQNL_MSG_CONFIG, number);
	nfq_nlmsg_cfg_put_cmd(message, AF_UNSPEC, NFQNL_CFG_CMD_BIND);
	send_message(socket, message);
	message = nfq_nlmsg_put(buffer, NFQNL_MSG_CONFIG, number);
	nfq_nlmsg_cfg_put_params(message, NFQNL_COPY_PACKET, COPY_BYTES);
	mnl_attr_put_u32(message, NFQA_CFG_QUEUE_MAXLEN, htonl(length));
	mnl_attr_put_u32(message, NFQA_CFG_FLAGS, htonl(NFQA_CFG_F_FAIL_OPEN));
	mnl_attr_put_u32(message, NFQA_CFG_MASK, htonl(NFQA_CFG_F_FAIL_OPEN));
	message->nlmsg_flags |= NLM_F_ACK;
	send_message(socket, message);
	/* An error of the first message comes in front of the acknowledgement of the second. */
	bytes = mnl_socket_recvfrom(socket, buffer, sizeof(buffer));
	if (bytes < 0)
		die("configure");
	message = (struct nlmsghdr *)buffer;
	if (message->nlmsg_type == NLMSG_ERROR) {
		errno = -((struct nlmsgerr *)mnl_nlmsg_get_payload(message))->error;
		if (errno)
			die("queue");
	}
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	unsigned number = argc == 3 ? (unsigned)atoi(argv[1]) : 0, length = argc == 3 ? (unsigned)atoi(argv[2]) : 0;
	char buffer[BUFFER_BYTES], answer[256];
	unsigned long long accepted = 0;
	struct mnl_socket *socket;

	if (!length || number > 65535) {
		fputs("usage: acceptall QUEUE LENGTH\n", stderr);
		return 2;
	}
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	socket = mnl_socket_open(NETLINK_NETFILTER);
	if (!socket || mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) < 0)
		die("netlink");
	bind_queue(socket, number, length);
	puts("ready");
	fflush(stdout);
	while (!stopped) {
		struct nlattr *attributes[NFQA_MAX + 1] = { 0 };
		ssize_t bytes = mnl_socket_recvfrom(socket, buffer, sizeof(buffer));
		const struct nfqnl_msg_packet_hdr *header;
		struct nlmsghdr *message;

		if (bytes < 0 && errno != EINTR && errno != ENOBUFS)
			die("receive");
		if (bytes < 0 || nfq_nlmsg_parse((struct nlmsghdr *)buffer, attributes) < 0 ||
		    !attributes[NFQA_PACKET_HDR])
			continue;
		header = mnl_attr_get_payload(attributes[NFQA_PACKET_HDR]);
		message = nfq_nlmsg_put(answer, NFQNL_MSG_VERDICT, number);
		nfq_nlmsg_verdict_put(message, (int)ntohl(header->packet_id), NF_ACCEPT);
		send_message(socket, message);
		accepted++;
	}
	printf("accepted %llu\n", accepted);
	mnl_socket_close(socket);
	return 0;
}
