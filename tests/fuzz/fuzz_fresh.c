// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two honest nodes and a network that records, drops, delays, repeats and reorders as the input says, while both nodes
 * restart at will. Each byte is one step: its low 3 bits choose the action, the rest is the argument.
 *
 * In all cases: a node regards its peer as two-way only when the newest announcement that it took was sent within the
 * dead time by the peer's living run; and no node ever sees a conflict.
 */
#include <stdlib.h>

#include "loadcast/core/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NODES = 2, TAPE_MAX = 64, STEP_MS = 50, STEPS_MAX = 2000 };

struct recorded {
	uint8_t datagram[ANNOUNCE_BYTES_MAX];
	size_t size;
	uint64_t made_ms, epoch, sequence;
};

struct node {
	struct config config;
	struct table table;
	struct recorded tape[TAPE_MAX];
	unsigned recorded;
	bool took; /* took an announcement of the peer in this run */
	uint64_t took_made_ms; /* when the newest announcement taken had been made */
};

static struct node nodes[NODES];
static struct announce_keys keys;
static uint64_t now_ms;
static uint32_t runs;

static void demand(bool condition)
{
	if (!condition)
		abort();
}

static void make_config(unsigned self, struct config *c)
{
	unsigned i;

	memset(c, 0, sizeof(*c));
	c->period_ms = 200;
	c->dead_periods = 5;
	c->member_count = NODES;
	c->self = self;
	for (i = 0; i < NODES; i++) {
		snprintf(c->member[i].name, NAME_BYTES, "n%u", i);
		c->member[i].id = member_id(c->member[i].name);
		c->member[i].cluster_v4 = addr_from_v4(htonl(0x0a000001 + i));
	}
}

/* Epochs of successive runs; backwards as well, as if a clock was set back. */
static void start(unsigned node, unsigned argument)
{
	table_init(&nodes[node].table, &nodes[node].config, false, (uint64_t)argument << 32 | ++runs);
	nodes[node].took = false;
}

static void say(unsigned node)
{
	struct node *n = &nodes[node];
	struct recorded *r = &n->tape[n->recorded++ % TAPE_MAX];

	r->size = table_announce(&n->table, &keys, now_ms, r->datagram);
	r->made_ms = now_ms;
	r->epoch = n->table.epoch;
	r->sequence = n->table.sequence;
	demand(r->size != 0);
}

static void deliver(unsigned to, unsigned of, unsigned back)
{
	struct node *n = &nodes[to], *sender = &nodes[of];
	const struct recorded *r;

	if (back >= sender->recorded || back >= TAPE_MAX)
		return;
	r = &sender->tape[(sender->recorded - 1 - back) % TAPE_MAX];
	/* Own announcements come back from the peer's address: a forger cannot do worse. */
	if (table_receive(&n->table, &keys, &n->config.member[!to].cluster_v4, r->datagram, r->size, now_ms) !=
	    REJECT_NONE)
		return;
	n->took = true;
	n->took_made_ms = r->made_ms;
}

static void check(unsigned node)
{
	const struct node *n = &nodes[node];
	struct load_table t;

	table_fill(&n->table, now_ms, &t);
	demand(t.count == NODES && t.nodes[0].id == n->config.member[node].id);
	demand(!(t.nodes[0].flags & NODE_CONFLICT) && !(t.nodes[1].flags & NODE_CONFLICT));
	if (t.nodes[1].flags & NODE_ECHOES)
		demand(n->took && now_ms - n->took_made_ms <= 1000 && t.nodes[1].flags & NODE_HEARD);
}

static void step(uint8_t byte)
{
	unsigned argument = byte >> 3, node = argument & 1;

	switch (byte & 7) {
	case 0:
		now_ms += STEP_MS * (1 + argument);
		break;
	case 1:
		say(node);
		break;
	case 2: /* the newest, as a good network does */
		deliver(!node, node, 0);
		break;
	case 3:
	case 4:
		deliver(!node, node, argument);
		break;
	case 5:
		deliver(node, node, argument);
		break;
	case 6:
		start(node, argument);
		break;
	default: /* a whole good period */
		now_ms += 200;
		say(0);
		deliver(1, 0, 0);
		say(1);
		deliver(0, 1, 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t key[32] = "a key that the fuzzer cannot see";
	size_t i;

	if (!keys.count)
		announce_add_key(&keys, "fuzz", key);
	now_ms = 1000000;
	runs = 0;
	for (i = 0; i < NODES; i++) {
		nodes[i].recorded = 0;
		make_config((unsigned)i, &nodes[i].config);
		start((unsigned)i, 10);
	}
	for (i = 0; i < size && i < STEPS_MAX; i++) {
		step(data[i]);
		check(0);
		check(1);
	}
	return 0;
}
