// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/host/inside.h"

#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dprd/core/decide/tunnelled.h"

enum { KIND_BYTES = sizeof(((struct ethtool_drvinfo *)NULL)->driver) };

/* The kernel's names for the kinds of interfaces behind which containers, virtual machines and tunnel clients are. */
static const char *const kinds[] = { "bridge", "tun",    "veth", "wireguard", "ppp",  "gre", "ip6gre",
				     "ipip",   "ip6tnl", "sit",  "vti",       "vti6", "xfrm" };
/* The kinds of a bridge's ports that stay on this host. */
static const char *const inner_ports[] = { "tun", "veth", "dummy" };

/* False where the kernel does not name the kind of the interface. */
static bool kind_of(int socket, const char *name, char kind[KIND_BYTES])
{
	struct ethtool_drvinfo driver = { .cmd = ETHTOOL_GDRVINFO };
	struct ifreq request = { .ifr_data = (char *)&driver };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%.*s", IFNAMSIZ - 1, name);
	if (ioctl(socket, SIOCETHTOOL, &request))
		return false;
	memcpy(kind, driver.driver, sizeof(driver.driver));
	return true;
}

static bool is_one_of(const char *kind, const char *const names[], size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(kind, names[i]) == 0)
			return true;
	}
	return false;
}

/* True for a bridge of this host and a real network: hosts there are also the peers' neighbours. */
static bool leads_out(int socket, const char *bridge)
{
	char path[64 + IF_NAMESIZE], kind[KIND_BYTES];
	struct dirent *port;
	bool out = false;
	DIR *ports;

	snprintf(path, sizeof(path), "/sys/class/net/%s/brif", bridge);
	ports = opendir(path);
	while (ports && !out && (port = readdir(ports)))
		out = port->d_name[0] != '.' && kind_of(socket, port->d_name, kind) &&
		      !is_one_of(kind, inner_ports, sizeof(inner_ports) / sizeof(inner_ports[0]));
	if (ports)
		closedir(ports);
	return out;
}

static bool is_of_this_host(int socket, const char *name)
{
	char kind[KIND_BYTES];

	return kind_of(socket, name, kind) && is_one_of(kind, kinds, sizeof(kinds) / sizeof(kinds[0])) &&
	       !leads_out(socket, name);
}

bool inside_address(const struct sockaddr *from, struct addr *ret)
{
	if (from && from->sa_family == AF_INET)
		*ret = addr_from_v4(((const struct sockaddr_in *)(const void *)from)->sin_addr.s_addr);
	else if (from && from->sa_family == AF_INET6)
		*ret = addr_from_v6(&((const struct sockaddr_in6 *)(const void *)from)->sin6_addr);
	else
		return false;
	return true;
}

/* Leading bits of a netmask, counted as of an IPv6 address. 0: not known. */
static unsigned bits_of(const struct ifaddrs *i)
{
	struct addr mask;
	unsigned bits = 0, first = i->ifa_addr->sa_family == AF_INET ? 96 : 0;

	if (!i->ifa_netmask || i->ifa_netmask->sa_family != i->ifa_addr->sa_family ||
	    !inside_address(i->ifa_netmask, &mask))
		return 0;
	while (first + bits < 128 && mask.bytes[(first + bits) / 8] & 0x80 >> (first + bits) % 8)
		bits++;
	return bits ? first + bits : 0;
}

/* True when the configuration names the interface, or it has an address of the cluster. */
static bool leads_to_clients(const struct ifaddrs *all, const char *name, const struct config *config)
{
	struct addr address;
	unsigned i;

	for (i = 0; i < config->interface_count; i++) {
		if (strcmp(config->interface_name[i], name) == 0)
			return true;
	}
	for (; all; all = all->ifa_next) {
		if (strcmp(all->ifa_name, name) == 0 && inside_address(all->ifa_addr, &address) &&
		    tunnelled_is_cluster_address(config, &address))
			return true;
	}
	return false;
}

static bool has_cluster_address(const struct inside_network *n, const struct config *config)
{
	unsigned member, i;

	for (i = 0; i < config->shared_count; i++) {
		if (inside_network_has(n, &config->shared[i]))
			return true;
	}
	for (member = 0; member < config->member_count; member++) {
		const struct member *m = &config->member[member];

		if ((!addr_is_zero(&m->cluster_v4) && inside_network_has(n, &m->cluster_v4)) ||
		    (!addr_is_zero(&m->cluster_v6) && inside_network_has(n, &m->cluster_v6)))
			return true;
		for (i = 0; i < m->service_count; i++) {
			if (inside_network_has(n, &m->service[i]))
				return true;
		}
	}
	return false;
}

/* The address at the other end of a tunnel, if it is not in a network with this host's; false: none is known. */
static bool peer_of(const struct ifaddrs *i, struct addr *ret)
{
	struct addr own;

	return i->ifa_flags & IFF_POINTOPOINT && inside_address(i->ifa_dstaddr, ret) &&
	       inside_address(i->ifa_addr, &own) && !addr_equal(ret, &own);
}

static void add(const struct ifaddrs *i, const struct config *config, struct inside *ret)
{
	static const uint8_t link_local[2] = { 0xfe, 0x80 };
	struct inside_network network;
	struct addr address;
	unsigned bits = bits_of(i);

	/* The prefix is that of the peer's address. Without one, a prefix of all bits holds this host alone. */
	if (!bits || (!peer_of(i, &address) && (bits == 128 || !inside_address(i->ifa_addr, &address))) ||
	    !memcmp(address.bytes, link_local, 2))
		return;
	network = inside_network_of(&address, bits);
	if (has_cluster_address(&network, config))
		return;
	if (ret->count < INSIDE_NETWORKS_MAX)
		ret->network[ret->count++] = network;
	else
		ret->left_out++;
}

int inside_read(const struct config *config, struct inside *ret)
{
	struct inside found = { .count = 0 };
	struct ifaddrs *all, *i;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (getifaddrs(&all)) {
		int error = -errno;

		close(fd);
		return error;
	}
	for (i = all; i; i = i->ifa_next) {
		if (i->ifa_addr && (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6) &&
		    is_of_this_host(fd, i->ifa_name) && !leads_to_clients(all, i->ifa_name, config))
			add(i, config, &found);
	}
	freeifaddrs(all);
	close(fd);
	*ret = found;
	return 0;
}
