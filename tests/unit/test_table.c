// SPDX-License-Identifier: GPL-2.0-or-later
/* The knowledge of a node about the others, and its announcements of itself. */
#include "tests/unit/nodes.h"

static void two_way(void **state)
{
	struct load_sample sample;

	(void)state;
	assert_int_equal(row(N1, N2).age_ms, LOAD_AGE_NEVER_MS);
	assert_int_equal(row(N1, N2).flags, 0);
	nodes[N2].table.own.sample = (struct load_sample) { 1, 2, 3, 4, 5, 6, 7 };
	nodes[N2].table.own.state = NODE_UNHEALTHY;
	now_ms += PERIOD_MS;
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_NONE);
	assert_int_equal(row(N1, N2).flags, NODE_HEARD | NODE_DPRD_UP);
	assert_int_equal(row(N1, N2).echo_age_ms, LOAD_AGE_NEVER_MS);
	period(ALL_LINKS);
	period(ALL_LINKS);
	now_ms += 30;
	assert_int_equal(row(N1, N2).flags, NODE_HEARD | NODE_ECHOES | NODE_DPRD_UP);
	assert_int_equal(row(N1, N2).state, NODE_UNHEALTHY);
	assert_int_equal(row(N1, N2).weight, 2);
	assert_int_equal(row(N1, N2).age_ms, 30);
	assert_in_range(row(N1, N2).echo_age_ms, 30, 30 + PERIOD_MS);
	sample = row(N1, N2).sample;
	assert_memory_equal(&sample, &nodes[N2].table.own.sample, sizeof(sample));
	assert_int_equal(table_rejected(&nodes[N1].table), 0);
}

static void self_is_first(void **state)
{
	struct load_table t;

	(void)state;
	nodes[N3].table.own = (struct table_own) { .state = NODE_DRAINING,
						   .dprd_up = true,
						   .sample = { .open_connections = 9 },
						   .sampled_ms = now_ms - 7,
						   .version = "1.2" };
	table_fill(&nodes[N3].table, now_ms, &t);
	assert_int_equal(t.count, NODES);
	assert_int_equal(t.nodes[0].id, member_id("n3"));
	assert_int_equal(t.nodes[0].state, NODE_DRAINING);
	assert_int_equal(t.nodes[0].age_ms, 7);
	assert_int_equal(t.nodes[0].sample.open_connections, 9);
	assert_int_equal(t.period_ms, PERIOD_MS);
	assert_string_equal(t.nodes[0].version, "1.2");
	assert_true(t.published_ms == now_ms);
}

static void check_version(unsigned at, unsigned of, const char *expected)
{
	struct node_load seen = row(at, of);

	assert_true(version_is_valid(seen.version));
	assert_string_equal(seen.version, expected);
}

/*
 * A rolling upgrade: n1 announces a version, n2 another one, n3 is of a release that announces none. All of them hear
 * each other. Then n3 is upgraded: its new run announces a version.
 */
static void versions(void **state)
{
	unsigned i;

	(void)state;
	strcpy(nodes[N1].table.own.version, "0.1.0");
	strcpy(nodes[N2].table.own.version, "0.2.0-rc1");
	for (i = 0; i < 3; i++)
		period(ALL_LINKS);
	for (i = 0; i < NODES; i++) {
		check_version(i, N1, "0.1.0");
		check_version(i, N2, "0.2.0-rc1");
		check_version(i, N3, "");
		assert_true(has(i, N1, NODE_ECHOES) && has(i, N2, NODE_ECHOES) && has(i, N3, NODE_ECHOES));
	}
	/* A value that one announcement leaves out is still known. */
	memset(nodes[N2].table.own.version, 0, VERSION_BYTES);
	period(ALL_LINKS);
	check_version(N1, N2, "0.2.0-rc1");
	/* Another run of that node without a version ends that. */
	start(N2, EPOCH + 100);
	start(N3, EPOCH + 100);
	strcpy(nodes[N3].table.own.version, "0.2.0");
	for (i = 0; i < 4; i++) {
		now_ms += PERIOD_MS;
		say(N1), say(N2), say(N3);
		hear(N2, N1), hear(N3, N1), hear(N1, N2), hear(N1, N3);
	}
	assert_true(row(N1, N2).epoch == EPOCH + 100);
	check_version(N1, N2, "");
	check_version(N1, N3, "0.2.0");
}

/* Changes the announcement of n2; true when n1 hears that n2 stopped taking connections. */
static bool loses(uint32_t node_state, bool dprd_up)
{
	bool lost;

	now_ms += PERIOD_MS;
	nodes[N2].table.own.state = node_state;
	nodes[N2].table.own.dprd_up = dprd_up;
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_NONE);
	lost = nodes[N1].table.lost;
	nodes[N1].table.lost = false;
	return lost;
}

static void lost(void **state)
{
	(void)state;
	assert_false(loses(NODE_ACTIVE, false));
	assert_false(loses(NODE_ACTIVE, true));
	assert_false(loses(NODE_ACTIVE, true));
	assert_true(loses(NODE_ACTIVE, false));
	assert_false(loses(NODE_DRAINING, false));
	assert_false(loses(NODE_ACTIVE, true));
	assert_true(loses(NODE_DRAINING, true));
	assert_false(loses(NODE_UNHEALTHY, true));
	assert_false(loses(NODE_ACTIVE, true));
	assert_true(loses(NODE_UNHEALTHY, true));
}

/* n2's connections end suspiciously soon: all know it, and it is over when n2 says so. */
static void suspicious(void **state)
{
	(void)state;
	nodes[N2].table.own.shorter_times = 70;
	loses(NODE_ACTIVE, true);
	assert_int_equal(row(N1, N2).shorter_times, 70);
	assert_int_equal(row(N2, N2).shorter_times, 70);
	/* A value out of range is limited. */
	nodes[N2].table.own.shorter_times = UINT32_MAX;
	loses(NODE_ACTIVE, true);
	assert_int_equal(row(N1, N2).shorter_times, SHORTER_TIMES_MAX);
	nodes[N2].table.own.shorter_times = 0;
	loses(NODE_ACTIVE, true);
	assert_int_equal(row(N1, N2).shorter_times, 0);
}

static void set_ports(unsigned node, unsigned count, const uint16_t *ports)
{
	nodes[node].config.port_count = count;
	memcpy(nodes[node].config.port, ports, count * sizeof(*ports));
	table_reconfigure(&nodes[node].table, &nodes[node].config);
}

/* n2 says which of its ports fail; n1 has them in another order, and one more. */
static void ports_fail(void **state)
{
	const uint16_t here[] = { 80, 443, 8080, 8443 }, there[] = { 8080, 80, 443 };
	struct announce_header header;
	struct announcement a;

	(void)state;
	set_ports(N1, 4, here);
	set_ports(N2, 3, there);
	nodes[N2].table.own.ports_down = 1 << 0 | 1 << 2;
	assert_false(loses(NODE_ACTIVE, true));
	assert_int_equal(row(N1, N2).state, NODE_ACTIVE);
	/* All but 80: 8443 is not served there. */
	assert_int_equal(row(N1, N2).ports_down, 1 << 1 | 1 << 2 | 1 << 3);
	/* A node that does not know the field sees an unhealthy node. */
	assert_int_equal(announce_read_header(nodes[N2].datagram, nodes[N2].size, &header), REJECT_NONE);
	assert_int_equal(announce_decode(nodes[N2].datagram, &header, &a), REJECT_NONE);
	assert_int_equal(a.state, NODE_UNHEALTHY);
	assert_int_equal(a.serving_count, 1);
	assert_int_equal(a.serving[0], 80);
	/* n2's file does not have 8443. */
	nodes[N2].table.own.ports_down = 0;
	assert_false(loses(NODE_ACTIVE, true));
	assert_int_equal(row(N1, N2).ports_down, 1 << 3);
	nodes[N2].table.own.ports_down = 1 << 1;
	assert_true(loses(NODE_ACTIVE, true));
	assert_false(loses(NODE_ACTIVE, true));
	assert_int_equal(row(N1, N2).ports_down, 1 << 0 | 1 << 3);
	/* A drain, or no port at all, says more. */
	assert_true(loses(NODE_DRAINING, true));
	assert_int_equal(row(N1, N2).state, NODE_DRAINING);
	assert_int_equal(row(N1, N2).ports_down, 1 << 3);
	nodes[N2].table.own.ports_down = 0;
	assert_false(loses(NODE_UNHEALTHY, true));
	assert_int_equal(row(N1, N2).state, NODE_UNHEALTHY);
	assert_int_equal(row(N1, N2).ports_down, 1 << 3);
	/* None of n1's ports works there. */
	set_ports(N1, 1, &here[3]);
	nodes[N2].table.own.ports_down = 1;
	assert_false(loses(NODE_ACTIVE, true));
	assert_int_equal(row(N1, N2).state, NODE_UNHEALTHY);
	/* A reload gives the bits another meaning. A new port counts as not served until n2 announces. */
	set_ports(N1, 4, here);
	assert_int_equal(row(N1, N2).ports_down, 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3);
	assert_false(loses(NODE_ACTIVE, true));
	assert_int_equal(row(N1, N2).ports_down, 1 << 2 | 1 << 3);
	set_ports(N1, 3, there);
	assert_int_equal(row(N1, N2).ports_down, 1 << 0);
}

/* n2 announces the ports that its dprd serves, whatever its own file has. */
static void ports_of_dprd(void **state)
{
	const uint16_t here[] = { 80, 443 };
	struct load_table filled;

	(void)state;
	set_ports(N1, 2, here);
	set_ports(N2, 2, here);
	nodes[N2].table.own.port_count = 1;
	nodes[N2].table.own.port[0] = 443;
	assert_false(loses(NODE_ACTIVE, true));
	assert_int_equal(row(N1, N2).ports_down, 1 << 0);
	nodes[N2].table.own.port_count = 0;
	assert_false(loses(NODE_ACTIVE, true));
	assert_int_equal(row(N1, N2).ports_down, 0);
	table_fill(&nodes[N1].table, 0, &filled);
	assert_int_equal(filled.port_count, 2);
	assert_int_equal(filled.port[1], 443);
}

/* n2 hears n1, but n1 does not hear n2: neither trusts the other; n3 sees both. */
static void one_way(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < 3; i++)
		period(ALL_LINKS);
	for (i = 0; i < 6; i++)
		period(ALL_LINKS & ~link_of(N2, N1));
	assert_false(has(N1, N2, NODE_HEARD));
	assert_false(has(N1, N2, NODE_ECHOES));
	assert_true(has(N2, N1, NODE_HEARD));
	assert_false(has(N2, N1, NODE_ECHOES));
	assert_true(has(N3, N1, NODE_ECHOES));
	assert_true(has(N3, N2, NODE_ECHOES));
	period(ALL_LINKS);
	period(ALL_LINKS);
	assert_true(has(N1, N2, NODE_ECHOES));
	assert_true(has(N2, N1, NODE_ECHOES));
}

static void ageing(void **state)
{
	(void)state;
	period(ALL_LINKS);
	period(ALL_LINKS);
	now_ms += DEAD_MS;
	assert_true(has(N1, N3, NODE_HEARD));
	now_ms += 1;
	assert_false(has(N1, N3, NODE_HEARD));
	assert_false(has(N1, N3, NODE_ECHOES));
	assert_int_equal(row(N1, N3).age_ms, DEAD_MS + 1);
	now_ms += 100000000000;
	assert_int_equal(row(N1, N3).age_ms, LOAD_AGE_NEVER_MS - 1);
}

static void rate(void **state)
{
	unsigned i, taken = 0;

	(void)state;
	period(ALL_LINKS);
	for (i = 0; i < 100; i++) {
		say(N2);
		taken += hear(N1, N2) == REJECT_NONE;
	}
	assert_in_range(taken, TABLE_RATE_BURST - 1, TABLE_RATE_BURST + 1);
	/* In ten seconds 200 are taken, however many come. */
	for (taken = 0, i = 0; i < 10000; i++) {
		now_ms++;
		say(N2);
		taken += hear(N1, N2) == REJECT_NONE;
	}
	assert_in_range(taken, 198, 202);
}

/* With a long period a millisecond is worth less than a thousandth of a token; it still counts. */
static void rate_of_slow_cluster(void **state)
{
	unsigned i, taken = 0;

	(void)state;
	nodes[N1].config.period_ms = nodes[N2].config.period_ms = 10000;
	for (i = 0; i < 25000; i++) {
		now_ms++;
		say(N2);
		taken += hear(N1, N2) == REJECT_NONE;
	}
	assert_in_range(taken, TABLE_RATE_BURST + 9, 2 * TABLE_RATE_BURST + 10);
}

static void sources(void **state)
{
	struct addr stranger = addr_from_v4(htonl(0x0a000009)), service = nodes[N1].config.member[N2].service[0];
	struct addr zero = { 0 };
	struct node *n1 = &nodes[N1];

	(void)state;
	period(0);
	assert_int_equal(hear_bytes(N1, N3, nodes[N2].datagram, nodes[N2].size), REJECT_SOURCE);
	assert_int_equal(table_receive(&n1->table, &n1->keys, &stranger, nodes[N2].datagram, nodes[N2].size, now_ms),
			 REJECT_SOURCE);
	assert_int_equal(table_receive(&n1->table, &n1->keys, &service, nodes[N2].datagram, nodes[N2].size, now_ms),
			 REJECT_SOURCE);
	assert_int_equal(table_receive(&n1->table, &n1->keys, &zero, nodes[N2].datagram, nodes[N2].size, now_ms),
			 REJECT_SOURCE);
	/* The same member's address of the other family is accepted, too. */
	assert_int_equal(table_receive(&n1->table, &n1->keys, &n1->config.member[N3].cluster_v6, nodes[N3].datagram,
				       nodes[N3].size, now_ms),
			 REJECT_NONE);
	nodes[N2].table.self_id ^= 1;
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_SOURCE);
	assert_int_equal(table_rejected(&n1->table), 5);
}

static void wrong_name(void **state)
{
	(void)state;
	strcpy(nodes[N2].config.member[N2].name, "nx");
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_NAME);
	assert_false(has(N1, N2, NODE_HEARD));
}

static void other_configuration(void **state)
{
	(void)state;
	nodes[N2].table.service_hash ^= 1;
	period(ALL_LINKS);
	assert_true(has(N1, N2, NODE_CONFIG_DIFFERS));
	assert_false(has(N1, N3, NODE_CONFIG_DIFFERS));
}

/* The difference is noticed, and announcements at the quicker node's rate are taken. */
static void other_period(void **state)
{
	(void)state;
	nodes[N1].config.period_ms = 5 * PERIOD_MS;
	for (unsigned i = 0; i < 50; i++)
		period(ALL_LINKS);
	assert_true(has(N1, N2, NODE_CONFIG_DIFFERS));
	assert_true(has(N2, N1, NODE_CONFIG_DIFFERS));
	assert_false(has(N2, N3, NODE_CONFIG_DIFFERS));
	nodes[N1].config.period_ms = PERIOD_MS;
	period(ALL_LINKS);
	assert_false(has(N1, N2, NODE_CONFIG_DIFFERS));
	assert_false(has(N2, N1, NODE_CONFIG_DIFFERS));
}

/* A member cannot claim more than it was given. */
static void weight_is_bounded(void **state)
{
	(void)state;
	nodes[N2].config.member[N2].weight = 900;
	period(ALL_LINKS);
	assert_int_equal(row(N1, N2).weight, 2);
	nodes[N2].config.member[N2].weight = 0;
	period(ALL_LINKS);
	assert_int_equal(row(N1, N2).weight, 0);
}

/* n2 says of its probes what this is, and whether those of n1 and n3 over IPv4 and IPv6 are missing. */
static void says_of_probes(uint32_t probes, bool n1_v4, bool n1_v6, bool n3_v4)
{
	struct status_proofs *p = &nodes[N2].table.own.proofs;

	memset(p, 0, sizeof(*p));
	p->probes = probes;
	if (n3_v4)
		p->unproven[0].id[p->unproven[0].count++] = member_id("n3");
	if (n1_v4)
		p->unproven[0].id[p->unproven[0].count++] = member_id("n1");
	if (n1_v6)
		p->unproven[1].id[p->unproven[1].count++] = member_id("n1");
	nodes[N1].table.lost = false;
	period(ALL_LINKS);
}

static void proofs(void **state)
{
	(void)state;
	says_of_probes(PROBES_NONE, true, false, false);
	period(ALL_LINKS);
	assert_false(has(N1, N2, NODE_TAKES_PROBES) || has(N1, N2, NODE_UNPROVEN_V4));
	says_of_probes(PROBES_WANTED, true, false, false);
	assert_true(has(N1, N2, NODE_TAKES_PROBES));
	assert_false(has(N1, N2, NODE_UNPROVEN_V4));
	says_of_probes(PROBES_JUDGED, false, false, true);
	assert_false(has(N1, N2, NODE_UNPROVEN_V4) || has(N1, N2, NODE_UNPROVEN_V6));
	assert_true(has(N3, N2, NODE_UNPROVEN_V4));
	assert_false(nodes[N1].table.lost);
	says_of_probes(PROBES_JUDGED, false, true, true);
	assert_true(nodes[N1].table.lost);
	assert_true(has(N1, N2, NODE_UNPROVEN_V6));
	assert_false(has(N1, N2, NODE_UNPROVEN_V4));
	says_of_probes(PROBES_JUDGED, false, true, true);
	assert_false(nodes[N1].table.lost);
	/* A dprd that starts says nothing new; one of another version means that nothing is known. */
	says_of_probes(PROBES_WANTED, false, false, false);
	assert_true(has(N1, N2, NODE_UNPROVEN_V6));
	nodes[N2].table.own.dprd_up = false;
	says_of_probes(PROBES_JUDGED, false, false, false);
	assert_true(has(N1, N2, NODE_UNPROVEN_V6));
	assert_false(has(N1, N2, NODE_TAKES_PROBES));
	nodes[N2].table.own.dprd_up = true;
	says_of_probes(PROBES_NONE, false, false, false);
	assert_false(has(N1, N2, NODE_UNPROVEN_V6));
	says_of_probes(PROBES_JUDGED, true, true, false);
	assert_true(has(N1, N2, NODE_UNPROVEN_V4) && has(N1, N2, NODE_UNPROVEN_V6));
	says_of_probes(PROBES_JUDGED, false, false, false);
	assert_false(has(N1, N2, NODE_UNPROVEN_V4) || has(N1, N2, NODE_UNPROVEN_V6));
	nodes[N2].table.own.proofs.narrow[1] = (struct proofs_nodes) { .count = 1, .id = { member_id("n1") } };
	nodes[N1].table.lost = false;
	period(ALL_LINKS);
	assert_true(has(N1, N2, NODE_NARROW_V6));
	assert_false(has(N1, N2, NODE_NARROW_V4) || has(N3, N2, NODE_NARROW_V6) || nodes[N1].table.lost);
	says_of_probes(PROBES_JUDGED, false, false, false);
	assert_false(has(N1, N2, NODE_NARROW_V6));
}

static void reconfigure(void **state)
{
	static const char two_members[] =
		"[Cluster]\nName=lab\nKeyFile=/k\n[Service]\nPort=80\n[Announce]\nPeriod=200ms\n"
		"[Member \"n3\"]\nService=192.0.2.3\nCluster=10.0.0.3\n"
		"[Member \"n1\"]\nService=192.0.2.1\nCluster=10.0.0.1\n";
	static struct config fewer;
	struct load_table t;

	(void)state;
	make_config(two_members, "n1", &fewer);
	period(ALL_LINKS);
	period(ALL_LINKS);
	table_reconfigure(&nodes[N1].table, &fewer);
	table_fill(&nodes[N1].table, now_ms, &t);
	assert_int_equal(t.count, 2);
	assert_int_equal(t.nodes[1].id, member_id("n3"));
	assert_true(t.nodes[1].sequence == 2);
	assert_true(t.nodes[1].flags & NODE_ECHOES);
	assert_true(t.nodes[1].flags & NODE_CONFIG_DIFFERS);
	say(N2);
	assert_int_equal(table_receive(&nodes[N1].table, &nodes[N1].keys, &nodes[N2].config.member[N2].cluster_v4,
				       nodes[N2].datagram, nodes[N2].size, now_ms),
			 REJECT_SOURCE);
}

/* An observer hears all nodes, also a restarted node, and the host's own member. */
static void observer(void **state)
{
	static struct table watch;
	struct load_table t;
	unsigned i;

	(void)state;
	table_init(&watch, &nodes[N1].config, true, 0);
	period(ALL_LINKS);
	for (i = 0; i < NODES; i++)
		assert_int_equal(table_receive(&watch, &nodes[i].keys, &nodes[i].config.member[i].cluster_v4,
					       nodes[i].datagram, nodes[i].size, now_ms),
				 REJECT_NONE);
	table_fill(&watch, now_ms, &t);
	assert_int_equal(t.count, NODES);
	for (i = 0; i < NODES; i++)
		assert_int_equal(t.nodes[i].flags, NODE_HEARD | NODE_DPRD_UP);
	start(N2, 5);
	now_ms += DEAD_MS + PERIOD_MS;
	say(N2);
	assert_int_equal(table_receive(&watch, &nodes[N2].keys, &nodes[N2].config.member[N2].cluster_v4,
				       nodes[N2].datagram, nodes[N2].size, now_ms),
			 REJECT_NONE);
}

/* Each announcement sets the hardware address: a new one counts at once, and a missing one clears it. */
static void hardware(void **state)
{
	static const uint8_t none[2][HARDWARE_BYTES], first[2][HARDWARE_BYTES] = { { 2, 1 }, { 2, 2 } };
	static const uint8_t second[2][HARDWARE_BYTES] = { { 2, 3 }, { 0 } };
	static const uint8_t(*const said[])[HARDWARE_BYTES] = { none, first, second, none, first };
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		memcpy(nodes[N2].table.own.hardware, said[i], sizeof(none));
		period(ALL_LINKS);
		assert_memory_equal(row(N1, N2).hardware, said[i], sizeof(none));
		assert_memory_equal(row(N2, N2).hardware, said[i], sizeof(none));
		assert_memory_equal(row(N1, N3).hardware, none, sizeof(none));
		assert_memory_equal(row(N1, N1).hardware, none, sizeof(none));
	}
	/* A silent node keeps it, but its flags show that it is not a target any more. */
	now_ms += 10 * DEAD_MS;
	assert_memory_equal(row(N1, N2).hardware, first, sizeof(first));
	assert_false(has(N1, N2, NODE_HEARD));
}

/* An impossible address is refused, and the known one stays. */
static void bad_hardware(void **state)
{
	static const uint8_t good[2][HARDWARE_BYTES] = { { 2, 1 }, { 2, 2 } };

	(void)state;
	memcpy(nodes[N2].table.own.hardware, good, sizeof(good));
	period(ALL_LINKS);
	nodes[N2].table.own.hardware[1][0] = 0x33;
	nodes[N2].table.own.sample.open_connections = 5;
	now_ms += PERIOD_MS;
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_RANGE);
	assert_memory_equal(row(N1, N2).hardware, good, sizeof(good));
	assert_int_equal(row(N1, N2).sample.open_connections, 0);
	assert_int_equal(table_rejected(&nodes[N1].table), 1);
}

/* The members that a peer refuses a share, by the numbers of our configuration. */
static void refusals(void **state)
{
	struct share share[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		share_init(&share[i], nodes[i].table.config, now_ms);
		nodes[i].table.share = &share[i];
	}
	share[N2].peer[N3] = (struct share_peer) { .level = SHARE_OUT };
	now_ms += PERIOD_MS;
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_NONE);
	assert_true(share[N1].peer[N2].refused == 1ULL << N3);
	assert_int_equal(share[N1].peer[N2].period_ms, PERIOD_MS);
	share[N2].peer[N3].heard_ms = now_ms;
	now_ms += PERIOD_MS;
	say(N2);
	assert_int_equal(hear(N1, N2), REJECT_NONE);
	assert_true(share[N1].peer[N2].refused == 0);
}

/* A node's announcement of itself, as others read it. */
static void read_own(struct table *table, struct announcement *ret)
{
	struct announce_header header;
	uint8_t datagram[ANNOUNCE_BYTES_MAX];
	size_t size = table_announce(table, &nodes[N1].keys, now_ms, datagram);

	assert_int_equal(announce_read_header(datagram, size, &header), REJECT_NONE);
	assert_int_equal(announce_decode(datagram, &header, ret), REJECT_NONE);
}

/* More and more questions: the version makes room first. */
static void questions_instead_of_version(struct table *table, struct announcement *a)
{
	unsigned i;

	for (i = 1; a->version[0]; i++) {
		assert_int_equal(a->echo_count, MEMBERS_MAX - 1);
		table->share->peer[i] = (struct share_peer) { .granted = ANNOUNCE_WEIGHT_MAX, .level = SHARE_IN };
		read_own(table, a);
		assert_int_equal(a->ask_count, i);
	}
	assert_int_equal(a->echo_count, MEMBERS_MAX - 1);
}

/* A quarter of the members is rejected. Longer and longer sequences: the rejections make room first. */
static void rejections_before_version(struct table *table, struct announcement *a)
{
	unsigned i, echoes = 0;

	for (i = 1; i < MEMBERS_MAX; i++) {
		struct table_member *m = &table->member[i];

		m->rejected = i % 4 ? REJECTION_NONE : REJECTION_KEY;
		m->rejected_ms = now_ms;
		m->heard_ms = i % 4 ? now_ms : 0;
		echoes += i % 4 != 0;
	}
	read_own(table, a);
	assert_int_equal(a->reject_count, MEMBERS_MAX - 1 - echoes);
	for (i = 1; a->reject_count && i < MEMBERS_MAX; i++) {
		table->member[i].sequence = UINT64_MAX;
		read_own(table, a);
		assert_int_equal(a->echo_count, echoes);
		assert_string_equal(a->version, "10.20.30~b1");
	}
	assert_int_equal(a->reject_count, 0);
	for (i = 1; i < MEMBERS_MAX; i++) {
		table->member[i].heard_ms = now_ms;
		table->member[i].sequence = 0x3ffffffff;
	}
	read_own(table, a);
}

/* With the largest cluster and all members heard, an announcement still fits and echoes every member. */
static void largest_cluster(void **state)
{
	static char text[MEMBERS_MAX * 128];
	static struct config config;
	static struct table table;
	static struct share share;
	struct announcement a;
	unsigned i;
	size_t used = (size_t)snprintf(text, sizeof(text), "[Cluster]\nName=lab\nKeyFile=/k\n[Service]\nPort=80\n");

	(void)state;
	for (i = 0; i < MEMBERS_MAX; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "[Member \"m%u\"]\nService=192.0.2.%u\nCluster=10.0.0.%u\n", i, i + 1, i + 1);
	make_config(text, "m0", &config);
	memset(config.member[0].name, 'n', NAME_BYTES - 1);
	for (i = 0; i < MEMBER_SERVICES_MAX; i++)
		config.member[0].service[i].bytes[0] = 0x20;
	config.member[0].service_count = MEMBER_SERVICES_MAX;
	for (config.port_count = 0; config.port_count < PORTS_MAX; config.port_count++)
		config.port[config.port_count] = 65535;
	table_init(&table, &config, false, EPOCH);
	for (i = 1; i < MEMBERS_MAX; i++) {
		table.member[i].heard = true;
		table.member[i].heard_ms = now_ms;
		table.member[i].epoch = UINT64_MAX - i;
		table.member[i].sequence = 0x3ffffffff;
	}
	strcpy(table.own.version, "10.20.30~b1");
	read_own(&table, &a);
	assert_int_equal(a.echo_count, MEMBERS_MAX - 1);
	assert_string_equal(a.version, "10.20.30~b1");
	/* Also with shared addresses. */
	share.config = &config;
	share.wanted = ANNOUNCE_WEIGHT_MAX;
	for (i = 1; i < MEMBERS_MAX; i++)
		share.peer[i] = (struct share_peer) { .granted = ANNOUNCE_WEIGHT_MAX, .heard_ms = now_ms };
	table.share = &share;
	memset(table.own.hardware, 0xfe, sizeof(table.own.hardware));
	read_own(&table, &a);
	assert_int_equal(a.echo_count, MEMBERS_MAX - 1);
	assert_int_equal(a.share_weight, ANNOUNCE_WEIGHT_MAX);
	assert_memory_equal(a.hardware, table.own.hardware, sizeof(a.hardware));
	assert_string_equal(a.version, "10.20.30~b1");
	rejections_before_version(&table, &a);
	questions_instead_of_version(&table, &a);
	/* With a question to every member there are fewer echoes, in turn, and everything else. */
	for (i = 1; i < MEMBERS_MAX; i++)
		share.peer[i] = (struct share_peer) { .granted = ANNOUNCE_WEIGHT_MAX, .level = SHARE_IN };
	read_own(&table, &a);
	assert_int_equal(a.ask_count, MEMBERS_MAX - 1);
	assert_in_range(a.echo_count, MEMBERS_MAX / 2, MEMBERS_MAX - 2);
	assert_memory_equal(a.hardware, table.own.hardware, sizeof(a.hardware));
	/* The same with a refusal for every member. */
	for (i = 1; i < MEMBERS_MAX; i++)
		share.peer[i].level = SHARE_OUT;
	read_own(&table, &a);
	assert_int_equal(a.refuse_count, MEMBERS_MAX - 1);
	assert_in_range(a.echo_count, MEMBERS_MAX / 2, MEMBERS_MAX - 2);
	table.share = NULL;
	/* Faulty members can make their numbers long: fewer echoes, but still an announcement. */
	for (i = 1; i < MEMBERS_MAX; i++)
		table.member[i].sequence = UINT64_MAX;
	read_own(&table, &a);
	assert_in_range(a.echo_count, MEMBERS_MAX / 2, MEMBERS_MAX - 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(two_way, setup),
		cmocka_unit_test_setup(refusals, setup),
		cmocka_unit_test_setup(versions, setup),
		cmocka_unit_test_setup(self_is_first, setup),
		cmocka_unit_test_setup(lost, setup),
		cmocka_unit_test_setup(ports_fail, setup),
		cmocka_unit_test_setup(suspicious, setup),
		cmocka_unit_test_setup(ports_of_dprd, setup),
		cmocka_unit_test_setup(one_way, setup),
		cmocka_unit_test_setup(ageing, setup),
		cmocka_unit_test_setup(rate, setup),
		cmocka_unit_test_setup(rate_of_slow_cluster, setup),
		cmocka_unit_test_setup(sources, setup),
		cmocka_unit_test_setup(wrong_name, setup),
		cmocka_unit_test_setup(other_configuration, setup),
		cmocka_unit_test_setup(other_period, setup),
		cmocka_unit_test_setup(weight_is_bounded, setup),
		cmocka_unit_test_setup(proofs, setup),
		cmocka_unit_test_setup(reconfigure, setup),
		cmocka_unit_test_setup(observer, setup),
		cmocka_unit_test_setup(hardware, setup),
		cmocka_unit_test_setup(bad_hardware, setup),
		cmocka_unit_test_setup(largest_cluster, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
