// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/host/bridge.h"

#include <ifaddrs.h>
#include <stdio.h>
#include <unistd.h>

#include "dprd/base/smallfile.h"
#include "dprd/host/inside.h"

enum { PATH_MAX_BYTES = 96 };

static bool is_one(const char *path)
{
	char value = '0';

	return smallfile_read(path, &value, 1, NULL) != 0 && value == '1';
}

bool bridge_is_filtered(const char *interface, bool v6)
{
	char path[PATH_MAX_BYTES];

	/* Only a bridge has this file. */
	snprintf(path, sizeof(path), "/sys/class/net/%s/bridge/nf_call_%stables", interface, v6 ? "ip6" : "ip");
	if (is_one(path))
		return true;
	return access(path, F_OK) == 0 && is_one(v6 ? "/proc/sys/net/bridge/bridge-nf-call-ip6tables"
						    : "/proc/sys/net/bridge/bridge-nf-call-iptables");
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
			snprintf(name, IF_NAMESIZE, "%s", i->ifa_name);
	}
	freeifaddrs(all);
	return found;
}
