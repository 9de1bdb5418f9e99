// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * backends.c - one prober for each web server that serves for this node.
 */
#include "loadcast/backends.h"

#include <stdlib.h>

#include "dprd/base/log.h"
#include "loadcast/health.h"

enum { OWN_SERVER, FIRST_BACKEND, SERVERS_MAX = FIRST_BACKEND + OWN_BACKENDS_MAX };

_Static_assert((int)SERVERS_MAX == (int)BACKENDS_SOCKETS, "one socket for each");

struct server_probes {
	const struct config *config;
	struct health *health[SERVERS_MAX]; /* the own server, then the own backends; NULL: none, or not probed */
	bool was_good[SERVERS_MAX]; /* as last logged */
};

static bool uses_own_server(const struct config *c)
{
	return c->serve_here || !c->own_backend_count;
}

static const struct backend *backend_of(const struct config *c, unsigned server)
{
	return config_own_backend(c, server - FIRST_BACKEND);
}

static unsigned server_count(const struct config *c)
{
	return FIRST_BACKEND + c->own_backend_count;
}

/* A backend with addresses of both families is probed by IPv4 only. */
static struct health *backend_health(const struct config *c, const struct backend *backend)
{
	const struct addr *v4 = backend_address(backend, false);
	uint16_t port = backend->port ? backend->port : c->health_port ? c->health_port : c->port[0];

	return health_new(c, v4 ? v4 : backend_address(backend, true), port);
}

struct server_probes *backends_new(const struct config *config)
{
	struct server_probes *p = calloc(1, sizeof(*p));
	unsigned i;

	if (!p)
		return NULL;
	p->config = config;
	for (i = 0; i < server_count(config); i++) {
		p->was_good[i] = true;
		if (i >= FIRST_BACKEND)
			p->health[i] = backend_health(config, backend_of(config, i));
		else if (uses_own_server(config))
			p->health[i] = health_new(config, &config->member[config->self].service[0],
						  config->health_port ? config->health_port : config->port[0]);
		else
			continue;
		if (!p->health[i]) {
			backends_free(p);
			return NULL;
		}
	}
	return p;
}

void backends_free(struct server_probes *probes)
{
	unsigned i;

	for (i = 0; probes && i < SERVERS_MAX; i++)
		health_free(probes->health[i]);
	free(probes);
}

void backends_inherit(struct server_probes *probes, struct server_probes *former)
{
	unsigned i;

	for (i = 0; i < server_count(probes->config); i++) {
		int before = OWN_SERVER;

		if (i >= FIRST_BACKEND) {
			before = config_own_backend_by_id(former->config, backend_of(probes->config, i)->id);
			if (before < 0)
				continue;
			before += FIRST_BACKEND;
		}
		if (!probes->health[i] || !former->health[before])
			continue;
		health_inherit(probes->health[i], former->health[before]);
		/* backends_tick() logs a change that was not logged yet. */
		if (probes->config->health != HEALTH_NONE)
			probes->was_good[i] = former->was_good[before];
	}
}

/* True when the server came or went since the last call. */
static bool log_change(struct server_probes *p, unsigned server)
{
	bool good = health_is_good(p->health[server]);
	const char *name = server == OWN_SERVER ? "" : backend_of(p->config, server)->name;
	const char *what = server == OWN_SERVER ? "the web server" : "backend ";

	if (good == p->was_good[server])
		return false;
	p->was_good[server] = good;
	if (good)
		log_info("%s%s answers again", what, name);
	else
		log_warning("%s%s fails its health check: %s", what, name, health_reason(p->health[server]));
	return true;
}

bool backends_tick(struct server_probes *probes, uint64_t now_ms, uint64_t *ret_next_ms)
{
	uint64_t next_ms = UINT64_MAX, due_ms;
	bool changed = false;
	unsigned i;

	for (i = 0; i < server_count(probes->config); i++) {
		if (!probes->health[i])
			continue;
		due_ms = health_tick(probes->health[i], now_ms);
		next_ms = due_ms < next_ms ? due_ms : next_ms;
		changed |= log_change(probes, i);
	}
	*ret_next_ms = next_ms;
	return changed;
}

void backends_sockets(const struct server_probes *probes, struct pollfd fds[BACKENDS_SOCKETS])
{
	unsigned i;

	for (i = 0; i < BACKENDS_SOCKETS; i++) {
		fds[i] = (struct pollfd) { .fd = -1 };
		if (probes->health[i])
			fds[i].fd = health_socket(probes->health[i], &fds[i].events);
	}
}

bool backends_ready(struct server_probes *probes, const struct pollfd fds[BACKENDS_SOCKETS], uint64_t now_ms)
{
	bool any = false;
	unsigned i;

	for (i = 0; i < BACKENDS_SOCKETS; i++) {
		if (!probes->health[i] || fds[i].fd < 0 || !fds[i].revents)
			continue;
		health_ready(probes->health[i], now_ms);
		any = true;
	}
	return any;
}

static bool serves(const struct server_probes *p, bool peers)
{
	unsigned i;

	for (i = 0; i < server_count(p->config); i++) {
		if (!p->health[i] || !health_is_good(p->health[i]))
			continue;
		if (i == OWN_SERVER)
			return true;
		if (backend_of(p->config, i)->weight && (!peers || backend_of(p->config, i)->form == BACKEND_NAT))
			return true;
	}
	return false;
}

bool backends_serve_clients(const struct server_probes *probes)
{
	return serves(probes, false);
}

bool backends_serve_peers(const struct server_probes *probes)
{
	const struct config *c = probes->config;

	return serves(probes, c->member[c->self].weight != 0);
}

void backends_fill(const struct server_probes *probes, struct load_table *table)
{
	struct node_load *self = &table->nodes[0];
	unsigned i;

	if (probes->health[OWN_SERVER] && !health_is_good(probes->health[OWN_SERVER]))
		self->flags |= NODE_SERVER_DOWN;
	if (self->state != NODE_DRAINING)
		self->state = backends_serve_clients(probes) ? NODE_ACTIVE : NODE_UNHEALTHY;
	for (i = FIRST_BACKEND; i < server_count(probes->config) && table->count < LOAD_NODES_MAX; i++) {
		const struct backend *backend = backend_of(probes->config, i);

		table->nodes[table->count++] = (struct node_load) {
			.id = backend->id,
			.state = health_is_good(probes->health[i]) ? NODE_ACTIVE : NODE_UNHEALTHY,
			.flags = NODE_BACKEND,
			.weight = backend->weight,
		};
	}
}
