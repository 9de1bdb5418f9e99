/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * input.h - the input of the differential fuzzer: clusters, flows, ways and packets, all from one random state, so that
 * a seed and a number repeat everything.
 */
#ifndef TESTS_BPF_INPUT_H
#define TESTS_BPF_INPUT_H

#include "tests/bpf/plane.h"

enum {
	INPUT_MEMBERS = 6,
	INPUT_KEYS = 32,
	INPUT_CONFIG_BYTES = 4096,
	INPUT_SOCKET_PORT = 40000, /* of the client that has a connection to the first service, port 80 */
};

struct random {
	uint64_t state;
};

/* A cluster as packets are made for it. */
struct input_site {
	const struct config *config;
	struct flow_key keys[INPUT_KEYS]; /* of flows that are or were there */
	uint32_t sequences[INPUT_KEYS];
	unsigned key_count;
	struct fastpath_shared shared;
};

/* One packet and its surroundings. */
struct input {
	struct frame frame;
	bool egress;
	uint32_t mark, gso_bytes;
};

uint64_t random_next(struct random *r);
unsigned random_below(struct random *r, unsigned limit); /* limit > 0 */

/* Text of a dprd.conf, which may not be a sound one. decide_kernel: Decide=kernel. */
void input_config(struct random *r, bool decide_kernel, char text[INPUT_CONFIG_BYTES]);

/* Sets all facts for the programs except input_choices(): flows in an empty table, ways, schedules, living peers. */
void input_site(struct random *r, struct plane *p, struct input_site *ret);

/*
 * Chooses the target of all new connections of a family while dprd is away, in the tables in use; ret: the same for the
 * model. False: there are no real servers.
 */
/* Networks of this node alone, which have some of the clients: mostly none. */
const struct inside *input_inside(struct random *r, struct plane *p);
bool input_choices(struct random *r, struct plane *p, uint8_t ret[2], bool *serves_here);

void input_packet(struct random *r, const struct input_site *site, struct input *ret);

#endif
