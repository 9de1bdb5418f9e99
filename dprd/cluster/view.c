// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * view.c - makes the view that decide() reads from the load table, which a process that talks to the network writes:
 * every peer by its place in the configuration, loads in the configured metric.
 */
#include <stdlib.h>
#include <string.h>

#include "dprd/base/clock.h"
#include "dprd/cluster/outcomes.h"
#include "dprd/cluster/probes.h"
#include "dprd/cluster/state.h"
#include "dprd/cluster/view.h"
#include "dprd/cluster/ways.h"

/* A peer that did not hear us for this long may have lost us; its table entry still counts as heard. */
static bool is_fresh(const struct dprd *d, uint32_t age_ms)
{
	return age_ms <= d->config.dead_periods * d->config.period_ms;
}

bool view_is_heard(const struct dprd *d, const struct node_load *load, uint64_t now_ms)
{
	return load->age_ms != LOAD_AGE_NEVER_MS && (load->flags & NODE_HEARD) &&
	       is_fresh(d, load_age_ms(&d->table, load, now_ms));
}

double view_load(const struct config *config, const struct load_sample *sample)
{
	const struct load_factors *f = &config->factors;

	return f->connections * sample->open_connections + f->cpu * sample->cpu_permille / 10.0 +
	       f->redirected * sample->redirected + f->sockets * sample->active_sockets +
	       f->accept_queue * sample->accept_queue;
}

const struct node_load *view_node_load(const struct dprd *d, uint32_t node_id)
{
	uint32_t i;

	mutex_assert_held(&d->lock);
	if (!d->table_valid)
		return NULL;
	for (i = 0; i < d->table.count; i++) {
		if (d->table.nodes[i].id == node_id)
			return &d->table.nodes[i];
	}
	return NULL;
}

struct view_node *view_node(struct dprd *d, uint32_t node_id)
{
	unsigned i;

	for (i = 1; i < d->view.count; i++) {
		if (d->view_nodes[i].node_id == node_id)
			return &d->view_nodes[i];
	}
	return NULL;
}

bool view_way_works(const struct dprd *d, unsigned member, bool v6, uint64_t now_ms)
{
	return way_takes_new(&d->ways.member[member][v6]) && probes_allow(d, member, v6) &&
	       outcomes_allow(d, member, v6, now_ms);
}

/* NULL: a way of some family works. */
static const char *why_no_way(const struct dprd *d, unsigned member, uint64_t now_ms)
{
	bool usable = false, reachable = false, arrives = false, works = false;
	unsigned mtu = 0;

	for (unsigned v6 = 0; v6 < 2; v6++) {
		mtu |= d->ways.member[member][v6].mtu;
		if (!way_is_usable(&d->ways.member[member][v6]))
			continue;
		usable = true;
		reachable |= way_takes_new(&d->ways.member[member][v6]);
		arrives |= way_takes_new(&d->ways.member[member][v6]) && probes_allow(d, member, v6);
		works |= view_way_works(d, member, v6, now_ms);
	}
	if (!usable)
		return mtu ? "path to it too narrow" : "no route to it";
	if (!reachable)
		return "no host answers for its address";
	if (!arrives)
		return "packets do not arrive there";
	return works ? NULL : "its connections get no answer";
}

bool view_member_eligible(const struct dprd *d, unsigned member, uint64_t now_ms, const char **ret_why_not)
{
	const struct node_load *load = view_node_load(d, d->config.member[member].id);
	const char *why_not = NULL;

	mutex_assert_held(&d->lock);
	if (member == d->config.self)
		why_not = view_drains(d) ? "draining" : load && load->state == NODE_UNHEALTHY ? "unhealthy" : NULL;
	else if (!d->table_valid)
		why_not = "no load table";
	else if (!load || load->age_ms == LOAD_AGE_NEVER_MS)
		why_not = "never heard";
	else if (!(load->flags & NODE_HEARD) || !is_fresh(d, load_age_ms(&d->table, load, now_ms)))
		why_not = "not heard";
	else if (load->flags & NODE_CONFLICT)
		why_not = "two hosts use its name";
	else if (!(load->flags & NODE_ECHOES))
		why_not = "does not hear this node";
	else if (load->state == NODE_DRAINING)
		why_not = "draining";
	else if (load->state == NODE_UNHEALTHY)
		why_not = "unhealthy";
	else if (!(load->flags & NODE_DPRD_UP))
		why_not = "its dprd is not running";
	else if (!view_weight(&d->config.member[member], load))
		why_not = "weight 0";
	else
		why_not = why_no_way(d, member, now_ms);
	*ret_why_not = why_not;
	return !why_not;
}

unsigned view_weight(const struct member *member, const struct node_load *load)
{
	return load && load->weight < member->weight ? load->weight : member->weight;
}

double view_weight_now(const struct member *member, const struct node_load *load)
{
	unsigned weight = view_weight(member, load);

	return load ? weight * (1000.0 - load->held_permille) / 1000 : weight;
}

bool view_member_living(const struct dprd *d, unsigned member, uint64_t now_ms)
{
	const struct last_heard *heard = &d->past.heard[member];

	mutex_assert_held(&d->lock);
	/* Another member had that place; this member has it since the last tick. */
	return heard->id != d->config.member[member].id || now_ms < heard->ms + DECAPSULATE_GRACE_MS;
}

uint64_t view_living(const struct dprd *d, uint64_t now_ms)
{
	uint64_t living = 0;
	unsigned member;

	mutex_assert_held(&d->lock);
	for (member = 0; member < d->config.member_count; member++)
		living |= (uint64_t)view_member_living(d, member, now_ms) << member;
	return living;
}

/* Fills the slot of this node, which is always there and always first. */
static void view_fill_self(struct dprd *d)
{
	const struct member *self = &d->config.member[d->config.self];
	struct view_node *node = &d->view_nodes[0];
	const char *why_not;

	node->member = (uint16_t)d->config.self;
	node->node_id = self->id;
	/* A node of weight 0 has a load, too. */
	node->weight = self->weight ? view_weight_now(self, view_node_load(d, self->id)) : 1;
	node->arrivals_per_s = d->arrivals_per_1000_s / 1000.0;
	node->age_ms = 0;
	node->sent = 0;
	node->eligible = view_member_eligible(d, d->config.self, 0, &why_not);
}

/* Connections sent in the time of the last announcement count half; all earlier ones count the other half. */
static double rate_before(const struct view_node *old, uint64_t counted_ms, unsigned kept)
{
	double took_s = counted_ms > old->counted_ms ? (double)(counted_ms - old->counted_ms) / 1000 : 0;
	unsigned sent = old->sent > kept ? old->sent - kept : 0;

	return took_s > 0 ? (old->sent_before_per_s + sent / took_s) / 2 : old->sent_before_per_s;
}

static struct sent *sent_lately(struct dprd *d, const struct view_node *node)
{
	struct sent_to *to = &d->past.sent_to[node->member];

	/* A reload may give the place in the configuration to another member. */
	if (to->id != node->node_id)
		*to = (struct sent_to) { .id = node->node_id };
	return &to->lately;
}

void view_count_sent(struct dprd *d, unsigned view_index, bool v6, unsigned connections, uint64_t at_ms)
{
	struct view_node *node = &d->view_nodes[view_index];

	/* The load has those that were sent before it was counted: the programs' are counted later. */
	if (at_ms >= node->counted_ms)
		node->sent += connections;
	sent_count(sent_lately(d, node), at_ms, connections);
	outcomes_made(d, node->node_id, v6, connections, at_ms);
}

/*
 * Copies the counts of connections sent to a peer, since its load was announced and before, from its former slot. The
 * announced load does not have connections yet that were sent after it was counted.
 */
static void carry_sent(struct dprd *d, const struct view_node *old, unsigned count, bool news, struct view_node *node)
{
	unsigned i, kept = news ? sent_since(sent_lately(d, node), node->counted_ms) : 0;

	for (i = 1; i < count; i++) {
		if (old[i].node_id != node->node_id)
			continue;
		node->sent = news ? kept : old[i].sent;
		node->reserved = old[i].reserved;
		node->sent_before_per_s =
			news ? rate_before(&old[i], node->counted_ms, kept) : old[i].sent_before_per_s;
		node->counted_ms = news ? node->counted_ms : old[i].counted_ms;
		return;
	}
}

/* A peer with sockets elsewhere counted its connections some time before it announced them. */
static uint32_t count_age_ms(const struct node_load *load, uint32_t heard_age_ms)
{
	return heard_age_ms < LOAD_AGE_NEVER_MS - load->sample.age_ms ? heard_age_ms + load->sample.age_ms
								      : LOAD_AGE_NEVER_MS;
}

static void view_fill_peers(struct dprd *d, const struct load_table *former, uint64_t now_ms)
{
	struct view_node old[MEMBERS_MAX];
	unsigned member, old_count = d->view.count, heard = 1;
	const char *why_not;

	memcpy(old, d->view_nodes, sizeof(old));
	d->view.count = 1;
	for (member = 0; member < d->config.member_count; member++) {
		const struct node_load *load = view_node_load(d, d->config.member[member].id);
		struct view_node *node = &d->view_nodes[d->view.count];
		uint64_t before = 0;
		uint32_t i, heard_age_ms, age_ms;

		if (member != d->config.self)
			probes_judge(d, member, load ? load->flags : 0, now_ms);
		if (member == d->config.self || !load)
			continue;
		heard_age_ms = load_age_ms(&d->table, load, now_ms);
		age_ms = count_age_ms(load, heard_age_ms);
		for (i = 0; i < former->count; i++) {
			if (former->nodes[i].id == load->id)
				before = former->nodes[i].sequence;
		}
		*node = (struct view_node) {
			.member = (uint16_t)member,
			.node_id = load->id,
			.age_ms = age_ms,
			.load = view_load(&d->config, &load->sample),
			.weight = view_weight_now(&d->config.member[member], load),
			.arrivals_per_s = load->sample.arrivals_per_1000_s / 1000.0,
			.counted_ms = now_ms - age_ms,
			.eligible = view_member_eligible(d, member, now_ms, &why_not),
		};
		carry_sent(d, old, old_count, before != load->sequence, node);
		heard += (load->flags & NODE_HEARD) && is_fresh(d, heard_age_ms);
		d->view.count++;
	}
	d->minority = 2 * heard < d->config.member_count;
}

/*
 * Notes when each peer was heard. A loadcast that starts has heard no node, and one that stops may leave no table:
 * neither that nor a start of this dprd may end connections that peers serve.
 */
static void note_heard(struct dprd *d, uint64_t now_ms)
{
	struct last_heard old[MEMBERS_MAX];
	unsigned member, i;

	memcpy(old, d->past.heard, sizeof(old));
	for (member = 0; member < d->config.member_count; member++) {
		uint32_t id = d->config.member[member].id;
		const struct node_load *load = view_node_load(d, id);
		uint64_t age_ms =
			load && load->age_ms != LOAD_AGE_NEVER_MS ? load_age_ms(&d->table, load, now_ms) : now_ms;
		uint64_t table_ms = age_ms < now_ms ? now_ms - age_ms : 0, known_ms = now_ms;

		/* In its old place, unless the configuration has changed. */
		for (i = old[member].id == id ? member : 0; i < MEMBERS_MAX; i++) {
			if (old[i].id == id) {
				known_ms = old[i].ms;
				break;
			}
		}
		d->past.heard[member] =
			(struct last_heard) { .id = id, .ms = table_ms > known_ms ? table_ms : known_ms };
	}
}

/* True when the member has the same file as this node, so that it knows a service address that came by a reload. */
static bool has_same_file(const struct dprd *d, const struct node_load *load)
{
	return load && load->flags & NODE_HEARD && !(load->flags & NODE_CONFIG_DIFFERS) &&
	       d->table.file_hash == d->config.file_hash;
}

/* Once each member has the same file, no service address is new to any of them. */
static void forget_fresh_services(struct dprd *d)
{
	for (unsigned i = 0; i < d->config.member_count; i++) {
		if (i != d->config.self && !has_same_file(d, view_node_load(d, d->config.member[i].id)))
			return;
	}
	d->config.fresh_services = 0;
}

void view_refresh(struct dprd *d, const struct load_table *fresh, bool missing, uint64_t now_ms)
{
	static struct load_table former; /* too large for a stack; the lock is held */

	mutex_assert_held(&d->lock);
	/* When the file cannot be read now, the last table stays and grows older. */
	former = d->table;
	if (!d->table_valid)
		former.count = 0;
	if (fresh)
		d->table = *fresh;
	d->table_valid = fresh || (d->table_valid && !missing);
	note_heard(d, now_ms);
	d->view.nodes = d->view_nodes;
	view_fill_self(d);
	view_fill_peers(d, &former, now_ms);
	if (d->config.fresh_services)
		forget_fresh_services(d);
}

void view_count_arrivals(struct dprd *d, uint64_t elapsed_ms)
{
	uint64_t syns = d->counters.syns - d->past.syns_at_rate;
	uint32_t rate = (uint32_t)(syns * 1000000 / elapsed_ms);

	mutex_assert_held(&d->lock);
	d->past.syns_at_rate = d->counters.syns;
	/* The mean of the new rate and the former mean follows a change within a few seconds. */
	d->arrivals_per_1000_s = d->arrivals_per_1000_s / 2 + rate / 2;
}

/* A bit for the port, as in node_load.ports_down; 0: loadcast does not know it. All of them for port 0. */
static uint16_t port_bits(const struct load_table *table, be16 port)
{
	for (unsigned i = 0; i < table->port_count; i++) {
		if (htons(table->port[i]) == port)
			return (uint16_t)(1U << i);
	}
	return port ? 0 : UINT16_MAX;
}

bool view_drains(const struct dprd *d)
{
	const struct node_load *self = view_node_load(d, d->config.member[d->config.self].id);

	return d->draining || (self && (self->agent == AGENT_WANTS_DRAIN || self->agent == AGENT_WANTS_MAINT));
}

bool view_own_server_fails(const struct dprd *d, be16 port)
{
	const struct node_load *self = view_node_load(d, d->config.member[d->config.self].id);

	return self && (self->state == NODE_UNHEALTHY || self->ports_down & port_bits(&d->table, port));
}

/* True when a member that is heard may not know a service address that came by a reload. */
static bool fresh_service_counts(const struct dprd *d)
{
	for (unsigned i = 0; d->config.fresh_services && i < d->config.member_count; i++) {
		const struct node_load *load = view_node_load(d, d->config.member[i].id);

		if (i != d->config.self && load && load->flags & NODE_HEARD && !has_same_file(d, load))
			return true;
	}
	return false;
}

const char *view_ports_differ(const struct dprd *d)
{
	if (!d->table_valid)
		return NULL;
	if (fresh_service_counts(d))
		return "a service address is new, and not all members have read it";
	for (uint32_t i = 0; i < d->table.count; i++) {
		if (d->table.nodes[i].flags & NODE_HEARD && d->table.nodes[i].ports_down)
			return "a port of a member fails, or is not served there";
	}
	/* Until loadcast has read the same file, it cannot tell which peers serve a new port. */
	if (d->table.port_count != d->config.port_count ||
	    memcmp(d->table.port, d->config.port, sizeof(d->config.port)) != 0)
		return "loadcast has other ports in its configuration than dprd";
	return NULL;
}

void view_select(struct dprd *d, bool v6, be16 port, enum service_age age)
{
	uint16_t bits = port ? port_bits(&d->table, port) : 0;
	bool known = !port || (bits && config_has_port(&d->config, ntohs(port)));
	uint64_t now_ms = clock_now_ms();
	const char *why_not;
	unsigned i;

	mutex_assert_held(&d->lock);
	for (i = 1; i < d->view.count; i++) {
		struct view_node *node = &d->view_nodes[i];

		const struct node_load *load = view_node_load(d, node->node_id);

		node->eligible = known &&
				 (age == SERVICE_PRESENT || (age == SERVICE_FRESH && has_same_file(d, load))) &&
				 !(node->reserved && outcomes_rests(d, node->member, v6)) &&
				 view_member_eligible(d, node->member, now_ms, &why_not) &&
				 view_way_works(d, node->member, v6, now_ms) && !(load && load->ports_down & bits);
	}
}
