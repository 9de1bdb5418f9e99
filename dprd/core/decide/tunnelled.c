// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/core/decide/tunnelled.h"

#include <arpa/inet.h>

#include "dprd/core/packet/encap.h"

static bool is_cluster_address_of(const struct member *member, const struct addr *address)
{
	return addr_equal(&member->cluster_v4, address) || addr_equal(&member->cluster_v6, address);
}

bool tunnelled_is_cluster_address(const struct config *config, const struct addr *address)
{
	unsigned i;

	for (i = 0; i < config->member_count; i++) {
		if (is_cluster_address_of(&config->member[i], address))
			return true;
	}
	return config_member_by_service(config, address) >= 0 || config_is_shared(config, address);
}

static int service_owner(void *context, const struct addr *service, be16 port)
{
	const struct tunnelled *t = context;

	if (port && !config_had_port(t->config, ntohs(port)))
		return -1;
	return config_is_shared(t->config, service) ? (int)DECAP_OWNER_ALL
						    : config_member_had_service(t->config, service);
}

static int living_peer(void *context, const struct addr *cluster)
{
	const struct tunnelled *t = context;
	unsigned i;

	for (i = 0; i < t->config->member_count; i++) {
		if (i != t->config->self && is_cluster_address_of(&t->config->member[i], cluster))
			return t->is_living(t->context, i) ? (int)i : -1;
	}
	return -1;
}

static bool is_cluster_address(void *context, const struct addr *address)
{
	const struct tunnelled *t = context;

	return tunnelled_is_cluster_address(t->config, address);
}

static bool is_own_cluster_address(void *context, const struct addr *address)
{
	const struct tunnelled *t = context;

	return is_cluster_address_of(&t->config->member[t->config->self], address);
}

static uint32_t member_node_id(void *context, int member)
{
	const struct tunnelled *t = context;

	return t->config->member[member].id;
}

struct decap_env tunnelled_env(const struct tunnelled *t)
{
	return (struct decap_env) { .service_owner = service_owner,
				    .living_peer = living_peer,
				    .is_cluster_address = is_cluster_address,
				    .is_own_cluster_address = is_own_cluster_address,
				    .member_node_id = member_node_id,
				    .context = (void *)(uintptr_t)t,
				    .self = (int)t->config->self };
}

void tunnelled_to_alias(const struct config *config, uint32_t sender_id, uint8_t *datagram, const struct packet *inner)
{
	int member = config_member_by_id(config, sender_id);
	unsigned i;

	for (i = 0; member >= 0 && i < member_services(&config->member[member]); i++) {
		struct addr alias = config_alias(config, (unsigned)member, i);

		if (addr_equal(&config->member[member].service[i], &inner->key.service) && !addr_is_zero(&alias)) {
			encap_to_alias(datagram, inner, &alias);
			return;
		}
	}
}
