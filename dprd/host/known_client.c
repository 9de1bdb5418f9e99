// SPDX-License-Identifier: GPL-2.0-or-later
/* known_client.c - finds a client that has a connection with this host, by sock_diag. */
#include "dprd/host/known_client.h"

#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

enum {
	BUFFER_BYTES = 32768,
	PARTS_MAX = 4, /* of the list that are read */
	/* The client has answered in these. */
	STATES = 1 << TCP_ESTABLISHED | 1 << TCP_FIN_WAIT1 | 1 << TCP_FIN_WAIT2 | 1 << TCP_TIME_WAIT |
		 1 << TCP_CLOSE_WAIT | 1 << TCP_LAST_ACK | 1 << TCP_CLOSING,
};

struct search {
	bool v6, mapped; /* IPv4 within IPv6 sockets */
	uint16_t port;
	known_client_fn *fits;
	void *context;
	struct addr *ret;
	bool found;
};

static int on_socket(const struct nlmsghdr *message, void *context)
{
	const struct inet_diag_msg *socket = mnl_nlmsg_get_payload(message);
	struct search *s = context;
	struct addr client;

	if (message->nlmsg_type != SOCK_DIAG_BY_FAMILY || mnl_nlmsg_get_payload_len(message) < sizeof(*socket) ||
	    socket->id.idiag_sport != htons(s->port))
		return MNL_CB_OK;
	client = s->mapped || s->v6 ? addr_from_v6(socket->id.idiag_dst) : addr_from_v4(socket->id.idiag_dst[0]);
	if (addr_is_v4(&client) == s->v6 || !s->fits(s->context, &client))
		return MNL_CB_OK;
	*s->ret = client;
	s->found = true;
	return MNL_CB_STOP;
}

static void search_family(struct search *s)
{
	/* The rest of the list goes with its socket. */
	struct mnl_socket *socket = mnl_socket_open2(NETLINK_SOCK_DIAG, SOCK_CLOEXEC);
	static char buffer[BUFFER_BYTES]; /* main thread only */
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct inet_diag_req_v2 *request = mnl_nlmsg_put_extra_header(message, sizeof(*request));
	int result = MNL_CB_OK;
	unsigned part;

	if (!socket)
		return;
	message->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	request->sdiag_family = s->v6 || s->mapped ? AF_INET6 : AF_INET;
	request->sdiag_protocol = IPPROTO_TCP;
	request->idiag_states = STATES;
	request->id.idiag_sport = htons(s->port);
	if (mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    mnl_socket_sendto(socket, message, message->nlmsg_len) < 0)
		result = MNL_CB_ERROR;
	for (part = 0; result > MNL_CB_STOP && part < PARTS_MAX; part++) {
		ssize_t bytes = mnl_socket_recvfrom(socket, buffer, sizeof(buffer));

		result = bytes < 0 ? MNL_CB_ERROR : mnl_cb_run(buffer, (size_t)bytes, 0, 0, on_socket, s);
	}
	mnl_socket_close(socket);
}

bool known_client_find(uint16_t port, bool v6, known_client_fn *fits, void *context, struct addr *ret)
{
	struct search s = { .v6 = v6, .port = port, .fits = fits, .context = context, .ret = ret };

	search_family(&s);
	s.mapped = true;
	if (!s.found && !v6)
		search_family(&s);
	return s.found;
}
