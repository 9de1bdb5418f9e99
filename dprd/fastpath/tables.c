// SPDX-License-Identifier: GPL-2.0-or-later
/* fastpath/tables.c - fills the tables of the BPF programs, and reads their counters. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>

#include "dprd/base/clock.h"
#include "dprd/bpf/dprd.skel.h"
#include "dprd/fastpath/fastpath.h"

_Static_assert((int)FASTPATH_MEMBERS >= (int)MEMBERS_MAX && (int)FASTPATH_SERVICES >= (int)MEMBER_SERVICES_MAX &&
		       (int)FASTPATH_PORTS >= (int)PORTS_MAX && (int)FASTPATH_SHARED >= (int)SHARED_MAX,
	       "a configuration must fit");
_Static_assert(sizeof(struct fastpath_tables) % 8 == 0 && sizeof(struct fastpath_way) % 8 == 0,
	       "elements of a mapped array are multiples of eight bytes");

enum {
	SEED_TRIES = 1000,
	SEED_WISHES = 32, /* the first tries, for which each address must lie where its hash says */
};

/* Adds roles to an address's entry. False: no place near enough. */
static bool add_address(struct fastpath_tables *t, const struct addr *address, unsigned roles, unsigned member,
			unsigned service)
{
	uint32_t at = fastpath_address_hash(address, t->seed), i;

	if (addr_is_zero(address))
		return true;
	for (i = 0; i < FASTPATH_PROBES; i++) {
		uint32_t index = (at + i) & (FASTPATH_ADDRESSES - 1);
		struct fastpath_address *place = &t->address[index];

		if (place->roles && !addr_equal(&place->address, address))
			continue;
		t->occupied[index / 64] |= 1ull << index % 64;
		place->address = *address;
		place->roles |= (uint8_t)roles;
		place->member = (uint8_t)member;
		/* A cluster address may also be a service address. Only service addresses have a number. */
		if (roles & (ROLE_OWN_SERVICE | ROLE_PEER_SERVICE | ROLE_ALIAS))
			place->service = (uint8_t)service;
		return true;
	}
	return false;
}

static bool add_member(struct fastpath_tables *t, const struct config *config, unsigned member, bool living)
{
	const struct member *m = &config->member[member];
	bool self = member == config->self, fits = true;
	unsigned cluster = self ? ROLE_OWN_CLUSTER : ROLE_PEER_CLUSTER | (living ? ROLE_LIVING : 0), i;

	fits = add_address(t, &m->cluster_v4, cluster, member, 0) && add_address(t, &m->cluster_v6, cluster, member, 0);
	for (i = 0; i < member_services(m); i++) {
		unsigned roles =
			(self ? ROLE_OWN_SERVICE : ROLE_PEER_SERVICE) | (i < m->service_count ? 0 : ROLE_FORMER);

		t->service[member][i] = m->service[i];
		fits = fits && add_address(t, &m->service[i], roles, member, i);
		if (self)
			continue;
		t->alias[member][i] = config_alias(config, member, i);
		t->alias_count += !addr_is_zero(&t->alias[member][i]);
		fits = fits && add_address(t, &t->alias[member][i], ROLE_ALIAS, member, i);
	}
	return fits;
}

static bool add_shared(struct fastpath_tables *t, const struct config *config, const struct fastpath_shared *shared)
{
	bool fits = true;
	unsigned i;

	t->shared_count = config->shared_count;
	for (i = 0; i < config->shared_count && fits; i++) {
		fits = add_address(t, &config->shared[i], ROLE_OWN_SERVICE | ROLE_SHARED, config->self,
				   (unsigned)FASTPATH_SERVICES + i);
		config_shared_mac(config, &config->shared[i], t->shared_hardware[i]);
	}
	if (!shared)
		return fits;
	memcpy(t->bucket_key, shared->key, sizeof(t->bucket_key));
	memcpy(t->shared_interface, shared->interface, sizeof(t->shared_interface));
	t->shared_by_module = shared->by_module;
	memcpy(t->interface_hardware, shared->hardware, sizeof(shared->hardware));
	return fits;
}

static void add_service(struct fastpath_tables *t, struct flow_table *flows, const struct addr *address,
			unsigned service)
{
	unsigned port;

	for (port = 0; port < t->port_count; port++) {
		int index = flow_table_service(flows, address, t->port[port], true);

		/* Without an index the programs find no flow, and this node serves the connections. */
		if (index >= 0)
			t->own_service[service][port] = (uint8_t)index;
	}
}

static void add_own_services(struct fastpath_tables *t, const struct config *config, struct flow_table *flows)
{
	const struct member *self = &config->member[config->self];
	unsigned service, port;

	memset(t->own_service, FASTPATH_NO_SERVICE, sizeof(t->own_service));
	t->port_count = t->present_ports = config->port_count;
	for (port = 0; port < config->port_count; port++)
		t->port[port] = htons(config->port[port]);
	for (port = 0; port < config->former_port_count && t->port_count < FASTPATH_PORTS; port++)
		t->port[t->port_count++] = htons(config->former_port[port]);
	for (service = 0; service < member_services(self); service++)
		add_service(t, flows, &self->service[service], service);
	for (service = 0; service < config->shared_count; service++)
		add_service(t, flows, &config->shared[service], (unsigned)FASTPATH_SERVICES + service);
}

/* True when the programs find each address where they look first. */
static bool is_each_at_home(const struct fastpath_tables *t)
{
	uint32_t i;

	for (i = 0; i < FASTPATH_ADDRESSES; i++) {
		if (t->address[i].roles && fastpath_address_hash(&t->address[i].address, t->seed) != i)
			return false;
	}
	return true;
}

bool fastpath_tables_fill(struct fastpath_tables *t, const struct config *config, struct flow_table *flows,
			  const struct fastpath_shared *shared, uint64_t living, const uint16_t mss[2])
{
	int self = flow_table_node(flows, config->member[config->self].id, true);
	uint32_t seed;

	for (seed = 1; seed <= SEED_TRIES && self > 0; seed++) {
		bool fits = true;
		unsigned member;

		memset(t, 0, sizeof(*t));
		t->seed = seed * 0x9e3779b1u;
		t->self_node = (uint32_t)self;
		t->mss[0] = mss[0];
		t->mss[1] = mss[1];
		for (member = 0; member < config->member_count && fits; member++)
			fits = add_member(t, config, member, living >> member & 1);
		if (!fits || !add_shared(t, config, shared) || (seed <= SEED_WISHES && !is_each_at_home(t)))
			continue;
		add_own_services(t, config, flows);
		return true;
	}
	return false;
}

int fastpath_lease_fd(const struct fastpath *f)
{
	return bpf_map__fd(f->programs->maps.lease);
}

struct fastpath_tables *fastpath_tables_inactive(struct fastpath *f)
{
	return &f->tables[!f->control->active];
}

void fastpath_tables_switch(struct fastpath *f)
{
	__atomic_store_n(&f->control->active, !f->control->active, __ATOMIC_RELEASE);
}

static unsigned which(const struct fastpath *f, bool v6, bool in_use)
{
	return 2 * (in_use ? f->control->schedule : !f->control->schedule) + v6;
}

struct fastpath_schedule *fastpath_schedule(struct fastpath *f, bool v6, bool in_use)
{
	return &f->schedules[which(f, v6, in_use)];
}

uint32_t *fastpath_cursor(struct fastpath *f, bool v6, bool in_use)
{
	return &f->control->cursor[which(f, v6, in_use)];
}

void fastpath_schedules_switch(struct fastpath *f)
{
	__atomic_store_n(&f->control->schedule, !f->control->schedule, __ATOMIC_RELEASE);
}

int fastpath_clock_set(struct fastpath *f, uint32_t *ret_tick)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);
	int error = bpf_prog_test_run_opts(bpf_program__fd(f->programs->progs.dprd_clock), &options);

	if (!error && ret_tick)
		*ret_tick = options.retval;
	return error;
}

void fastpath_heartbeat(struct fastpath *f, bool works)
{
	if (works)
		fastpath_clock_set(f, NULL);
	__atomic_store_n(&f->control->heartbeat_ns, works ? clock_flow_ns() : 0, __ATOMIC_RELEASE);
}

void fastpath_answered(struct fastpath *f)
{
	if (__atomic_load_n(&f->control->waiting_ns, __ATOMIC_RELAXED))
		__atomic_store_n(&f->control->waiting_ns, 0, __ATOMIC_RELAXED);
}

void fastpath_counters_take(struct fastpath *f, struct fastpath_counters *ret)
{
	const struct fastpath_counters *all = f->per_processor;
	struct fastpath_counters sum = { .reason = { 0 } };
	uint32_t zero = 0;
	unsigned i, word;

	*ret = sum;
	if (bpf_map_lookup_elem(bpf_map__fd(f->programs->maps.counters), &zero, f->per_processor))
		return;
	/* The struct consists of counters of eight bytes. */
	for (i = 0; i < f->processors; i++) {
		for (word = 0; word < sizeof(sum) / sizeof(uint64_t); word++)
			((uint64_t *)&sum)[word] += ((const uint64_t *)&all[i])[word];
	}
	for (word = 0; word < sizeof(sum) / sizeof(uint64_t); word++)
		((uint64_t *)ret)[word] = ((uint64_t *)&sum)[word] - ((uint64_t *)&f->counted)[word];
	f->counted = sum;
}
