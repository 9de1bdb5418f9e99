// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "loadcast/mcast.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "loadcast/interface.h"

enum {
	MCAST_HOPS = 1, /* the group is for one segment */
	RECEIVE_BUFFER_BYTES = 256 * 1024,
};

/* One address family. */
struct way {
	int socket; /* -1: not used */
	int family;
	struct addr own; /* source address of our datagrams; zero for an observer */
	struct addr group; /* zero: no multicast */
	unsigned interface; /* joined there; 0: not joined */
};

struct mcast {
	const struct config *config;
	enum mcast_use use;
	bool partial;
	struct way way[MCAST_FAMILIES];
	struct mcast_counters counters;
	struct datagram batch[MCAST_BATCH_MAX];
};

static bool is_group(const struct addr *a)
{
	return addr_is_v4(a) ? IN_MULTICAST(ntohl(addr_v4(a))) : a->bytes[0] == 0xff;
}

static unsigned group_interface(const struct mcast *m, const struct way *way)
{
	unsigned i, interface = 0;

	if (m->config->interface[0] && (interface = if_nametoindex(m->config->interface)))
		return interface;
	if (m->use == MCAST_MEMBER)
		return m->config->interface[0] ? 0 : interface_of(&way->own);
	for (i = 0; i < m->config->member_count && !interface; i++) {
		const struct member *member = &m->config->member[i];
		const struct addr *a = way->family == AF_INET ? &member->cluster_v4 : &member->cluster_v6;

		if (!addr_is_zero(a))
			interface = interface_towards(a);
	}
	return interface;
}

static int change_membership(const struct way *way, unsigned interface, bool join)
{
	struct ip_mreqn v4 = { .imr_ifindex = (int)interface };
	struct ipv6_mreq v6 = { .ipv6mr_interface = interface };

	if (way->family == AF_INET) {
		v4.imr_multiaddr.s_addr = addr_v4(&way->group);
		return setsockopt(way->socket, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &v4,
				  sizeof(v4));
	}
	memcpy(&v6.ipv6mr_multiaddr, way->group.bytes, 16);
	return setsockopt(way->socket, IPPROTO_IPV6, join ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &v6, sizeof(v6));
}

static int set_group_interface(const struct way *way, unsigned interface)
{
	struct ip_mreqn v4 = { .imr_ifindex = (int)interface };
	int v6 = (int)interface;

	if (way->family == AF_INET)
		return setsockopt(way->socket, IPPROTO_IP, IP_MULTICAST_IF, &v4, sizeof(v4));
	return setsockopt(way->socket, IPPROTO_IPV6, IPV6_MULTICAST_IF, &v6, sizeof(v6));
}

/* Returns 0 or -errno. Without an interface the kernel picks one by its routes. */
static int join(struct way *way, unsigned interface)
{
	if (way->interface && way->interface != interface)
		change_membership(way, way->interface, false);
	way->interface = 0;
	if (change_membership(way, interface, true) < 0 && errno != EADDRINUSE)
		return -errno;
	way->interface = interface;
	return set_group_interface(way, interface) < 0 ? -errno : 0;
}

void mcast_rejoin(struct mcast *mcast)
{
	unsigned i, interface;

	for (i = 0; i < MCAST_FAMILIES; i++) {
		struct way *way = &mcast->way[i];

		if (way->socket < 0 || addr_is_zero(&way->group))
			continue;
		interface = group_interface(mcast, way);
		/* A missing interface is looked for again the next time. */
		if (interface || mcast->use == MCAST_OBSERVER)
			join(way, interface);
	}
}

static int set_option(int socket, int level, int option, int value)
{
	return setsockopt(socket, level, option, &value, sizeof(value));
}

static int set_options(const struct way *way)
{
	int s = way->socket;

	/* May fail: the system's limit applies then. */
	set_option(s, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER_BYTES);
	if (set_option(s, SOL_SOCKET, SO_REUSEADDR, 1) < 0 || set_option(s, SOL_SOCKET, SO_BROADCAST, 1) < 0)
		return -1;
	if (way->family == AF_INET)
		return set_option(s, IPPROTO_IP, IP_MULTICAST_TTL, MCAST_HOPS) < 0 ||
				       set_option(s, IPPROTO_IP, IP_MULTICAST_LOOP, 0) < 0 ||
				       set_option(s, IPPROTO_IP, IP_MULTICAST_ALL, 0) < 0
			       ? -1
			       : 0;
	return set_option(s, IPPROTO_IPV6, IPV6_V6ONLY, 1) < 0 ||
			       set_option(s, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, MCAST_HOPS) < 0 ||
			       set_option(s, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0) < 0
		       ? -1
		       : 0;
}

static int bind_port(int socket, int family, const struct addr *address, uint16_t port)
{
	static const struct addr zero_v6;
	struct addr any = family == AF_INET ? addr_from_v4(INADDR_ANY) : zero_v6;
	union socket_address s;
	socklen_t size = fill_address(&s, address ? address : &any, port);

	return bind(socket, &s.any, size);
}

/* True when a socket on this host is bound to the port already. */
static bool port_is_taken(int family, uint16_t port)
{
	int s = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool taken;

	if (s < 0)
		return false;
	if (family == AF_INET6)
		set_option(s, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	taken = bind_port(s, family, NULL, port) < 0 && errno == EADDRINUSE;
	close(s);
	return taken;
}

static const char *family_name(const struct way *way)
{
	return way->family == AF_INET ? "IPv4" : "IPv6";
}

static int fail(char message[CONFIG_ERROR_BYTES], const struct way *way, const char *what, const char *advice)
{
	snprintf(message, CONFIG_ERROR_BYTES, "cannot set up the %s socket of the announcements: %s: %s%s",
		 family_name(way), what, strerror(errno), advice);
	return -1;
}

/*
 * A daemon must bind the port on all addresses to get multicast. An observer beside it binds the group instead, because
 * the kernel gives a unicast datagram to the socket bound last.
 */
static int bind_way(struct mcast *m, struct way *way, char message[CONFIG_ERROR_BYTES])
{
	const struct addr *address = NULL;

	if (m->use == MCAST_OBSERVER && port_is_taken(way->family, m->config->announce_port)) {
		m->partial = true;
		if (addr_is_zero(&way->group)) {
			close(way->socket);
			way->socket = -1;
			return 0;
		}
		address = &way->group;
	}
	if (bind_port(way->socket, way->family, address, m->config->announce_port) < 0)
		return fail(message, way, "bind", " (another program has [Announce] Port: ss -ulpn shows which)");
	return 0;
}

static int check_own_address(const struct mcast *m, const struct way *way, char message[CONFIG_ERROR_BYTES])
{
	char text[ADDR_TEXT_BYTES];

	if (m->use == MCAST_OBSERVER || interface_of(&way->own))
		return 0;
	snprintf(
		message, CONFIG_ERROR_BYTES,
		"%s, the cluster address of \"%s\", is not an address of this host: set it up (ip address add), or say "
		"which member this host is ([Node] Name=, or --node)",
		addr_format(&way->own, text), m->config->member[m->config->self].name);
	return -1;
}

static int open_way(struct mcast *m, struct way *way, char message[CONFIG_ERROR_BYTES])
{
	int error;

	if (check_own_address(m, way, message) < 0)
		return -1;
	way->socket = socket(way->family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (way->socket < 0 && errno == EAFNOSUPPORT && m->use == MCAST_OBSERVER)
		return 0;
	if (way->socket < 0)
		return fail(message, way, "socket", "");
	if (set_options(way) < 0)
		return fail(message, way, "options", "");
	if (bind_way(m, way, message) < 0)
		return -1;
	if (way->socket < 0 || addr_is_zero(&way->group))
		return 0;
	error = join(way, group_interface(m, way));
	if (!error || m->use == MCAST_OBSERVER)
		return 0;
	errno = -error;
	return fail(message, way, "joining the group", " (see [Announce] Interface= and ip link show)");
}

static bool family_is_used(const struct mcast *m, const struct addr *own, int family)
{
	unsigned i;

	if (m->use == MCAST_MEMBER)
		return !addr_is_zero(own);
	for (i = 0; i < m->config->member_count; i++) {
		const struct member *member = &m->config->member[i];

		if (!addr_is_zero(family == AF_INET ? &member->cluster_v4 : &member->cluster_v6))
			return true;
	}
	return false;
}

struct mcast *mcast_open(const struct config *config, enum mcast_use use, char message[CONFIG_ERROR_BYTES])
{
	const struct member *self = &config->member[config->self];
	struct mcast *m = calloc(1, sizeof(*m));
	unsigned i;

	if (!m) {
		snprintf(message, CONFIG_ERROR_BYTES, "out of memory");
		return NULL;
	}
	m->config = config;
	m->use = use;
	for (i = 0; i < MCAST_FAMILIES; i++) {
		const struct addr *own = i ? &self->cluster_v6 : &self->cluster_v4;
		const struct addr *group = i ? &config->group_v6 : &config->group_v4;
		struct way *way = &m->way[i];

		*way = (struct way) { .socket = -1, .family = i ? AF_INET6 : AF_INET };
		if (use == MCAST_MEMBER)
			way->own = *own;
		if (config->multicast && !addr_is_zero(group) && is_group(group))
			way->group = *group;
	}
	for (i = 0; i < MCAST_FAMILIES; i++) {
		if (family_is_used(m, &m->way[i].own, m->way[i].family) && open_way(m, &m->way[i], message) < 0) {
			mcast_close(m);
			return NULL;
		}
	}
	return m;
}

void mcast_close(struct mcast *mcast)
{
	unsigned i;

	if (!mcast)
		return;
	for (i = 0; i < MCAST_FAMILIES; i++) {
		if (mcast->way[i].socket >= 0)
			close(mcast->way[i].socket);
	}
	free(mcast);
}

void mcast_sockets(const struct mcast *mcast, int sockets[MCAST_FAMILIES])
{
	unsigned i;

	for (i = 0; i < MCAST_FAMILIES; i++)
		sockets[i] = mcast->way[i].socket;
}

/* One datagram from one of our own addresses; the kernel picks the interface, except for the group. */
static void send_from(struct mcast *m, const struct addr *from, const struct addr *to, uint16_t port,
		      struct iovec *data)
{
	const struct way *way = &m->way[addr_is_v4(to) ? 0 : 1];
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	} control = { 0 };
	struct in6_pktinfo v6 = { 0 };
	struct in_pktinfo v4 = { 0 };
	unsigned interface = is_group(to) ? way->interface : 0;
	union socket_address s;
	struct msghdr message = {
		.msg_name = &s,
		.msg_namelen = fill_address(&s, to, port),
		.msg_iov = data,
		.msg_iovlen = 1,
		.msg_control = &control,
	};

	if (way->socket < 0)
		return;
	if (way->family == AF_INET) {
		v4.ipi_spec_dst.s_addr = addr_v4(from);
		v4.ipi_ifindex = (int)interface;
		message.msg_controllen = CMSG_SPACE(sizeof(v4));
		control.header = (struct cmsghdr) { CMSG_LEN(sizeof(v4)), IPPROTO_IP, IP_PKTINFO };
		memcpy(CMSG_DATA(&control.header), &v4, sizeof(v4));
	} else {
		memcpy(&v6.ipi6_addr, from->bytes, 16);
		v6.ipi6_ifindex = interface;
		message.msg_controllen = CMSG_SPACE(sizeof(v6));
		control.header = (struct cmsghdr) { CMSG_LEN(sizeof(v6)), IPPROTO_IPV6, IPV6_PKTINFO };
		memcpy(CMSG_DATA(&control.header), &v6, sizeof(v6));
	}
	if (sendmsg(way->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		m->counters.send_errors++;
		m->counters.last_error = errno;
	} else {
		m->counters.sent++;
	}
}

static void send_one(struct mcast *m, const struct addr *to, uint16_t port, struct iovec *data)
{
	send_from(m, &m->way[addr_is_v4(to) ? 0 : 1].own, to, port, data);
}

/* The member's first service address of a family; NULL: none. */
static const struct addr *first_service(const struct member *member, bool v4)
{
	for (unsigned i = 0; i < member->service_count; i++) {
		if (addr_is_v4(&member->service[i]) == v4)
			return &member->service[i];
	}
	return NULL;
}

void mcast_send_member(struct mcast *mcast, unsigned member, const uint8_t *datagram, size_t size)
{
	const struct config *config = mcast->config;
	const struct member *to = &config->member[member], *self = &config->member[config->self];
	struct iovec data = { .iov_base = (uint8_t *)datagram, .iov_len = size };

	for (unsigned v4 = 0; v4 < 2; v4++) {
		const struct addr *cluster = v4 ? &to->cluster_v4 : &to->cluster_v6;
		const struct addr *service = first_service(to, v4), *from = first_service(self, v4);

		if (!addr_is_zero(cluster))
			send_one(mcast, cluster, config->announce_port, &data);
		if (service && from && !addr_equal(service, cluster))
			send_from(mcast, from, service, config->announce_port, &data);
	}
}

void mcast_send(struct mcast *mcast, const uint8_t *datagram, size_t size)
{
	const struct config *config = mcast->config;
	struct iovec data = { .iov_base = (uint8_t *)datagram, .iov_len = size };
	unsigned i;

	for (i = 0; i < MCAST_FAMILIES; i++) {
		if (!addr_is_zero(&mcast->way[i].group))
			send_one(mcast, &mcast->way[i].group, config->announce_port, &data);
	}
	for (i = 0; config->unicast && i < config->member_count; i++) {
		const struct member *member = &config->member[i];

		if (i == config->self)
			continue;
		if (!addr_is_zero(&member->cluster_v4))
			send_one(mcast, &member->cluster_v4, config->announce_port, &data);
		if (!addr_is_zero(&member->cluster_v6))
			send_one(mcast, &member->cluster_v6, config->announce_port, &data);
	}
	for (i = 0; i < config->network_count; i++)
		send_one(mcast, &config->network[i].address, config->network[i].port, &data);
}

unsigned mcast_receive(struct mcast *mcast, int socket, const struct datagram **ret)
{
	union socket_address from[MCAST_BATCH_MAX];
	struct mmsghdr messages[MCAST_BATCH_MAX];
	struct iovec data[MCAST_BATCH_MAX];
	int i, count;

	memset(messages, 0, sizeof(messages));
	for (i = 0; i < MCAST_BATCH_MAX; i++) {
		data[i] = (struct iovec) { mcast->batch[i].bytes, sizeof(mcast->batch[i].bytes) };
		messages[i].msg_hdr.msg_name = &from[i];
		messages[i].msg_hdr.msg_namelen = sizeof(from[i]);
		messages[i].msg_hdr.msg_iov = &data[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	count = recvmmsg(socket, messages, MCAST_BATCH_MAX, MSG_DONTWAIT, NULL);
	if (count < 0) {
		if (errno != EAGAIN && errno != EINTR)
			mcast->counters.receive_errors++;
		return 0;
	}
	for (i = 0; i < count; i++) {
		mcast->batch[i].size = messages[i].msg_len;
		mcast->batch[i].source = address_of(&from[i]);
	}
	mcast->counters.received += (unsigned)count;
	*ret = mcast->batch;
	return (unsigned)count;
}

bool mcast_is_partial(const struct mcast *mcast)
{
	return mcast->partial;
}

const struct mcast_counters *mcast_count(const struct mcast *mcast)
{
	return &mcast->counters;
}
