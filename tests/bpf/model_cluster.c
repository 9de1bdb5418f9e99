// SPDX-License-Identifier: GPL-2.0-or-later
/* model_cluster.c - answers the model's questions about the cluster from the configuration, as asks.c does. */
#include "tests/bpf/model_private.h"

bool model_has_port(const struct config *config, be16 port)
{
	unsigned i;

	for (i = 0; i < config->port_count; i++) {
		if (htons(config->port[i]) == port)
			return true;
	}
	return false;
}

int model_service_owner(void *context, const struct addr *service, be16 port)
{
	const struct model *m = context;

	if (port && !model_has_port(m->config, port))
		return -1;
	return config_is_shared(m->config, service) ? (int)DECAP_OWNER_ALL
						    : config_member_had_service(m->config, service);
}

static bool is_cluster_of(const struct member *member, const struct addr *a)
{
	return addr_equal(&member->cluster_v4, a) || addr_equal(&member->cluster_v6, a);
}

int model_living_peer(void *context, const struct addr *cluster)
{
	const struct model *m = context;
	unsigned i;

	for (i = 0; i < m->config->member_count; i++) {
		if (i != m->config->self && is_cluster_of(&m->config->member[i], cluster) && !addr_is_zero(cluster))
			return m->living >> i & 1 ? (int)i : -1;
	}
	return -1;
}

/* A member has no address of a family that it does not have: no host is "nobody". */
bool model_is_cluster_address(void *context, const struct addr *address)
{
	const struct model *m = context;
	unsigned i;

	for (i = 0; i < m->config->member_count && !addr_is_zero(address); i++) {
		if (is_cluster_of(&m->config->member[i], address))
			return true;
	}
	return config_member_by_service(m->config, address) >= 0 || config_is_shared(m->config, address);
}

bool model_is_own_cluster_address(void *context, const struct addr *address)
{
	const struct model *m = context;

	return !addr_is_zero(address) && is_cluster_of(&m->config->member[m->config->self], address);
}

uint32_t model_member_node_id(void *context, int member)
{
	return ((const struct model *)context)->config->member[member].id;
}

bool model_find_alias(const struct config *config, const struct addr *alias, struct addr *ret_service)
{
	unsigned member, i;

	for (member = 0; member < config->member_count; member++) {
		for (i = 0; i < member_services(&config->member[member]); i++) {
			struct addr a = config_alias(config, member, i);

			if (addr_is_zero(&a) || !addr_equal(&a, alias))
				continue;
			*ret_service = config->member[member].service[i];
			return true;
		}
	}
	return false;
}

struct addr model_alias_of(const struct config *config, const struct addr *service)
{
	int member = config_member_had_service(config, service);
	unsigned i = 0;

	if (member < 0)
		return (struct addr) { 0 };
	while (!addr_equal(&config->member[member].service[i], service))
		i++;
	return config_alias(config, (unsigned)member, i);
}
