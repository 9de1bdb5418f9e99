/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfqueue.h - one queue of the kernel's (NFQUEUE), and the netlink socket that it belongs to.
 */
#ifndef DPRD_NFQUEUE_H
#define DPRD_NFQUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct mnl_socket;

struct nfqueue {
	struct mnl_socket *socket; /* the owner closes it, also after an error; NULL: none yet */
	uint16_t number;
	bool forward; /* its packets are dropped when there are too many; else they pass (fail-open) */
	unsigned message_bytes; /* room for one message: what is spread less stays in the cache */
	unsigned stale_left; /* packets that may still be stale */
};

/*
 * Opens the socket and takes the queue of this number, with room for so many packets, of which so many bytes each are
 * copied. 0 or -errno (-EPERM, -EBUSY: somebody else has it, and kept it for a second).
 */
int nfqueue_bind(struct nfqueue *queue, unsigned length, unsigned copy_bytes);

/* Whether the queue of this number is free, or is so within a second. Changes nothing. 0 or -errno, as above. */
int nfqueue_check(uint16_t number);

#endif
