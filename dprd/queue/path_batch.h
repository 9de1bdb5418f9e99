/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * path_batch.h - one batch on its way: path.c decides its packets with path_syn.c and path_tunnel.c, drops late packets
 * with path_late.c, sends forwarded ones with path_send.c, and counts all of them with path_commit.c. Private to these
 * files.
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
	uint64_t now_us; /* at the batch's arrival */
	uint64_t now_ms; /* the same */
	uint64_t flow_ms; /* the same by the flow table's clock */
	int family; /* for which the view is selected; -1: none yet */
	be16 port; /* for which it is selected, too; 0: any port */
	bool ports_differ; /* view_ports_differ() */
	enum service_age service_age; /* of the address for which the view is selected */
	unsigned served; /* connections that dprd left to this node, and about which the programs do not know yet */
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
 * Reads the load of this node, at most once each ms because that takes two files of /proc, and tells the BPF programs
 * how many connections this node takes with that load. Connections served later are added one by one. Call it before
 * path_env_syn().
 */
void path_read_own_load(struct path *p);

/* The verdict on a SYN of a client of this node, with all that path_plan_syn() does. */
void path_decide_syn(struct path *p, struct queued *q);
/*
 * Finds what the verdict on a SYN needs: a way, a real server, a flow, which it reserves. If it finds one of them
 * missing, it changes the verdict.
 */
void path_plan_syn(struct path *p, struct queued *q);
/* The way to the target of a FORWARD verdict; false: the packet cannot go there. */
bool path_find_way(struct path *p, struct queued *q);
/*
 * Notes the present loads for "dprctl why". Only the first call for a packet has an effect. path_commit() adds the
 * verdict.
 */
void path_note_why(struct path *p, struct queued *q);
/* Changes the verdict: this node serves the SYN and its copies, which is always right (I11). Removes its flow. */
void path_serve_instead(struct path *p, struct queued *q, enum reason reason);
/* True when the batch has copies of this SYN, which are to follow its new flow. */
bool path_has_copies(const struct path *p, const struct queued *q);
/* The copies in the batch get the verdict of their SYN, which is no longer forwarded: two nodes would answer (I3). */
void path_copies_follow(struct path *p, const struct queued *q);
/* The flow that the packet reserved is made for good. */
void path_commit_flow(struct path *p, const struct queued *q);

/* --- path_commit.c --- */

/* Remembers and counts the verdicts, which are final. Takes the lock. */
void path_commit(struct path *p);

/* --- path_tunnel.c, path_late.c, path_send.c --- */

/* Decides about a tunnel packet. Unless it is dropped, q becomes the packet within. Lock held. */
void path_decapsulate(struct path *p, struct queued *q);

/*
 * True when dprd has held the batch for so long that copies of its SYNs may have been answered, because it was frozen
 * or got no processor. Reads the clock.
 */
bool path_is_late(const struct path *p);

/* Drops the packet. Its flow stays, because copies may follow it. Lock held. */
void path_drop_late(struct path *p, struct queued *q, enum reason reason);

/* When the batch is late: drops SYNs whose flow is new. The kernel knows these flows. */
void path_drop_late_flows(struct path *p);

/* When the batch is late: drops SYNs that came by a tunnel. Their entry nodes may have sent copies to other nodes. */
void path_drop_late_tunnelled(struct path *p);

/* Sends each packet whose verdict is FORWARD. If a SYN cannot be sent, it is served here; any other packet is dropped.
 * Takes the lock only when a packet cannot be sent. */
void path_send(struct path *p);

#endif
