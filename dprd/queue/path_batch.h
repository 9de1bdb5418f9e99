/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * path_batch.h - one batch on its way, between path.c (decides, changes flows), path_tunnel.c (what comes by a
 * tunnel) and path_send.c (the packets that leave). Private to these.
 */
#ifndef DPRD_PATH_BATCH_H
#define DPRD_PATH_BATCH_H

#include "dprd/queue/path.h"

struct path {
	struct dprd *d;
	struct batch *batch;
	struct flowset *set;
	struct socket_lookup *lookup;
	struct tunnel *tunnel;
	uint64_t now_ms;
	uint64_t flow_ms; /* the same by the flow table's clock */
	int family; /* the view's, -1: none selected yet */
	unsigned served; /* connections, by dprd's decision, that the programs are not told of yet */
	struct decide_env env;
	/* Added to the counters at the end. */
	uint64_t forward_bytes, segmented, too_big_sent, tunnel_errors;
};

/* What decide() asks about a SYN. Lock held. */
void path_env_syn(struct path *p, const struct packet *packet);

/* The target of a FORWARD verdict as path_send() needs it; false: the packet cannot go there. */
bool path_resolve_target(struct path *p, struct queued *q);

/* For dprctl why: the verdict, and what was known. */
void path_remember_why(struct path *p, const struct queued *q);

/* What a SYN's verdict does to the flow table, and to what is known of loads. Lock held. */
void path_settle_syn(struct path *p, struct queued *q);

/* A tunnel packet: its verdict. q becomes the packet within, but for one that is dropped. Lock held. */
void path_decapsulate(struct path *p, struct queued *q);

/*
 * True when dprd has held the batch for so long that copies of its SYNs may have been answered: a freeze, or a
 * processor that was not to be had. Reads the clock.
 */
bool path_is_late(const struct path *p);

/* The packet is dropped. Its flow stays, since copies may follow it. Lock held. */
void path_drop_late(struct path *p, struct queued *q, enum reason reason);

/* When the batch is late: drops SYNs that would be sent on for the first time. The kernel knows their flows. */
void path_drop_late_flows(struct path *p);

/* When the batch is late: drops SYNs that came by a tunnel. Their entry nodes may have given copies to other nodes. */
void path_drop_late_tunnelled(struct path *p);

/* A SYN is served here after all; its flow goes. Lock held. */
void path_serve_instead(struct path *p, struct queued *q, enum reason reason);

/* Sends every packet of the batch whose verdict is FORWARD. A SYN that cannot be sent is served
 * here, any other packet dropped. Takes the lock only for those. */
void path_send(struct path *p);

#endif
