// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * path_tunnel.c - takes packets of peers out of the tunnel for this node's stack, or sends SYNs back (the second look).
 * Decides again about SYNs that peers sent back.
 */
#include "dprd/base/clock.h"
#include "dprd/cluster/state.h"
#include "dprd/cluster/translated.h"
#include "dprd/cluster/view.h"
#include "dprd/core/decide/tunnelled.h"
#include "dprd/core/packet/encap.h"
#include "dprd/core/packet/probe.h"
#include "dprd/plane/decide.h"
#include "dprd/queue/path_batch.h"

static bool is_living(void *context, unsigned member)
{
	const struct path *p = context;

	return view_member_living(p->d, member, p->now_ms);
}

static void drop(struct queued *q, enum reason reason)
{
	q->verdict = (struct verdict) { .kind = VERDICT_DROP, .reason = reason };
}

/*
 * The packet within takes the place of the tunnel packet. False: its header is damaged, or the ECN fields forbid it (RFC
 * 6040).
 */
static bool unwrap(struct queued *q, const struct packet *inner)
{
	q->replace = q->bytes + q->packet.header_bytes;
	q->replace_bytes = inner->total_bytes;
	if (!encap_header_checksum_good(q->replace, inner) || !encap_decapsulate_ecn(q->replace, inner, q->packet.tos))
		return false;
	q->bytes = q->replace;
	q->captured -= q->packet.header_bytes;
	q->packet = *inner;
	return true;
}

/* The second look. True: the SYN goes back to its entry node. */
static bool goes_back(struct path *p, struct queued *q, uint8_t alternative)
{
	struct verdict v;

	path_read_own_load(p);
	path_env_syn(p, &q->packet);
	v = decide_landed(&p->env, &q->packet, q->verdict.node_id, alternative);
	if (v.kind != VERDICT_FORWARD) {
		p->d->view_nodes[0].load += p->d->config.factors.connections;
		return false;
	}
	q->verdict = v;
	path_note_why(p, q);
	if (!path_find_way(p, q))
		drop(q, REASON_NO_TUNNEL);
	return true;
}

/*
 * Decides again about a SYN of this node's client. Reads the clock now: dprd may have been frozen since the batch came.
 */
static void take_back(struct path *p, struct queued *q)
{
	uint32_t from_id = q->verdict.node_id;

	path_read_own_load(p);
	path_env_syn(p, &q->packet);
	/* The programs' decision was first: it is remembered before the second one. */
	plane_decide_remember(p->d, &p->env);
	p->env.now_ms = clock_flow_ms();
	q->verdict = decide_returned(&p->env, &q->packet, from_id);
	p->env.now_ms = p->flow_ms;
	if (q->verdict.kind == VERDICT_DROP)
		return;
	outcomes_returned(p->d, from_id, q->packet.v6);
	path_plan_syn(p, q);
}

void path_decapsulate(struct path *p, struct queued *q)
{
	const struct config *config = &p->d->config;
	const struct tunnelled tunnelled = { .config = config, .is_living = is_living, .context = p };
	struct decap_env env = tunnelled_env(&tunnelled);
	const uint8_t *outer = q->bytes;
	struct packet inner;
	bool back = false;

	mutex_assert_held(&p->d->lock);
	env.maybe_stale = p->batch->maybe_stale;
	q->verdict = decide_decapsulation(&env, &q->packet, &inner);
	if (q->verdict.kind == VERDICT_DROP)
		return;
	if (!unwrap(q, &inner)) {
		drop(q, REASON_INNER_BAD);
		return;
	}
	if (q->verdict.kind == VERDICT_RETURNED) {
		take_back(p, q);
		return;
	}
	if (packet_is_syn(&inner) && !packet_is_probe(&inner)) {
		back = config->second_look && encap_may_return(outer, inner.v6) &&
		       goes_back(p, q, encap_alternative(outer, inner.v6));
		translated_began(p->d, !back);
	}
	if (!back)
		tunnelled_to_alias(config, q->verdict.node_id, q->replace, &inner);
}
