/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * standby.h - the process that answers the queues of SYNs and of tunnel packets while dprd stands still.
 *
 * A queue of the kernel belongs to a socket, not to a process: each packet goes to one of the processes that read it,
 * and the kernel takes verdicts from all of them. So a second process, small and always there, shares the sockets of
 * the queues. It reads nothing while the workers do. When packets wait and the worker does not read them (it was
 * stopped, is in a debugger, or waits for a disk or a processor), it lets new connections pass: this node serves them,
 * as when dprd is dead. It decapsulates the packets of members, by the same judgement as dprd, so that no forwarded
 * connection waits. Without BPF programs it also sends on the packets of forwarded flows (standby_forward.h). It drops
 * SYNs that peers send back. When dprd dies, the process goes on until the next dprd starts, but not for long. When
 * dprd ends by itself, the process answers the packets that were not read yet.
 */
#ifndef DPRD_STANDBY_H
#define DPRD_STANDBY_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/config/config.h"
#include "dprd/core/packet/packet.h"

#define STANDBY_OPTION "--standby"

struct standby_members;

enum {
	STANDBY_LOOK_MS = 20, /* how often it looks at the workers while packets come */
	STANDBY_WATCH_MS = 1000, /* it looks for this long after a packet came; then the next packet wakes it */
	STANDBY_PATIENCE_MS = 50, /* when packets have waited for this long, the worker stands still */
	/*
	 * After dprd was killed it stays for at least the first time, and at most for the second one, which is longer
	 * than systemd needs to start the next dprd.
	 */
	STANDBY_MOMENT_MS = 100,
	STANDBY_LINGER_MS = 2000,
	STANDBY_QUEUES_MAX = 48,
};

struct standby; /* dprd's side */

enum standby_kind { STANDBY_DECIDE, STANDBY_TUNNEL, STANDBY_FORWARD };

/* A queue of a worker, and the netlink socket that it belongs to. */
struct standby_queue {
	int socket;
	uint16_t number;
	unsigned worker; /* below STANDBY_QUEUES_MAX */
	enum standby_kind kind;
};

/* Packets that the process handled. */
struct standby_counts {
	uint64_t served; /* SYNs and ICMP errors that it let pass */
	uint64_t tunnelled; /* taken out of the tunnel */
	uint64_t forwarded; /* of forwarded flows, sent on */
};

/*
 * Starts the process, which knows these members (copied) from the first packet on. NULL with errno set; without the
 * process alone it is not NULL, and standby_tick() tries again.
 */
struct standby *standby_start(const struct standby_queue *queues, unsigned count,
			      const struct standby_members *members);
/* Where a worker notes the time (clock_now_ms()) whenever it looks at its queues. Lives until standby_stop(). */
uint64_t *standby_stamp(struct standby *standby, unsigned worker);
/*
 * True when the process may hold a packet that came before those that a worker has just received. A verdict on all
 * packets up to one of these would also be one on that packet.
 */
bool standby_drains(const struct standby *standby);
/*
 * True when the process let this SYN or a copy of it pass lately, or is about to do so: it may hold the packet for
 * long. The worker has noted the time since it received the SYN.
 */
bool standby_has_served(const struct standby *standby, const struct packet *syn);
/* Gives it the facts of the members, which are copied; at most once each tick. */
void standby_know(struct standby *standby, const struct standby_members *members);
/* Each second: when the process ended, another one is started. */
void standby_tick(struct standby *standby);
/* Since the start. */
struct standby_counts standby_count(const struct standby *standby);
/* Ends the process; the sockets are dprd's alone then. NULL is fine. */
void standby_stop(struct standby *standby);

/* The process itself, which is dprd with this option alone. Its exit status. */
int standby_run(void);

/* The knowledge of the process about a worker. All zero at first. */
struct standby_watch {
	uint64_t stamp; /* the worker's, when last seen */
	uint64_t waiting_since_ms; /* packets wait since then, with the stamp as it is; 0: none do */
	uint64_t empty_ms; /* when nothing waited last */
	bool still;
};

/*
 * The fate of a tunnel packet: true, it is accepted as *ret, which lies within the datagram; false, it is dropped.
 * Rewrites the datagram. maybe_stale: it may have waited for longer than STALE_MS. Pure.
 */
struct standby_inner {
	uint8_t *bytes;
	unsigned count;
};

bool standby_unwrap(const struct config *config, uint64_t living, uint8_t *datagram, unsigned bytes, bool maybe_stale,
		    struct standby_inner *ret);

/*
 * Call it at each look. True when the worker stands still; this holds until the worker looks at its queues again. Pure.
 */
bool standby_judge(struct standby_watch *watch, uint64_t stamp, bool packets_wait, uint64_t now_ms);

#endif
