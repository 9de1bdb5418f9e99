/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * refill.h - fills the kernel's set of forwarded flows from the flow table.
 */
#ifndef DPRD_REFILL_H
#define DPRD_REFILL_H

struct dprd;

/*
 * Puts all flows of the table into the kernel's set, and forgets half-open flows of which this node has a socket.
 * Does nothing on the BPF plane. 0 or -errno (-ENOENT: there is no set). Main thread, lock not held.
 */
int refill_set(struct dprd *d);

#endif
