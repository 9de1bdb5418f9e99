// SPDX-License-Identifier: GPL-2.0-or-later
/* config/check_shared.c - checks section [Shared] against all others. */
#include "dprd/config/reading.h"

static void check_owner(struct parse *p, unsigned index, unsigned member)
{
	const struct addr *shared = &p->config->shared[index];
	const struct member *m = &p->config->member[member];
	const char *key = NULL;
	char text[ADDR_TEXT_BYTES];

	for (unsigned s = 0; s < m->service_count; s++)
		if (addr_equal(&m->service[s], shared))
			key = "service";
	if (!key && (addr_equal(&m->cluster_v4, shared) || addr_equal(&m->cluster_v6, shared)))
		key = "cluster";
	if (key)
		config_error(p, p->shared_line[index],
			     "Address: %s is the %s address of [Member \"%s\"] (a shared address belongs to all nodes, "
			     "and each node needs one of its own, too)",
			     addr_format(shared, text), key, m->name);
}

void config_check_shared(struct parse *p)
{
	const struct config *c = p->config;

	for (unsigned i = 0; i < c->shared_count; i++)
		for (unsigned m = 0; m < c->member_count; m++)
			check_owner(p, i, m);
	if (c->shared_count || p->unknown_key[SECTION_SHARED] || p->errors->count)
		return;
	if (c->shared_mac_set)
		config_error(p, config_key_line(p, SECTION_SHARED, "Mac"),
			     "Mac: has no effect without Address= (the address that all nodes share)");
	if (*c->shared_interface)
		config_error(p, config_key_line(p, SECTION_SHARED, "Interface"),
			     "Interface: has no effect without Address= (the address that all nodes share)");
}
