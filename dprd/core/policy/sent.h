/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sent.h - connections that this node sent to one peer lately. Pure.
 *
 * An announcement of the peer holds connections that were sent before the peer counted them, and none that were sent
 * after that. A node looks at its load table only now and then, so news does not mean that all which was sent is in it:
 * sent_since() counts what is not. Fixed size; the caller's clock, in ms, never runs backwards.
 */
#ifndef DPRD_SENT_H
#define DPRD_SENT_H

#include <stdint.h>

enum {
	SENT_SLOT_MS = 5,
	/* 320 ms: a load is counted up to 200 ms before it is heard, and comes into the view within 70 ms. */
	SENT_SLOTS = 64,
};

/* All zero: nothing was sent. */
struct sent {
	uint64_t newest; /* number of the slot that was written last: time / SENT_SLOT_MS */
	uint16_t count[SENT_SLOTS]; /* by slot number modulo SENT_SLOTS; the newest SENT_SLOTS ones */
};

/* Counts connections that were sent at now_ms. A slot holds at most 65,535. */
void sent_count(struct sent *sent, uint64_t now_ms, unsigned connections);

/* Connections sent at since_ms or later, as far as the slots go back; a slot that began before counts whole. */
unsigned sent_since(const struct sent *sent, uint64_t since_ms);

#endif
