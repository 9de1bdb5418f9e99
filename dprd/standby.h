/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * standby.h - who answers the queues of new connections while dprd stands still.
 *
 * A queue of the kernel belongs to a socket, not to a process: each packet goes to one of those who read it there, and
 * verdicts are taken from all of them. So a second process, small and always there, shares the sockets of the queues
 * "decide". It reads nothing as long as the workers do. When packets wait and the worker does not come (stopped, in a
 * debugger, waiting for a disk or for a processor), it lets them pass: this node serves, as with dprd dead. Forwarded
 * flows and tunnel packets are not its business, they wait. When dprd dies it lets pass what was not read yet, and ends.
 */
#ifndef DPRD_STANDBY_H
#define DPRD_STANDBY_H

#include <stdbool.h>
#include <stdint.h>

#define STANDBY_OPTION "--standby"

enum {
	STANDBY_LOOK_MS = 20, /* so often it looks at the workers, while packets come */
	STANDBY_WATCH_MS = 1000, /* so long after one came; then the next one wakes it */
	STANDBY_PATIENCE_MS = 50, /* packets wait for so long: the worker stands still */
	STANDBY_QUEUES_MAX = 16,
};

struct standby; /* dprd's side */

/* A queue "decide", and the netlink socket that it belongs to. */
struct standby_queue {
	int socket;
	uint16_t number;
};

/* Starts the process. NULL with errno set; without the process alone it is not NULL, and standby_tick() tries again. */
struct standby *standby_start(const struct standby_queue *queues, unsigned count);
/* Where a worker notes the time (clock_now_ms()) whenever it looks at its queues. Lives until standby_stop(). */
uint64_t *standby_stamp(struct standby *standby, unsigned queue);
/* Each second: when the process ended, another one is started. */
void standby_tick(struct standby *standby);
/* Packets that it let pass since the start. */
uint64_t standby_served(const struct standby *standby);
/* Ends the process; the sockets are dprd's alone then. NULL is fine. */
void standby_stop(struct standby *standby);

/* The process itself, which is dprd with this option alone. Its exit status. */
int standby_run(void);

/* What it knows of a worker. All zero at first. */
struct standby_watch {
	uint64_t stamp; /* the worker's, when last seen */
	uint64_t waiting_since_ms; /* packets wait since then, with the stamp as it is; 0: none do */
	bool still;
};

/* At each look: whether the worker stands still, which it does until it looks again. Pure. */
bool standby_judge(struct standby_watch *watch, uint64_t stamp, bool packets_wait, uint64_t now_ms);

#endif
