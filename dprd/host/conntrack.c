// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/host/conntrack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dprd/base/netlink.h"

enum {
	ANSWER_BYTES = 32768,
	READS_MAX = 16384, /* of one dump; about 150 entries come with each */
	WANTED = IPS_DST_NAT | IPS_ASSURED,
	STATUS_MASK = 26, /* CTA_STATUS_MASK, which the headers of Linux before 5.18 lack */
};

struct conntrack {
	struct mnl_socket *socket;
	uint32_t sequence;
	conntrack_take take; /* of the running dump */
	void *context;
};

struct conntrack *conntrack_new(void)
{
	struct conntrack *conntrack = calloc(1, sizeof(*conntrack));
	struct timeval patience = { .tv_sec = 1 };
	int error;

	if (!conntrack)
		return NULL;
	conntrack->socket = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	if (!conntrack->socket || mnl_socket_bind(conntrack->socket, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    setsockopt(mnl_socket_get_fd(conntrack->socket), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) <
		    0) {
		error = errno;
		conntrack_free(conntrack);
		errno = error;
		return NULL;
	}
	return conntrack;
}

void conntrack_free(struct conntrack *conntrack)
{
	if (!conntrack)
		return;
	if (conntrack->socket)
		mnl_socket_close(conntrack->socket);
	free(conntrack);
}

/* True when the kernel tracks no connection. Without connection tracking the file is not there. */
static bool is_idle(void)
{
	int fd = open("/proc/sys/net/netfilter/nf_conntrack_count", O_RDONLY | O_CLOEXEC);
	ssize_t bytes;
	char text[2];

	if (fd < 0)
		return true;
	bytes = read(fd, text, sizeof(text));
	close(fd);
	return bytes < 2 || (text[0] == '0' && text[1] == '\n');
}

/* A kernel that does not know this filter sends all entries; read_entry() leaves the others out. */
static int send_request(struct conntrack *conntrack)
{
	char buffer[256];
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct nfgenmsg *header;

	message->nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	message->nlmsg_seq = ++conntrack->sequence;
	header = mnl_nlmsg_put_extra_header(message, sizeof(*header));
	*header = (struct nfgenmsg) { .nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0 };
	mnl_attr_put_u32(message, CTA_STATUS, htonl(WANTED));
	mnl_attr_put_u32(message, STATUS_MASK, htonl(WANTED));
	return mnl_socket_sendto(conntrack->socket, message, message->nlmsg_len) < 0 ? -errno : 0;
}

/* The nested attribute of this type, with at least this many bytes; NULL: there is none. */
static const struct nlattr *inner(const struct nlattr *nest, unsigned type, unsigned bytes)
{
	const struct nlattr *attribute;

	if (!nest)
		return NULL;
	mnl_attr_for_each_nested(attribute, nest)
	{
		if (mnl_attr_get_type(attribute) == type && mnl_attr_get_payload_len(attribute) >= bytes)
			return attribute;
	}
	return NULL;
}

static bool read_address(const struct nlattr *tuple, unsigned v4, unsigned v6, struct addr *ret)
{
	const struct nlattr *ip = inner(tuple, CTA_TUPLE_IP, 0), *address = inner(ip, v4, 4);

	if (address) {
		*ret = addr_from_v4(mnl_attr_get_u32(address));
		return true;
	}
	address = inner(ip, v6, sizeof(ret->bytes));
	if (address)
		memcpy(ret->bytes, mnl_attr_get_payload(address), sizeof(ret->bytes));
	return address;
}

/* False: it is not TCP. */
static bool read_service(const struct nlattr *tuple, struct conntrack_entry *ret)
{
	const struct nlattr *proto = inner(tuple, CTA_TUPLE_PROTO, 0), *number = inner(proto, CTA_PROTO_NUM, 1),
			    *port = inner(proto, CTA_PROTO_DST_PORT, 2);

	if (!number || mnl_attr_get_u8(number) != IPPROTO_TCP || !port)
		return false;
	ret->port = mnl_attr_get_u16(port);
	return read_address(tuple, CTA_IP_V4_DST, CTA_IP_V6_DST, &ret->service);
}

/* True for a TCP connection as conntrack_each() promises it. */
static bool read_entry(const struct nlmsghdr *message, struct conntrack_entry *ret)
{
	const struct nlattr *attribute, *parts[CTA_MAX + 1] = { NULL }, *state;

	if (mnl_nlmsg_get_payload_len(message) < sizeof(struct nfgenmsg))
		return false;
	mnl_attr_for_each(attribute, message, sizeof(struct nfgenmsg))
	{
		if (mnl_attr_get_type(attribute) <= CTA_MAX)
			parts[mnl_attr_get_type(attribute)] = attribute;
	}
	if (!parts[CTA_STATUS] || mnl_attr_get_payload_len(parts[CTA_STATUS]) < 4 ||
	    (ntohl(mnl_attr_get_u32(parts[CTA_STATUS])) & WANTED) != WANTED)
		return false;
	if (!read_service(parts[CTA_TUPLE_ORIG], ret) ||
	    !read_address(parts[CTA_TUPLE_REPLY], CTA_IP_V4_SRC, CTA_IP_V6_SRC, &ret->server))
		return false;
	state = inner(inner(parts[CTA_PROTOINFO], CTA_PROTOINFO_TCP, 0), CTA_PROTOINFO_TCP_STATE, 1);
	ret->open = state && mnl_attr_get_u8(state) >= TCP_CONNTRACK_ESTABLISHED &&
		    mnl_attr_get_u8(state) <= TCP_CONNTRACK_LAST_ACK;
	return true;
}

static int take_entry(const struct nlmsghdr *message, void *data)
{
	const struct conntrack *conntrack = data;
	struct conntrack_entry entry;

	if (read_entry(message, &entry))
		conntrack->take(conntrack->context, &entry);
	return MNL_CB_OK;
}

static int read_answers(struct conntrack *conntrack)
{
	_Alignas(struct nlmsghdr) char buffer[ANSWER_BYTES];
	const struct nlmsghdr *message = (const struct nlmsghdr *)buffer;
	unsigned portid = mnl_socket_get_portid(conntrack->socket);

	for (unsigned reads = 0; reads < READS_MAX; reads++) {
		ssize_t size = mnl_socket_recvfrom(conntrack->socket, buffer, sizeof(buffer));
		int more;

		if (size < 0)
			return -errno;
		/* An answer to a former dump that was given up is skipped. */
		if (mnl_nlmsg_ok(message, (int)size) && message->nlmsg_seq != conntrack->sequence)
			continue;
		more = mnl_cb_run(buffer, (size_t)size, conntrack->sequence, portid, take_entry, conntrack);
		if (more < 0)
			return -errno;
		if (more == MNL_CB_STOP)
			return 0;
	}
	return -EMSGSIZE;
}

int conntrack_each(struct conntrack *conntrack, conntrack_take take, void *context)
{
	int error;

	/* A question would make the kernel load its connection tracking. */
	if (is_idle())
		return 0;
	conntrack->take = take;
	conntrack->context = context;
	error = send_request(conntrack);
	if (!error)
		error = read_answers(conntrack);
	if (error)
		netlink_drain(conntrack->socket);
	return error;
}
