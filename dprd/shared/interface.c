// SPDX-License-Identifier: GPL-2.0-or-later
/* shared/interface.c - the network interface that receives frames to shared addresses. */
#define _GNU_SOURCE
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dprd/base/log.h"
#include "dprd/shared/shared.h"

static bool address_of(const struct ifaddrs *i, struct addr *ret)
{
	if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET)
		*ret = addr_from_v4(((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr.s_addr);
	else if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET6)
		*ret = addr_from_v6(&((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr);
	else
		return false;
	return true;
}

/* The interface that has this address. */
static bool interface_of(const struct ifaddrs *all, const struct addr *address, char name[INTERFACE_BYTES])
{
	struct addr has;

	for (; all; all = all->ifa_next) {
		if (!address_of(all, &has) || !addr_equal(&has, address))
			continue;
		snprintf(name, INTERFACE_BYTES, "%.15s", all->ifa_name);
		return true;
	}
	return false;
}

bool shared_interface_find(const struct config *config, bool v6, char name[INTERFACE_BYTES], char why[SHARED_WHY_BYTES])
{
	const struct member *self = &config->member[config->self];
	struct ifaddrs *all = NULL;
	bool found = false;
	unsigned i;

	name[0] = '\0';
	if (*config->shared_interface) {
		snprintf(name, INTERFACE_BYTES, "%s", config->shared_interface);
		found = if_nametoindex(name) != 0;
		if (!found)
			snprintf(why, SHARED_WHY_BYTES, "there is no interface %s, [Shared] Interface=", name);
		return found;
	}
	if (getifaddrs(&all))
		return false;
	for (i = 0; i < self->service_count && !found; i++)
		found = addr_is_v4(&self->service[i]) != v6 && interface_of(all, &self->service[i], name);
	freeifaddrs(all);
	if (!found)
		snprintf(
			why, SHARED_WHY_BYTES,
			"no interface has an IPv%c service address of this node; say with Interface= in [Shared] where "
			"its frames come in",
			v6 ? '6' : '4');
	return found;
}

/* An ioctl(2) about an interface; any kind of socket serves. */
static int request(const char *name, unsigned long what, struct ifreq *r)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), error;

	if (fd < 0)
		return -errno;
	snprintf(r->ifr_name, sizeof(r->ifr_name), "%.15s", name);
	error = ioctl(fd, what, r) ? -errno : 0;
	close(fd);
	return error;
}

int shared_interface_join(const char *name, const uint8_t mac[6], bool join)
{
	struct ifreq r = { .ifr_hwaddr = { .sa_family = AF_UNSPEC } };

	memcpy(r.ifr_hwaddr.sa_data, mac, 6);
	return request(name, join ? SIOCADDMULTI : SIOCDELMULTI, &r);
}

int shared_interface_hardware(const char *name, uint8_t mac[6])
{
	struct ifreq r = { 0 };
	int error = request(name, SIOCGIFHWADDR, &r);

	if (!error)
		memcpy(mac, r.ifr_hwaddr.sa_data, 6);
	return error;
}

static bool is_link_local(const struct addr *a)
{
	return a->bytes[0] == 0xfe && (a->bytes[1] & 0xc0) == 0x80;
}

bool shared_interface_source(const struct config *config, const char *name, bool v6, struct addr *ret)
{
	struct ifaddrs *all, *i;
	bool found = false;

	if (getifaddrs(&all))
		return false;
	for (i = all; i && !found; i = i->ifa_next)
		found = strcmp(i->ifa_name, name) == 0 && address_of(i, ret) && addr_is_v4(ret) != v6 &&
			!config_is_shared(config, ret) && (!v6 || is_link_local(ret));
	freeifaddrs(all);
	return found;
}

int shared_interface_socket(void)
{
	/* Protocol 0: it only sends. */
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : fd;
}

void shared_interface_send(int fd, const char *name, const uint8_t *frame, unsigned bytes)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(name), .sll_halen = 6 };

	memcpy(to.sll_addr, frame, 6);
	memcpy(&to.sll_protocol, frame + 12, 2);
	if (sendto(fd, frame, bytes, 0, (struct sockaddr *)&to, sizeof(to)) < 0)
		log_debug("%s: cannot send a frame about a shared address: %s", name, strerror(errno));
}
