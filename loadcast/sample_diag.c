// SPDX-License-Identifier: GPL-2.0-or-later
#include "loadcast/sample_diag.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "dprd/base/netlink.h"

enum {
	DIAG_BYTES = 32768,
	DIAG_READS_MAX = 4096, /* of one dump; about two hundred sockets come with each */
	DIAG_TIMER_TIME_WAIT = 3, /* inet_diag_msg.idiag_timer */
	FILTER_OPS_PER_PORT = 3,
	/*
	 * The kernel counts sockets in these states, and listeners, in /proc/net/sockstat. TIME-WAIT and half-open
	 * connections have no socket.
	 */
	STATES_CONNECTED = 1 << TCP_ESTABLISHED | 1 << TCP_SYN_SENT | 1 << TCP_SYN_RECV | 1 << TCP_FIN_WAIT1 |
			   1 << TCP_FIN_WAIT2 | 1 << TCP_CLOSE_WAIT | 1 << TCP_LAST_ACK | 1 << TCP_CLOSING,
};

struct diag {
	struct mnl_socket *socket;
	uint32_t sequence;
	unsigned port_count;
	uint16_t port[PORTS_MAX];
};

/*
 * The form of request that has no family: one walk through the kernel's table of sockets finds both. A socket of a
 * dual-stack listener is of IPv6, whatever the client.
 */
struct dump_request {
	struct nlmsghdr header;
	struct inet_diag_req body;
	struct nlattr filter_header;
	struct inet_diag_bc_op filter[FILTER_OPS_PER_PORT * PORTS_MAX + 1];
};

_Static_assert(offsetof(struct dump_request, filter_header) == sizeof(struct nlmsghdr) + sizeof(struct inet_diag_req),
	       "the attribute follows the body");

struct sum {
	const struct diag *diag;
	uint32_t sockets, accept_queue;
};

struct diag *diag_new(const struct config *config)
{
	struct diag *diag = calloc(1, sizeof(*diag));
	struct timeval patience = { .tv_sec = 1 };
	int error;

	if (!diag)
		return NULL;
	diag->port_count = config->port_count;
	memcpy(diag->port, config->port, sizeof(diag->port));
	diag->socket = mnl_socket_open2(NETLINK_SOCK_DIAG, SOCK_CLOEXEC);
	if (!diag->socket || mnl_socket_bind(diag->socket, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    setsockopt(mnl_socket_get_fd(diag->socket), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0) {
		error = errno;
		diag_free(diag);
		errno = error;
		return NULL;
	}
	return diag;
}

void diag_free(struct diag *diag)
{
	if (!diag)
		return;
	if (diag->socket)
		mnl_socket_close(diag->socket);
	free(diag);
}

/*
 * A program for the kernel: each operation says how many bytes further the next one is. When the program ends exactly
 * at its end, it takes the socket; beyond the end it does not. A comparison needs two places, the second one for the
 * port. Returns the bytes.
 */
static unsigned write_filter(const struct diag *diag, bool served, struct inet_diag_bc_op *op)
{
	const unsigned one = sizeof(*op), end = one * (FILTER_OPS_PER_PORT * diag->port_count + (served ? 1 : 0));
	unsigned i, left = end;

	for (i = 0; i < diag->port_count; i++, op += FILTER_OPS_PER_PORT, left -= FILTER_OPS_PER_PORT * one) {
		unsigned rest = left - 2 * one;

		op[0] = (struct inet_diag_bc_op) { INET_DIAG_BC_S_EQ, (uint8_t)(2 * one), (uint16_t)(3 * one) };
		op[1] = (struct inet_diag_bc_op) { .no = diag->port[i] };
		op[2] = (struct inet_diag_bc_op) { INET_DIAG_BC_JMP, (uint8_t)one,
						   (uint16_t)(served ? rest : rest + one) };
	}
	if (served)
		*op = (struct inet_diag_bc_op) { INET_DIAG_BC_JMP, (uint8_t)one, (uint16_t)(2 * one) };
	return end;
}

static int send_dump(struct diag *diag, uint32_t states, const bool *served)
{
	struct dump_request request = {
		.header = { .nlmsg_len = offsetof(struct dump_request, filter_header),
			    .nlmsg_type = TCPDIAG_GETSOCK,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
			    .nlmsg_seq = ++diag->sequence },
		.body = { .idiag_states = states },
	};
	unsigned bytes = served ? write_filter(diag, *served, request.filter) : 0;

	if (bytes) {
		request.filter_header = (struct nlattr) { .nla_len = (uint16_t)(sizeof(struct nlattr) + bytes),
							  .nla_type = INET_DIAG_REQ_BYTECODE };
		request.header.nlmsg_len += request.filter_header.nla_len;
	}
	return mnl_socket_sendto(diag->socket, &request, request.header.nlmsg_len) < 0 ? -errno : 0;
}

static int add_socket(const struct nlmsghdr *message, void *data)
{
	const struct inet_diag_msg *socket = mnl_nlmsg_get_payload(message);
	struct sum *sum = data;
	unsigned i;

	if (mnl_nlmsg_get_payload_len(message) < sizeof(*socket))
		return MNL_CB_OK;
	/* The rest of a connection that waits in FIN-WAIT-2 or TIME-WAIT after its socket was closed. */
	if (socket->idiag_timer == DIAG_TIMER_TIME_WAIT)
		return MNL_CB_OK;
	sum->sockets++;
	for (i = 0; socket->idiag_state == TCP_LISTEN && i < sum->diag->port_count; i++) {
		if (ntohs(socket->id.idiag_sport) == sum->diag->port[i])
			sum->accept_queue += socket->idiag_rqueue;
	}
	return MNL_CB_OK;
}

static int read_answer(struct diag *diag, struct sum *sum)
{
	_Alignas(struct nlmsghdr) char buffer[DIAG_BYTES];
	const struct nlmsghdr *message = (const struct nlmsghdr *)buffer;
	unsigned portid = mnl_socket_get_portid(diag->socket);

	for (unsigned reads = 0; reads < DIAG_READS_MAX; reads++) {
		ssize_t size = mnl_socket_recvfrom(diag->socket, buffer, sizeof(buffer));
		int more;

		if (size < 0)
			return -errno;
		/* An answer to a former dump that was given up is skipped. */
		if (mnl_nlmsg_ok(message, (int)size) && message->nlmsg_seq != diag->sequence)
			continue;
		more = mnl_cb_run(buffer, (size_t)size, diag->sequence, portid, add_socket, sum);
		if (more < 0)
			return -errno;
		if (more == MNL_CB_STOP)
			return 0;
	}
	return -EMSGSIZE;
}

/* served NULL: no filter. */
static int count(struct diag *diag, uint32_t states, const bool *served, struct sum *ret)
{
	int error = send_dump(diag, states, served);

	*ret = (struct sum) { .diag = diag };
	if (!error)
		error = read_answer(diag, ret);
	if (error)
		netlink_drain(diag->socket);
	/* A kernel without sock_diag for TCP has no sockets of it. */
	return error == -ENOENT ? 0 : error;
}

int diag_count_listeners(struct diag *diag, struct diag_listeners *ret)
{
	struct sum sum;
	int error = count(diag, 1u << TCP_LISTEN, NULL, &sum);

	if (!error)
		*ret = (struct diag_listeners) { .count = sum.sockets, .accept_queue = sum.accept_queue };
	return error;
}

int diag_count_connections(struct diag *diag, bool served, uint32_t *ret)
{
	struct sum sum;
	int error = count(diag, STATES_CONNECTED, &served, &sum);

	if (!error)
		*ret = sum.sockets;
	return error;
}
