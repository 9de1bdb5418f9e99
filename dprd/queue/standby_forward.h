/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * standby_forward.h - the standby process sends on the packets of forwarded flows, on the plane without BPF programs.
 *
 * It finds the flows in the flow table of dprd, a file that both map. It always uses a tunnel, because a peer takes
 * tunnel packets at any time. It makes no flow: it lets new connections pass, also a SYN that takes the place of an
 * ended flow. It removes that flow from the table and from the kernel's set, because later packets would be sent away.
 * It drops a packet that it cannot send, which is too big for the tunnel or belongs to a flow to a real server; the
 * client sends it again.
 */
#ifndef DPRD_STANDBY_FORWARD_H
#define DPRD_STANDBY_FORWARD_H

#include <stdint.h>

#include "dprd/config/config.h"
#include "dprd/core/flow/flow.h"

/* The facts that dprd tells the standby process. */
struct standby_members {
	struct config config;
	uint64_t living; /* a bit for each member that was heard lately */
	uint16_t inner_mtu[MEMBERS_MAX][2]; /* bytes that fit the tunnel to one, by family (0: IPv4); 0: no way */
};

enum standby_fate {
	STANDBY_PASS, /* it belongs to no flow: to the stack */
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
