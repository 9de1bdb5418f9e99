// SPDX-License-Identifier: GPL-2.0-or-later
/* backends.c - one probe for each web server that serves for this node. */
#include "loadcast/backends.h"

#include <stdlib.h>

#include "dprd/base/log.h"
#include "loadcast/health.h"

/*
 * The numbers of servers: first the service ports of the node's own server, then the port of [Health] Port= if it is
 * not among these, then the real servers.
 */
enum { ASKED_PORT = PORTS_MAX, FIRST_BACKEND, SERVERS_MAX = FIRST_BACKEND + OWN_BACKENDS_MAX };

_Static_assert((int)SERVERS_MAX == (int)BACKENDS_SOCKETS, "one socket for each");

struct server_probes {
	const struct config *config;
	struct health *health[SERVERS_MAX]; /* NULL: no such server, or not probed */
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
	uint16_t port = backend->port ? backend->port : config_asked_port(c);

	return health_new(c, c->health, v4 ? v4 : backend_address(backend, true), port);
}

/* The own server's port of this number; 0: there is none to be asked. */
static uint16_t own_port(const struct config *c, unsigned server)
{
	if (server < ASKED_PORT)
		return server < c->port_count ? c->port[server] : 0;
	for (unsigned i = 0; i < c->port_count; i++) {
		if (c->port[i] == c->health_port)
			return 0;
	}
	return c->health_port;
}

/*
 * http and https are for one port, as Path= and Status= are. Beside http the other ones are asked whether they take
 * connections; beside https one may be asked by HTTP.
 */
static enum health_check own_check(const struct config *c, uint16_t port)
{
	if (port == config_asked_port(c))
		return c->health;
	return c->health == HEALTH_HTTP ? HEALTH_TCP : c->health == HEALTH_HTTPS ? HEALTH_AUTO : c->health;
}

static struct health *own_health(const struct config *c, unsigned server)
{
	uint16_t port = own_port(c, server);

	return health_new(c, own_check(c, port), &c->member[c->self].service[0], port);
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
		else if (uses_own_server(config) && own_port(config, i))
			p->health[i] = own_health(config, i);
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

/* The number that this server had; SERVERS_MAX: it is new. */
static unsigned former_number(const struct config *now, unsigned server, const struct config *former)
{
	int backend;

	if (server < FIRST_BACKEND) {
		for (unsigned i = 0; i < FIRST_BACKEND; i++) {
			if (own_port(former, i) == own_port(now, server))
				return i;
		}
		return SERVERS_MAX;
	}
	backend = config_own_backend_by_id(former, backend_of(now, server)->id);
	return backend < 0 ? SERVERS_MAX : FIRST_BACKEND + (unsigned)backend;
}

void backends_inherit(struct server_probes *probes, struct server_probes *former)
{
	unsigned i;

	for (i = 0; i < server_count(probes->config); i++) {
		unsigned before = former_number(probes->config, i, former->config);

		if (before == SERVERS_MAX || !probes->health[i] || !former->health[before])
			continue;
		health_inherit(probes->health[i], former->health[before]);
		/* backends_tick() logs a change that was not logged yet. */
		if (probes->config->health != HEALTH_NONE)
			probes->was_good[i] = former->was_good[before];
	}
}

static const char *name_of(const struct server_probes *p, unsigned server, char name[NAME_BYTES + 16])
{
	const struct config *c = p->config;

	if (server >= FIRST_BACKEND)
		snprintf(name, NAME_BYTES + 16, "backend %s", backend_of(c, server)->name);
	else if (c->port_count == 1 && !own_port(c, ASKED_PORT))
		snprintf(name, NAME_BYTES + 16, "the web server");
	else
		snprintf(name, NAME_BYTES + 16, "the web server's port %u", own_port(c, server));
	return name;
}

/* True when the server came or went since the last call. */
static bool log_change(struct server_probes *p, unsigned server)
{
	bool good = health_is_good(p->health[server]);
	char name[NAME_BYTES + 16];

	if (good == p->was_good[server])
		return false;
	p->was_good[server] = good;
	if (good)
		log_info("%s answers again", name_of(p, server, name));
	else
		log_warning("%s fails its health check: %s", name_of(p, server, name),
			    health_reason(p->health[server]));
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
		health_ready(probes->health[i], fds[i].revents, now_ms);
		any = true;
	}
	return any;
}

static bool fails(const struct server_probes *p, unsigned server)
{
	return p->health[server] && !health_is_good(p->health[server]);
}

/* The own server's ports that fail, a bit each. */
static uint32_t own_ports_down(const struct server_probes *p)
{
	unsigned i, down = 0;

	for (i = 0; i < p->config->port_count; i++)
		down |= (unsigned)fails(p, i) << i;
	return down;
}

/*
 * With real servers beside it, the own server is one of them: it serves all ports or none. Without them, it is good
 * while one of its ports is good.
 */
static bool own_server_good(const struct server_probes *p)
{
	unsigned all = (1U << p->config->port_count) - 1, down = own_ports_down(p);

	if (!uses_own_server(p->config) || fails(p, ASKED_PORT))
		return false;
	return p->config->own_backend_count ? !down : down != all;
}

uint32_t backends_ports_down(const struct server_probes *probes)
{
	return probes->config->own_backend_count || !own_server_good(probes) ? 0 : own_ports_down(probes);
}

static bool serves(const struct server_probes *p, bool peers)
{
	unsigned i;

	if (own_server_good(p))
		return true;
	for (i = FIRST_BACKEND; i < server_count(p->config); i++) {
		if (fails(p, i))
			continue;
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

	if (uses_own_server(probes->config) && !own_server_good(probes))
		self->flags |= NODE_SERVER_DOWN;
	self->ports_down = backends_ports_down(probes);
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
