// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "dprd/queue/standby_forward.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/base/log.h"
#include "dprd/core/packet/encap.h"
#include "dprd/host/tunnel.h"
#include "dprd/host/flowset.h"

/* True when a SYN begins a new connection. Unlike dprd (decide.c), this process sends a copy to no other node. */
static bool begins_anew(const struct standby_members *members, const struct flow *flow, unsigned member,
			const struct packet *syn)
{
	if (!(members->living >> member & 1))
		return true;
	return flow_syn_is_new(flow_syn_of(flow, syn->tcp_sequence));
}

enum standby_fate standby_judge_forward(const struct flow_table *flows, const struct standby_members *members,
					const struct packet *packet, struct standby_way *ret)
{
	int member;

	if (packet->kind != PACKET_TCP)
		return STANDBY_DROP;
	if (!flow_find(flows, &packet->key, &ret->flow))
		return STANDBY_PASS;
	member = config_member_by_id(&members->config, ret->flow.node_id);
	if (member < 0)
		return STANDBY_DROP;
	if (member == (int)members->config.self)
		return STANDBY_PASS;
	ret->member = (unsigned)member;
	if (packet_is_syn(packet) && begins_anew(members, &ret->flow, ret->member, packet))
		return STANDBY_SERVE;
	/* A packet with options waits for dprd, which takes them out. */
	return packet->ttl && !packet_has_options(packet) &&
			       packet->total_bytes <= members->inner_mtu[member][packet->v6]
		       ? STANDBY_SEND
		       : STANDBY_DROP;
}

/* --- the process --- */

static struct flow_table *map_flows(const char *run_dir)
{
	char path[PATH_BYTES + 16];
	struct flow_table *flows;
	struct stat status;
	void *memory;
	int fd;

	snprintf(path, sizeof(path), "%s/flows", run_dir);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return NULL;
	memory = fstat(fd, &status) || status.st_size <= 0
			 ? MAP_FAILED
			 : mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (memory == MAP_FAILED)
		return NULL;
	flows = flow_table_share(memory, (size_t)status.st_size);
	if (!flows)
		munmap(memory, (size_t)status.st_size);
	return flows;
}

/* Opens all when the first packet comes: until then the process uses nothing of the host. */
static bool is_ready(struct standby_forwarder *f, const struct standby_members *members)
{
	if (f->tried)
		return f->flows;
	f->tried = true;
	f->set = flowset_new();
	f->tunnel = tunnel_new();
	if (f->set && f->tunnel)
		f->flows = map_flows(members->config.run_dir);
	if (!f->flows)
		log_warning("cannot send packets of forwarded flows while dprd stands still (%s): they wait for dprd",
			    strerror(errno));
	return f->flows;
}

static void send_failed(void *context, unsigned tag, int error)
{
	(void)tag;
	(void)error;
	*(bool *)context = false;
}

static bool send_to(struct tunnel *tunnel, const struct standby_members *members, unsigned member,
		    const struct packet *packet, const uint8_t *datagram)
{
	const struct member *self = &members->config.member[members->config.self],
			    *to = &members->config.member[member];
	uint8_t outer[ENCAP_V6_BYTES];
	bool sent = true;

	encap_write(outer, packet, packet->v6 ? &self->cluster_v6 : &self->cluster_v4,
		    packet->v6 ? &to->cluster_v6 : &to->cluster_v4, 0);
	if (!tunnel_add(tunnel, packet->v6 ? &to->cluster_v6 : &to->cluster_v4, outer, encap_bytes(packet->v6),
			datagram, packet->total_bytes, 0))
		return false;
	tunnel_flush(tunnel, send_failed, &sent);
	return sent;
}

enum standby_fate standby_forward(struct standby_forwarder *f, const struct standby_members *members,
				  const uint8_t *datagram, unsigned bytes)
{
	struct standby_way way;
	struct packet packet;
	enum standby_fate fate;

	if (!is_ready(f, members))
		return STANDBY_DROP;
	packet_parse(datagram, bytes, &packet);
	fate = standby_judge_forward(f->flows, members, &packet, &way);
	if (fate == STANDBY_SERVE) {
		/*
		 * The flow is removed first, then its element of the set: in the other order dprd might add the element
		 * again.
		 */
		flow_remove(f->flows, &way.flow);
		flowset_change(f->set, FLOWSET_REMOVE, &packet.key, 1);
	}
	if (fate != STANDBY_SEND)
		return fate;
	if (packet.total_bytes > bytes || !send_to(f->tunnel, members, way.member, &packet, datagram))
		return STANDBY_DROP;
	flow_touch(f->flows, &way.flow, packet.tcp_flags, clock_flow_ms());
	return STANDBY_SEND;
}
