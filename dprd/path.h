/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * path.h - one batch on its way, between path.c (decides, changes flows) and path_send.c (the
 * packets that leave). Private to these two.
 */
#ifndef DPRD_PATH_H
#define DPRD_PATH_H

#include "dprd/dprd.h"

struct path {
	struct dprd *d;
	struct batch *batch;
	struct flowset *set;
	struct socket_lookup *lookup;
	struct tunnel *tunnel;
	uint64_t now_ms;
	uint64_t flow_ms; /* the same by the flow table's clock */
	int family; /* the view's, -1: none selected yet */
	struct decide_env env;
	/* Added to the counters at the end. */
	uint64_t forward_bytes, segmented, too_big_sent, tunnel_errors;
};

/* A SYN is served here after all; its flow goes. Lock held. */
void path_serve_instead(struct path *p, struct queued *q, enum reason reason);

/* Sends every packet of the batch whose verdict is FORWARD. A SYN that cannot be sent is served
 * here, any other packet dropped. Takes the lock only for those. */
void path_send(struct path *p);

#endif
