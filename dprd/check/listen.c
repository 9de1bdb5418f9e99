// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Checks that the web server listens on the wildcard address of each family: forwarded connections are for
 * addresses that no interface of this host has.
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <sys/time.h>

#include "dprd/check/report.h"
#include "dprd/config/config.h"

enum { DIAG_BYTES = 16384, PATIENCE_S = 1 };

struct search {
	const uint16_t *ports;
	unsigned count;
	struct wildcard *found;
};

/* A server on [::] takes IPv4 connections as well, unless it set IPV6_V6ONLY. */
static bool is_v6_only(const struct nlmsghdr *message)
{
	const struct nlattr *attribute;

	mnl_attr_for_each(attribute, message, sizeof(struct inet_diag_msg))
	{
		if (mnl_attr_get_type(attribute) == INET_DIAG_SKV6ONLY && mnl_attr_get_payload_len(attribute) >= 1)
			return mnl_attr_get_u8(attribute);
	}
	return false;
}

static int add_listener(const struct nlmsghdr *message, void *context)
{
	const struct inet_diag_msg *socket = mnl_nlmsg_get_payload(message);
	struct search *search = context;
	struct addr address;
	bool v4, v6;
	unsigned i;

	if (mnl_nlmsg_get_payload_len(message) < sizeof(*socket))
		return MNL_CB_OK;
	address = socket->idiag_family == AF_INET ? addr_from_v4(socket->id.idiag_src[0])
						  : addr_from_v6(socket->id.idiag_src);
	v6 = addr_is_zero(&address);
	v4 = v6 ? !is_v6_only(message) : addr_is_v4(&address) && addr_v4(&address) == INADDR_ANY;
	/* A socket of one device (SO_BINDTODEVICE) does not get what comes by a tunnel from another one. */
	if (socket->id.idiag_if)
		return MNL_CB_OK;
	for (i = 0; i < search->count; i++) {
		if (ntohs(socket->id.idiag_sport) != search->ports[i])
			continue;
		search->found[i].v4 |= v4;
		search->found[i].v6 |= v6;
	}
	return MNL_CB_OK;
}

static int dump_listeners(struct mnl_socket *diag, uint8_t family, struct search *search)
{
	_Alignas(struct nlmsghdr) char buffer[DIAG_BYTES];
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct inet_diag_req_v2 *request;
	ssize_t bytes;
	int more;

	message->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	message->nlmsg_seq = family;
	request = mnl_nlmsg_put_extra_header(message, sizeof(*request));
	request->sdiag_family = family;
	request->sdiag_protocol = IPPROTO_TCP;
	request->idiag_states = 1u << TCP_LISTEN;
	if (mnl_socket_sendto(diag, message, message->nlmsg_len) < 0)
		return -errno;
	do {
		bytes = mnl_socket_recvfrom(diag, buffer, sizeof(buffer));
		if (bytes < 0)
			return -errno;
		more = mnl_cb_run(buffer, (size_t)bytes, family, mnl_socket_get_portid(diag), add_listener, search);
		if (more < 0)
			return -errno;
	} while (more > MNL_CB_STOP);
	return 0;
}

int preflight_wildcards(const uint16_t *ports, unsigned count, struct wildcard *ret)
{
	struct search search = { .ports = ports, .count = count, .found = ret };
	struct timeval patience = { .tv_sec = PATIENCE_S };
	struct mnl_socket *diag = mnl_socket_open2(NETLINK_SOCK_DIAG, SOCK_CLOEXEC);
	int error;

	memset(ret, 0, count * sizeof(*ret));
	if (!diag)
		return -errno;
	if (mnl_socket_bind(diag, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    setsockopt(mnl_socket_get_fd(diag), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		error = -errno;
	else
		error = dump_listeners(diag, AF_INET, &search);
	if (!error)
		error = dump_listeners(diag, AF_INET6, &search);
	mnl_socket_close(diag);
	/* A kernel without IPv6 has no IPv6 listener. */
	return error == -ENOENT ? 0 : error;
}

/* True when peers may forward connections of this family to this node. */
static bool takes_family(const struct config *config, bool v6)
{
	const struct member *self = &config->member[config->self];
	unsigned i, j;

	if (addr_is_zero(v6 ? &self->cluster_v6 : &self->cluster_v4))
		return false;
	for (i = 0; i < config->member_count; i++) {
		for (j = 0; j < config->member[i].service_count; j++) {
			if (addr_is_v4(&config->member[i].service[j]) != v6)
				return true;
		}
	}
	return false;
}

void preflight_listeners(struct report *r, const struct config *config)
{
	bool v4 = takes_family(config, false), v6 = takes_family(config, true);
	struct wildcard found[PORTS_MAX];
	char what[200];
	unsigned i;
	int error = preflight_wildcards(config->port, config->port_count, found);

	if (error) {
		snprintf(what, sizeof(what), "cannot list the sockets that listen: %s", strerror(-error));
		problem(r, false, what, "modprobe tcp_diag");
		return;
	}
	for (i = 0; i < config->port_count; i++) {
		bool no_v4 = v4 && !found[i].v4, no_v6 = v6 && !found[i].v6;
		const char *family = no_v4 && no_v6 ? "" : no_v4 ? "IPv4 " : "IPv6 ";

		if (!no_v4 && !no_v6)
			continue;
		snprintf(what, sizeof(what),
			 "no server listens on port %u of the wildcard %saddress: forwarded %sconnections get a reset",
			 config->port[i], family, family);
		problem(r, false, what,
			"let the web server listen on the wildcard address, as in \"listen 80; listen [::]:80;\"");
	}
}
