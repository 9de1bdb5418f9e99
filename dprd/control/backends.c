// SPDX-License-Identifier: GPL-2.0-or-later
/* control/backends.c - the real servers behind this node: which of them get connections, and how many each has. */
#include "dprd/control/control.h"

static json_t *backend_json(const struct config *config, const struct control_snapshot *s, unsigned own)
{
	const struct backend *backend = config_own_backend(config, own);
	const struct backend_status *status = &s->backends[own];
	bool mtu = backend->form != BACKEND_NAT;
	json_t *made =
		json_pack("{s:o, s:s, s:o, s:o, s:o, s:i, s:b, s:o, s:I, s:I}", "name", control_text(backend->name),
			  "form", config_backend_form_names[backend->form], "address_v4", control_address(&backend->v4),
			  "address_v6", control_address(&backend->v6), "port",
			  control_count(backend->port, backend->port), "weight", (int)backend->weight, "eligible",
			  !status->why_not, "why_not", status->why_not ? json_string(status->why_not) : json_null(),
			  "connections", (json_int_t)status->connections, "chosen", (json_int_t)status->chosen);

	json_object_set_new(made, "mtu_v4", control_count(mtu && status->mtu[0], status->mtu[0]));
	json_object_set_new(made, "mtu_v6", control_count(mtu && status->mtu[1], status->mtu[1]));
	return made;
}

/* Puts all facts into answer; member is the name of the list in it. */
static void put_backends(json_t *answer, const char *member, const struct config *config,
			 const struct control_snapshot *s)
{
	json_t *list = json_array();
	uint64_t connections = 0;
	unsigned own, usable = 0;

	for (own = 0; own < config->own_backend_count; own++) {
		json_array_append_new(list, backend_json(config, s, own));
		usable += !s->backends[own].why_not;
		connections += s->backends[own].connections;
	}
	json_object_set_new(answer, "policy", control_text(config->backend_policy));
	json_object_set_new(answer, "serve_here", json_boolean(config->serve_here));
	json_object_set_new(answer, "serves_here", json_boolean(s->serves_here));
	json_object_set_new(answer, "count", json_integer(config->own_backend_count));
	json_object_set_new(answer, "usable", json_integer(usable));
	json_object_set_new(answer, "connections", json_integer((json_int_t)connections));
	json_object_set_new(answer, member, list);
}

json_t *control_status_backends(const struct config *config, const struct control_snapshot *s)
{
	json_t *made;

	if (!config->own_backend_count)
		return json_null();
	made = json_object();
	put_backends(made, "list", config, s);
	return made;
}

json_t *control_backends(struct dprd *d, const struct control_query *query)
{
	static struct control_snapshot s; /* too large for a stack; main thread only */
	json_t *answer =
		json_pack("{s:s, s:o}", "schema", "dprd.backends/1", "node", control_text(d->config.node_name));

	(void)query;
	control_take_snapshot(d, &s);
	put_backends(answer, "backends", &d->config, &s);
	return answer;
}
