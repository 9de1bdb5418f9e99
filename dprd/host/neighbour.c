// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/host/neighbour.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/socket.h>

enum {
	ANSWER_BYTES = 8192,
	NEIGHBOUR_KNOWN = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY
};

struct mnl_socket *neighbour_open(void)
{
	struct mnl_socket *socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);

	if (socket && mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) < 0) {
		mnl_socket_close(socket);
		socket = NULL;
	}
	return socket;
}

static void put_addr(struct nlmsghdr *message, uint16_t type, const struct addr *a)
{
	if (addr_is_v4(a))
		mnl_attr_put(message, type, 4, a->bytes + 12);
	else
		mnl_attr_put(message, type, 16, a->bytes);
}

/* Sends one request, and reads one answer of the wanted type. 0 or -errno. */
static int ask(struct mnl_socket *socket, struct nlmsghdr *message, uint16_t wanted, char answer[ANSWER_BYTES])
{
	static _Thread_local uint32_t sequence;
	struct nlmsghdr *header = (struct nlmsghdr *)answer;

	message->nlmsg_flags |= NLM_F_REQUEST;
	message->nlmsg_seq = ++sequence;
	if (mnl_socket_sendto(socket, message, message->nlmsg_len) < 0)
		return -errno;
	for (;;) {
		ssize_t bytes = mnl_socket_recvfrom(socket, answer, ANSWER_BYTES);

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes < 0)
			return -errno;
		if (!mnl_nlmsg_ok(header, (int)bytes) || header->nlmsg_seq != sequence)
			continue;
		if (header->nlmsg_type == NLMSG_ERROR)
			return ((struct nlmsgerr *)mnl_nlmsg_get_payload(header))->error ?: -ENOENT;
		return header->nlmsg_type == wanted ? 0 : -EPROTO;
	}
}

struct route {
	uint32_t interface;
	struct addr next_hop;
};

static int route_attribute(const struct nlattr *attribute, void *context)
{
	struct route *route = context;
	uint16_t type = mnl_attr_get_type(attribute), bytes = mnl_attr_get_payload_len(attribute);
	be32 v4;

	if (type == RTA_OIF && bytes == 4)
		route->interface = mnl_attr_get_u32(attribute);
	if (type == RTA_GATEWAY && bytes == 4) {
		memcpy(&v4, mnl_attr_get_payload(attribute), 4);
		route->next_hop = addr_from_v4(v4);
	} else if (type == RTA_GATEWAY && bytes == 16) {
		route->next_hop = addr_from_v6(mnl_attr_get_payload(attribute));
	}
	return MNL_CB_OK;
}

static int find_route(struct mnl_socket *socket, const struct addr *source, const struct addr *destination,
		      struct route *ret)
{
	char request[512] = { 0 }, answer[ANSWER_BYTES];
	struct nlmsghdr *message = mnl_nlmsg_put_header(request);
	struct rtmsg *route;
	bool v4 = addr_is_v4(destination);
	int error;

	message->nlmsg_type = RTM_GETROUTE;
	route = mnl_nlmsg_put_extra_header(message, sizeof(*route));
	route->rtm_family = v4 ? AF_INET : AF_INET6;
	route->rtm_dst_len = route->rtm_src_len = v4 ? 32 : 128;
	put_addr(message, RTA_DST, destination);
	put_addr(message, RTA_SRC, source);
	error = ask(socket, message, RTM_NEWROUTE, answer);
	if (error)
		return error;
	*ret = (struct route) { .next_hop = *destination };
	route = mnl_nlmsg_get_payload((struct nlmsghdr *)answer);
	if (route->rtm_type != RTN_UNICAST)
		return -EHOSTUNREACH;
	mnl_attr_parse((struct nlmsghdr *)answer, sizeof(*route), route_attribute, ret);
	return ret->interface ? 0 : -EHOSTUNREACH;
}

static int link_attribute(const struct nlattr *attribute, void *context)
{
	struct neighbour *n = context;

	if (mnl_attr_get_type(attribute) == IFLA_ADDRESS && mnl_attr_get_payload_len(attribute) == 6)
		memcpy(n->hardware + 6, mnl_attr_get_payload(attribute), 6);
	return MNL_CB_OK;
}

static int find_link(struct mnl_socket *socket, struct neighbour *n)
{
	char request[256] = { 0 }, answer[ANSWER_BYTES];
	struct nlmsghdr *message = mnl_nlmsg_put_header(request);
	struct ifinfomsg *link;
	int error;

	message->nlmsg_type = RTM_GETLINK;
	link = mnl_nlmsg_put_extra_header(message, sizeof(*link));
	link->ifi_index = (int)n->interface;
	mnl_attr_put_u32(message, IFLA_EXT_MASK, 0);
	error = ask(socket, message, RTM_NEWLINK, answer);
	if (error)
		return error;
	link = mnl_nlmsg_get_payload((struct nlmsghdr *)answer);
	if (link->ifi_flags & IFF_LOOPBACK)
		return -EHOSTUNREACH;
	n->ethernet = link->ifi_type == ARPHRD_ETHER;
	mnl_attr_parse((struct nlmsghdr *)answer, sizeof(*link), link_attribute, n);
	return 0;
}

static int neighbour_attribute(const struct nlattr *attribute, void *context)
{
	struct neighbour *n = context;

	if (mnl_attr_get_type(attribute) == NDA_LLADDR && mnl_attr_get_payload_len(attribute) == 6) {
		memcpy(n->hardware, mnl_attr_get_payload(attribute), 6);
		n->known = true;
	}
	return MNL_CB_OK;
}

static struct nlmsghdr *put_neighbour(char *request, uint16_t type, uint32_t interface, const struct addr *next_hop)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(request);
	struct ndmsg *entry;

	message->nlmsg_type = type;
	entry = mnl_nlmsg_put_extra_header(message, sizeof(*entry));
	entry->ndm_family = addr_is_v4(next_hop) ? AF_INET : AF_INET6;
	entry->ndm_ifindex = (int)interface;
	put_addr(message, NDA_DST, next_hop);
	return message;
}

static void find_hardware(struct mnl_socket *socket, const struct addr *next_hop, struct neighbour *n)
{
	char request[256] = { 0 }, answer[ANSWER_BYTES];
	struct nlmsghdr *message = put_neighbour(request, RTM_GETNEIGH, n->interface, next_hop);
	struct ndmsg *entry;

	if (ask(socket, message, RTM_NEWNEIGH, answer))
		return;
	entry = mnl_nlmsg_get_payload((struct nlmsghdr *)answer);
	n->stale = entry->ndm_state & NUD_STALE;
	n->unanswered = entry->ndm_state & (NUD_INCOMPLETE | NUD_FAILED);
	if (entry->ndm_state & NEIGHBOUR_KNOWN)
		mnl_attr_parse((struct nlmsghdr *)answer, sizeof(*entry), neighbour_attribute, n);
}

int neighbour_find(struct mnl_socket *socket, const struct addr *source, const struct addr *destination,
		   struct neighbour *ret)
{
	struct route route;
	int error = find_route(socket, source, destination, &route);

	if (error)
		return error;
	*ret = (struct neighbour) { .interface = route.interface,
				    .next_hop = route.next_hop,
				    .gateway = !addr_equal(&route.next_hop, destination) };
	error = find_link(socket, ret);
	if (!error && ret->ethernet)
		find_hardware(socket, &route.next_hop, ret);
	return error;
}

void neighbour_drop_waiting(struct mnl_socket *socket, const struct neighbour *n)
{
	char request[256] = { 0 }, answer[ANSWER_BYTES];
	struct nlmsghdr *message = put_neighbour(request, RTM_DELNEIGH, n->interface, &n->next_hop);

	/* An answer comes also when all is well. If it fails, the kernel gives the packets up after 3 s. */
	message->nlmsg_flags = NLM_F_ACK;
	(void)ask(socket, message, NLMSG_ERROR, answer);
}
