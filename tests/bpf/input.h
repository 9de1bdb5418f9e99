/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * input.h - what the differential fuzzer tries: clusters, flows, ways and packets, all from one random
 * state, so that a seed and a number say everything.
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

/* One packet, and what comes with it. */
struct input {
	struct frame frame;
	bool egress;
	uint32_t mark, gso_bytes;
};

uint64_t random_next(struct random *r);
unsigned random_below(struct random *r, unsigned limit); /* limit > 0 */

/* Text of a dprd.conf, which may not be a sound one. decide_kernel: Decide=kernel. */
void input_config(struct random *r, bool decide_kernel, char text[INPUT_CONFIG_BYTES]);

/* All that the programs are told but input_choices(): flows into an empty table, ways, schedules, who lives. */
void input_site(struct random *r, struct plane *p, struct input_site *ret);

/*
 * Whom all new connections of a family go to while dprd is away, into the tables in use; ret: the same for the model.
 * False: there are no real servers.
 */
bool input_choices(struct random *r, struct plane *p, uint8_t ret[2], bool *serves_here);

void input_packet(struct random *r, const struct input_site *site, struct input *ret);

#endif
