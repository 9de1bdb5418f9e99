// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * model_shared.c - frames to addresses that all nodes share, without a lease and with no socket on any of them:
 * docs/biactive.md. test_shared.c tests the effect of a lease.
 */
#include "dprd/core/packet/packet.h"
#include "tests/bpf/model_private.h"

enum { PROTOCOL_UDP = 17, PORTS_BYTES = 4, ND_FIRST = 133, ND_LAST = 137 };

enum model_frame model_frame_to(const struct frame *in)
{
	static const uint8_t here[6];

	/* A test run's frame comes in by the loopback interface, which knows no broadcast address. */
	if (memcmp(in->bytes, here, 6) == 0)
		return MODEL_FRAME_HERE;
	return in->bytes[0] & 1 ? MODEL_FRAME_MULTICAST : MODEL_FRAME_ELSEWHERE;
}

/* True when this node forwards the connection. */
static bool has_flow(struct model *m, const struct packet *p)
{
	struct flow flow;

	return model_has_port(m->config, p->key.service_port) && model_find_flow(m, p, &flow) &&
	       flow.node_id != m->config->member[m->config->self].id;
}

static enum biactive_counter judge(struct model *m, const struct frame *in, const struct packet *p)
{
	const uint8_t *payload = in->bytes + FRAME_ETHERNET_BYTES + p->header_bytes;

	if (p->kind == PACKET_TCP && !packet_is_syn(p))
		return has_flow(m, p) ? BIACTIVE_ACCEPT_FORWARD : BIACTIVE_REFUSE_SOCKET;
	if (p->kind == PACKET_ICMP_ERROR)
		return has_flow(m, p) ? BIACTIVE_ACCEPT_FORWARD : BIACTIVE_REFUSE_ERROR;
	if (p->kind == PACKET_FRAGMENT)
		return BIACTIVE_REFUSE_FRAGMENT;
	if (p->kind == PACKET_OPTIONS || p->kind == PACKET_MALFORMED)
		return BIACTIVE_REFUSE_MALFORMED;
	if (p->v6 && p->protocol == PROTO_ICMPV6 && payload < in->bytes + in->length && *payload >= ND_FIRST &&
	    *payload <= ND_LAST)
		return BIACTIVE_PASS_NEIGHBOUR;
	if (p->protocol == PROTOCOL_UDP && payload + PORTS_BYTES > in->bytes + in->length)
		return BIACTIVE_REFUSE_MALFORMED;
	return BIACTIVE_REFUSE_NO_LEASE;
}

bool model_takes_shared(struct model *m, const struct frame *in, const struct packet *p, struct model_result *r)
{
	enum model_frame to = model_frame_to(in);
	enum biactive_counter counter;

	/* A packet that was handed over is not handed on. */
	if (to == MODEL_FRAME_HERE || to == MODEL_FRAME_ELSEWHERE)
		return false;
	if (r->unjudged)
		return true;
	if (m->shared->interface[p->v6] != 1)
		return false;
	counter = judge(m, in, p);
	m->counted.shared[counter]++;
	if (counter < BIACTIVE_REFUSE_SOCKET)
		return true;
	model_finish(r, DROP);
	return false;
}
