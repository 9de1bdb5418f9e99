/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * path.h - the way of a batch.
 */
#ifndef DPRD_PATH_H
#define DPRD_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/cluster/ways.h"
#include "dprd/core/decide/why.h"

struct dprd;
struct flowset;
struct socket_lookup;
struct tunnel;

enum { QUEUE_BATCH_MAX = 128 }; /* packets per recvmmsg(2) */

/* One packet of a batch, from the kernel's queue to its verdict. */
struct queued {
	/* All that stands before packet is zero when the packet comes, except these five. */
	uint32_t id; /* of the kernel's queue */
	uint32_t captured; /* bytes of the datagram that are here */
	uint8_t *bytes; /* the datagram; path.c may rewrite it in place */
	uint32_t mark; /* as it came */
	uint16_t head_room; /* bytes in front of the datagram that may be overwritten; none when it is 0 */
	uint32_t backend_mark; /* BACKEND_MARK_SELF, or a backend's; 0: the packet keeps its mark */
	uint8_t *replace; /* verdict DECAPSULATE: what the stack gets instead */
	uint32_t replace_bytes;
	bool set_add, set_remove, evict; /* changes of the kernel's flow set */
	bool fresh_flow; /* this packet made its flow, in the table: reserved until path_commit() */
	uint32_t flow_node; /* fresh_flow: the node that it leads to */
	bool noted; /* the decision is to be remembered, with the note of the batch */
	bool tell_too_big; /* the client is told the tunnel's MTU */
	/* These keep the values of a former packet until they are set. */
	struct packet packet; /* its kind is OTHER when nothing was captured */
	struct verdict verdict;
	struct flow_key evicted; /* a flow that made room for this one, when evict is set */
	struct way way; /* FORWARD: to its target, in the form that this packet leaves in */
};

struct batch {
	struct queued packets[QUEUE_BATCH_MAX];
	struct why_record notes[QUEUE_BATCH_MAX]; /* by packet, of those that are noted */
	unsigned count;
	bool maybe_stale; /* see queue.c */
	uint64_t received_ms;
	bool from_decide; /* from the queue of SYNs and ICMP errors; else of forwarded flows or of tunnel packets */
	bool last_made_flows; /* the batch before this one made flows, so this one may, too */
};

/*
 * Decides all packets, does what the verdicts say, and leaves in each
 * packet what the kernel's queue must be told: verdict.kind, replace. set and lookup: NULL on the BPF
 * plane.
 */
void path_batch(struct dprd *d, struct batch *batch, struct flowset *set, struct socket_lookup *lookup,
		struct tunnel *tunnel);

#endif
