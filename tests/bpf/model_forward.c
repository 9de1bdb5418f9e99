// SPDX-License-Identifier: GPL-2.0-or-later
/* model_forward.c - a packet of a forwarded flow on its way to its node, as path.c and path_send.c send it. */
#include "dprd/core/packet/encap.h"
#include "tests/bpf/model_private.h"

enum {
	TOO_BIG_TICKS = 60, /* a second */
	TOO_BIG_MOST = 100,
};

void model_finish(struct model_result *r, int verdict)
{
	r->verdict = verdict;
}

void model_drop(struct model *m, struct model_result *r, enum reason reason)
{
	m->counted.reason[reason]++;
	model_finish(r, DROP);
}

void model_add_sum(struct model_result *r, unsigned at)
{
	r->sums[r->sum_count++] = FRAME_ETHERNET_BYTES + at;
}

void model_queue(struct model_result *r, uint32_t mark)
{
	r->mark |= mark;
	r->waits = !r->unjudged;
	model_finish(r, PASS);
}

static bool too_big_allowed(struct model *m)
{
	if (m->tick - (uint32_t)m->counted.too_big_tick >= TOO_BIG_TICKS) {
		m->counted.too_big_tick = m->tick;
		m->counted.too_big_count = 0;
	}
	return m->counted.too_big_count++ < TOO_BIG_MOST;
}

/*
 * Differs: dprd cuts the packet into segments; the program hands it to dprd for that. With dprd away the client only
 * gets a message, which quotes just the headers.
 */
static void send_too_big(struct model *m, const struct frame *in, const struct packet *p, uint32_t mtu,
			 struct model_result *r)
{
	const uint8_t *ip = in->bytes + FRAME_ETHERNET_BYTES;

	if (m->works) {
		model_queue(r, MARK_FORWARD);
		return;
	}
	m->counted.reason[REASON_NO_TUNNEL]++;
	model_finish(r, DROP);
	if (!too_big_allowed(m))
		return;
	m->counted.too_big_sent++;
	model_finish(r, REDIRECT);
	memcpy(r->out.bytes, in->bytes + 6, 6);
	memcpy(r->out.bytes + 6, in->bytes, 6);
	if (in->bytes[0] & 1 && m->config->shared_count)
		memcpy(r->out.bytes + 6, m->shared->hardware, 6);
	r->out.length = FRAME_ETHERNET_BYTES + encap_too_big(ip, p, p->header_bytes + TCP_HEADER_BYTES, mtu,
							     r->out.bytes + FRAME_ETHERNET_BYTES);
}

/* Where a packet goes. */
struct target {
	const struct fastpath_way *way;
	struct addr address;
	enum backend_form form; /* of a member: BACKEND_TUNNEL */
	uint32_t mark; /* BACKEND_NAT */
};

/* The part of it that follows from the node and the configuration. False: there is no way. */
static bool resolve(const struct model *m, const struct packet *p, uint32_t node_id, struct target *ret)
{
	int member = config_member_by_id(m->config, node_id), own = config_own_backend_by_id(m->config, node_id);
	const struct addr *address;

	ret->form = BACKEND_TUNNEL;
	if (own >= 0) {
		ret->form = config_own_backend(m->config, (unsigned)own)->form;
		ret->mark = ((uint32_t)own + 1) << 24;
		address = backend_address(config_own_backend(m->config, (unsigned)own), p->v6);
		ret->address = address ? *address : (struct addr) { 0 };
	} else if (member >= 0) {
		ret->address = p->v6 ? m->config->member[member].cluster_v6 : m->config->member[member].cluster_v4;
	} else {
		return false;
	}
	return ret->way->flags & WAY_USABLE;
}

static void count_sent(struct model *m, const struct packet *p, enum reason reason)
{
	m->counted.reason[reason]++;
	m->counted.forward_bytes += p->total_bytes;
}

static void send_out(struct model *m, const struct packet *p, const struct target *to, enum reason reason,
		     struct model_result *r)
{
	memcpy(r->out.bytes, to->way->hardware, sizeof(to->way->hardware));
	count_sent(m, p, reason);
	model_finish(r, REDIRECT);
}

static void encapsulate(struct model *m, const struct frame *in, const struct packet *p, const struct target *to,
			enum reason reason, struct model_result *r)
{
	const struct member *self = &m->config->member[m->config->self];
	bool may_return =
		reason == REASON_CHOSEN && m->second_look & LOOK_OFFER && !config_is_shared(m->config, &p->destination);
	uint8_t *outer = r->out.bytes + FRAME_ETHERNET_BYTES;

	encap_write(outer, p, p->v6 ? &self->cluster_v6 : &self->cluster_v4, &to->address,
		    may_return ? ENCAP_MAY_RETURN | m->alternative : 0);
	/* The bytes behind the datagram are copied, too. */
	memcpy(outer + encap_bytes(p->v6), in->bytes + FRAME_ETHERNET_BYTES, in->length - FRAME_ETHERNET_BYTES);
	r->out.length = in->length + encap_bytes(p->v6);
	m->sent.tunnelled++;
	send_out(m, p, to, reason, r);
}

/* False: the last hop was used up. */
static bool use_hop(struct model *m, const struct packet *p, struct model_result *r)
{
	if (!encap_use_hop(r->out.bytes + FRAME_ETHERNET_BYTES, p->v6)) {
		model_drop(m, r, REASON_NO_TUNNEL);
		return false;
	}
	if (!p->v6)
		model_add_sum(r, 10);
	return true;
}

/* To a real server, without an outer header. */
static void send_direct(struct model *m, const struct packet *p, const struct target *to, enum reason reason,
			struct model_result *r)
{
	if (!use_hop(m, p, r))
		return;
	m->sent.direct++;
	send_out(m, p, to, reason, r);
}

/* To a fellow node on the network that the frame came from. */
static void hand_over(struct model *m, const struct packet *p, const struct fastpath_way *way, enum reason reason,
		      struct model_result *r)
{
	if (!use_hop(m, p, r))
		return;
	memcpy(r->out.bytes, way->fellow, 6);
	memcpy(r->out.bytes + 6, m->shared->hardware, 6);
	m->sent.handed_over++;
	count_sent(m, p, reason);
	model_finish(r, REDIRECT);
}

/* The packet goes on into this node's own stack. */
static void leave_to_nat(struct model *m, const struct packet *p, const struct target *to, enum reason reason,
			 struct model_result *r)
{
	if (packet_is_syn(p))
		r->mark |= to->mark;
	m->sent.to_nat++;
	m->counted.reason[reason]++;
	model_finish(r, PASS);
}

/* A node that has the address as well, on the network that the frame came from (in a test run by interface 1). */
static bool is_for_fellow(const struct model *m, const struct packet *p, const struct fastpath_way *way)
{
	return way->flags & WAY_FELLOW && config_is_shared(m->config, &p->destination) &&
	       m->shared->interface[p->v6] == 1;
}

/* Works like the path does. Differs: packets that dprd itself sends to fellows go through a tunnel. */
void model_forward(struct model *m, const struct frame *in, const struct packet *p, uint32_t node_id,
		   enum reason reason, uint32_t gso_bytes, struct model_result *r)
{
	const struct fastpath_way *way = &m->ways[2 * flow_table_node(m->flows, node_id, false) + p->v6];
	uint32_t segment = p->total_bytes, room;
	struct target to = { .way = way };
	bool direct;

	if (is_for_fellow(m, p, way)) {
		hand_over(m, p, way, reason, r);
		return;
	}
	if (!resolve(m, p, node_id, &to)) {
		model_drop(m, r, REASON_NO_TUNNEL);
		return;
	}
	if (to.form == BACKEND_NAT) {
		leave_to_nat(m, p, &to, reason, r);
		return;
	}
	/* A large packet leaves in segments, which may be cut finer by the outer header. */
	if (gso_bytes)
		segment = p->header_bytes + (uint32_t)p->tcp_header_bytes + gso_bytes;
	direct = to.form == BACKEND_DIRECT;
	room = way->mtu + (gso_bytes && !direct ? encap_bytes(p->v6) : 0);
	/* send_one(): a packet without a hop left is not tunnelled. */
	if (!direct && !p->ttl)
		model_drop(m, r, REASON_NO_TUNNEL);
	else if (segment > room && p->kind == PACKET_TCP)
		send_too_big(m, in, p, way->mtu, r);
	/* A large packet of a test run has no type: the kernel does not let its length be changed. */
	else if (segment > room || (gso_bytes && !direct))
		model_drop(m, r, REASON_NO_TUNNEL);
	else if (direct)
		send_direct(m, p, &to, reason, r);
	else
		encapsulate(m, in, p, &to, reason, r);
}
