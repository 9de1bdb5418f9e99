// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What peers tunnel to this node: it comes out and goes on into the stack, or back (the second look).
 * And what they send back, to be decided about once more.
 */
#include "dprd/base/clock.h"
#include "dprd/encap.h"
#include "dprd/path.h"

/* --- what decide_decapsulation() asks --- */

static bool has_port(const struct config *config, be16 port)
{
	unsigned i;

	for (i = 0; i < config->port_count; i++) {
		if (config->port[i] == ntohs(port))
			return true;
	}
	return false;
}

static int service_owner(void *context, const struct addr *service, be16 port)
{
	const struct path *p = context;

	if (!has_port(&p->d->config, port))
		return -1;
	return config_is_shared(&p->d->config, service) ? (int)DECAP_OWNER_ALL
							: config_member_by_service(&p->d->config, service);
}

static int living_peer(void *context, const struct addr *cluster)
{
	const struct path *p = context;
	const struct config *config = &p->d->config;
	unsigned i;

	for (i = 0; i < config->member_count; i++) {
		const struct member *m = &config->member[i];

		if (i != config->self && (addr_equal(&m->cluster_v4, cluster) || addr_equal(&m->cluster_v6, cluster)))
			return view_member_living(p->d, i, p->now_ms) ? (int)i : -1;
	}
	return -1;
}

static bool is_own_cluster_address(void *context, const struct addr *address)
{
	const struct path *p = context;
	const struct member *self = &p->d->config.member[p->d->config.self];

	return addr_equal(&self->cluster_v4, address) || addr_equal(&self->cluster_v6, address);
}

static uint32_t member_node_id(void *context, int member)
{
	const struct path *p = context;

	return p->d->config.member[member].id;
}

/* --- verdicts --- */

/* Layout "one address each": the sender's service address is not local here, its alias is. */
static struct addr alias_of(const struct config *config, int member, const struct addr *service)
{
	const struct member *m = &config->member[member];
	unsigned i;

	for (i = 0; i < m->service_count; i++) {
		if (addr_equal(&m->service[i], service))
			return config_alias(config, (unsigned)member, i);
	}
	return (struct addr) { 0 };
}

static void drop(struct queued *q, enum reason reason)
{
	q->verdict = (struct verdict) { .kind = VERDICT_DROP, .reason = reason };
}

/* What is in the tunnel packet takes its place. False: its ECN field forbids it. */
static bool unwrap(struct queued *q, const struct packet *inner)
{
	q->replace = q->bytes + q->packet.header_bytes;
	q->replace_bytes = inner->total_bytes;
	if (!encap_decapsulate_ecn(q->replace, inner, q->packet.tos))
		return false;
	q->bytes = q->replace;
	q->captured -= q->packet.header_bytes;
	q->packet = *inner;
	return true;
}

/* The second look. True: the SYN goes back to its entry node. */
static bool goes_back(struct path *p, struct queued *q)
{
	struct verdict v;

	path_env_syn(p, &q->packet);
	v = decide_landed(&p->env, &q->packet, q->verdict.node_id);
	if (v.kind != VERDICT_FORWARD) {
		p->d->view_nodes[0].load += p->d->config.factors.connections;
		return false;
	}
	q->verdict = v;
	path_remember_why(p, q);
	if (!path_resolve_target(p, q))
		drop(q, REASON_NO_TUNNEL);
	return true;
}

/* A SYN of a client of ours is back. With the clock read now: dprd may have been frozen since the batch came. */
static void take_back(struct path *p, struct queued *q)
{
	uint32_t from_id = q->verdict.node_id;

	path_env_syn(p, &q->packet);
	/* The first decision is told before the second one. */
	if (p->d->decide_ahead)
		plane_decide_remember(p->d, &p->env);
	p->env.now_ms = clock_flow_ms();
	q->verdict = decide_returned(&p->env, &q->packet, from_id);
	p->env.now_ms = p->flow_ms;
	if (q->verdict.kind != VERDICT_DROP)
		path_settle_syn(p, q);
}

void path_decapsulate(struct path *p, struct queued *q)
{
	const struct config *config = &p->d->config;
	struct decap_env env = { .service_owner = service_owner,
				 .living_peer = living_peer,
				 .is_cluster_address = path_is_cluster_address,
				 .is_own_cluster_address = is_own_cluster_address,
				 .member_node_id = member_node_id,
				 .context = p,
				 .self = (int)config->self,
				 .maybe_stale = p->batch->maybe_stale };
	const uint8_t *outer = q->bytes;
	struct packet inner;
	struct addr alias;

	q->verdict = decide_decapsulation(&env, &q->packet, &inner);
	if (q->verdict.kind != VERDICT_DECAPSULATE && q->verdict.reason != REASON_RETURNED_LATE)
		return;
	if (!unwrap(q, &inner)) {
		drop(q, REASON_INNER_BAD);
		return;
	}
	if (q->verdict.reason == REASON_RETURNED_LATE) {
		take_back(p, q);
		return;
	}
	if (config->second_look && packet_is_syn(&inner) && encap_may_return(outer, inner.v6) && goes_back(p, q))
		return;
	alias = alias_of(config, config_member_by_id(config, q->verdict.node_id), &inner.key.service);
	if (!addr_is_zero(&alias))
		encap_to_alias(q->replace, &inner, &alias);
	p->d->counters.decapsulated_bytes += inner.total_bytes;
	p->d->last_decapsulated_ms = p->now_ms;
}
