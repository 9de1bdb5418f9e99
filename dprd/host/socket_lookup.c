// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A SYN that dprd never saw (daemon away, queue full) or whose SYN-ACK was lost may already have a
 * socket here. The kernel's own table is the truth; it is asked before a flow is forwarded.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <stdlib.h>

#include "dprd/base/netlink.h"
#include "dprd/host/socket_lookup.h"

struct request {
	struct nlmsghdr header;
	struct inet_diag_req_v2 body;
};

/* Only the first socket counts; a socket's description has about 150 bytes. */
enum { ANSWER_BYTES = 512 };

struct socket_lookup {
	struct mnl_socket *socket;
	uint32_t sequence;
	struct request requests[SOCKET_LOOKUP_MAX];
	struct mmsghdr messages[SOCKET_LOOKUP_MAX];
	struct iovec pieces[SOCKET_LOOKUP_MAX];
	uint8_t answers[SOCKET_LOOKUP_MAX][ANSWER_BYTES] __attribute__((aligned(8)));
};

struct socket_lookup *socket_lookup_new(void)
{
	struct socket_lookup *lookup = calloc(1, sizeof(*lookup));
	struct timeval patience = { .tv_sec = 1 }; /* an answer that was lost must not stop the worker */
	unsigned i;

	if (!lookup)
		return NULL;
	for (i = 0; i < SOCKET_LOOKUP_MAX; i++) {
		lookup->pieces[i] = (struct iovec) { .iov_base = lookup->answers[i], .iov_len = ANSWER_BYTES };
		lookup->messages[i].msg_hdr = (struct msghdr) { .msg_iov = &lookup->pieces[i], .msg_iovlen = 1 };
	}
	lookup->socket = mnl_socket_open2(NETLINK_SOCK_DIAG, SOCK_CLOEXEC);
	if (!lookup->socket || mnl_socket_bind(lookup->socket, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    setsockopt(mnl_socket_get_fd(lookup->socket), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0) {
		socket_lookup_free(lookup);
		return NULL;
	}
	return lookup;
}

void socket_lookup_free(struct socket_lookup *lookup)
{
	if (!lookup)
		return;
	if (lookup->socket)
		mnl_socket_close(lookup->socket);
	free(lookup);
}

static void request_fill(struct request *request, const struct flow_key *key, uint32_t sequence)
{
	bool v4 = addr_is_v4(&key->service);
	unsigned skip = v4 ? 12 : 0;
	struct inet_diag_sockid *id = &request->body.id;

	memset(request, 0, sizeof(*request));
	request->header.nlmsg_len = sizeof(*request);
	request->header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
	request->header.nlmsg_flags = NLM_F_REQUEST;
	request->header.nlmsg_seq = sequence;
	request->body.sdiag_family = v4 ? AF_INET : AF_INET6;
	request->body.sdiag_protocol = IPPROTO_TCP;
	request->body.idiag_states = ~0U;
	id->idiag_sport = key->service_port;
	id->idiag_dport = key->client_port;
	memcpy(id->idiag_src, key->service.bytes + skip, 16 - skip);
	memcpy(id->idiag_dst, key->client.bytes + skip, 16 - skip);
	id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
}

/* A listener would take any tuple, and TIME-WAIT gives way to a new SYN. */
static enum socket_found found_in(const struct nlmsghdr *message, unsigned bytes)
{
	const struct inet_diag_msg *socket = mnl_nlmsg_get_payload(message);
	const struct nlmsgerr *error = mnl_nlmsg_get_payload(message);

	if (message->nlmsg_type == NLMSG_ERROR && bytes >= MNL_NLMSG_HDRLEN + sizeof(*error))
		return error->error == -ENOENT ? SOCKET_NONE : SOCKET_OTHER;
	if (message->nlmsg_type != SOCK_DIAG_BY_FAMILY || bytes < MNL_NLMSG_HDRLEN + sizeof(*socket))
		return SOCKET_OTHER;
	return socket->idiag_state != TCP_LISTEN && socket->idiag_state != TCP_TIME_WAIT ? SOCKET_OWNS : SOCKET_OTHER;
}

/* Answers that are there, each a message of its own, to questions from this sequence number on; waits for the first.
 * How many, or -errno. */
static int take_answers(struct socket_lookup *lookup, uint32_t first, unsigned count, unsigned expected,
			enum socket_found *found)
{
	int received = recvmmsg(mnl_socket_get_fd(lookup->socket), lookup->messages, expected, MSG_WAITFORONE, NULL);
	int i, taken = 0;

	if (received < 0)
		return errno == EINTR ? 0 : -errno;
	for (i = 0; i < received; i++) {
		const struct nlmsghdr *message = (const void *)lookup->answers[i];
		unsigned bytes = lookup->messages[i].msg_len;

		/* Otherwise it is an answer to a former question that was given up. */
		if (bytes < MNL_NLMSG_HDRLEN || message->nlmsg_seq - first >= count)
			continue;
		found[message->nlmsg_seq - first] = found_in(message, bytes);
		taken++;
	}
	return taken;
}

int socket_lookup_find(struct socket_lookup *lookup, const struct flow_key *keys, unsigned count,
		       enum socket_found *found)
{
	uint32_t first = lookup->sequence;
	unsigned i, answered = 0;

	if (count > SOCKET_LOOKUP_MAX)
		return -EINVAL;
	for (i = 0; i < count; i++) {
		found[i] = SOCKET_OTHER;
		request_fill(&lookup->requests[i], &keys[i], first + i);
	}
	lookup->sequence += count;
	if (mnl_socket_sendto(lookup->socket, lookup->requests, count * sizeof(lookup->requests[0])) < 0)
		return -errno;
	while (answered < count) {
		int taken = take_answers(lookup, first, count, count - answered, found);

		if (taken < 0) {
			memset(found, 0, count * sizeof(found[0]));
			netlink_drain(lookup->socket);
			return taken;
		}
		answered += (unsigned)taken;
	}
	return 0;
}
