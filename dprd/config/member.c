// SPDX-License-Identifier: GPL-2.0-or-later
/* config/member.c - members and real servers by name, number and address; aliases; and the hash that all nodes compare. */
#include "dprd/config/config.h"

#include <sodium.h>

static void put_be64(uint8_t *to, uint64_t value)
{
	for (unsigned i = 0; i < 8; i++)
		to[i] = (uint8_t)(value >> (56 - 8 * i));
}

static uint64_t get_be64(const uint8_t *from)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < 8; i++)
		value = value << 8 | from[i];
	return value;
}

uint32_t member_id(const char *name)
{
	uint8_t hash[crypto_generichash_BYTES];
	uint32_t id;

	crypto_generichash(hash, sizeof(hash), (const uint8_t *)name, strlen(name), NULL, 0);
	id = (uint32_t)(get_be64(hash) >> 32);
	return id ? id : 1;
}

uint32_t backend_id(const char *name)
{
	/* The blank makes sure that the text is not a member's name: no name has one. */
	char other[sizeof("backend ") + NAME_BYTES];

	snprintf(other, sizeof(other), "backend %s", name);
	return member_id(other);
}

const struct backend *config_own_backend(const struct config *config, unsigned own)
{
	return &config->backend[config->own_backend[own]];
}

int config_own_backend_by_id(const struct config *config, uint32_t id)
{
	for (unsigned own = 0; own < config->own_backend_count; own++)
		if (config_own_backend(config, own)->id == id)
			return (int)own;
	return -1;
}

bool config_has_nat(const struct config *config)
{
	for (unsigned own = 0; own < config->own_backend_count; own++)
		if (config_own_backend(config, own)->form == BACKEND_NAT)
			return true;
	return false;
}

const struct addr *backend_address(const struct backend *backend, bool v6)
{
	const struct addr *address = v6 ? &backend->v6 : &backend->v4;

	return addr_is_zero(address) ? NULL : address;
}

int config_member_by_id(const struct config *config, uint32_t id)
{
	for (unsigned i = 0; i < config->member_count; i++)
		if (config->member[i].id == id)
			return (int)i;
	return -1;
}

int config_member_by_service(const struct config *config, const struct addr *service)
{
	for (unsigned i = 0; i < config->member_count; i++)
		for (unsigned s = 0; s < config->member[i].service_count; s++)
			if (addr_equal(&config->member[i].service[s], service))
				return (int)i;
	return -1;
}

int config_member_had_service(const struct config *config, const struct addr *service)
{
	int owner = config_member_by_service(config, service);

	for (unsigned i = 0; config->former_services && owner < 0 && i < config->member_count; i++) {
		const struct member *m = &config->member[i];

		for (unsigned s = m->service_count; s < member_services(m); s++)
			if (addr_equal(&m->service[s], service))
				return (int)i;
	}
	return owner;
}

static bool has(const uint16_t *ports, unsigned count, uint16_t port)
{
	for (unsigned i = 0; i < count; i++)
		if (ports[i] == port)
			return true;
	return false;
}

bool config_has_port(const struct config *config, uint16_t port)
{
	return has(config->port, config->port_count, port);
}

bool config_had_port(const struct config *config, uint16_t port)
{
	return config_has_port(config, port) || has(config->former_port, config->former_port_count, port);
}

static void keep_ports(struct config *fresh, const uint16_t *ports, unsigned count)
{
	for (unsigned i = 0; i < count && fresh->former_port_count < PORTS_MAX; i++)
		if (!config_had_port(fresh, ports[i]))
			fresh->former_port[fresh->former_port_count++] = ports[i];
}

void config_keep_ports(const struct config *old, struct config *fresh)
{
	fresh->former_port_count = 0;
	keep_ports(fresh, old->port, old->port_count);
	keep_ports(fresh, old->former_port, old->former_port_count);
}

static int own_service(const struct config *config, const struct addr *service)
{
	const struct member *self = &config->member[config->self];

	for (unsigned i = 0; i < self->service_count; i++)
		if (addr_equal(&self->service[i], service))
			return (int)i;
	return -1;
}

void config_keep_fresh(const struct config *old, struct config *fresh)
{
	const struct member *self = &fresh->member[fresh->self];

	fresh->fresh_services = 0;
	for (unsigned i = 0; i < self->service_count; i++) {
		int before = own_service(old, &self->service[i]);

		if (before < 0 || old->fresh_services >> before & 1)
			fresh->fresh_services |= (uint8_t)(1U << i);
	}
}

enum service_age config_service_age(const struct config *config, const struct addr *service)
{
	int own = config->fresh_services ? own_service(config, service) : -1;

	if (own >= 0 && config->fresh_services >> own & 1)
		return SERVICE_FRESH;
	return config->former_services && config_member_by_service(config, service) < 0 &&
			       !config_is_shared(config, service)
		       ? SERVICE_FORMER
		       : SERVICE_PRESENT;
}

/* True when the file has another use for the address. */
static bool is_in_use(const struct config *config, const struct addr *address)
{
	for (unsigned i = 0; i < config->member_count; i++)
		if (addr_equal(&config->member[i].cluster_v4, address) ||
		    addr_equal(&config->member[i].cluster_v6, address))
			return true;
	return config_member_had_service(config, address) >= 0 || config_is_shared(config, address);
}

/* True when one more address needs no alias, or there is one for it. */
static bool has_alias_left(const struct config *config, bool v4)
{
	unsigned count = 0;

	for (unsigned i = 0; i < config->member_count; i++)
		for (unsigned s = 0; s < member_services(&config->member[i]); s++)
			count += addr_is_v4(&config->member[i].service[s]) == v4;
	return config->member[config->self].own_cluster_address || count < config_alias_room(config, v4);
}

static void keep_services(struct config *fresh, struct member *m, const struct member *old)
{
	for (unsigned i = 0; i < member_services(old) && member_services(m) < MEMBER_SERVICES_MAX; i++) {
		const struct addr *address = &old->service[i];

		if (is_in_use(fresh, address) || !has_alias_left(fresh, addr_is_v4(address)))
			continue;
		m->service[m->service_count + m->former_count++] = *address;
		fresh->former_services = true;
	}
}

void config_keep_services(const struct config *old, struct config *fresh)
{
	fresh->former_services = false;
	for (unsigned i = 0; i < fresh->member_count; i++)
		fresh->member[i].former_count = 0;
	for (unsigned i = 0; i < fresh->member_count; i++) {
		int before = config_member_by_id(old, fresh->member[i].id);

		if (before >= 0)
			keep_services(fresh, &fresh->member[i], &old->member[before]);
	}
}

bool config_is_shared(const struct config *config, const struct addr *address)
{
	for (unsigned i = 0; i < config->shared_count; i++)
		if (addr_equal(&config->shared[i], address))
			return true;
	return false;
}

void config_shared_mac(const struct config *config, const struct addr *shared, uint8_t mac[6])
{
	static const uint8_t v4[3] = { 0x01, 0x00, 0x5e };

	if (config->shared_mac_set) {
		memcpy(mac, config->shared_mac, 6);
	} else if (addr_is_v4(shared)) {
		memcpy(mac, v4, 3);
		memcpy(mac + 3, shared->bytes + 13, 3);
		mac[3] &= 0x7f;
	} else {
		mac[0] = mac[1] = 0x33;
		memcpy(mac + 2, shared->bytes + 12, 4);
	}
}

unsigned config_alias_place(const struct config *config, unsigned member, unsigned service)
{
	bool v4 = addr_is_v4(&config->member[member].service[service]);
	unsigned place = 0;

	for (unsigned i = 0; i <= member; i++) {
		unsigned end = i == member ? service : config->member[i].service_count;

		for (unsigned s = 0; s < end; s++)
			place += addr_is_v4(&config->member[i].service[s]) == v4;
	}
	return place;
}

unsigned config_alias_room(const struct config *config, bool v4)
{
	/* The first address of the range stays free, and the last. */
	return (1u << (v4 ? 32 - config->alias_v4_prefix : 128 - config->alias_v6_prefix)) - 2;
}

struct addr config_alias_at(const struct config *config, bool v4, unsigned number)
{
	struct addr alias = v4 ? config->alias_v4 : config->alias_v6;
	unsigned offset = number + 1;

	for (unsigned i = 15; offset; i--) {
		offset += alias.bytes[i];
		alias.bytes[i] = (uint8_t)offset;
		offset >>= 8;
	}
	return alias;
}

void config_place_aliases(struct config *config)
{
	for (unsigned i = 0; i < config->member_count; i++) {
		struct member *m = &config->member[i];

		for (unsigned s = 0; s < m->service_count && !m->own_cluster_address && i != config->self; s++)
			m->alias[s] =
				config_alias_at(config, addr_is_v4(&m->service[s]), config_alias_place(config, i, s));
	}
}

struct addr config_alias(const struct config *config, unsigned member, unsigned service)
{
	static const struct addr none;

	if (member >= config->member_count || service >= member_services(&config->member[member]))
		return none;
	return config->member[member].alias[service];
}

static uint64_t hash64(const void *bytes, size_t length)
{
	uint8_t hash[crypto_generichash_BYTES];

	crypto_generichash(hash, sizeof(hash), bytes, length, NULL, 0);
	return get_be64(hash);
}

/* Sums make the hash independent of the order of lines in the file. */
static uint64_t member_hash(const struct member *m)
{
	uint8_t bytes[8 + 8 + 16 + 16];
	uint64_t services = 0;

	for (unsigned s = 0; s < m->service_count; s++)
		services += hash64(m->service[s].bytes, sizeof(m->service[s].bytes));
	put_be64(bytes, hash64(m->name, strlen(m->name)));
	put_be64(bytes + 8, services);
	memcpy(bytes + 16, m->cluster_v4.bytes, 16);
	memcpy(bytes + 32, m->cluster_v6.bytes, 16);
	return hash64(bytes, sizeof(bytes));
}

uint32_t config_service_hash(const struct config *config)
{
	uint64_t ports = 0, members = 0, shared = 0;
	uint8_t bytes[32], with_mac[16 + 6];

	for (unsigned i = 0; i < config->port_count; i++)
		ports += hash64((uint8_t[2]) { (uint8_t)(config->port[i] >> 8), (uint8_t)config->port[i] }, 2);
	for (unsigned i = 0; i < config->member_count; i++)
		members += member_hash(&config->member[i]);
	put_be64(bytes, hash64(config->cluster_name, strlen(config->cluster_name)));
	put_be64(bytes + 8, ports);
	for (unsigned i = 0; i < config->shared_count; i++) {
		memcpy(with_mac, config->shared[i].bytes, 16);
		config_shared_mac(config, &config->shared[i], with_mac + 16);
		shared += hash64(with_mac, sizeof(with_mac));
	}
	put_be64(bytes + 16, members);
	put_be64(bytes + 24, shared);
	/* Without shared addresses the hash is the same as in versions that do not know them. */
	return (uint32_t)(hash64(bytes, config->shared_count ? 32 : 24) >> 32);
}
