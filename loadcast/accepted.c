// SPDX-License-Identifier: GPL-2.0-or-later
#include "loadcast/accepted.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { ANSWER_BYTES = 1024 };

union socket_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct ends {
	union socket_address own, server;
};

static bool ends_of(int socket, struct ends *ret)
{
	socklen_t own = sizeof(ret->own), server = sizeof(ret->server);

	return getsockname(socket, &ret->own.any, &own) == 0 && getpeername(socket, &ret->server.any, &server) == 0;
}

/* Fills the addresses in the order in which the server's socket has them. */
static void fill_id(const struct ends *ends, struct inet_diag_req_v2 *body)
{
	struct inet_diag_sockid *id = &body->id;

	body->sdiag_family = (uint8_t)ends->own.any.sa_family;
	body->sdiag_protocol = IPPROTO_TCP;
	body->idiag_states = ~0U;
	id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	if (ends->own.any.sa_family == AF_INET) {
		id->idiag_sport = ends->server.v4.sin_port;
		id->idiag_dport = ends->own.v4.sin_port;
		id->idiag_src[0] = ends->server.v4.sin_addr.s_addr;
		id->idiag_dst[0] = ends->own.v4.sin_addr.s_addr;
	} else {
		id->idiag_sport = ends->server.v6.sin6_port;
		id->idiag_dport = ends->own.v6.sin6_port;
		memcpy(id->idiag_src, &ends->server.v6.sin6_addr, 16);
		memcpy(id->idiag_dst, &ends->own.v6.sin6_addr, 16);
	}
}

static enum accepted judge(const struct nlmsghdr *message, ssize_t size)
{
	const struct inet_diag_msg *found = mnl_nlmsg_get_payload(message);

	if (size < 0 || !mnl_nlmsg_ok(message, (int)size) || message->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    mnl_nlmsg_get_payload_len(message) < sizeof(*found))
		return ACCEPTED_UNKNOWN;
	/* A listener answers for a connection that does not exist; one with data deferred is the server's wish. */
	if (found->idiag_state != TCP_ESTABLISHED)
		return ACCEPTED_UNKNOWN;
	return found->idiag_inode ? ACCEPTED_YES : ACCEPTED_NOT_YET;
}

enum accepted accepted_look(int socket_)
{
	_Alignas(struct nlmsghdr) char answer[ANSWER_BYTES];
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 body;
	} request = { .header = { .nlmsg_len = sizeof(request),
				  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
				  .nlmsg_flags = NLM_F_REQUEST } };
	struct timeval patience = { .tv_sec = 1 };
	enum accepted accepted = ACCEPTED_UNKNOWN;
	struct ends ends;
	int diag;

	if (!ends_of(socket_, &ends))
		return ACCEPTED_UNKNOWN;
	fill_id(&ends, &request.body);
	diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (diag < 0)
		return ACCEPTED_UNKNOWN;
	if (setsockopt(diag, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
	    send(diag, &request, sizeof(request), 0) == (ssize_t)sizeof(request))
		accepted = judge((const struct nlmsghdr *)answer, recv(diag, answer, sizeof(answer), 0));
	close(diag);
	return accepted;
}

bool accepted_is_local(int socket_, const struct addr *server)
{
	union socket_address own;
	socklen_t size = sizeof(own);
	struct addr address;

	if (getsockname(socket_, &own.any, &size) < 0)
		return false;
	address = own.any.sa_family == AF_INET ? addr_from_v4(own.v4.sin_addr.s_addr) : addr_from_v6(&own.v6.sin6_addr);
	/* To an address of its own, a host sends from that address. */
	return addr_equal(&address, server);
}
