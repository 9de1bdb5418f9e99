// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * check/inbound.c - tests whether this host's firewall lets in the packets of peers: announcements, and forwarded
 * packets as they come out of the tunnel.
 *
 * dprd gives the kernel a frame that seems to come in by the cluster interface: an XDP program that passes everything
 * "runs" on it (BPF_F_TEST_XDP_LIVE_FRAMES, Linux 5.18). So every kind of rule sees the frame. A packet socket shows
 * that it came in, and a raw socket shows that the firewall let it through. Without the rights, or on an older kernel,
 * the check says nothing.
 */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/bpf.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/check/report.h"
#include "dprd/config/config.h"
#include "dprd/core/packet/encap.h"
#include "loadcast/load.h"

enum {
	UDP_BYTES = 8,
	TCP_BYTES = 20,
	FRAME_BYTES = ETH_HLEN + IPV6_HEADER_BYTES + TCP_BYTES,
	WINDOW = 1024,
	TRIES = 2,
	PATIENCE_MS = 150,
};

/* One packet of a peer. */
struct probe {
	struct addr from, to;
	uint8_t protocol; /* TCP: a SYN */
	uint16_t source_port, port;
	uint32_t sequence;
	uint8_t tcp_flags;
};

/* The interface of this node's cluster address. */
struct cluster_link {
	char name[IF_NAMESIZE];
	unsigned index;
	uint8_t hardware[ETH_ALEN];
	bool ethernet;
};

static unsigned write_transport(const struct probe *p, uint8_t *ip, uint8_t *at)
{
	bool v6 = !addr_is_v4(&p->to), tcp = p->protocol == IPPROTO_TCP;
	unsigned bytes = tcp ? TCP_BYTES : UDP_BYTES;

	memset(at, 0, bytes);
	write_be16(at, p->source_port);
	write_be16(at + 2, p->port);
	if (tcp) {
		store_u32(at + 4, htonl(p->sequence));
		at[12] = TCP_BYTES / 4 << 4;
		at[13] = p->tcp_flags;
		write_be16(at + 14, WINDOW);
	} else {
		write_be16(at + 4, UDP_BYTES);
	}
	write_be16(at + (tcp ? 16 : 6),
		   checksum_fold(checksum_add(checksum_pseudo(v6, ip, p->protocol, bytes), at, bytes)));
	return bytes;
}

/* The frame that brings the packet; returns its size. */
static unsigned write_frame(const struct probe *p, const struct cluster_link *link, uint8_t frame[FRAME_BYTES])
{
	static const uint8_t sender[ETH_ALEN] = { 2 }; /* no host has it; the kernel does not check it */
	bool v6 = !addr_is_v4(&p->to);
	unsigned header = v6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES;
	unsigned bytes = p->protocol == IPPROTO_TCP ? TCP_BYTES : UDP_BYTES;
	uint8_t *ip = frame + ETH_HLEN;

	memcpy(frame, link->hardware, ETH_ALEN);
	memcpy(frame + ETH_ALEN, sender, ETH_ALEN);
	write_be16(frame + 2 * ETH_ALEN, v6 ? ETHERTYPE_IPV6 : ETHERTYPE_IP);
	if (v6)
		write_ipv6_header(ip, bytes, 0, 0, p->protocol, &p->from, &p->to);
	else
		write_ipv4_header(ip, header + bytes, 0, true, 0, p->protocol, addr_v4(&p->from), addr_v4(&p->to));
	return ETH_HLEN + header + write_transport(p, ip, ip + header);
}

/* False: the kernel does not do it. */
static bool inject(int program, const struct cluster_link *link, const uint8_t *frame, unsigned bytes)
{
	struct xdp_md context = { .data_end = bytes, .ingress_ifindex = link->index };
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame, .data_size_in = bytes, .ctx_in = &context,
		    .ctx_size_in = sizeof(context), .flags = BPF_F_TEST_XDP_LIVE_FRAMES, .repeat = 1, .batch_size = 1);

	return bpf_prog_test_run_opts(program, &options) == 0;
}

static int program_load(void)
{
	static const struct bpf_insn pass[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	return bpf_prog_load(BPF_PROG_TYPE_XDP, "dprd_check", "GPL", pass, 2, NULL);
}

/* True when a packet with the ports of the probe is read within the time, among all others. */
static bool is_seen(int fd, const struct probe *p, bool with_header)
{
	struct pollfd readable = { .fd = fd, .events = POLLIN };
	uint64_t now_ms = clock_now_ms(), until_ms = now_ms + PATIENCE_MS;
	uint8_t bytes[FRAME_BYTES] = { 0 };

	for (; now_ms < until_ms && poll(&readable, 1, (int)(until_ms - now_ms)) > 0; now_ms = clock_now_ms()) {
		ssize_t size = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		unsigned at = !with_header ? 0 : addr_is_v4(&p->to) ? (bytes[0] & 15U) * 4 : IPV6_HEADER_BYTES;

		if (size >= (ssize_t)at + 4 && read_be16(bytes + at) == p->source_port &&
		    read_be16(bytes + at + 2) == p->port)
			return true;
	}
	return false;
}

static int tap_open(const struct cluster_link *link)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETH_P_ALL),
				  .sll_ifindex = (int)link->index };
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* True when the packet came in and nothing of it came through, however often. */
static bool is_dropped(int program, const struct cluster_link *link, const struct probe *p)
{
	bool v4 = addr_is_v4(&p->to), came = false, through = false;
	int raw = socket(v4 ? AF_INET : AF_INET6, SOCK_RAW | SOCK_CLOEXEC, p->protocol), tap = tap_open(link);
	uint8_t frame[FRAME_BYTES];
	unsigned tries, bytes = write_frame(p, link, frame);

	for (tries = 0; raw >= 0 && tap >= 0 && tries < TRIES && !through; tries++) {
		if (!inject(program, link, frame, bytes))
			break;
		came = is_seen(tap, p, true);
		through = is_seen(raw, p, v4);
	}
	if (raw >= 0)
		close(raw);
	if (tap >= 0)
		close(tap);
	return tries == TRIES && came && !through;
}

/* The connection that a server may have begun for the SYN ends. */
static void end_connection(int program, const struct cluster_link *link, const struct probe *p)
{
	struct probe reset = *p;
	uint8_t frame[FRAME_BYTES];

	reset.sequence++;
	reset.tcp_flags = TCP_RST;
	inject(program, link, frame, write_frame(&reset, link, frame));
}

static bool find_link(const struct addr *address, struct cluster_link *ret)
{
	struct ifaddrs *all, *i;

	*ret = (struct cluster_link) { .index = 0 };
	if (getifaddrs(&all))
		return false;
	for (i = all; i && !ret->index; i = i->ifa_next) {
		struct addr a = { 0 };

		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET)
			a = addr_from_v4(((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr.s_addr);
		else if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET6)
			a = addr_from_v6(&((struct sockaddr_in6 *)(void *)i->ifa_addr)->sin6_addr);
		if (!addr_equal(&a, address))
			continue;
		snprintf(ret->name, sizeof(ret->name), "%s", i->ifa_name);
		ret->index = if_nametoindex(i->ifa_name);
	}
	for (i = all; i && ret->index; i = i->ifa_next) {
		const struct sockaddr_ll *ll = (const struct sockaddr_ll *)(void *)i->ifa_addr;

		if (!ll || ll->sll_family != AF_PACKET || strcmp(i->ifa_name, ret->name) != 0 ||
		    ll->sll_halen != ETH_ALEN)
			continue;
		ret->ethernet = ll->sll_hatype == ARPHRD_ETHER;
		memcpy(ret->hardware, ll->sll_addr, ETH_ALEN);
	}
	freeifaddrs(all);
	return ret->index && ret->ethernet;
}

/* A member that is heard proves more than a probe does; and loadcast would log the probe. */
static bool hears_somebody(const struct config *config)
{
	static struct load_table table; /* too large for a stack */
	uint32_t i;

	if (load_table_snapshot(config->table_file, &table))
		return false;
	for (i = 1; i < table.count; i++) {
		if (table.nodes[i].flags & NODE_HEARD &&
		    load_age_ms(&table, &table.nodes[i], clock_now_ms()) <= config->dead_periods * config->period_ms)
			return true;
	}
	return false;
}

static void check_announcements(struct report *r, const struct config *config, int program,
				const struct cluster_link *link, struct probe p)
{
	char what[240], text[ADDR_TEXT_BYTES];

	p.protocol = IPPROTO_UDP;
	p.source_port = p.port = config->announce_port;
	if (hears_somebody(config) || !is_dropped(program, link, &p))
		return;
	snprintf(what, sizeof(what),
		 "this host's firewall drops announcements: UDP port %u from %s by %s does not come through", p.port,
		 addr_format(&p.from, text), link->name);
	problem(r, true, what, "let it pass (nft list ruleset; iptables-save): docs/operations.md, \"Firewalls\"");
}

/* Forwarded connections come by the cluster interface, to service addresses. */
static void check_forwarded(struct report *r, const struct config *config, int program, const struct cluster_link *link,
			    struct probe p)
{
	char what[240], text[ADDR_TEXT_BYTES];
	unsigned i;

	p.protocol = IPPROTO_TCP;
	p.tcp_flags = TCP_SYN;
	for (i = 0; i < config->port_count; i++) {
		p.port = config->port[i];
		if (getrandom(&p.sequence, sizeof(p.sequence), 0) < 0 ||
		    getrandom(&p.source_port, sizeof(p.source_port), 0) < 0)
			return;
		p.source_port |= 0x8000; /* no port that a service has */
		if (!is_dropped(program, link, &p)) {
			end_connection(program, link, &p);
			continue;
		}
		snprintf(what, sizeof(what),
			 "this host's firewall drops connections that peers forward: TCP port %u of %s by %s does not "
			 "come through",
			 p.port, addr_format(&p.to, text), link->name);
		problem(r, true, what,
			"allow the service ports on this interface, too, for all members' service addresses (nft list "
			"ruleset; iptables-save): docs/operations.md, \"Firewalls\"");
		return;
	}
}

static const struct addr *first_service(const struct member *self, bool v6)
{
	unsigned i;

	for (i = 0; i < self->service_count; i++) {
		if (addr_is_v4(&self->service[i]) != v6)
			return &self->service[i];
	}
	return NULL;
}

static void check_family(struct report *r, const struct config *config, int program, bool v6)
{
	const struct member *self = &config->member[config->self], *peer = NULL;
	const struct addr *own = v6 ? &self->cluster_v6 : &self->cluster_v4, *service = first_service(self, v6);
	struct cluster_link link;
	unsigned i;

	for (i = 0; i < config->member_count && !peer; i++) {
		const struct member *m = &config->member[i];

		if (i != config->self && !addr_is_zero(v6 ? &m->cluster_v6 : &m->cluster_v4))
			peer = m;
	}
	if (!peer || addr_is_zero(own) || !find_link(own, &link))
		return;
	check_announcements(r, config, program, &link,
			    (struct probe) { .from = v6 ? peer->cluster_v6 : peer->cluster_v4, .to = *own });
	if (config->serve_here && service)
		check_forwarded(r, config, program, &link,
				(struct probe) { .from = v6 ? peer->cluster_v6 : peer->cluster_v4, .to = *service });
}

void preflight_inbound(struct report *r, const struct config *config)
{
	int program = program_load();

	if (program < 0)
		return;
	check_family(r, config, program, false);
	check_family(r, config, program, true);
	close(program);
}
