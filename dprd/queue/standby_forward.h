/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * standby_forward.h - the standby process sends on what belongs to forwarded flows, on the plane without BPF programs.
 *
 * It finds them where dprd has them, in the flow table, which is a file that both map. By a tunnel, whatever dprd
 * prefers: a peer takes that at any time. It makes no flow; what is new it lets pass, also a SYN that takes the place
 * of a flow that has ended. That one it forgets, in the table as in the kernel's set, or what follows would be sent
 * away. A packet that it cannot send is dropped, and comes again: too big for the tunnel, or of a flow to a real
 * server.
 */
#ifndef DPRD_STANDBY_FORWARD_H
#define DPRD_STANDBY_FORWARD_H

#include <stdint.h>

#include "dprd/config/config.h"
#include "dprd/core/flow/flow.h"

/* The facts that dprd tells the standby process. */
struct standby_members {
	struct config config;
	uint64_t living; /* those that were heard of lately, a bit each */
	uint16_t inner_mtu[MEMBERS_MAX][2]; /* bytes that fit the tunnel to one, by family (0: IPv4); 0: no way */
};

enum standby_fate {
	STANDBY_PASS, /* no flow's: to the stack */
	STANDBY_DROP,
	STANDBY_SEND, /* to ret->member */
	STANDBY_SERVE, /* a new connection: ret->flow has ended */
};

struct standby_way {
	struct flow flow; /* as found */
	unsigned member;
};

/* Judges a packet from the queue of forwarded flows, by the rules of decide(). Pure. */
enum standby_fate standby_judge_forward(const struct flow_table *flows, const struct standby_members *members,
					const struct packet *packet, struct standby_way *ret);

/* The means by which the standby process sends. All zero at first. */
struct standby_forwarder {
	bool tried; /* to open all that follows */
	struct flow_table *flows; /* NULL: that failed */
	struct flowset *set;
	struct tunnel *tunnel;
};

/*
 * Judges a packet and does all that follows, except the verdict. STANDBY_DROP also means that sending failed. The
 * standby process alone may call it.
 */
enum standby_fate standby_forward(struct standby_forwarder *f, const struct standby_members *members,
				  const uint8_t *datagram, unsigned bytes);

#endif
