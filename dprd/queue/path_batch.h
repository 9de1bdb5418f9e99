/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * path_batch.h - one batch on its way: path.c decides its packets with path_syn.c and path_tunnel.c, drops what is late
 * with path_late.c, sends what leaves with path_send.c and counts all of it with path_commit.c. Private to these.
 */
#ifndef DPRD_PATH_BATCH_H
#define DPRD_PATH_BATCH_H

#include "dprd/cluster/asks.h"
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
	unsigned served; /* connections that dprd let this node serve, and that the programs are not told of yet */
	struct decide_env env;
	struct asks asks; /* the context of env's questions */
	/* Added to the counters by path_commit(). */
	uint64_t syns, forward_bytes, segmented, too_big_sent, tunnel_errors;
};

/* --- path_syn.c; lock held --- */

/* The part of env that is the same for all packets of a batch. */
void path_env(struct path *p);
/* The part of env that differs from one SYN to the next. */
void path_env_syn(struct path *p, const struct packet *packet);
/*
 * Reads the own load, at most once each ms since that takes two files of /proc, and tells the BPF programs how many
 * connections this node takes by it. Connections served since are added as they come. Before path_env_syn().
 */
void path_read_own_load(struct path *p);

/* The verdict on a SYN of a client of this node, with all that path_plan_syn() does. */
void path_decide_syn(struct path *p, struct queued *q);
/*
 * Finds what the verdict on a SYN needs: a way, a real server, a flow, which it reserves. Changes the verdict
 * otherwise.
 */
void path_plan_syn(struct path *p, struct queued *q);
/* The way to the target of a FORWARD verdict; false: the packet cannot go there. */
bool path_find_way(struct path *p, struct queued *q);
/* For "dprctl why": what is known now, by the first call for a packet. The verdict is path_commit()'s. */
void path_note_why(struct path *p, struct queued *q);
/* A SYN is served here after all, which is always right (I11). Its flow is withdrawn. */
void path_serve_instead(struct path *p, struct queued *q, enum reason reason);
/* The flow that the packet reserved is made for good. */
void path_commit_flow(struct path *p, const struct queued *q);

/* --- path_commit.c --- */

/* Remembers and counts the verdicts, which are final. Takes the lock. */
void path_commit(struct path *p);

/* --- path_tunnel.c, path_late.c, path_send.c --- */

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

/* Sends every packet of the batch whose verdict is FORWARD. A SYN that cannot be sent is served
 * here, any other packet dropped. Takes the lock only for those. */
void path_send(struct path *p);

#endif
