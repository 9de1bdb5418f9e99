// SPDX-License-Identifier: GPL-2.0-or-later
/* config/check_backend.c - checks each [Backend "name"] against all other sections, and lists those behind this node. */
#include "dprd/config/reading.h"

static void check_id(struct parse *p, unsigned index)
{
	const struct backend *b = &p->config->backend[index];
	const struct config *c = p->config;

	for (unsigned i = 0; i < c->member_count; i++)
		if (c->member[i].id == b->id)
			config_error(
				p, p->backend[index].header,
				"[Backend \"%s\"]: its identity is the same as that of [Member \"%s\"] (rename it)",
				b->name, c->member[i].name);
	for (unsigned i = 0; i < index; i++)
		if (c->backend[i].id == b->id)
			config_error(p, p->backend[index].header,
				     "[Backend \"%s\"]: its identity is the same as that of \"%s\" (rename one)",
				     b->name, c->backend[i].name);
}

static void check_node(struct parse *p, unsigned index)
{
	const struct config *c = p->config;
	const char *node = c->backend[index].node;
	char list[120];

	if (!*node || p->bad_header)
		return;
	for (unsigned i = 0; i < c->member_count; i++)
		if (strcmp(c->member[i].name, node) == 0)
			return;
	config_list_members(c, list, sizeof(list));
	config_error(p, p->backend[index].node, "Node: \"%s\" is not a member (members: %s)", node, list);
}

/* "service" or "cluster" when the member has this address; else NULL. */
static const char *use_by_member(const struct member *m, const struct addr *address)
{
	for (unsigned s = 0; s < m->service_count; s++)
		if (addr_equal(&m->service[s], address))
			return "service";
	return addr_equal(&m->cluster_v4, address) || addr_equal(&m->cluster_v6, address) ? "cluster" : NULL;
}

/* Networks behind two nodes may use the same addresses. */
static bool same_node(const struct backend *a, const struct backend *b)
{
	return !*a->node || !*b->node || strcmp(a->node, b->node) == 0;
}

static void check_address(struct parse *p, unsigned index, bool v6)
{
	static const char cure[] = "take the one that this server alone has";
	const struct config *c = p->config;
	const struct addr *address = backend_address(&c->backend[index], v6), *other;
	unsigned line = p->backend[index].address[v6];
	char text[ADDR_TEXT_BYTES];

	if (!address)
		return;
	addr_format(address, text);
	for (unsigned i = 0; i < c->member_count; i++) {
		const char *use = use_by_member(&c->member[i], address);

		if (use)
			config_error(p, line, "Address: %s is the %s address of [Member \"%s\"] (%s)", text, use,
				     c->member[i].name, cure);
	}
	if (config_is_shared(c, address))
		config_error(p, line, "Address: %s is a shared address (%s)", text, cure);
	for (unsigned i = 0; i < index; i++) {
		other = backend_address(&c->backend[i], v6);
		if (other && addr_equal(other, address) && same_node(&c->backend[i], &c->backend[index])) {
			config_error(p, line,
				     "Address: %s belongs to [Backend \"%s\"] already (line %u; one section for each "
				     "server)",
				     text, c->backend[i].name, p->backend[i].address[v6]);
			return;
		}
	}
}

void config_check_backends(struct parse *p)
{
	const struct config *c = p->config;

	for (unsigned i = 0; i < c->backend_count; i++) {
		const struct backend_lines *lines = &p->backend[i];
		const struct backend *b = &c->backend[i];

		if (!lines->address_tried && !p->unknown_key[SECTION_BACKEND])
			config_error(p, lines->header,
				     "[Backend \"%s\"]: no Address= (where this node reaches the server)", b->name);
		if (b->port && b->form != BACKEND_NAT)
			config_error(p, lines->port,
				     "Port: has no effect with Form=%s, which changes no port (leave it out, or take "
				     "Form=nat)",
				     config_backend_form_names[b->form]);
		check_id(p, i);
		check_node(p, i);
		check_address(p, i, false);
		check_address(p, i, true);
	}
}

static void list_own(struct parse *p)
{
	struct config *c = p->config;

	for (unsigned i = 0; i < c->backend_count; i++) {
		if (*c->backend[i].node && strcmp(c->backend[i].node, c->node_name) != 0)
			continue;
		if (c->own_backend_count == OWN_BACKENDS_MAX) {
			config_error(
				p, p->backend[i].header,
				"[Backend \"%s\"]: too many real servers behind %s (at most %d; say with Node= which "
				"node each stands behind)",
				c->backend[i].name, c->node_name, OWN_BACKENDS_MAX);
			return;
		}
		c->own_backend[c->own_backend_count++] = (uint16_t)i;
	}
}

/*
 * True when connections that peers forward here find a server: only NAT leads them to a real server. When no server has
 * a weight, peers forward none.
 */
static bool serves_landed(const struct config *c)
{
	bool any = false;

	for (unsigned own = 0; own < c->own_backend_count; own++) {
		const struct backend *b = config_own_backend(c, own);

		any |= b->weight > 0;
		if (b->weight && b->form == BACKEND_NAT)
			return true;
	}
	return !any;
}

void config_check_own_backends(struct parse *p)
{
	const struct config *c = p->config;
	unsigned line = config_key_line(p, SECTION_BACKENDS, "ServeHere");

	list_own(p);
	if (c->serve_here)
		return;
	if (!c->own_backend_count)
		config_error(p, line,
			     "ServeHere: no, but %s has no real server, so its clients would find no server (add a "
			     "[Backend] for it, or leave ServeHere out)",
			     c->node_name);
	else if (c->member[c->self].weight && c->member_count > 1 && !serves_landed(c))
		config_error(
			p, line,
			"ServeHere: no, but %s has no [Backend] with Form=nat and a weight, so connections that peers "
			"forward to it would find no server (set Weight=0 in [Member \"%s\"])",
			c->node_name, c->node_name);
}
