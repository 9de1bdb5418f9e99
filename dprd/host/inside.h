/* SPDX-License-Identifier: GPL-2.0-or-later */
/* host/inside.h - finds the networks of this node alone (core/decide/inside.h). */
#ifndef DPRD_HOST_INSIDE_H
#define DPRD_HOST_INSIDE_H

#include <sys/socket.h>

#include "dprd/config/config.h"
#include "dprd/core/decide/inside.h"

/*
 * Reads them from the host's interfaces: bridges, and the virtual interfaces of containers, virtual machines and
 * private tunnels. An interface that Interfaces= names or that has an address of the cluster leads to clients, and so
 * does a network that holds one: they do not count. Neither does a bridge with a port that leads out of this host, such
 * as a network card or a VLAN. 0, or -errno with *ret untouched. Networks beyond INSIDE_NETWORKS_MAX are left out and
 * counted.
 */
int inside_read(const struct config *config, struct inside *ret);

/* The IPv4 or IPv6 address that an interface has; false: it is none. */
bool inside_address(const struct sockaddr *from, struct addr *ret);

#endif
