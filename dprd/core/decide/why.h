/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * why.h - the last 4,096 decisions about new connections, for "dprctl why". Pure.
 */
#ifndef DPRD_WHY_H
#define DPRD_WHY_H

#include "dprd/core/decide/decide.h"

enum {
	WHY_RECORDS = 4096,
	WHY_PEERS = 4, /* of each decision: the chosen peer and the least loaded ones */
};

struct why_peer {
	uint32_t node_id;
	uint32_t age_ms, sent;
	float load;
	bool eligible;
};

struct why_record {
	uint64_t at_ms; /* CLOCK_BOOTTIME; 0: the slot was never used */
	struct flow_key key;
	uint32_t syn_sequence;
	struct verdict verdict;
	const struct policy *policy;
	float own_load, max_load, min_advantage;
	unsigned peer_count;
	struct why_peer peers[WHY_PEERS];
};

struct why_ring {
	unsigned next;
	struct why_record records[WHY_RECORDS];
};

/* Makes the record of a decision, with the loads as they are now. */
void why_note(struct why_record *ret, uint64_t now_ms, const struct packet *packet, const struct verdict *verdict,
	      const struct decide_env *env, double max_load);
/* Puts the record into the ring, in place of the oldest one. */
void why_keep(struct why_ring *ring, const struct why_record *record);
/* Does both, for a verdict that is final. */
void why_remember(struct why_ring *ring, uint64_t now_ms, const struct packet *packet, const struct verdict *verdict,
		  const struct decide_env *env, double max_load);

/*
 * The newest record, going back from *cursor (start with 0), of this client and port; port 0 matches any. NULL when no
 * more is found; *cursor then stays.
 */
const struct why_record *why_find(const struct why_ring *ring, const struct addr *client, be16 client_port,
				  unsigned *cursor);

#endif
