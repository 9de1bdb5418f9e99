// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/host/bridge.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dprd/host/inside.h"

enum { PATH_MAX_BYTES = 96 };

/* Not smallfile_read(): files of /sys say that they have a whole page. */
static bool is_one(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char value = '0';
	bool one;

	if (fd < 0)
		return false;
	one = read(fd, &value, 1) == 1 && value == '1';
	close(fd);
	return one;
}

/* An address may have a label, such as br0:1. */
static int name_bytes(const char *interface)
{
	return (int)strcspn(interface, ":");
}

bool bridge_is_filtered(const char *interface, bool v6)
{
	const char *all =
		v6 ? "/proc/sys/net/bridge/bridge-nf-call-ip6tables" : "/proc/sys/net/bridge/bridge-nf-call-iptables";
	char path[PATH_MAX_BYTES];

	/* Only a bridge has this file. Without br_netfilter, which has the other one, it has no effect. */
	snprintf(path, sizeof(path), "/sys/class/net/%.*s/bridge/nf_call_%stables", name_bytes(interface), interface,
		 v6 ? "ip6" : "ip");
	return access(path, F_OK) == 0 && access(all, F_OK) == 0 && (is_one(path) || is_one(all));
}

static bool is_own(const struct config *config, const struct addr *address)
{
	const struct member *self = &config->member[config->self];
	unsigned i;

	for (i = 0; i < self->service_count; i++) {
		if (addr_equal(&self->service[i], address))
			return true;
	}
	return addr_equal(&self->cluster_v4, address) || addr_equal(&self->cluster_v6, address);
}

bool bridge_takes_packets(const struct config *config, char name[IF_NAMESIZE])
{
	struct ifaddrs *all, *i;
	struct addr address;
	bool found = false;

	if (getifaddrs(&all))
		return false;
	for (i = all; i && !found; i = i->ifa_next) {
		found = inside_address(i->ifa_addr, &address) && is_own(config, &address) &&
			bridge_is_filtered(i->ifa_name, !addr_is_v4(&address));
		if (found)
			snprintf(name, IF_NAMESIZE, "%.*s", name_bytes(i->ifa_name), i->ifa_name);
	}
	freeifaddrs(all);
	return found;
}
