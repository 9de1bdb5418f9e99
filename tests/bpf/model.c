// SPDX-License-Identifier: GPL-2.0-or-later
/* model.c - the nfqueue plane's code on one frame. */
#include "dprd/core/decide/decide.h"
#include "dprd/core/packet/encap.h"
#include "dprd/core/flow/answered.h"
#include "dprd/core/packet/probe.h"
#include "dprd/core/flow/memory.h"
#include "tests/bpf/model_private.h"

enum { OPTIONS_MOST = 12 }; /* searched for an MSS */

/* A flow's time is the start of the tick that the program saw. */
static uint64_t ms_of_tick(uint32_t tick)
{
	return (((uint64_t)tick << FLOW_TICK_SHIFT) + 999999) / 1000000;
}

/* --- the entry node --- */

static bool always(void *context, uint32_t node_id)
{
	(void)context;
	(void)node_id;
	return true;
}

/* The verdict of decide() when it would serve all new connections here. */
static struct verdict decide_it(struct model *m, const struct packet *p)
{
	static struct policy_state state;
	static const uint64_t hash_key[2];
	struct view_node self = { .node_id = m->config->member[m->config->self].id, .weight = 1 };
	const struct load_view view = { .count = 1, .nodes = &self };
	const struct decide_env env = { .flows = m->flows,
					.view = &view,
					.policy = &policy_local,
					.policy_state = &state,
					.hash_key = hash_key,
					.now_ms = ms_of_tick(m->tick),
					.node_alive = always,
					.node_eligible = always };

	return decide(&env, p);
}

/* No client has a v4-mapped address in IPv6: an ICMP error that quotes one is not about a packet that was sent. */
bool model_find_flow(struct model *m, const struct packet *p, struct flow *ret)
{
	m->flows->now_ms = ms_of_tick(m->tick);
	return !(p->v6 && addr_is_v4(&p->key.client)) && flow_find(m->flows, &p->key, ret);
}

/* dprd is away. Copies of SYNs go where they went. False: the port is used again; decide() would serve that. */
static bool syn_alone(struct model *m, const struct frame *in, const struct packet *p, const struct flow *flow,
		      uint32_t gso_bytes, struct model_result *r)
{
	const struct verdict v = decide_it(m, p);
	uint32_t self_id = m->config->member[m->config->self].id;
	bool same = flow_same_sequence(flow, p->tcp_sequence);

	/* Differs: a SYN does not refresh its flow here. */
	if (v.kind == VERDICT_FORWARD) {
		model_forward(m, in, p, v.node_id, v.reason, gso_bytes, r);
		return true;
	}
	model_finish(r, PASS);
	if (flow->node_id == self_id && (same || flow->state == FLOW_CONFIRMED))
		return true;
	/* Differs: the programs remove no flow; it leads to this node from now on, unless to a real server. */
	flow_slot_at(m->flows, flow->slot)->target =
		p->tcp_sequence << FLOW_SEQUENCE_SHIFT | (uint32_t)flow_table_node(m->flows, self_id, false);
	return false;
}

/* Decide=kernel: in place of a flow of the same key that is over. */
static void renew(struct model *m, const struct packet *p, const struct flow *over, uint32_t node)
{
	struct flow_slot *slot = flow_slot_at(m->flows, over->slot);

	slot->target = p->tcp_sequence << FLOW_SEQUENCE_SHIFT | node;
	slot->state = (slot->state & FLOW_OVERFLOW) | m->tick << FLOW_TIME_SHIFT | SLOT_HALF_OPEN;
}

/* The place in answered[] and served[] of this SYN; its hash in *ret. -1: to no service. */
static int answered_at(const struct model *m, const struct flow_key *key, uint32_t sequence, uint64_t *ret)
{
	int service = flow_table_service(m->flows, &key->service, key->service_port, false);
	struct flow_search search;

	if (service < 0)
		return -1;
	flow_search_key(m->flows, key, (unsigned)service, &search);
	*ret = flow_slot_mix(flow_slot_mix(search.slot.key ^ flow_table_hash_key(m->flows)[1]) ^ sequence);
	return (int)answered_place(*ret);
}

static void note_word(struct model *m, uint64_t *word, uint64_t hash)
{
	m->noted = word;
	m->noted_before = *word;
	*word = answered_word(hash, m->tick);
}

/* Differs: in front of dprd's queue, which lets a SYN pass when it is full. */
static bool was_queued(struct model *m, const struct packet *p, bool note)
{
	uint64_t hash = 0;
	int place = answered_at(m, &p->key, p->tcp_sequence, &hash);
	bool found;

	if (place < 0)
		return false;
	hash = answered_queued(hash);
	place = (int)answered_place(hash);
	found = answered_has(m->served[place], hash, m->tick, SERVED_SOON_TICKS);
	if (!found && note)
		note_word(m, &m->served[place], hash);
	return found;
}

/* Differs: a SYN is only marked for dprd's queues, which decides. A flow of its key that this would end leads here. */
static void queue_syn(struct model *m, const struct packet *p, const struct flow *flow, struct model_result *r)
{
	uint32_t *target;

	model_queue(r, flow || was_queued(m, p, true) ? MARK_FORWARD : MARK_DECIDE);
	if (!flow || flow->state == FLOW_CONFIRMED || flow_same_sequence(flow, p->tcp_sequence))
		return;
	target = &flow_slot_at(m->flows, flow->slot)->target;
	*target = (*target & ~FLOW_NODE_MASK) |
		  (uint32_t)flow_table_node(m->flows, m->config->member[m->config->self].id, false);
}

static bool is_flooded(const struct model *m)
{
	return m->made >= m->room && m->made - m->room >= FASTPATH_OVER_ROOM;
}

static void serve(struct model *m, const struct packet *p, const struct flow *over, uint32_t reason,
		  struct model_result *r)
{
	uint32_t self_id = m->config->member[m->config->self].id;
	uint64_t hash = 0;
	int place;

	if (m->choices && !m->serves_here && reason != REASON_NO_BACKEND) {
		queue_syn(m, p, over, r);
		return;
	}
	m->counted.syns++;
	m->counted.reason[reason]++;
	if (reason == REASON_NO_BACKEND) {
		model_finish(r, DROP);
		return;
	}
	if (over)
		renew(m, p, over, (uint32_t)flow_table_node(m->flows, self_id, false));
	place = answered_at(m, &p->key, p->tcp_sequence, &hash);
	if (place >= 0 && !is_flooded(m))
		note_word(m, &m->served[place], hash);
	model_finish(r, PASS);
	if (m->choices)
		r->mark |= BACKEND_MARK_MASK;
}

/* A half-open flow to this node; false: there is no place for it. */
static bool make_flow(struct model *m, const struct packet *p, const struct flow *over, uint32_t node)
{
	int service = flow_table_service(m->flows, &p->key.service, p->key.service_port, false);
	struct flow_search search;

	if (over) {
		renew(m, p, over, node);
		return true;
	}
	flow_search_key(m->flows, &p->key, (unsigned)service, &search);
	return flow_insert(m->flows, &search, p->tcp_sequence << FLOW_SEQUENCE_SHIFT | node,
			   m->tick << FLOW_TIME_SHIFT | SLOT_HALF_OPEN);
}

static bool is_of_cluster(struct model *m, const struct addr *a)
{
	struct addr unused;

	return model_is_cluster_address(m, a) || model_find_alias(m->config, a, &unused);
}

static bool was_answered(const struct model *m, const struct packet *p)
{
	uint64_t hash = 0;
	int place = answered_at(m, &p->key, p->tcp_sequence, &hash);

	return place >= 0 && (answered_has(m->answered[place], hash, m->tick, ANSWERED_TICKS) ||
			      answered_has(m->served[place], hash, m->tick, SERVED_SOON_TICKS));
}

/* Differs: dprd looks at what it has served itself. mine: no flow of another node has the connection. */
static bool is_left_to_socket(struct model *m, const struct packet *p, bool mine)
{
	bool found = m->has_socket(&p->key) || (mine && was_answered(m, p));

	m->counted.reason[REASON_LOCAL_SOCKET] += found;
	return found;
}

/* Decide=kernel: the next verdict of the schedule, unless the connection cannot be forwarded at all. */
static void decide_scheduled(struct model *m, const struct frame *in, const struct packet *p, const struct flow *over,
			     uint32_t gso_bytes, struct model_result *r)
{
	const struct fastpath_schedule *s = m->schedules[p->v6];
	bool from_cluster = is_of_cluster(m, &p->source), from_inside = inside_has(m->inside, &p->source);
	bool drawn = !from_cluster && !from_inside && s->count;
	uint32_t entry = 0, node, reason;

	if (from_cluster && !m->choices) {
		serve(m, p, over, REASON_CLUSTER_CLIENT, r);
		return;
	}
	if (drawn && is_flooded(m))
		entry = m->room_reason;
	else if (drawn)
		entry = s->entry[fastpath_schedule_at(m->cursors[p->v6]++, s->count)];
	node = entry >> 8 & 0xff;
	reason = entry & 0xff;
	/* Differs: no search for a socket when the SYN is served here anyway. */
	if ((!drawn || node || (m->choices && !m->serves_here) || reason == REASON_NO_BACKEND) &&
	    is_left_to_socket(m, p, true))
		return;
	if (!drawn) {
		queue_syn(m, p, over, r);
	} else if (!node) {
		serve(m, p, over, reason, r);
	} else if (!(m->ways[2 * node + p->v6].flags & WAY_USABLE) ||
		   (!(m->ways[2 * node + p->v6].flags & WAY_NAT) &&
		    (p->total_bytes > m->ways[2 * node + p->v6].mtu || !p->ttl))) {
		serve(m, p, over, REASON_FORWARD_FAILED, r);
	} else if (m->made++ >= m->room) {
		serve(m, p, over, m->room_reason, r);
	} else if (!make_flow(m, p, over, node)) {
		serve(m, p, NULL, REASON_TABLE_FULL, r);
	} else {
		m->counted.syns++;
		m->counted.flows_made++;
		m->alternative = (uint8_t)(entry >> 16);
		model_forward(m, in, p, flow_table_node_id(m->flows, node), (enum reason)reason, gso_bytes, r);
	}
}

/* dprd is away: real servers get new connections. Differs: all of them go to the same one, or to this node. */
static void new_alone(struct model *m, const struct frame *in, const struct packet *p, const struct flow *over,
		      uint32_t gso_bytes, struct model_result *r)
{
	uint32_t self = (uint32_t)flow_table_node(m->flows, m->config->member[m->config->self].id, false);
	uint32_t node = m->choice[p->v6];

	if (r->unjudged)
		return;
	if (node == self)
		r->mark |= BACKEND_MARK_MASK;
	else if (node && m->ways[2 * node + p->v6].flags & WAY_USABLE && make_flow(m, p, over, node))
		model_forward(m, in, p, flow_table_node_id(m->flows, node), REASON_BACKEND, gso_bytes, r);
}

/* A copy that need not be decided about again. */
static bool is_young(const struct model *m, const struct flow *flow)
{
	uint32_t made = flow_slot_word(flow_slot_at(m->flows, flow->slot)) >> FLOW_TIME_SHIFT;

	return ((m->tick - made) & (FLOW_TICKS - 1)) < flow_tick(COPY_PATIENCE_MS);
}

/* A SYN that finds a flow is a new connection when that flow has ended or was served here. */
static bool is_over(const struct model *m, const struct packet *p, const struct flow *flow)
{
	return !flow_same_sequence(flow, p->tcp_sequence) &&
	       (flow->state >= FLOW_CLOSING || flow->node_id == m->config->member[m->config->self].id);
}

static void entry_syn(struct model *m, const struct frame *in, const struct packet *p, uint32_t gso_bytes,
		      struct model_result *r)
{
	struct flow flow;
	bool found = model_find_flow(m, p, &flow), scheduled, mine;

	model_finish(r, PASS);
	if (!m->works && found && syn_alone(m, in, p, &flow, gso_bytes, r))
		return;
	if (!m->works && !found && was_queued(m, p, false)) {
		queue_syn(m, p, NULL, r);
		return;
	}
	if (!m->works && !m->choices)
		return;
	if (m->works && !r->unjudged && !m->choices && (!found || is_over(m, p, &flow)) &&
	    inside_has(m->inside, &p->source)) {
		serve(m, p, found ? &flow : NULL, REASON_INSIDE_CLIENT, r);
		return;
	}
	scheduled = m->works && !r->unjudged && m->schedules[p->v6] && (!found || is_over(m, p, &flow));
	/* With dprd away a flow that is left here leads to this node from now on. */
	mine = !found || !m->works || is_over(m, p, &flow) || flow.node_id == m->config->member[m->config->self].id;
	if (!scheduled && is_left_to_socket(m, p, mine))
		return;
	if (!m->works) {
		new_alone(m, in, p, found ? &flow : NULL, gso_bytes, r);
		return;
	}
	/* Differs: dprd decides SYNs that the kernel module may still drop. */
	if (r->unjudged) {
		queue_syn(m, p, found ? &flow : NULL, r);
		return;
	}
	if (scheduled) {
		decide_scheduled(m, in, p, found ? &flow : NULL, gso_bytes, r);
	} else if (!m->schedules[p->v6] || !flow_same_sequence(&flow, p->tcp_sequence) ||
		   flow.state != FLOW_HALF_OPEN || !is_young(m, &flow)) {
		queue_syn(m, p, found ? &flow : NULL, r);
	} else if (flow.node_id != m->config->member[m->config->self].id) {
		model_forward(m, in, p, flow.node_id, REASON_SAME_SYN, gso_bytes, r);
	}
}

/* Differs: packets that belong to no flow are not counted. */
static void entry(struct model *m, const struct frame *in, const struct packet *p, uint32_t gso_bytes,
		  struct model_result *r)
{
	struct verdict v;
	struct flow flow;
	bool found;

	if (packet_is_syn(p)) {
		entry_syn(m, in, p, gso_bytes, r);
		return;
	}
	found = model_find_flow(m, p, &flow);
	model_finish(r, PASS);
	if (!found)
		return;
	v = decide_it(m, p);
	/* Differs: a flow is moved on, too, when it leads to this node or its node cannot be reached. */
	if (p->kind == PACKET_TCP)
		flow_touch(m->flows, &flow, p->tcp_flags, ms_of_tick(m->tick));
	if (v.kind == VERDICT_FORWARD)
		model_forward(m, in, p, v.node_id, v.reason, gso_bytes, r);
}

/*
 * TCP behind IP options, extension headers or a fragment header. Differs: dprd forwards these packets. A SYN of no flow
 * and packets without ports are left to the stack.
 */
static void behind(struct model *m, const struct frame *in, const struct packet *p, struct model_result *r)
{
	const struct packet_bytes b = { .bytes = in->bytes + FRAME_ETHERNET_BYTES,
					.end = in->bytes + in->length,
					.length = in->length - FRAME_ETHERNET_BYTES };
	struct packet with_key = *p;
	bool fragment;
	uint32_t at = packet_tcp_place(packet_load, &b, p->v6, &fragment);
	struct flow flow;
	uint8_t ports[4];

	model_finish(r, PASS);
	if (!at || !packet_load(&b, at, ports, sizeof(ports)))
		return;
	with_key.key = (struct flow_key) { .client = p->source, .service = p->destination };
	memcpy(&with_key.key.client_port, ports, 2);
	memcpy(&with_key.key.service_port, ports + 2, 2);
	if (!model_has_port(m->config, with_key.key.service_port) || !model_find_flow(m, &with_key, &flow) ||
	    m->ways[2 * flow_table_node(m->flows, flow.node_id, false) + p->v6].flags & (WAY_SELF | WAY_NAT))
		return;
	if (!m->works) {
		model_drop(m, r, REASON_NO_TUNNEL);
		return;
	}
	model_queue(r, MARK_FORWARD);
	/* The rest of the fragments may never come. */
	if (fragment)
		r->waits = false;
}

/* --- the serving node --- */

static void mend_sums(struct model_result *r, const struct packet *inner, bool to_alias)
{
	unsigned icmp_sum = inner->header_bytes + 2u;

	if (!inner->v6)
		model_add_sum(r, 10);
	if (!to_alias)
		return;
	model_add_sum(r, inner->kind == PACKET_TCP ? inner->header_bytes + 16u : icmp_sum);
	if (inner->kind != PACKET_TCP && !inner->v6)
		model_add_sum(r, inner->header_bytes + ICMP_HEADER_BYTES + 10u);
}

/* Differs: the second look is left to dprd, and is not made when that is away. */
static bool is_for_daemon(struct model *m, const struct frame *in, const struct packet *outer, const struct verdict *v,
			  const struct packet *inner)
{
	if (v->kind == VERDICT_RETURNED)
		return m->works;
	if (v->kind != VERDICT_DECAPSULATE || !packet_is_syn(inner) || packet_is_probe(inner))
		return false;
	if (m->second_look & LOOK_LANDED && m->landed++ >= m->look_room && m->works &&
	    encap_may_return(in->bytes + FRAME_ETHERNET_BYTES, outer->v6))
		return true;
	m->stayed += (m->second_look & LOOK_STAYED) != 0;
	return false;
}

/* Works like path_decapsulate(). */
static void decapsulate(struct model *m, const struct frame *in, const struct packet *p, uint32_t gso_bytes,
			struct model_result *r)
{
	const struct decap_env env = { .service_owner = model_service_owner,
				       .living_peer = model_living_peer,
				       .is_cluster_address = model_is_cluster_address,
				       .is_own_cluster_address = model_is_own_cluster_address,
				       .member_node_id = model_member_node_id,
				       .context = m,
				       .self = (int)m->config->self };
	uint8_t *ip = r->out.bytes + FRAME_ETHERNET_BYTES;
	struct packet inner;
	struct verdict v;
	struct addr alias;

	/* A rule before the queue drops all tunnel packets of strangers. */
	if (model_living_peer(m, &p->source) < 0) {
		model_drop(m, r, REASON_NOT_PEER);
		return;
	}
	v = decide_decapsulation(&env, p, &inner);
	if (is_for_daemon(m, in, p, &v, &inner)) {
		model_queue(r, MARK_FORWARD);
		return;
	}
	/* As in model_forward(): no length of a large packet can be changed in a test run. */
	if (v.kind == VERDICT_DECAPSULATE && gso_bytes)
		v = (struct verdict) { .kind = VERDICT_DROP, .reason = REASON_INNER_BAD };
	if (v.kind != VERDICT_DECAPSULATE) {
		model_drop(m, r, v.reason);
		return;
	}
	r->out.length = in->length - p->header_bytes;
	memcpy(ip, in->bytes + FRAME_ETHERNET_BYTES + p->header_bytes, r->out.length - FRAME_ETHERNET_BYTES);
	if (!encap_decapsulate_ecn(ip, &inner, p->tos)) {
		model_drop(m, r, REASON_INNER_BAD);
		return;
	}
	alias = model_alias_of(m->config, &inner.key.service);
	if (!addr_is_zero(&alias))
		encap_to_alias(ip, &inner, &alias);
	mend_sums(r, &inner, !addr_is_zero(&alias));
	m->counted.reason[v.reason]++;
	m->counted.syns_taken += v.reason != REASON_PROBE && packet_is_syn(&inner);
	m->counted.decapsulated_bytes += v.reason == REASON_PROBE ? 0 : inner.total_bytes;
	model_finish(r, PASS);
}

/* --- frames --- */

/*
 * Packets that the stack drops itself are left to it: another family than the frame's type, a length beyond the frame,
 * IPv4 addresses in an IPv6 header, IPv6 from a multicast address.
 */
static bool parse(const struct frame *in, struct packet *p)
{
	unsigned type = in->bytes[12] << 8 | in->bytes[13], length = in->length - FRAME_ETHERNET_BYTES;
	const struct packet_bytes b = { .bytes = in->bytes + FRAME_ETHERNET_BYTES,
					.end = in->bytes + in->length,
					.length = length };

	if (type != 0x0800 && type != 0x86dd)
		return false;
	/* Like the programs, it does not look behind options. */
	if (packet_parse_bytes(&b, p) == PACKET_TRUNCATED)
		return false;
	if (p->v6 && (addr_is_v4(&p->source) || addr_is_v4(&p->destination) || p->source.bytes[0] == 0xff))
		return false;
	return p->v6 == (type == 0x86dd) && p->total_bytes <= length;
}

static void begin(const struct model *m, const struct frame *in, uint32_t mark, struct model_result *r)
{
	r->mark = mark;
	r->waits = false;
	r->unjudged = m->shared->by_module && model_frame_to(in) == MODEL_FRAME_MULTICAST;
	r->sum_count = 0;
	r->out.length = in->length;
	memcpy(r->out.bytes, in->bytes, in->length);
	model_finish(r, PASS);
}

void model_ingress(struct model *m, const struct frame *in, uint32_t mark, uint32_t gso_bytes, struct model_result *r)
{
	struct addr unused;
	struct packet p;

	begin(m, in, mark, r);
	if (!parse(in, &p))
		return;
	if (model_find_alias(m->config, &p.destination, &unused)) {
		m->counted.strangers++;
		model_finish(r, DROP);
		return;
	}
	if (p.protocol == (p.v6 ? PROTO_IPV6 : PROTO_IPIP) && model_is_own_cluster_address(m, &p.destination)) {
		decapsulate(m, in, &p, gso_bytes, r);
		return;
	}
	if (config_is_shared(m->config, &p.destination)) {
		if (!model_takes_shared(m, in, &p, r))
			return;
	} else if (config_member_by_service(m->config, &p.destination) != (int)m->config->self) {
		return;
	}
	if ((p.kind == PACKET_TCP || p.kind == PACKET_ICMP_ERROR) && model_has_port(m->config, p.key.service_port))
		entry(m, in, &p, gso_bytes, r);
	else if ((p.kind == PACKET_FRAGMENT || p.kind == PACKET_OPTIONS) &&
		 !config_is_shared(m->config, &p.destination))
		behind(m, in, &p, r);
}

/* The kernel's rule of the nfqueue plane: the MSS of a SYN-ACK is lowered, never raised. */
static void lower_mss(struct model_result *r, const struct packet *p, uint16_t most)
{
	uint8_t *tcp = r->out.bytes + FRAME_ETHERNET_BYTES + p->header_bytes, *option = tcp + TCP_HEADER_BYTES, old[4];
	const uint8_t *end = tcp + p->tcp_header_bytes;
	unsigned looks;

	/* Differs: reads only OPTIONS_MOST options; no SYN-ACK has more. */
	for (looks = 0; looks < OPTIONS_MOST && option + 4 <= end && *option; looks++) {
		if (*option == 1) {
			option++;
		} else if (*option == 2 && option[1] == 4) {
			/* Whole words of the sum around the two bytes. */
			uint8_t *words = option + 2 - (option - tcp) % 2;

			if (read_be16(option + 2) <= most)
				return;
			memcpy(old, words, 4);
			write_be16(option + 2, most);
			checksum_replace(tcp + 16, old, words, 4);
			model_add_sum(r, p->header_bytes + 16u);
			return;
		} else if (option[1] < 2) {
			return;
		} else {
			option += option[1];
		}
	}
}

/*
 * Differs: on the nfqueue plane dprd notes what it lets this node serve. In a flood without room for flows the programs
 * note nothing.
 */
static void note_answer(struct model *m, const struct frame *in, const struct packet *p)
{
	const struct flow_key key = { .client = p->destination,
				      .service = p->source,
				      .client_port = p->key.service_port,
				      .service_port = p->key.client_port };
	uint32_t acknowledged = read_be32(in->bytes + FRAME_ETHERNET_BYTES + p->header_bytes + 8);
	uint64_t hash = 0;
	int place;

	if ((p->tcp_flags & (TCP_SYN | TCP_ACK)) != (TCP_SYN | TCP_ACK) || !model_has_port(m->config, key.service_port))
		return;
	if (m->schedules[0] && is_flooded(m))
		return;
	place = answered_at(m, &key, acknowledged - 1, &hash);
	if (place >= 0)
		note_word(m, &m->answered[place], hash);
}

void model_egress(struct model *m, const struct frame *in, uint32_t mark, struct model_result *r)
{
	struct addr service;
	struct packet p;
	bool alias;
	int owner;

	begin(m, in, mark, r);
	if (!parse(in, &p) || p.kind != PACKET_TCP)
		return;
	alias = model_find_alias(m->config, &p.source, &service);
	owner = config_member_by_service(m->config, &p.source);
	if (owner == (int)m->config->self || config_is_shared(m->config, &p.source))
		note_answer(m, in, &p);
	/* Every connection to a shared address may be a peer's. */
	if (!alias && (owner < 0 || owner == (int)m->config->self) && !config_is_shared(m->config, &p.source))
		return;
	if ((p.tcp_flags & (TCP_SYN | TCP_ACK)) == (TCP_SYN | TCP_ACK))
		lower_mss(r, &p, m->mss[p.v6]);
	if (!alias)
		return;
	encap_rewrite_address(r->out.bytes + FRAME_ETHERNET_BYTES, p.v6, false, &service,
			      r->out.bytes + FRAME_ETHERNET_BYTES + p.header_bytes + 16);
	model_add_sum(r, p.header_bytes + 16u);
	if (!p.v6)
		model_add_sum(r, 10);
}
