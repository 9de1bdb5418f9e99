// SPDX-License-Identifier: GPL-2.0-or-later
/* flow/names.c - the indexes by which slots of the flow table name services and nodes. */
#include "dprd/core/flow/memory.h"

int flow_service_find(const struct flow_table *t, const struct addr *service, be16 port)
{
	unsigned i;

	for (i = 0; i < t->service_count; i++) {
		if (t->services[i].port == port && addr_equal(&t->services[i].address, service))
			return (int)i;
	}
	return -1;
}

int flow_table_service(struct flow_table *t, const struct addr *service, be16 port, bool make)
{
	int found = flow_service_find(t, service, port);
	unsigned i = t->service_count;

	if (found >= 0 && make)
		t->services[found].seen = 1;
	if (found >= 0 || !make)
		return found;
	if (i == FLOW_SERVICES_MAX) {
		for (i = 0; i < FLOW_SERVICES_MAX && (t->services[i].seen | t->services[i].used); i++)
			;
		if (i == FLOW_SERVICES_MAX)
			return -1;
	} else {
		t->service_count++;
	}
	t->services[i] = (struct flow_service) { .address = *service, .port = port, .seen = 1, .used = 1 };
	return (int)i;
}

int flow_table_node(struct flow_table *t, uint32_t node_id, bool make)
{
	unsigned i, unused = 0;

	for (i = 1; i <= FLOW_NODES_MAX && t->nodes[i].id && t->nodes[i].id != node_id; i++) {
		if (!(t->nodes[i].seen | t->nodes[i].used))
			unused = i;
	}
	if (!node_id || (!make && (i > FLOW_NODES_MAX || !t->nodes[i].id)))
		return -1;
	/* All are taken: reuse one that no flow used recently. */
	if (i > FLOW_NODES_MAX)
		i = unused;
	if (!i)
		return -1;
	if (t->nodes[i].id != node_id)
		t->nodes[i] = (struct flow_node) { .id = node_id, .used = 1 };
	if (make)
		t->nodes[i].seen = 1;
	return (int)i;
}

uint32_t flow_table_node_id(const struct flow_table *t, unsigned node)
{
	return node <= FLOW_NODES_MAX ? t->nodes[node].id : 0;
}
