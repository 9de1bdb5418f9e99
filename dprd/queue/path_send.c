// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * path_send.c - sends the packets of a batch to their nodes: encapsulates them, and cuts those that are too big.
 */
#include <errno.h>

#include "dprd/cluster/state.h"
#include "dprd/config/config.h"
#include "dprd/core/packet/encap.h"
#include "dprd/host/tunnel.h"
#include "dprd/queue/path_batch.h"

/*
 * True for a SYN that may be sent back: not for a copy, and not for one that came back already. With a shared address
 * this node cannot tell them apart.
 */
static bool may_return(const struct path *p, const struct queued *q)
{
	return q->verdict.reason == REASON_CHOSEN && p->d->config.second_look &&
	       !config_is_shared(&p->d->config, &q->packet.destination);
}

/* Adds a packet of one or two pieces: by the packet socket when the hardware address is known, else by routing. */
static bool add_packet(struct path *p, const struct queued *q, bool v6, const uint8_t *head, unsigned head_bytes,
		       const uint8_t *body, unsigned body_bytes, unsigned tag)
{
	if (q->way.next_hop.known)
		return tunnel_add_direct(p->tunnel, &q->way.next_hop, v6, head, head_bytes, body, body_bytes, tag);
	return tunnel_add(p->tunnel, &q->way.destination, head, head_bytes, body, body_bytes, tag);
}

/* Adds the packet with an outer header, or as it is when the way is direct. */
static bool send_packet(struct path *p, struct queued *q, const struct packet *packet, const uint8_t *bytes,
			unsigned tag)
{
	unsigned outer_bytes = encap_bytes(packet->v6);
	/* The bytes in front of the packet are the kernel's message about it, which is no longer needed. */
	bool in_place = bytes == q->bytes && q->head_room >= outer_bytes;
	uint8_t *outer;

	if (q->way.form == WAY_FORM_DIRECT)
		return tunnel_add_direct(p->tunnel, &q->way.next_hop, packet->v6, bytes, packet->total_bytes, NULL, 0,
					 tag);
	outer = in_place ? q->bytes - outer_bytes : tunnel_scratch(p->tunnel, outer_bytes);
	if (!outer)
		return false;
	encap_write(outer, packet, &q->way.source, &q->way.destination,
		    may_return(p, q) ? ENCAP_MAY_RETURN | q->verdict.alternative : 0);
	if (in_place)
		return add_packet(p, q, packet->v6, outer, outer_bytes + packet->total_bytes, NULL, 0, tag);
	return add_packet(p, q, packet->v6, outer, outer_bytes, bytes, packet->total_bytes, tag);
}

static void send_failed(void *context, unsigned tag, int error)
{
	struct path *p = context;
	struct queued *q = &p->batch->packets[tag];

	(void)error;
	p->tunnel_errors++;
	if (q->fresh_flow) {
		mutex_lock(&p->d->lock);
		/* Meanwhile another node may have got and answered a copy. */
		if (path_is_late(p))
			path_drop_late(p, q, REASON_LATE_SYN);
		/* A copy may have left although this SYN could not: its node answers. */
		else if (path_has_copies(p, q))
			path_drop_late(p, q, REASON_NO_TUNNEL);
		else
			path_serve_instead(p, q, REASON_FORWARD_FAILED);
		mutex_unlock(&p->d->lock);
	} else if (q->verdict.kind == VERDICT_FORWARD) {
		q->verdict = (struct verdict) { .kind = VERDICT_DROP, .reason = REASON_NO_TUNNEL };
	}
}

/* The number of segments into which a packet that is too big is cut; 0: it cannot be cut. A SYN cannot, because the SYN
 * itself has a sequence number. A damaged packet cannot, because fresh checksums would hide the damage. */
static unsigned segments_of(const struct queued *q)
{
	const struct packet *packet = &q->packet;
	uint32_t headers = (uint32_t)packet->header_bytes + packet->tcp_header_bytes;
	uint32_t payload = packet->total_bytes - headers, room;

	if (packet->kind != PACKET_TCP || packet->tcp_flags & TCP_SYN || headers >= q->way.inner_mtu ||
	    !encap_tcp_checksum_good(q->bytes, packet))
		return 0;
	room = q->way.inner_mtu - headers;
	return (payload + room - 1) / room;
}

/*
 * Sends a packet that is too big as smaller segments, and tells the client the MTU. No packet is dropped, so there is
 * no black hole.
 */
static bool send_segmented(struct path *p, struct queued *q, unsigned tag)
{
	const struct packet *packet = &q->packet;
	uint32_t headers = (uint32_t)packet->header_bytes + packet->tcp_header_bytes, offset = 0;
	unsigned segments = segments_of(q);
	uint16_t step = 0;
	uint8_t *out;

	if (!segments)
		return false;
	if (!tunnel_has_room(p->tunnel, segments + 1, (segments + 1) * (q->way.inner_mtu + ENCAP_V6_BYTES)))
		tunnel_flush(p->tunnel, send_failed, p);
	if (q->tell_too_big) {
		out = tunnel_scratch(p->tunnel, TOO_BIG_BYTES_MAX);
		if (out &&
		    tunnel_add(p->tunnel, &packet->source, out,
			       encap_too_big(q->bytes, packet, q->captured, q->way.inner_mtu, out), NULL, 0, tag))
			p->too_big_sent++;
	}
	while (offset < packet->total_bytes - headers) {
		struct packet segment = *packet;

		out = tunnel_scratch(p->tunnel, q->way.inner_mtu);
		if (!out)
			return false;
		segment.total_bytes = encap_segment(q->bytes, packet, &offset, q->way.inner_mtu - headers, step++, out);
		if (!send_packet(p, q, &segment, out, tag))
			return false;
	}
	p->segmented++;
	return true;
}

/* No node takes a packet with options out of a tunnel: the kernel has looked at the options before dprd gets it. */
static void leave_out_options(struct queued *q)
{
	uint8_t *plain = encap_without_options(q->bytes, &q->packet);

	q->captured -= (uint32_t)(plain - q->bytes);
	q->head_room = (uint16_t)(q->head_room + (plain - q->bytes));
	q->bytes = plain;
}

static bool send_one(struct path *p, struct queued *q, unsigned tag)
{
	bool direct = q->way.form == WAY_FORM_DIRECT;

	/* Without a hop left the packet must not enter a tunnel, RFC 2003 3.1. */
	if (q->captured < q->packet.total_bytes || (direct ? !encap_use_hop(q->bytes, q->packet.v6) : !q->packet.ttl))
		return false;
	if (packet_has_options(&q->packet))
		leave_out_options(q);
	if (q->packet.total_bytes > q->way.inner_mtu)
		return send_segmented(p, q, tag);
	if (!tunnel_has_room(p->tunnel, 1, ENCAP_V6_BYTES))
		tunnel_flush(p->tunnel, send_failed, p);
	return send_packet(p, q, &q->packet, q->bytes, tag);
}

void path_send(struct path *p)
{
	unsigned i;

	for (i = 0; i < p->batch->count; i++) {
		struct queued *q = &p->batch->packets[i];

		if (q->verdict.kind != VERDICT_FORWARD || q->way.form == WAY_FORM_NAT)
			continue;
		if (!send_one(p, q, i))
			send_failed(p, i, EMSGSIZE);
		p->forward_bytes += q->packet.total_bytes;
	}
	tunnel_flush(p->tunnel, send_failed, p);
}
