/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * control_fixture.h - a dprd without packets: four members, a load table, flows and decisions, as the
 * control socket finds them. For its unit tests and its fuzzer.
 *
 *   n1 self; n2 fine; n3 heard, but hears no node; n4 silent for 3.2 s
 */
#ifndef TESTS_UNIT_CONTROL_FIXTURE_H
#define TESTS_UNIT_CONTROL_FIXTURE_H

#include <sodium.h>
#include <stdlib.h>

#include "dprd/base/clock.h"
#include "dprd/base/version.h"
#include "dprd/control/control.h"
#include "dprd/upkeep/reload.h"
#include "tests/unit/own_ways.h"

static const char fixture_config[] = "[Cluster]\nName=web\n[Node]\nName=n1\n[Service]\nPort=80\nPort=8080\n"
				     "[Balance]\nMaxLoad=20\n[Flows]\nMaxFlows=1024\nMaxHalfOpen=256\n"
				     "[Run]\nDirectory=/run/dprd\nTable=/run/loadcast/table\n"
				     "[Member \"n1\"]\nService=192.0.2.11 2001:db8::11\nCluster=10.0.0.11\n"
				     "[Member \"n2\"]\nService=192.0.2.12 2001:db8::12\nCluster=10.0.0.12\n"
				     "[Member \"n3\"]\nService=192.0.2.13 2001:db8::13\nCluster=10.0.0.13\n"
				     "[Member \"n4\"]\nService=192.0.2.14 2001:db8::14\nCluster=10.0.0.14\n";

/* The result of reload_config(), in place of upkeep/reload.c. */
static int fixture_reload_error;
static unsigned fixture_reloads;

int reload_config(struct dprd *d, struct config_errors *errors, char note[CONFIG_ERROR_BYTES])
{
	(void)d;
	fixture_reloads++;
	snprintf(note, CONFIG_ERROR_BYTES, "a note");
	if (fixture_reload_error) {
		errors->count = 2;
		snprintf(errors->text[0], CONFIG_ERROR_BYTES, "dprd.conf:7: MaxLaod: unknown key");
		snprintf(errors->text[1], CONFIG_ERROR_BYTES, "dprd.conf:9: \xff: not UTF-8");
	}
	return fixture_reload_error;
}

/* False: there was no room for it. */
static inline bool fixture_flow(struct dprd *d, const char *client, uint16_t port, const char *node, uint8_t flags)
{
	struct flow_key key = { .client_port = htons(port), .service_port = htons(80) };
	struct flow evicted, flow;
	bool v6 = strchr(client, ':');

	if (!addr_parse(client, &key.client) || !addr_parse(v6 ? "2001:db8::11" : "192.0.2.11", &key.service))
		abort();
	if (!flow_add(d->flows, &key, member_id(node), 77, clock_flow_ms(), &evicted))
		return false;
	if (flags && flow_find(d->flows, &key, &flow))
		flow_touch(d->flows, &flow, flags, clock_flow_ms());
	return true;
}

static inline void fixture_decision(struct dprd *d, const char *client, uint16_t port, enum reason reason)
{
	struct packet packet = { .key = { .client_port = htons(port), .service_port = htons(80) }, .tcp_sequence = 7 };
	struct verdict verdict = { .kind = reason_kind(reason), .reason = reason, .node_id = member_id("n2") };
	struct decide_env env = { .view = &d->view, .policy = d->policy };

	if (!addr_parse(client, &packet.key.client) || !addr_parse("192.0.2.11", &packet.key.service))
		abort();
	why_remember(d->why, clock_now_ms(), &packet, &verdict, &env, 20);
}

static inline void fixture_table(struct dprd *d)
{
	static const uint32_t flags[] = {
		NODE_HEARD | NODE_ECHOES | NODE_DPRD_UP,
		NODE_HEARD | NODE_ECHOES | NODE_DPRD_UP,
		NODE_HEARD | NODE_DPRD_UP,
		NODE_DPRD_UP,
	};
	unsigned i;

	d->table = (struct load_table) { .magic = LOAD_TABLE_MAGIC, .version = LOAD_TABLE_VERSION, .count = 4 };
	d->table.published_ms = clock_now_ms();
	d->table.period_ms = d->config.period_ms;
	d->table.rejected = 5;
	d->table.port_count = d->config.port_count;
	memcpy(d->table.port, d->config.port, sizeof(d->table.port));
	d->table_valid = true;
	for (i = 0; i < 4; i++) {
		struct node_load *node = &d->table.nodes[i];

		*node = (struct node_load) { .id = d->config.member[i].id, .flags = flags[i], .weight = 1 };
		node->age_ms = i == 3 ? 3200 : 100 * i;
		node->echo_age_ms = i == 2 ? LOAD_AGE_NEVER_MS : 50;
		memcpy(node->version, dprd_version, sizeof(node->version));
		node->sample = (struct load_sample) { .open_connections = 24 - 10 * (i % 2), .cpu_permille = 610 };
		d->view_nodes[i] = (struct view_node) { .member = (uint16_t)i, .node_id = node->id, .weight = 1 };
		d->view_nodes[i].load = node->sample.open_connections;
		d->view_nodes[i].eligible = i < 2;
		set_member_way(d, i, false, 1480);
	}
	d->view = (struct load_view) { .count = 4, .nodes = d->view_nodes };
}

/* Fills a dprd in zeroed memory. */
static inline void fixture_start(struct dprd *d)
{
	static struct config_errors errors;
	void *memory;

	if (sodium_init() < 0 ||
	    config_parse("test.conf", fixture_config, strlen(fixture_config), NULL, &d->config, &errors)) {
		fprintf(stderr, "fixture: %s\n", errors.text[0]);
		abort();
	}
	d->lock = (struct mutex)MUTEX_INITIALIZER;
	d->started_ms = clock_now_ms() > 90000 ? clock_now_ms() - 90000 : 0;
	d->policy = policy_find(d->config.policy);
	d->flow_limits = (struct flow_limits) { .max_confirmed = d->config.max_flows,
						.max_half_open = d->config.max_half_open,
						.syn_timeout_ms = 60000,
						.idle_timeout_ms = 60000,
						.fin_timeout_ms = 60000,
						.rst_timeout_ms = 60000,
						.hash_key = { 1, 2 } };
	memory = aligned_alloc(sizeof(struct flow_bucket), flow_table_bytes(&d->flow_limits));
	d->why = calloc(1, sizeof(*d->why));
	if (!memory || !d->why)
		abort();
	d->flows = flow_table_init(memory, &d->flow_limits);
	fixture_table(d);
}

static inline void fixture_stop(struct dprd *d)
{
	free(d->flows);
	free(d->why);
	pthread_mutex_destroy(&d->lock.mutex);
	memset(d, 0, sizeof(*d));
}

#endif
