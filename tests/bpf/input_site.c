// SPDX-License-Identifier: GPL-2.0-or-later
/* input_site.c - random clusters, flows, ways and schedules. */
#include <stdarg.h>

#include "dprd/core/flow/memory.h"
#include "tests/bpf/input_private.h"

enum { CLIENTS = 6 };

uint64_t random_next(struct random *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

unsigned random_below(struct random *r, unsigned limit)
{
	return (unsigned)((random_next(r) >> 32) * limit >> 32);
}

bool input_one_in(struct random *r, unsigned n)
{
	return random_below(r, n) == 0;
}

struct addr input_v4(uint32_t host_order)
{
	return addr_from_v4(to_be32(host_order));
}

struct addr input_v6(uint16_t third, uint16_t last)
{
	struct addr a = { .bytes = { 0x20, 0x01, 0x0d, 0xb8 } };

	write_be16(a.bytes + 4, third);
	write_be16(a.bytes + 14, last);
	return a;
}

struct addr input_client(struct random *r, bool v6)
{
	unsigned which = random_below(r, CLIENTS);

	return v6 ? input_v6(0xc, (uint16_t)(0x10 + which)) : input_v4(0xc0000200 + 10 + which);
}

be16 input_client_port(struct random *r)
{
	return to_be16((uint16_t)(INPUT_SOCKET_PORT + random_below(r, 6)));
}

uint32_t input_sequence(struct random *r)
{
	static const uint32_t sequences[] = { 5, 6, 0x800000, 0xffffff, 0x1000005, 0xab000006 };

	return input_one_in(r, 8) ? (uint32_t)random_next(r) : sequences[random_below(r, 6)];
}

struct addr input_service(struct random *r, const struct config *config, unsigned member, bool v6)
{
	const struct member *m = &config->member[member];
	unsigned i;

	if (config->shared_count && input_one_in(r, 4))
		return config->shared[v6];
	for (i = 0; i < 6; i++) {
		const struct addr *a = &m->service[random_below(r, m->service_count)];

		if (addr_is_v4(a) != v6)
			return *a;
	}
	return v6 ? input_v6(5, 99) : input_v4(0xc6336463);
}

/* --- clusters --- */

__attribute__((format(printf, 3, 4))) static size_t add_line(char *text, size_t used, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	used += (size_t)vsnprintf(text + used, INPUT_CONFIG_BYTES - used, format, arguments);
	va_end(arguments);
	return used;
}

/* Real servers, behind this node or another one; and addresses that all nodes share. */
static size_t add_servers(struct random *r, char *text, size_t used, unsigned members, bool decide_kernel)
{
	static const char *const forms[] = { "nat", "direct", "tunnel" };
	unsigned count = random_below(r, 6), i;

	if (!input_one_in(r, 3))
		used = add_line(text, used, "[Shared]\nAddress=198.51.100.200 2001:db8:5::200\n");
	for (i = 1; i <= count && !decide_kernel; i++) {
		used = add_line(text, used, "[Backend \"b%u\"]\nForm=%s\n", i, forms[random_below(r, 3)]);
		if (input_one_in(r, 4))
			used = add_line(text, used, "Node=n%u\n", random_below(r, members));
		if (!input_one_in(r, 8))
			used = add_line(text, used, "Address=10.9.0.%u\n", i);
		used = add_line(text, used, "Address=fd09::%u\n", i);
	}
	return used;
}

/* The first addresses of both families are always this node's: a client has a connection to them. */
void input_config(struct random *r, bool decide_kernel, char text[INPUT_CONFIG_BYTES])
{
	static const unsigned ports[] = { 443, 8080, 25, 53, 65535, 1 };
	unsigned members = 2 + random_below(r, INPUT_MEMBERS - 1), self = random_below(r, members), m, i, next = 2;
	bool own_cluster = input_one_in(r, 2);
	size_t used = add_line(text, 0, "[Cluster]\nName=test\n[Node]\nName=n%u\n[Service]\nPort=80", self);

	for (i = random_below(r, 4); i; i--)
		used = add_line(text, used, " %u", ports[(self + i) % 6]);
	used = add_line(text, used, "\n[Datapath]\nDecide=%s\n", decide_kernel ? "kernel" : "queue");
	used = add_servers(r, text, used, members, decide_kernel);
	for (m = 0; m < members; m++) {
		bool has_v4 = m == self || !input_one_in(r, 8), has_v6 = m == self || !has_v4 || !input_one_in(r, 4);

		used = add_line(text, used, "[Member \"n%u\"]\n", m);
		if (m == self)
			used = add_line(text, used, "Service=198.51.100.1\nService=2001:db8:5::1\n");
		for (i = random_below(r, 3) + (m != self); i; i--, next++) {
			if (has_v4)
				used = add_line(text, used, "Service=198.51.%u.%u\n", 100 + next,
						1 + random_below(r, 254));
			if (has_v6)
				used = add_line(text, used, "Service=2001:db8:5:%x::%x\n", next,
						random_below(r, 65536));
		}
		if (!own_cluster)
			continue;
		used = has_v4 ? add_line(text, used, "Cluster=10.0.0.%u\n", m + 1) : used;
		used = has_v6 ? add_line(text, used, "Cluster=fd00::%u\n", m + 1) : used;
	}
}

/* --- flows and ways --- */

/* A node that a flow may lead to: also this one, an own real server, or a former node. */
static uint32_t random_node_id(struct random *r, const struct config *config)
{
	if (input_one_in(r, 16))
		return 77;
	if (config->own_backend_count && input_one_in(r, 2))
		return config_own_backend(config, random_below(r, config->own_backend_count))->id;
	return config->member[random_below(r, config->member_count)].id;
}

static void add_flow(struct random *r, struct plane *p, const struct flow_key *key, uint32_t sequence)
{
	static const unsigned ages[] = { 0, 3, 14, 15, 16, 17, 30, 1000, 100000, 1 << 28, 1 << 29 };
	int service = flow_table_service(p->flows, &key->service, key->service_port, true);
	int node = flow_table_node(p->flows, random_node_id(r, &p->config), true);
	uint32_t tick = plane_tick(p) - ages[random_below(r, sizeof(ages) / sizeof(ages[0]))];
	struct flow_search s;

	if (service < 0 || node < 0)
		return;
	flow_search_key(p->flows, key, (unsigned)service, &s);
	if (flow_slot_find(p->flows, &s))
		return;
	flow_insert(p->flows, &s, sequence << FLOW_SEQUENCE_SHIFT | (uint32_t)node,
		    tick << FLOW_TIME_SHIFT | random_below(r, 4));
}

static void add_flows(struct random *r, struct plane *p, struct input_site *site)
{
	unsigned i;

	plane_set_flows(p, 0);
	site->key_count = INPUT_KEYS;
	for (i = 0; i < INPUT_KEYS; i++) {
		bool v6 = input_one_in(r, 2);
		struct flow_key *key = &site->keys[i];

		memset(key, 0, sizeof(*key));
		key->client = input_client(r, v6);
		key->client_port = input_client_port(r);
		key->service = input_service(r, &p->config, p->config.self, v6);
		key->service_port = to_be16(p->config.port[random_below(r, p->config.port_count)]);
		site->sequences[i] = input_sequence(r);
		if (i < INPUT_KEYS * 3 / 4)
			add_flow(r, p, key, site->sequences[i]);
	}
}

static void random_link(struct random *r, const struct plane *p, struct fastpath_way *way)
{
	static const uint16_t mtus[] = { 1480, 1460, 1480, 1460, 556, 300, 216, 9000 };
	unsigned i;

	way->mtu = mtus[random_below(r, sizeof(mtus) / sizeof(mtus[0]))];
	way->interface = 1;
	way->hardware_tick = input_one_in(r, 4) ? 0 : plane_tick(p);
	for (i = 0; i < sizeof(way->hardware); i++)
		way->hardware[i] = (uint8_t)random_next(r);
}

static void random_way(struct random *r, struct plane *p, unsigned member, bool v6)
{
	const struct member *self = &p->config.member[p->config.self], *to = &p->config.member[member];
	struct fastpath_way *way = plane_way(p, member, v6);
	unsigned i;

	memset(way, 0, sizeof(*way));
	way->source = v6 ? self->cluster_v6 : self->cluster_v4;
	way->destination = v6 ? to->cluster_v6 : to->cluster_v4;
	for (i = 0; i < 6; i++)
		way->fellow[i] = (uint8_t)random_next(r);
	if (member == p->config.self) {
		way->flags = WAY_SELF;
	} else if (!addr_is_zero(&way->source) && !addr_is_zero(&way->destination) && !input_one_in(r, 12)) {
		way->flags = (uint16_t)(WAY_USABLE | (input_one_in(r, 4) ? 0 : WAY_ETHERNET));
		random_link(r, p, way);
	}
	if (member != p->config.self && input_one_in(r, 2))
		way->flags |= WAY_FELLOW;
}

/* To an own real server. */
static void random_backend_way(struct random *r, struct plane *p, unsigned own, bool v6)
{
	const struct member *self = &p->config.member[p->config.self];
	const struct backend *backend = config_own_backend(&p->config, own);
	const struct addr *to = backend_address(backend, v6);
	int node = flow_table_node(p->flows, backend->id, true);
	struct fastpath_way *way = &p->fastpath->ways[2 * node + v6];

	if (node < 0 || !to || input_one_in(r, 12))
		return;
	way->flags = WAY_USABLE | (backend->form == BACKEND_NAT ? WAY_NAT : WAY_ETHERNET) |
		     (backend->form == BACKEND_DIRECT ? WAY_DIRECT : 0);
	way->source = v6 ? self->cluster_v6 : self->cluster_v4;
	way->destination = *to;
	if (backend->form == BACKEND_NAT)
		way->mark = (own + 1) << BACKEND_MARK_SHIFT;
	else
		random_link(r, p, way);
}

const struct inside *input_inside(struct random *r, struct plane *p)
{
	struct inside *inside = &p->fastpath->tables[p->fastpath->control->active].inside;
	struct addr client;

	inside->count = input_one_in(r, 8) ? 1 + random_below(r, INSIDE_NETWORKS_MAX) : 0;
	memset(inside->network, 0xff, sizeof(inside->network));
	if (inside->count) {
		client = input_client(r, input_one_in(r, 2));
		inside->network[inside->count - 1] = inside_network_of(&client, 100 + random_below(r, 29));
	}
	return inside;
}

bool input_choices(struct random *r, struct plane *p, uint8_t ret[2], bool *serves_here)
{
	struct fastpath_tables *t = &p->fastpath->tables[p->fastpath->control->active];
	const struct config *config = &p->config;
	unsigned v6;

	*serves_here = config->own_backend_count && input_one_in(r, 2);
	t->choices = config->own_backend_count ? CHOICES | (*serves_here ? CHOICES_HERE : 0) : 0;
	for (v6 = 0; v6 < 2; v6++) {
		uint32_t id = config->member[config->self].id;

		if (config->own_backend_count && !input_one_in(r, 8))
			id = config_own_backend(config, random_below(r, config->own_backend_count))->id;
		ret[v6] = input_one_in(r, 8) ? 0 : (uint8_t)flow_table_node(p->flows, id, true);
		memset(t->choice + v6 * FASTPATH_CHOICES, ret[v6], FASTPATH_CHOICES);
	}
	return t->choices != 0;
}

/* The next connection: for this node, a peer, or a real server. */
static uint32_t random_entry(struct random *r, struct plane *p)
{
	static const uint8_t served[] = { REASON_LOCAL_POLICY, REASON_BELOW_MAX_LOAD, REASON_NO_PEER, REASON_MINORITY };
	static const uint8_t forwarded[] = { REASON_CHOSEN, REASON_CHOSEN, REASON_DRAINING, REASON_UNHEALTHY };
	const struct config *config = &p->config;
	unsigned member = random_below(r, config->member_count), backends = config->own_backend_count;
	uint32_t id = config->member[member].id;

	if (backends && input_one_in(r, 2)) {
		id = config_own_backend(config, random_below(r, backends))->id;
		return (uint32_t)flow_table_node(p->flows, id, true) << 8 | REASON_BACKEND;
	}
	if (member == config->self)
		return backends && input_one_in(r, 4) ? REASON_NO_BACKEND : served[random_below(r, 4)];
	return random_below(r, 256) << 16 | (uint32_t)flow_table_node(p->flows, id, true) << 8 |
	       forwarded[random_below(r, 4)];
}

static void add_schedules(struct random *r, struct plane *p)
{
	static const unsigned rooms[] = { 0, 5, 1000000, 1000000 };
	struct fastpath_control *control = p->fastpath->control;
	unsigned v6, i;

	for (v6 = 0; v6 < 2; v6++) {
		struct fastpath_schedule *s = fastpath_schedule(p->fastpath, v6, true);

		*fastpath_cursor(p->fastpath, v6, true) = (uint32_t)random_next(r);
		s->count = input_one_in(r, 6) ? 0 : 1u << random_below(r, 6);
		for (i = 0; i < s->count; i++) {
			s->entry[i] = random_entry(r, p);
		}
	}
	control->made = 0;
	control->room = rooms[random_below(r, 4)];
	control->room_reason = input_one_in(r, 2) ? REASON_RATE_GUARD : REASON_TABLE_FULL;
	control->second_look = random_below(r, 8);
	control->look_room = rooms[random_below(r, 4)];
	control->landed = control->stayed = 0;
}

/* Frames come in by interface 1. */
static void random_shared(struct random *r, struct plane *p, struct fastpath_shared *ret)
{
	*ret = (struct fastpath_shared) { .interface = { !input_one_in(r, 4), !input_one_in(r, 4) },
					  .by_module = input_one_in(r, 3),
					  .hardware = { 2, 0, 0, 0, 0, (uint8_t)random_next(r) } };
	p->shared = ret;
}

void input_site(struct random *r, struct plane *p, struct input_site *ret)
{
	unsigned member, own, v6;

	ret->config = &p->config;
	memset(p->fastpath->ways, 0, FASTPATH_WAYS * sizeof(struct fastpath_way));
	for (member = 0; member < p->config.member_count; member++) {
		for (v6 = 0; v6 < 2; v6++)
			random_way(r, p, member, v6);
	}
	for (own = 0; own < p->config.own_backend_count; own++) {
		for (v6 = 0; v6 < 2; v6++)
			random_backend_way(r, p, own, v6);
	}
	random_shared(r, p, &ret->shared);
	p->living = random_next(r);
	p->living |= random_next(r);
	p->mss[0] = (uint16_t)(input_one_in(r, 4) ? random_next(r) : 1440);
	p->mss[1] = (uint16_t)(input_one_in(r, 4) ? random_next(r) : 1400);
	add_flows(r, p, ret);
	add_schedules(r, p);
}
