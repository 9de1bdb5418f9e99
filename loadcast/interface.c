// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "loadcast/interface.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct addr address_of(const union socket_address *s)
{
	return s->any.sa_family == AF_INET ? addr_from_v4(s->v4.sin_addr.s_addr) : addr_from_v6(&s->v6.sin6_addr);
}

socklen_t fill_address(union socket_address *s, const struct addr *a, uint16_t port)
{
	memset(s, 0, sizeof(*s));
	if (addr_is_v4(a)) {
		s->v4.sin_family = AF_INET;
		s->v4.sin_addr.s_addr = addr_v4(a);
		s->v4.sin_port = htons(port);
		return sizeof(s->v4);
	}
	s->v6.sin6_family = AF_INET6;
	memcpy(&s->v6.sin6_addr, a->bytes, 16);
	s->v6.sin6_port = htons(port);
	return sizeof(s->v6);
}

unsigned interface_of(const struct addr *address)
{
	struct ifaddrs *list, *i;
	unsigned index = 0;

	if (getifaddrs(&list) < 0)
		return 0;
	for (i = list; i && !index; i = i->ifa_next) {
		union socket_address *s = (union socket_address *)i->ifa_addr;

		if (!s || (s->any.sa_family != AF_INET && s->any.sa_family != AF_INET6))
			continue;
		struct addr a = address_of(s);

		if (addr_equal(&a, address))
			index = if_nametoindex(i->ifa_name);
	}
	freeifaddrs(list);
	return index;
}

int interface_hardware(unsigned interface, uint8_t ret[HARDWARE_BYTES])
{
	struct ifreq request = { 0 };
	int fd, error;

	memset(ret, 0, HARDWARE_BYTES);
	if (!if_indextoname(interface, request.ifr_name))
		return -errno;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	error = ioctl(fd, SIOCGIFHWADDR, &request) < 0 ? -errno : 0;
	close(fd);
	/* Peers refuse an announcement with any other address. */
	if (!error && request.ifr_hwaddr.sa_family == ARPHRD_ETHER && !(request.ifr_hwaddr.sa_data[0] & 1))
		memcpy(ret, request.ifr_hwaddr.sa_data, HARDWARE_BYTES);
	return error;
}

unsigned interface_towards(const struct addr *address)
{
	union socket_address s;
	socklen_t size = fill_address(&s, address, 1); /* any port: nothing is sent */
	int fd = socket(s.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct addr local = { 0 };

	if (fd < 0)
		return 0;
	if (connect(fd, &s.any, size) == 0) {
		size = sizeof(s);
		if (getsockname(fd, &s.any, &size) == 0)
			local = address_of(&s);
	}
	close(fd);
	return addr_is_zero(&local) ? 0 : interface_of(&local);
}
