// SPDX-License-Identifier: GPL-2.0-or-later
/* "dprd --check": finds what does not fit on this host, and prints the command that fixes it. */
#define _GNU_SOURCE
#include <ifaddrs.h>
#include <libmnl/libmnl.h>
#include <net/if.h>
#include <stdlib.h>

#include "dprd/base/command.h"
#include "dprd/check/preflight.h"
#include "dprd/check/report.h"
#include "dprd/config/config.h"
#include "dprd/core/packet/encap.h"
#include "dprd/fastpath/fastpath.h"
#include "dprd/host/bridge.h"
#include "dprd/host/neighbour.h"
#include "dprd/host/tunnel.h"
#include "dprd/shared/shared.h"

/* Below these a client that is told the tunnel's MTU may not believe it (RFC 8200 5: at least 1280). */
enum { MTU_LEAST_V4 = 576 + ENCAP_V4_BYTES, MTU_LEAST_V6 = 1280 + ENCAP_V6_BYTES };

/* First number in a /proc file; -1 when there is none. */
static long read_number(const char *path)
{
	FILE *file = fopen(path, "re");
	long value = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%ld", &value) != 1)
		value = -1;
	fclose(file);
	return value;
}

static long sysctl_of(const char *interface, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/%s", interface, name);
	return read_number(path);
}

static struct addr address_of(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return addr_from_v4(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr);
	return addr_from_v6(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

/* The interface that has this address, in name[]; false when none has. */
static bool interface_of(const struct ifaddrs *all, const struct addr *address, char name[IF_NAMESIZE])
{
	const struct ifaddrs *i;

	for (i = all; i; i = i->ifa_next) {
		struct addr a;

		if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
			continue;
		a = address_of(i->ifa_addr);
		if (addr_equal(&a, address)) {
			snprintf(name, IF_NAMESIZE, "%s", i->ifa_name);
			return true;
		}
	}
	return false;
}

/* Decapsulated packets come in by the cluster interface with a client's source: strict filtering drops them. */
static void check_rp_filter(struct report *r, const char *interface)
{
	long all = sysctl_of("all", "rp_filter"), own = sysctl_of(interface, "rp_filter");
	char what[200], mend[200];

	if ((all > own ? all : own) != 1)
		return;
	snprintf(what, sizeof(what),
		 "rp_filter of %s is strict: the kernel drops packets that arrive through the tunnel", interface);
	snprintf(mend, sizeof(mend), "sysctl -w net.ipv4.conf.all.rp_filter=2 net.ipv4.conf.%s.rp_filter=2", interface);
	problem(r, true, what, mend);
}

/* Peers' addresses are local on this node; without these settings it would answer ARP requests for them. */
static void check_arp(struct report *r, const char *interface)
{
	long ignore_all = sysctl_of("all", "arp_ignore"), ignore = sysctl_of(interface, "arp_ignore");
	long announce_all = sysctl_of("all", "arp_announce"), announce = sysctl_of(interface, "arp_announce");
	char what[200], mend[200];

	if ((ignore_all > ignore ? ignore_all : ignore) < 1) {
		snprintf(what, sizeof(what),
			 "arp_ignore of %s is 0: this node would answer ARP requests for its peers' addresses",
			 interface);
		snprintf(mend, sizeof(mend), "sysctl -w net.ipv4.conf.%s.arp_ignore=1", interface);
		problem(r, true, what, mend);
	}
	if ((announce_all > announce ? announce_all : announce) < 2) {
		snprintf(what, sizeof(what), "arp_announce of %s is below 2: ARP requests may carry a peer's address",
			 interface);
		snprintf(mend, sizeof(mend), "sysctl -w net.ipv4.conf.%s.arp_announce=2", interface);
		problem(r, false, what, mend);
	}
}

static void check_address(struct report *r, const struct config *config, const struct ifaddrs *all,
			  const struct addr *address, bool cluster)
{
	const struct member *self = &config->member[config->self];
	char interface[IF_NAMESIZE], text[ADDR_TEXT_BYTES], what[200], mend[200];

	if (addr_is_zero(address))
		return;
	if (!interface_of(all, address, interface)) {
		snprintf(what, sizeof(what), "%s address %s of member %s is on no interface of this host",
			 cluster ? "cluster" : "service", addr_format(address, text), self->name);
		snprintf(mend, sizeof(mend), "ip address add %s/%d dev INTERFACE, or correct [Member \"%s\"]", text,
			 addr_is_v4(address) ? 24 : 64, self->name);
		problem(r, true, what, mend);
		return;
	}
	if (!addr_is_v4(address))
		return;
	if (cluster)
		check_rp_filter(r, interface);
	if (self->own_cluster_address)
		check_arp(r, interface);
}

static void check_shared(struct report *r, const struct config *config, const struct ifaddrs *all,
			 const struct addr *address)
{
	char has[IF_NAMESIZE], wanted[INTERFACE_BYTES], why[SHARED_WHY_BYTES] = "", text[ADDR_TEXT_BYTES];
	char what[SHARED_WHY_BYTES + 80], mend[200];
	bool v4 = addr_is_v4(address), found = shared_interface_find(config, !v4, wanted, why);

	if (!found) {
		problem(r, true, why, "correct [Shared] in dprd.conf");
	} else if (!interface_of(all, address, has)) {
		snprintf(what, sizeof(what), "shared address %s is on no interface of this host",
			 addr_format(address, text));
		snprintf(mend, sizeof(mend), "ip address add %s/%d dev %s%s", text, v4 ? 32 : 128, wanted,
			 v4 ? "" : " nodad (other nodes have it as well)");
		problem(r, true, what, mend);
	} else if (strcmp(has, wanted) != 0) {
		snprintf(what, sizeof(what), "shared address %s is an address of %s, but its frames come in by %s",
			 addr_format(address, text), has, wanted);
		problem(r, true, what, "move the address, or correct Interface= in [Shared]");
	}
}

static void check_addresses(struct report *r, const struct config *config)
{
	const struct member *self = &config->member[config->self];
	struct ifaddrs *all;
	unsigned i;

	if (getifaddrs(&all))
		return;
	for (i = 0; i < self->service_count; i++)
		check_address(r, config, all, &self->service[i], false);
	for (i = 0; i < config->shared_count; i++)
		check_shared(r, config, all, &config->shared[i]);
	check_address(r, config, all, &self->cluster_v4, true);
	check_address(r, config, all, &self->cluster_v6, true);
	freeifaddrs(all);
}

/* A tunnel device of the kernel would decapsulate packets of any sender (CVE-2020-10136). */
static void check_kernel_tunnels(struct report *r)
{
	static const char *const devices[] = { "tunl0", "ip6tnl0", "sit0" };
	char path[64], what[160], mend[64];
	unsigned i;

	for (i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		FILE *file;
		unsigned flags = 0;

		snprintf(path, sizeof(path), "/sys/class/net/%s/flags", devices[i]);
		file = fopen(path, "re");
		if (!file)
			continue;
		if (fscanf(file, "%x", &flags) != 1)
			flags = 0;
		fclose(file);
		if (!(flags & IFF_UP))
			continue;
		snprintf(what, sizeof(what), "%s is up: with it the kernel decapsulates packets from any source",
			 devices[i]);
		snprintf(mend, sizeof(mend), "ip link set %s down", devices[i]);
		problem(r, false, what, mend);
	}
}

static void check_peers(struct report *r, const struct config *config)
{
	const struct member *self = &config->member[config->self];
	char text[ADDR_TEXT_BYTES], what[200];
	unsigned i, v6;

	for (i = 0; i < config->member_count; i++) {
		for (v6 = 0; i != config->self && v6 < 2; v6++) {
			const struct addr *from = v6 ? &self->cluster_v6 : &self->cluster_v4;
			const struct addr *to = v6 ? &config->member[i].cluster_v6 : &config->member[i].cluster_v4;
			unsigned mtu;

			if (addr_is_zero(from) || addr_is_zero(to))
				continue;
			mtu = tunnel_path_mtu(from, to);
			if (!mtu) {
				snprintf(what, sizeof(what), "no route to the cluster address %s of %s",
					 addr_format(to, text), config->member[i].name);
				problem(r, false, what, "ip route get that address; bring the interface up");
			} else if (mtu < (v6 ? MTU_LEAST_V6 : MTU_LEAST_V4)) {
				snprintf(what, sizeof(what), "the path to %s has an MTU of %u", config->member[i].name,
					 mtu);
				problem(r, false, what, "raise the MTU of the cluster network to 1500 or more");
			}
		}
	}
}

/* --- real servers behind this node --- */

static bool has_nat(const struct config *config, bool v6)
{
	unsigned own;

	for (own = 0; own < config->own_backend_count; own++) {
		const struct backend *backend = config_own_backend(config, own);

		if (backend->form == BACKEND_NAT && backend_address(backend, v6))
			return true;
	}
	return false;
}

/* Without forwarding the kernel passes no packet on to real servers, and none from them. */
static void check_forwarding(struct report *r, const struct config *config)
{
	if (has_nat(config, false) && read_number("/proc/sys/net/ipv4/ip_forward") != 1)
		problem(r, true, "net.ipv4.ip_forward is not 1: no packet gets to real servers of Form=nat or back",
			"sysctl -w net.ipv4.ip_forward=1, and permanently in /etc/sysctl.d");
	if (has_nat(config, true) && read_number("/proc/sys/net/ipv6/conf/all/forwarding") != 1)
		problem(r, true,
			"net.ipv6.conf.all.forwarding is not 1: no packet gets to real servers of Form=nat or back",
			"sysctl -w net.ipv6.conf.all.forwarding=1, and permanently in /etc/sysctl.d (with addresses "
			"from "
			"router advertisements also accept_ra=2)");
}

/* With NAT the kernel tracks every connection of this host, not only those of real servers. */
static void check_tracking(struct report *r, const struct config *config)
{
	long max = read_number("/proc/sys/net/netfilter/nf_conntrack_max");
	char what[200], mend[120];

	if (max < 0 || max >= (long)config->max_flows)
		return;
	snprintf(what, sizeof(what),
		 "nf_conntrack_max is %ld, MaxFlows=%u: the kernel drops new connections when it tracks that many", max,
		 config->max_flows);
	snprintf(mend, sizeof(mend), "sysctl -w net.netfilter.nf_conntrack_max=%u", config->max_flows * 2);
	problem(r, false, what, mend);
}

/* On the network of the clients' router the kernel would redirect servers to a shorter way, past its own NAT. */
static void check_redirects(struct report *r, const struct config *config, const struct ifaddrs *all,
			    const struct backend *backend, uint32_t interface)
{
	const struct member *self = &config->member[config->self];
	char name[IF_NAMESIZE], has[IF_NAMESIZE], what[200], mend[200];
	bool same = false;
	unsigned i;

	if (r->redirects_told || !if_indextoname(interface, name))
		return;
	for (i = 0; i < self->service_count; i++)
		same |= addr_is_v4(&self->service[i]) && interface_of(all, &self->service[i], has) &&
			strcmp(has, name) == 0;
	if (!same || (sysctl_of("all", "send_redirects") == 0 && sysctl_of(name, "send_redirects") == 0))
		return;
	snprintf(what, sizeof(what),
		 "real server %s is on the clients' network, and send_redirects of %s may lead its answers past this "
		 "node",
		 backend->name, name);
	snprintf(mend, sizeof(mend), "sysctl -w net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.%s.send_redirects=0",
		 name);
	problem(r, false, what, mend);
	r->redirects_told = true;
}

static bool is_service(const struct config *config, const struct addr *address)
{
	return config_member_by_service(config, address) == (int)config->self || config_is_shared(config, address);
}

static void check_way(struct report *r, const struct config *config, const struct ifaddrs *all,
		      struct mnl_socket *socket, const struct backend *backend, bool v6)
{
	const struct addr *to = backend_address(backend, v6);
	char text[ADDR_TEXT_BYTES], what[240], mend[240];
	struct neighbour way;
	struct addr from;

	if (!to)
		return;
	addr_format(to, text);
	if (!tunnel_preferred_source(to, &from) || neighbour_find(socket, &from, to, &way)) {
		snprintf(what, sizeof(what), "no route to the address %s of real server %s", text, backend->name);
		snprintf(mend, sizeof(mend), "ip route get %s; bring the interface up, or correct [Backend \"%s\"]",
			 text, backend->name);
		problem(r, false, what, mend);
	} else if (backend->form == BACKEND_DIRECT && (way.gateway || !way.ethernet)) {
		snprintf(what, sizeof(what),
			 "Form=direct cannot reach real server %s: %s is on no Ethernet network of this node",
			 backend->name, text);
		snprintf(mend, sizeof(mend), "Form=tunnel or Form=nat in [Backend \"%s\"]", backend->name);
		problem(r, true, what, mend);
	} else if (backend->form != BACKEND_NAT && is_service(config, &from)) {
		snprintf(what, sizeof(what),
			 "this node sends to real server %s from its service address, which the server also has",
			 backend->name);
		snprintf(mend, sizeof(mend), "give this node another address on that network: docs/backends.md, \"%s\"",
			 backend->form == BACKEND_DIRECT ? "direct" : "tunnel");
		problem(r, true, what, mend);
	} else if (backend->form == BACKEND_NAT && !v6) {
		check_redirects(r, config, all, backend, way.interface);
	}
}

static void check_backends(struct report *r, const struct config *config)
{
	struct mnl_socket *socket = config->own_backend_count ? neighbour_open() : NULL;
	struct ifaddrs *all = NULL;
	unsigned own, v6;

	check_forwarding(r, config);
	if (config_has_nat(config))
		check_tracking(r, config);
	if (socket && getifaddrs(&all) == 0) {
		for (own = 0; own < config->own_backend_count; own++) {
			for (v6 = 0; v6 < 2; v6++)
				check_way(r, config, all, socket, config_own_backend(config, own), v6);
		}
		freeifaddrs(all);
	}
	if (socket)
		mnl_socket_close(socket);
}

/* Tries it in a chain without a hook, which no packet enters. */
static void check_translation(struct report *r, const struct config *config)
{
	static const char *const nft[] = { "nft", "-c", "-f", "-", NULL };

	if (!config_has_nat(config))
		return;
	if (command_run(nft,
			"add table inet dprd_check\nadd chain inet dprd_check c\n"
			"add rule inet dprd_check c numgen random mod 2 < 1 meta l4proto tcp dnat ip to 192.0.2.1:80\n",
			NULL))
		problem(r, true, "nft cannot translate addresses, which real servers of Form=nat need",
			"modprobe -a nf_conntrack nft_chain_nat nft_nat nft_numgen; or Form=direct or Form=tunnel");
}

/* Lets both tools check a rule without setting it, because a tool or the kernel may be unable to set it. */
static void check_tools(struct report *r)
{
	static const char *const nft[] = { "nft", "-c", "-f", "-", NULL };
	static const char *const restore[] = { "iptables-nft-restore", "-w", "5", "--noflush", "--test", NULL };
	char *output;
	int status = command_run(
		nft, "add table inet dprd_check\nadd set inet dprd_check s { type ipv4_addr . inet_service ; }\n",
		&output);

	if (status)
		problem(r, true,
			"nft does not work: the package nftables, the right to use it, or nf_tables in the kernel is "
			"missing",
			"apt-get install nftables; run as root or with CAP_NET_ADMIN");
	free(output);
	status = command_run(restore,
			     "*raw\n:DPRDCHECK - [0:0]\n-A DPRDCHECK -j NFQUEUE --queue-num 0 --queue-bypass\nCOMMIT\n",
			     &output);
	if (status)
		problem(r, true,
			"iptables-nft cannot set an NFQUEUE rule: the package iptables, the right to use it, or "
			"xt_NFQUEUE is missing",
			"apt-get install iptables; modprobe xt_NFQUEUE nfnetlink_queue");
	free(output);
}

static void check_plane(struct report *r, const struct config *config)
{
	char why[FASTPATH_WHY_BYTES];

	if (config->plane == PLANE_NFQUEUE || fastpath_possible(config, why))
		return;
	problem(r, config->plane == PLANE_BPF, why,
		"run as root or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, on Linux 6.1 or later; or Plane=nfqueue "
		"in [Datapath]");
}

static void check_bridge(struct report *r, const struct config *config)
{
	char name[IF_NAMESIZE], what[200];
	bool is_auto = config->plane == PLANE_AUTO;

	if (config->plane == PLANE_NFQUEUE || !bridge_takes_packets(config, name))
		return;
	snprintf(what, sizeof(what), "the kernel's rules run at the ports of the bridge %s (br_netfilter): %s", name,
		 is_auto ? "dprd uses the slower plane nfqueue"
			 : "on the plane bpf connections are not forwarded, or break");
	problem(r, !is_auto, what, BRIDGE_ADVICE);
}

unsigned preflight(const struct config *config, bool starting, unsigned *ret_warnings)
{
	struct report report = { .to_log = starting };
	char message[CONFIG_ERROR_BYTES];
	uint8_t key[32];

	if (config_read_key(config->key_file, key, message))
		problem(&report, true, message, "dprctl genkey; the same file on every node");
	explicit_bzero(key, sizeof(key));
	/* At a start, setting the rules tests the tools. */
	if (!starting) {
		check_tools(&report);
		check_plane(&report, config);
		check_bridge(&report, config);
		preflight_pins(&report, config);
		check_translation(&report, config);
		preflight_users(&report);
		/* With one network, clients' packets and tunnels come in by the same interface. */
		if (config->member[config->self].own_cluster_address)
			preflight_firewall(&report);
		preflight_inbound(&report, config);
		preflight_routing(&report, config);
	}
	preflight_clocks(&report);
	check_addresses(&report, config);
	check_kernel_tunnels(&report);
	check_peers(&report, config);
	check_backends(&report, config);
	if (config->serve_here)
		preflight_listeners(&report, config);
	*ret_warnings = report.warnings;
	return report.errors;
}
