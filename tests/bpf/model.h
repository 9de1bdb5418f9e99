/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model.h - computes the expected work of the BPF programs with the nfqueue plane's own code: packet_parse(), decide(),
 * flow_*(), encap_*(), decide_decapsulation(). The glue around it follows path.c and the rules in front of the queues;
 * a comment that begins with "Differs:" marks intended differences of the two planes.
 */
#ifndef TESTS_BPF_MODEL_H
#define TESTS_BPF_MODEL_H

#include "tests/bpf/plane.h"

enum { MODEL_SUMS_MAX = 4 };

/* Totals of packets of forwarded flows. */
struct model_sent {
	uint64_t tunnelled, direct, handed_over, to_nat;
};

/* The facts of the plane that a model needs; it only reads them, except flows, counted and sent. */
struct model {
	const struct config *config;
	struct flow_table *flows; /* its own copy */
	const struct fastpath_way *ways; /* 2 * node of the flow table + v6 */
	const struct fastpath_schedule *schedules[2]; /* Decide=kernel: by family; NULL: Decide=queue */
	uint32_t cursors[2]; /* of the schedules */
	uint32_t made, room, room_reason;
	const struct fastpath_shared *shared; /* there is no lease, and no socket on any of the addresses */
	const struct inside *inside;
	bool choices; /* there are real servers; with dprd away all new connections go to one node */
	bool serves_here; /* this node serves then, too */
	uint8_t choice[2]; /* of the flow table, by family; 0: none */
	uint64_t living;
	uint16_t mss[2];
	bool works; /* dprd works */
	uint32_t second_look; /* enum fastpath_second_look */
	uint8_t alternative; /* of the connection being forwarded */
	uint32_t landed, look_room, stayed;
	uint32_t tick;
	bool (*has_socket)(const struct flow_key *key);
	uint64_t *answered; /* ANSWERED_PLACES: SYNs that this node has answered */
	uint64_t *served; /* ANSWERED_PLACES: SYNs that the schedule let this node serve, or that wait for dprd */
	uint64_t *noted,
		noted_before; /* the word of these that the last packet changed, or NULL; and its former value */
	struct fastpath_counters counted; /* expected counts of the programs, and the running second */
	struct model_sent sent;
};

struct model_result {
	int verdict;
	uint32_t mark;
	bool waits; /* in dprd's queue */
	bool unjudged; /* the kernel module, which comes next, may still drop it */
	struct frame out; /* unless DROP */
	/* Where checksums were mended in out: 0 and 0xffff are the same there. */
	unsigned sums[MODEL_SUMS_MAX], sum_count;
};

void model_ingress(struct model *m, const struct frame *in, uint32_t mark, uint32_t gso_bytes,
		   struct model_result *ret);
void model_egress(struct model *m, const struct frame *in, uint32_t mark, struct model_result *ret);

#endif
