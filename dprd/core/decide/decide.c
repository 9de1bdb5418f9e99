// SPDX-License-Identifier: GPL-2.0-or-later
/* decide.c - the verdict on one packet and its reason. The first question that fits gives the verdict. */
#include "dprd/core/decide/decide.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>

#include "dprd/core/decide/decapsulate.h"

/* The names as dprctl shows them. A unit test compares them with DECIDE_REASONS. */
static const char *const names[REASONS] = {
	[REASON_LOCAL_POLICY] = "local_policy",
	[REASON_BELOW_MAX_LOAD] = "below_max_load",
	[REASON_LOWEST_LOAD] = "lowest_load",
	[REASON_MIN_ADVANTAGE] = "min_advantage",
	[REASON_NO_PEER] = "no_peer",
	[REASON_MINORITY] = "minority",
	[REASON_STALE_SYN] = "stale_syn",
	[REASON_LOCAL_SOCKET] = "local_socket",
	[REASON_RATE_GUARD] = "rate_guard",
	[REASON_TABLE_FULL] = "table_full",
	[REASON_CLUSTER_CLIENT] = "cluster_client",
	[REASON_INSIDE_CLIENT] = "inside_client",
	[REASON_FORWARD_FAILED] = "forward_failed",
	[REASON_CHOSEN] = "chosen",
	[REASON_DRAINING] = "draining",
	[REASON_UNHEALTHY] = "unhealthy",
	[REASON_SAME_SYN] = "same_syn",
	[REASON_SAME_FLOW] = "same_flow",
	[REASON_CHOSEN_AGAIN] = "chosen_again",
	[REASON_SENT_BACK] = "sent_back",
	[REASON_BACKEND] = "backend",
	[REASON_FLOW] = "flow",
	[REASON_ICMP_RELAY] = "icmp_relay",
	[REASON_NO_FLOW] = "no_flow",
	[REASON_FRAGMENT] = "fragment",
	[REASON_OPTIONS] = "options",
	[REASON_OTHER] = "other",
	[REASON_BAD_PACKET] = "bad_packet",
	[REASON_FROM_PEER] = "from_peer",
	[REASON_PROBE] = "probe",
	[REASON_NOT_PEER] = "not_peer",
	[REASON_NOT_TO_US] = "not_to_us",
	[REASON_INNER_FOREIGN] = "inner_foreign",
	[REASON_INNER_NOT_SENDERS] = "inner_not_senders",
	[REASON_INNER_SOURCE] = "inner_source",
	[REASON_INNER_NESTED] = "inner_nested",
	[REASON_INNER_BAD] = "inner_bad",
	[REASON_RETURNED_LATE] = "returned_late",
	[REASON_STALE_TUNNEL_SYN] = "stale_tunnel_syn",
	[REASON_LATE_SYN] = "late_syn",
	[REASON_SEEN_THERE] = "seen_there",
	[REASON_NO_BACKEND] = "no_backend",
	[REASON_NO_TUNNEL] = "no_tunnel",
	[REASON_QUEUE_UNPARSED] = "queue_unparsed",
};

static const struct {
	enum verdict_kind kind;
	const char *text;
} reasons[REASONS] = {
#define X(name, kind, text) [REASON_##name] = { VERDICT_##kind, text },
	DECIDE_REASONS(X)
#undef X
};

const char *reason_name(enum reason reason)
{
	return reason < REASONS ? names[reason] : "?";
}

const char *reason_text(enum reason reason)
{
	return reason < REASONS ? reasons[reason].text : "?";
}

enum verdict_kind reason_kind(enum reason reason)
{
	return reason < REASONS ? reasons[reason].kind : VERDICT_PASS;
}

const char *verdict_kind_name(enum verdict_kind kind)
{
	static const char *const kinds[] = {
		[VERDICT_SERVE] = "serve", [VERDICT_FORWARD] = "forward",         [VERDICT_PASS] = "pass",
		[VERDICT_DROP] = "drop",   [VERDICT_DECAPSULATE] = "decapsulate", [VERDICT_RETURNED] = "returned",
	};

	return kind < sizeof(kinds) / sizeof(kinds[0]) ? kinds[kind] : "?";
}

static struct verdict verdict(enum reason reason)
{
	return (struct verdict) { .kind = reason_kind(reason), .reason = reason };
}

static struct verdict verdict_node(enum reason reason, uint32_t node_id)
{
	return (struct verdict) { .kind = reason_kind(reason), .reason = reason, .node_id = node_id };
}

static struct verdict verdict_chosen(enum reason reason, const struct load_view *view, unsigned index)
{
	struct verdict v = verdict_node(reason, view->nodes[index].node_id);

	v.view_index = index;
	return v;
}

/* A flow to this node does not count: the table of a former process may name a node that is this node now. */
static bool is_self(const struct decide_env *env, const struct flow *flow)
{
	return flow->node_id == env->view->nodes[0].node_id;
}

/*
 * The reason why a SYN stays with the node to which its flow leads; REASONS: it does not stay, and needs a decision of
 * its own (flow/syn.h has the table).
 *
 * An early copy must not stay with a node only because that counts as alive: nothing is lost yet, and a node that is no
 * longer heard would swallow all copies. But a node that is only slow may have answered the first SYN, and a second
 * node must not answer, too (I3). So the copy may go to another node only after COPY_PATIENCE_MS.
 */
static enum reason syn_of_flow(const struct decide_env *env, const struct flow *flow, uint32_t sequence)
{
	bool young = flow_is_young(flow, env->now_ms);

	if (!env->node_alive(env->context, flow->node_id))
		return REASONS;
	switch (flow_syn_of(flow, sequence)) {
	case FLOW_SYN_EARLY_COPY:
		return young || env->node_eligible(env->context, flow->node_id) ? REASON_SAME_SYN : REASONS;
	case FLOW_SYN_LATE_COPY:
		return REASON_SAME_SYN;
	case FLOW_SYN_SAME_FLOW:
		return REASON_SAME_FLOW;
	case FLOW_SYN_GIVEN_UP:
	case FLOW_SYN_OVER:
		break;
	}
	return REASONS;
}

/* The policy's choice. An index that its contract forbids counts as 0 (self): serving here is always safe. */
static unsigned choose(const struct decide_env *env, const struct packet *packet)
{
	const struct policy_input input = {
		.view = env->view,
		.state = env->policy_state,
		.random = env->random,
		.flow_hash = packet ? flow_hash(env->hash_key, &packet->key) : policy_mix(env->random),
	};
	unsigned index = env->policy->choose(&input);

	return index < policy_count(env->view) && policy_weight(&env->view->nodes[index]) > 0 ? index : 0;
}

/* View index of the peer with the lowest estimated load; 0 when no peer may take a connection. */
static unsigned least_loaded_peer(const struct decide_env *env)
{
	const struct policy_input input = { .view = env->view, .random = env->random };

	return policy_lowest(&input, 1, policy_load);
}

enum { ALTERNATIVE_STEPS = 8 }; /* codes for a doubling */

uint8_t decide_alternative_code(double load)
{
	double code = ceil(ALTERNATIVE_STEPS * log2(1 + fmax(load, 0)));

	return code < UINT8_MAX ? (uint8_t)code : UINT8_MAX;
}

double decide_alternative_load(uint8_t code)
{
	return exp2((double)code / ALTERNATIVE_STEPS) - 1;
}

/* The lowest load of all that could take a connection instead of this peer; self is no choice while it sheds its load. */
static double best_other(const struct decide_env *env, unsigned chosen)
{
	double lowest = env->draining || env->unhealthy ? INFINITY : policy_load(&env->view->nodes[0]);

	for (unsigned i = 1; i < policy_count(env->view); i++) {
		if (i != chosen && policy_weight(&env->view->nodes[i]) > 0)
			lowest = fmin(lowest, policy_load(&env->view->nodes[i]));
	}
	return lowest;
}

double decide_max_load(const struct decide_env *env)
{
	return env->max_load_auto ? policy_max_load_auto(env->view) : env->max_load;
}

/* The peer may send the SYN back, so it gets the load of the best other choice. */
static struct verdict verdict_offer(const struct decide_env *env, unsigned chosen)
{
	struct verdict v = verdict_chosen(REASON_CHOSEN, env->view, chosen);

	v.alternative = decide_alternative_code(best_other(env, chosen));
	return v;
}

struct verdict decide_new(const struct decide_env *env, const struct packet *packet)
{
	const struct load_view *view = env->view;
	double own = policy_load(&view->nodes[0]);
	unsigned least, chosen;

	if (env->maybe_stale)
		return verdict(REASON_STALE_SYN);
	if (env->from_cluster)
		return verdict(REASON_CLUSTER_CLIENT);
	if (env->from_inside)
		return verdict(REASON_INSIDE_CLIENT);
	if (env->rate_limited)
		return verdict(REASON_RATE_GUARD);
	if (env->table_full)
		return verdict(REASON_TABLE_FULL);
	/*
	 * This comes before health: when most nodes are not heard, the fault may be on this node, and the few that are
	 * heard could not serve all.
	 */
	if (env->minority)
		return verdict(REASON_MINORITY);
	policy_count_sent(env->policy, view);
	least = least_loaded_peer(env);
	if (least == 0)
		return verdict(REASON_NO_PEER);
	if (env->draining || env->unhealthy) {
		chosen = choose(env, packet);
		return verdict_chosen(env->draining ? REASON_DRAINING : REASON_UNHEALTHY, view,
				      chosen ? chosen : least);
	}
	if (env->policy->threshold) {
		if (own < decide_max_load(env))
			return verdict(REASON_BELOW_MAX_LOAD);
		if (own <= policy_load(&view->nodes[least]))
			return verdict(REASON_LOWEST_LOAD);
	}
	chosen = choose(env, packet);
	if (chosen == 0)
		return verdict(REASON_LOCAL_POLICY);
	if (env->policy->threshold && env->min_advantage > 0 &&
	    own - policy_load(&view->nodes[chosen]) < env->min_advantage)
		return verdict(REASON_MIN_ADVANTAGE);
	return verdict_offer(env, chosen);
}

unsigned decide_room(const struct decide_env *env, double connection_load)
{
	const struct load_view *view = env->view;
	double own = policy_load(&view->nodes[0]), lowest, room;
	unsigned least;

	/* With two nodes, one is the entry node and the other is this one. */
	if (!env->policy->threshold || view->count < 3)
		return UINT_MAX;
	policy_count_sent(env->policy, view);
	least = least_loaded_peer(env);
	if (least == 0)
		return UINT_MAX;
	lowest = policy_load(&view->nodes[least]);
	if (env->draining || env->unhealthy || (own >= decide_max_load(env) && own > lowest))
		return 0;
	if (connection_load <= 0)
		return UINT_MAX;
	connection_load /= view->nodes[0].weight > 0 ? view->nodes[0].weight : 1;
	room = fmax(ceil((decide_max_load(env) - own) / connection_load), floor((lowest - own) / connection_load) + 1);
	return room < UINT_MAX ? (unsigned)room : UINT_MAX;
}

/* decide_new() as if that node were not eligible. */
static struct verdict decide_without(const struct decide_env *env, const struct packet *packet, uint32_t node_id)
{
	struct decide_env without = *env;
	struct view_node *node = NULL;
	struct verdict v;
	bool eligible = false;

	for (unsigned i = 1; i < env->view->count && !node; i++) {
		if (env->view->nodes[i].node_id == node_id)
			node = &env->view->nodes[i];
	}
	/* The mean load stays that of all nodes. */
	without.max_load = decide_max_load(env);
	without.max_load_auto = false;
	if (node) {
		eligible = node->eligible;
		node->eligible = false;
	}
	v = decide_new(&without, packet);
	if (node)
		node->eligible = eligible;
	return v;
}

struct verdict decide_landed(const struct decide_env *env, const struct packet *packet, uint32_t entry_id,
			     uint8_t alternative)
{
	double own = policy_load(&env->view->nodes[0]);
	bool sheds = env->draining || env->unhealthy;

	if (!env->policy->threshold || (!sheds && own <= decide_alternative_load(alternative)) ||
	    decide_without(env, packet, entry_id).kind != VERDICT_FORWARD)
		return verdict_node(REASON_FROM_PEER, entry_id);
	return verdict_node(REASON_SENT_BACK, entry_id);
}

struct verdict decide_again(const struct decide_env *env, const struct packet *packet, uint32_t from_id)
{
	struct verdict v = decide_without(env, packet, from_id);

	return v.kind == VERDICT_FORWARD ? verdict_chosen(REASON_CHOSEN_AGAIN, env->view, v.view_index) : v;
}

struct verdict decide_returned(const struct decide_env *env, const struct packet *packet, uint32_t from_id)
{
	struct verdict v = verdict(REASON_RETURNED_LATE);
	struct flow flow;

	if (env->maybe_stale || !packet_is_syn(packet) || !flow_find(env->flows, &packet->key, &flow) ||
	    flow.state != FLOW_HALF_OPEN || flow.node_id != from_id ||
	    !flow_same_sequence(&flow, packet->tcp_sequence) || env->now_ms > flow.last_seen_ms + STALE_MS)
		return v;
	v = decide_again(env, packet, from_id);
	v.old_flow = true;
	return v;
}

/* A SYN with options stays here: a peer of a former version would drop it. */
static struct verdict decide_first(const struct decide_env *env, const struct packet *packet)
{
	return packet_has_options(packet) ? verdict(REASON_OPTIONS) : decide_new(env, packet);
}

static struct verdict decide_syn_of_flow(const struct decide_env *env, const struct packet *packet,
					 const struct flow *flow)
{
	enum reason reason = syn_of_flow(env, flow, packet->tcp_sequence);

	if (reason != REASONS)
		return verdict_node(reason, flow->node_id);
	/* A client that has waited in vain for this node is not the one that tries it again. */
	if (flow_syn_of(flow, packet->tcp_sequence) == FLOW_SYN_EARLY_COPY && !packet_has_options(packet))
		return decide_without(env, packet, flow->node_id);
	return decide_first(env, packet);
}

static struct verdict decide_tcp(const struct decide_env *env, const struct packet *packet)
{
	struct verdict v;
	struct flow flow;
	bool found = flow_find(env->flows, &packet->key, &flow);
	bool forwarded = found && !is_self(env, &flow);

	if (!packet_is_syn(packet))
		v = forwarded ? verdict_node(REASON_FLOW, flow.node_id) : verdict(REASON_NO_FLOW);
	else
		v = forwarded ? decide_syn_of_flow(env, packet, &flow) : decide_first(env, packet);
	v.old_flow = found;
	return v;
}

static struct verdict decide_icmp_error(const struct decide_env *env, const struct packet *packet)
{
	struct flow flow;

	return flow_find(env->flows, &packet->key, &flow) && !is_self(env, &flow)
		       ? verdict_node(REASON_ICMP_RELAY, flow.node_id)
		       : verdict(REASON_NO_FLOW);
}

struct verdict decide(const struct decide_env *env, const struct packet *packet)
{
	switch (packet->kind) {
	case PACKET_TCP:
		return decide_tcp(env, packet);
	case PACKET_ICMP_ERROR:
		return decide_icmp_error(env, packet);
	case PACKET_FRAGMENT:
		return verdict(REASON_FRAGMENT);
	case PACKET_OPTIONS:
		return verdict(REASON_OPTIONS);
	case PACKET_TRUNCATED:
	case PACKET_MALFORMED:
		return verdict(REASON_BAD_PACKET);
	case PACKET_TUNNEL:
	case PACKET_OTHER:
		break;
	}
	return verdict(REASON_OTHER);
}

struct verdict decide_decapsulation(const struct decap_env *env, const struct packet *outer, struct packet *ret_inner)
{
	struct verdict v = { .kind = VERDICT_DROP };
	int peer;

	/* No dprd sends tunnel packets in fragments or with options in the outer header. */
	if (outer->kind != PACKET_TUNNEL)
		return verdict(REASON_INNER_BAD);
	if (!env->is_own_cluster_address(env->context, &outer->destination))
		return verdict(REASON_NOT_TO_US);
	peer = env->living_peer(env->context, &outer->source);
	if (peer < 0)
		return verdict(REASON_NOT_PEER);
	packet_parse(outer->inner, outer->inner_bytes, ret_inner);
	v.kind = decapsulate_judge(env, outer, ret_inner, peer, &v.reason);
	if (v.kind != VERDICT_DROP)
		v.node_id = env->member_node_id(env->context, peer);
	return v;
}
