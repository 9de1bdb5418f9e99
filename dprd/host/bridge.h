/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * host/bridge.h - finds a bridge that takes packets from the BPF programs. With br_netfilter the kernel runs its rules at
 * the ports of a bridge, and not again at the bridge itself. So the rules of the queues come before the programs there
 * mark a packet, and nothing is forwarded. On the nfqueue plane the rules do both.
 */
#ifndef DPRD_HOST_BRIDGE_H
#define DPRD_HOST_BRIDGE_H

#include <net/if.h>

#include "dprd/config/config.h"

#define BRIDGE_ADVICE                                                                                                \
	"sysctl -w net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0, or Plane=nfqueue in " \
	"[Datapath]"

/* True when such a bridge has a service or cluster address of this node; its name is in name[] then. */
bool bridge_takes_packets(const struct config *config, char name[IF_NAMESIZE]);

/* True when the kernel's rules of this family run at the ports of the interface, which is a bridge. */
bool bridge_is_filtered(const char *interface, bool v6);

#endif
