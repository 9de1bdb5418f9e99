/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfqueue.h - a queue of the kernel (NFQUEUE): its netlink socket, the messages in which packets come, and the messages
 * with verdicts. The workers and the standby process use the same ones.
 */
#ifndef DPRD_NFQUEUE_H
#define DPRD_NFQUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mnl_socket;

struct nfqueue {
	struct mnl_socket *socket; /* NULL: not open */
	uint16_t number;
	bool fail_open; /* when the queue is full, packets pass; else they are dropped */
	unsigned message_bytes; /* room for one message: messages that lie closer together stay in the cache */
	unsigned stale_left; /* packets that may still be stale */
};

/*
 * Opens the socket and takes the queue of this number, with room for length packets. The kernel copies copy_bytes of
 * each packet. The caller closes the queue, also after an error. 0 or -errno (-EPERM, -EBUSY: another program has had
 * the queue for a second).
 */
int nfqueue_bind(struct nfqueue *queue, unsigned length, unsigned copy_bytes);

/* A queue that is not open is fine. */
void nfqueue_close(struct nfqueue *queue);

/* The descriptor of its socket. */
int nfqueue_fd(const struct nfqueue *queue);

/* 0 when the queue of this number is free, or becomes so within a second; -errno as above. Changes nothing. */
int nfqueue_check(uint16_t number);

/* A packet that waits for a verdict. */
struct nfqueue_packet {
	uint32_t id, mark;
	uint8_t *bytes; /* the datagram, within the message; NULL: nothing was copied */
	uint32_t captured; /* number of bytes that were copied */
};

enum nfqueue_message {
	NFQUEUE_OTHER, /* of no interest */
	NFQUEUE_ERROR, /* the kernel did not take a verdict */
	NFQUEUE_PACKET, /* *ret is filled */
};

/* Reads one received message, which is aligned to 4 bytes. */
enum nfqueue_message nfqueue_read(void *message, size_t bytes, struct nfqueue_packet *ret);

struct nfqueue_verdict {
	uint32_t id;
	bool up_to; /* the same verdict for all packets up to this one; neither mark nor replace is set then */
	bool accept; /* else the packet is dropped */
	bool set_mark;
	uint32_t mark;
	const uint8_t *replace; /* accept: the stack gets this datagram instead; NULL: the packet itself */
	uint32_t replace_bytes;
};

/* Writes a message with the verdict at buffer, which is aligned to 4 bytes and has the room. Returns its size. */
size_t nfqueue_write(void *buffer, uint16_t queue, const struct nfqueue_verdict *verdict);

/* Sends messages that nfqueue_write() wrote one behind the other. False: the kernel did not take them. */
bool nfqueue_send(int fd, const void *messages, size_t bytes);

#endif
