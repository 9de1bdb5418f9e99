// SPDX-License-Identifier: GPL-2.0-or-later
/* probes.c - sends probes to the peers, and looks which probes of peers have come. */
#include "dprd/cluster/probes.h"

#include <errno.h>
#include <string.h>

#include "dprd/base/log.h"
#include "dprd/cluster/outcomes.h"
#include "dprd/cluster/state.h"
#include "dprd/core/decide/tunnelled.h"
#include "dprd/core/packet/probe.h"
#include "dprd/host/known_client.h"
#include "dprd/host/probed.h"
#include "dprd/host/tunnel.h"

enum {
	SAID_AFTER_MS = 1000, /* a shorter loss is not worth a line of the log */
	CLIENT_SOON_MS = 3000, /* between two looks for a client while none is known */
	CLIENT_LATER_MS = 30000, /* and when one is */
	ANSWERS_MS = 2000, /* between two looks at the routes of answers */
	FULL_LOOKS = 10, /* in one of so many looks the full-size probes are looked at, too */
	NARROW_MS = 6000, /* between two sizes: ways_refresh(), a full-size probe and the peer's announcement */
};

_Static_assert((int)PROOFS_NODES_MAX >= (int)MEMBERS_MAX, "the status file has room for all members");

void probes_open(struct dprd *d)
{
	d->probes.tunnel = tunnel_new();
	if (!d->probes.tunnel)
		log_warning("cannot send probes (%s): lost ways to peers are noticed only by connections that fail",
			    strerror(errno));
}

void probes_close(struct dprd *d)
{
	tunnel_free(d->probes.tunnel);
	d->probes.tunnel = NULL;
}

/* --- the ways of this node --- */

/* A service address of this node that all peers know; NULL: none of this family. */
static const struct addr *own_service(const struct config *config, bool v6)
{
	const struct member *self = &config->member[config->self];
	unsigned i;

	for (i = 0; i < self->service_count; i++) {
		if (addr_is_v4(&self->service[i]) != v6 && !(config->fresh_services >> i & 1))
			return &self->service[i];
	}
	return NULL;
}

static const struct addr *cluster_address(const struct member *member, bool v6)
{
	return v6 ? &member->cluster_v6 : &member->cluster_v4;
}

static bool uses_probes(const struct config *config)
{
	return !config_has_port(config, PROBE_PORT);
}

static bool is_client(void *context, const struct addr *address)
{
	const struct dprd *d = context;
	const uint8_t *bytes = address->bytes;
	bool v4 = addr_is_v4(address);

	/* A link-local address means another host elsewhere. */
	if (v4 ? bytes[12] == 0 || bytes[12] == 127 || (bytes[12] == 169 && bytes[13] == 254) || bytes[12] >= 224
	       : (bytes[0] & 0xe0) != 0x20 && (bytes[0] & 0xfe) != 0xfc)
		return false;
	return !tunnelled_is_cluster_address(&d->config, address) && !inside_has(&d->inside, address);
}

static bool is_other_client(void *context, const struct addr *address)
{
	struct dprd *d = context;

	return is_client(d, address) && !addr_equal(&d->probes.client[!addr_is_v4(address)].avoided, address);
}

/* True while a member says that probes of this family do not arrive there. */
static bool is_any_lost(struct dprd *d, bool v6)
{
	bool lost = false;
	unsigned i;

	mutex_lock(&d->lock);
	for (i = 0; i < d->config.member_count; i++)
		lost |= d->probes.way[i][v6].lost_ms != 0;
	mutex_unlock(&d->lock);
	return lost;
}

/*
 * With a client's address as their source, probes meet the filters of sources that connections meet. Such a client must
 * be a real one: an invented address would be lost on ways that are well. While a way is lost, another client is tried: a
 * host in between may have banned the first one alone.
 */
static void find_client(struct dprd *d, bool v6, uint64_t now_ms)
{
	struct probe_client *c = &d->probes.client[v6];
	bool lost = is_any_lost(d, v6);

	if (now_ms - c->asked_ms < (addr_is_zero(&c->address) || lost ? CLIENT_SOON_MS : CLIENT_LATER_MS))
		return;
	c->asked_ms = now_ms;
	if (!is_client(d, &c->address))
		c->address = (struct addr) { .words = { 0 } };
	if (lost)
		c->avoided = c->address;
	known_client_find(d->config.port[c->asked++ % d->config.port_count], v6, is_other_client, d, &c->address);
}

static void on_failed(void *context, unsigned tag, int error)
{
	(void)context;
	(void)tag;
	/* The peer will say that it got none. */
	log_debug("a probe was not sent: %s", strerror(error));
}

/* The bytes of a full-size probe: a client's packet that just fits this way. */
static unsigned full_bytes(const struct way *way)
{
	return way->inner_mtu < PROBE_FULL_BYTES_MAX ? way->inner_mtu : PROBE_FULL_BYTES_MAX;
}

/* Adds a probe to what the next flush sends, as path_send() would send a SYN that goes this way. */
static void add_probe(struct tunnel *tunnel, const struct way *way, const struct addr *client,
		      const struct addr *service, unsigned inner_bytes)
{
	bool v6 = !addr_is_v4(service);
	unsigned outer = way->form == WAY_FORM_TUNNEL ? encap_bytes(v6) : 0, bytes = outer + inner_bytes;
	uint8_t *out;
	struct packet inner;

	if (!tunnel_has_room(tunnel, 1, bytes))
		tunnel_flush(tunnel, on_failed, NULL);
	out = tunnel_scratch(tunnel, bytes);
	if (!out)
		return;
	probe_write(out + outer, v6, client, service, inner_bytes);
	packet_parse(out + outer, inner_bytes, &inner);
	if (outer)
		encap_write(out, &inner, &way->source, &way->destination, 0);
	if (way->next_hop.known)
		tunnel_add_direct(tunnel, &way->next_hop, v6, out, bytes, NULL, 0, 0);
	else if (way->form == WAY_FORM_TUNNEL)
		tunnel_add(tunnel, &way->destination, out, bytes, NULL, 0, 0);
}

static void send_probes(struct dprd *d)
{
	const struct config *config = &d->config;
	struct tunnel *tunnel = d->probes.tunnel;
	const struct addr *client;
	bool wanted[MEMBERS_MAX], full = d->probes.sent++ % PROOF_FULL_EACH == 0;
	unsigned i, sent = 0;

	if (!tunnel || !uses_probes(config))
		return;
	mutex_lock(&d->lock);
	memcpy(wanted, d->probes.wanted, sizeof(wanted));
	mutex_unlock(&d->lock);
	for (i = 0; i < 2 * config->member_count; i++) {
		bool v6 = i % 2;
		/* No other thread changes ways. */
		const struct way *way = &d->ways.member[i / 2][v6];
		const struct addr *service = own_service(config, v6);

		if (i / 2 == config->self || !wanted[i / 2] || !way_is_usable(way) || !service)
			continue;
		client = &d->probes.client[v6].address;
		if (addr_is_zero(client))
			client = &way->source;
		add_probe(tunnel, way, client, service, probe_bytes(v6));
		if (full)
			add_probe(tunnel, way, client, service, full_bytes(way));
		sent += 1 + full;
	}
	tunnel_flush(tunnel, on_failed, NULL);
	mutex_lock(&d->lock);
	d->counters.probes_sent += sent;
	mutex_unlock(&d->lock);
}

/* --- the ways of the others --- */

bool probes_expected(const struct config *config, unsigned member, bool v6)
{
	const struct member *m = &config->member[member];
	unsigned i;

	if (member == config->self || addr_is_zero(cluster_address(m, v6)) ||
	    addr_is_zero(cluster_address(&config->member[config->self], v6)))
		return false;
	for (i = 0; i < m->service_count; i++) {
		if (addr_is_v4(&m->service[i]) != v6)
			return true;
	}
	return false;
}

/* The address from which this node answers connections that the member forwards. */
static struct addr answering(const struct config *config, unsigned member, bool v6)
{
	const struct member *m = &config->member[member];
	struct addr alias, none = { .words = { 0 } };
	unsigned i;

	for (i = 0; i < m->service_count; i++) {
		alias = config_alias(config, member, i);
		if (addr_is_v4(&m->service[i]) != v6)
			return addr_is_zero(&alias) ? m->service[i] : alias;
	}
	return none;
}

/* True when the kernel has no route for a packet between these. */
static bool has_no_route(const struct dprd *d, const struct addr *source, const struct addr *client)
{
	struct neighbour next_hop;
	int error = neighbour_find(d->ways.neighbours, source, client, &next_hop);

	return error == -ENETUNREACH || error == -EHOSTUNREACH || error == -EACCES;
}

/*
 * Routing by source address may give answers of this node another route when they come from a peer's address, or none.
 * True: a way became mute, or is so no more.
 */
static bool look_at_answers(struct dprd *d, uint64_t now_ms)
{
	struct probes *p = &d->probes;
	bool changed = false;
	unsigned i;

	if (now_ms - p->answers_ms < ANSWERS_MS || !d->ways.neighbours)
		return false;
	p->answers_ms = now_ms;
	for (i = 0; i < 2 * d->config.member_count; i++) {
		unsigned member = i / 2, v6 = i % 2;
		const struct addr *client = &p->client[v6].address, *own = own_service(&d->config, v6);
		struct addr local = answering(&d->config, member, v6);
		bool mute = own && !addr_is_zero(client) && probes_expected(&d->config, member, v6) &&
			    has_no_route(d, &local, client) && !has_no_route(d, own, client);

		changed |= mute != p->mute[member][v6];
		p->mute[member][v6] = mute;
	}
	return changed;
}

struct hearing {
	struct dprd *d;
	uint64_t now_ms;
	bool full;
};

/* local: a peer's service address, or the alias that stands for it on this node. */
static void on_probed(void *context, const struct addr *local, uint32_t age_ms)
{
	const struct hearing *h = context;
	const struct config *config = &h->d->config;
	unsigned member, i;

	for (member = 0; member < config->member_count; member++) {
		const struct member *m = &config->member[member];

		for (i = 0; member != config->self && i < member_services(m); i++) {
			struct addr alias = config_alias(config, member, i);

			if (!addr_equal(addr_is_zero(&alias) ? &m->service[i] : &alias, local))
				continue;
			proofs_hear(&h->d->probes.proofs, member, !addr_is_v4(local), h->full, h->now_ms - age_ms);
			return;
		}
	}
}

static bool look(struct dprd *d, uint64_t now_ms)
{
	struct hearing h = { .d = d, .now_ms = now_ms };
	struct proofs *p = &d->probes.proofs;
	bool judged = proofs_judge(p), failed = !uses_probes(&d->config);

	/* Full-size probes are rare, and their absence does not hurry. */
	for (unsigned i = 0; i < (p->looks % FULL_LOOKS ? 2 : 4) && !failed; i++) {
		h.full = i / 2;
		failed = probed_read(i % 2, h.full, on_probed, &h);
	}
	if (!failed)
		return proofs_look(p, now_ms);
	proofs_fail(p);
	return judged;
}

/* Full-size probes of this node do not arrive there: it tries smaller packets until they do. */
static void narrow_ways(struct dprd *d, uint64_t now_ms)
{
	unsigned i;

	mutex_lock(&d->lock);
	for (i = 0; i < 2 * d->config.member_count; i++) {
		struct probe_way *way = &d->probes.way[i / 2][i % 2];

		if (!way->narrow || way->stuck || now_ms - way->narrowed_ms < NARROW_MS)
			continue;
		way->narrowed_ms = now_ms;
		way->stuck = !ways_narrow(&d->ways, i / 2, i % 2);
		if (!way->stuck)
			log_warning("packets of %u bytes do not arrive at %s over IPv%c, and no ICMP error says why: "
				    "trying "
				    "smaller ones",
				    d->ways.member[i / 2][i % 2].mtu, d->config.member[i / 2].name, i % 2 ? '6' : '4');
	}
	mutex_unlock(&d->lock);
}

bool probes_tick(struct dprd *d, uint64_t now_ms)
{
	struct probes *p = &d->probes;
	bool changed;

	if (now_ms - p->sent_ms >= (d->config.member_count > PROOF_MANY ? PROOF_SEND_MANY_MS : PROOF_SEND_MS)) {
		if (now_ms - p->sent_ms > PROOF_SEND_MANY_MS + PROOF_LATE_MS)
			p->steady_ms = now_ms;
		p->sent_ms = now_ms;
		send_probes(d);
	}
	if (now_ms - p->read_ms < PROOF_LOOK_MS)
		return false;
	p->read_ms = now_ms;
	narrow_ways(d, now_ms);
	find_client(d, false, now_ms);
	find_client(d, true, now_ms);
	changed = look_at_answers(d, now_ms);
	return look(d, now_ms) || changed;
}

bool probes_is_lost(const struct dprd *d, unsigned member, bool v6)
{
	const struct proofs *p = &d->probes.proofs;

	return proofs_judge(p) && probes_expected(&d->config, member, v6) &&
	       (!p->proven[member][v6] || d->probes.mute[member][v6]);
}

static void add_node(struct proofs_nodes *nodes, uint32_t id)
{
	nodes->id[nodes->count++] = id;
}

void probes_status(const struct dprd *d, struct status_proofs *ret)
{
	const struct config *config = &d->config;
	const struct proofs *p = &d->probes.proofs;
	unsigned i, v6;

	*ret = (struct status_proofs) { .probes = PROBES_NONE };
	if (!p->since_ms)
		return;
	ret->probes = proofs_judge(p) ? PROBES_JUDGED : PROBES_WANTED;
	for (i = 0; i < config->member_count; i++) {
		for (v6 = 0; v6 < 2; v6++) {
			if (probes_is_lost(d, i, v6))
				add_node(&ret->unproven[v6], config->member[i].id);
			else if (p->narrow[i][v6])
				add_node(&ret->narrow[v6], config->member[i].id);
		}
	}
}

/* --- what peers say --- */

static void say(struct dprd *d, unsigned member, unsigned v6)
{
	d->probes.way[member][v6].said = true;
	d->counters.ways_lost++;
	log_warning("packets that this node forwards to %s over IPv%c do not arrive there; it gets no new connections "
		    "of this family: dprctl status",
		    d->config.member[member].name, v6 ? '6' : '4');
}

static void found_again(struct dprd *d, unsigned member, unsigned v6)
{
	struct probe_way *way = &d->probes.way[member][v6];

	/* Connections that failed meanwhile say nothing about the time from now on. */
	outcomes_proven(d, member, v6);
	if (way->said)
		log_info("packets that this node forwards to %s over IPv%c arrive there again",
			 d->config.member[member].name, v6 ? '6' : '4');
	way->lost_ms = 0;
	way->said = false;
}

void probes_judge(struct dprd *d, unsigned member, uint32_t flags, uint64_t now_ms)
{
	const uint32_t unproven[2] = { NODE_UNPROVEN_V4, NODE_UNPROVEN_V6 };
	const uint32_t narrow[2] = { NODE_NARROW_V4, NODE_NARROW_V6 };
	bool wanted = flags & NODE_HEARD && flags & NODE_TAKES_PROBES;
	uint64_t since_ms;
	unsigned v6;

	mutex_assert_held(&d->lock);
	if (wanted && !d->probes.wanted[member])
		d->probes.wanted_ms[member] = now_ms;
	d->probes.wanted[member] = wanted;
	since_ms =
		d->probes.wanted_ms[member] > d->probes.steady_ms ? d->probes.wanted_ms[member] : d->probes.steady_ms;
	/* A silent node says nothing new, nor does a loadcast that has gone. */
	if (!(flags & NODE_HEARD))
		return;
	for (v6 = 0; v6 < 2; v6++) {
		struct probe_way *way = &d->probes.way[member][v6];
		bool lost = flags & unproven[v6] && d->probes.tunnel && uses_probes(&d->config) &&
			    own_service(&d->config, v6);

		/* Probes that this node did not send say nothing about the way. */
		if (lost && !way->lost_ms && now_ms - since_ms < PROOF_STEADY_MS)
			lost = false;
		way->narrow = flags & narrow[v6];
		way->stuck = way->stuck && way->narrow;
		if (!lost && way->lost_ms)
			found_again(d, member, v6);
		else if (lost && !way->lost_ms)
			way->lost_ms = now_ms;
		if (lost && !way->said && now_ms - way->lost_ms >= SAID_AFTER_MS)
			say(d, member, v6);
	}
}

bool probes_allow(const struct dprd *d, unsigned member, bool v6)
{
	mutex_assert_held(&d->lock);
	return !d->probes.way[member][v6].lost_ms;
}

void probes_reconfigure(struct dprd *d, const struct config *former)
{
	static struct probes old; /* the lock is held */
	struct probes *p = &d->probes;
	unsigned i;

	mutex_assert_held(&d->lock);
	old = *p;
	memset(p->wanted, 0, sizeof(p->wanted));
	memset(p->wanted_ms, 0, sizeof(p->wanted_ms));
	memset(p->way, 0, sizeof(p->way));
	memset(&p->proofs.heard_ms, 0, sizeof(p->proofs.heard_ms));
	memset(&p->proofs.proven, 0, sizeof(p->proofs.proven));
	memset(&p->proofs.full_ms, 0, sizeof(p->proofs.full_ms));
	memset(&p->proofs.narrow, 0, sizeof(p->proofs.narrow));
	memset(&p->proofs.proven_ms, 0, sizeof(p->proofs.proven_ms));
	memset(p->mute, 0, sizeof(p->mute));
	p->answers_ms = 0;
	for (i = 0; i < d->config.member_count; i++) {
		int before = config_member_by_id(former, d->config.member[i].id);

		if (before < 0)
			continue;
		p->wanted[i] = old.wanted[before];
		p->wanted_ms[i] = old.wanted_ms[before];
		memcpy(p->way[i], old.way[before], sizeof(p->way[i]));
		memcpy(p->proofs.heard_ms[i], old.proofs.heard_ms[before], sizeof(p->proofs.heard_ms[i]));
		memcpy(p->proofs.proven[i], old.proofs.proven[before], sizeof(p->proofs.proven[i]));
		memcpy(p->proofs.full_ms[i], old.proofs.full_ms[before], sizeof(p->proofs.full_ms[i]));
		memcpy(p->proofs.proven_ms[i], old.proofs.proven_ms[before], sizeof(p->proofs.proven_ms[i]));
	}
}
