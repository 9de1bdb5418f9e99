/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * control_backends.h - the dprd of control_fixture.h with real servers behind it: b1 (nat), b2 (tunnel, unhealthy)
 * and b3 (nat, weight 0). Comes after cmocka.h.
 */
#ifndef TESTS_UNIT_CONTROL_BACKENDS_H
#define TESTS_UNIT_CONTROL_BACKENDS_H

#include "tests/unit/control_ask.h"

static const char backends_config[] = "[Backends]\nPolicy=wrr\n"
				      "[Backend \"b1\"]\nAddress=10.1.0.21 fd00::21\nPort=8080\nWeight=2\n"
				      "[Backend \"b2\"]\nNode=n1\nForm=tunnel\nAddress=10.1.0.22\n"
				      "[Backend \"b3\"]\nAddress=10.1.0.23\nWeight=0\n"
				      "[Backend \"b4\"]\nNode=n2\nAddress=10.1.0.24\n";

/* The table as loadcast publishes it: b2 fails its health check. */
static inline void backends_table(void)
{
	unsigned i;

	d.table.count = 7;
	for (i = 0; i < 3; i++)
		d.table.nodes[4 + i] = (struct node_load) { .id = config_own_backend(&d.config, i)->id,
							    .state = i == 1 ? NODE_UNHEALTHY : NODE_ACTIVE,
							    .flags = NODE_BACKEND,
							    .weight = 1 };
}

static inline int start_with_backends(void **context)
{
	static struct config_errors errors;
	char text[2 * sizeof(fixture_config) + sizeof(backends_config)];

	start(context);
	snprintf(text, sizeof(text), "%s%s", fixture_config, backends_config);
	if (config_parse("test.conf", text, strlen(text), NULL, &d.config, &errors)) {
		fprintf(stderr, "fixture: %s\n", errors.text[0]);
		abort();
	}
	backends_table();
	ways_reconfigure(&d.ways, &d.config, NULL);
	backend_reconfigure(&d, NULL);
	d.backends.chosen[0] = 204;
	d.backends.connections[0] = 17;
	d.backends.connections[2] = 3;
	return 0;
}

#endif
