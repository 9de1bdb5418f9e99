/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * path.h - a batch of packets, and the path that it takes.
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
	uint32_t id; /* number in the kernel's queue */
	uint32_t captured; /* captured bytes of the datagram */
	uint8_t *bytes; /* the datagram, which may be rewritten in place */
	uint32_t mark; /* when the packet came */
	uint16_t head_room; /* bytes in front of the datagram that may be overwritten */
	uint32_t backend_mark; /* BACKEND_MARK_SELF, or the mark of a real server; 0: the packet keeps its mark */
	uint8_t *replace; /* DECAPSULATE: the datagram that the stack gets instead */
	uint32_t replace_bytes;
	bool set_add, set_remove, evict; /* changes of the kernel's flow set */
	bool fresh_flow; /* this packet made its flow, in the table: reserved until path_commit() */
	uint32_t flow_node; /* fresh_flow: the node that it leads to */
	bool served_before; /* dprd let this node serve a copy of this SYN lately */
	bool noted; /* path_commit() remembers the decision: its note is in the batch */
	bool tell_too_big; /* the client is told the tunnel's MTU */
	/* These keep the values of a former packet until they are set. */
	struct packet packet; /* its kind is OTHER when nothing was captured */
	struct verdict verdict;
	struct flow_key evicted; /* evict: the flow that made room for this packet's flow */
	struct way way; /* FORWARD: to the target, with the form in which this packet leaves */
};

struct batch {
	struct queued packets[QUEUE_BATCH_MAX];
	struct why_record notes[QUEUE_BATCH_MAX]; /* by packet; valid where the packet is noted */
	unsigned count;
	bool maybe_stale; /* see queue.c */
	uint64_t received_ms;
	bool from_decide; /* from the queue of SYNs and ICMP errors; else of forwarded flows or of tunnel packets */
	bool last_made_flows; /* the batch before this one made flows, so this one may, too */
};

/*
 * Decides all packets and carries out the verdicts. Leaves in each packet the answer for the kernel's queue:
 * verdict.kind, way.form, replace, backend_mark. set is NULL on the BPF plane.
 */
void path_batch(struct dprd *d, struct batch *batch, struct flowset *set, struct socket_lookup *lookup,
		struct tunnel *tunnel);

#endif
