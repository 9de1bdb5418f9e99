/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ring.h - things under way that all take equally long: first in, first out. It grows and never shrinks. */
#ifndef DPRD_SIM_RING_H
#define DPRD_SIM_RING_H

#include <stdbool.h>
#include <stdint.h>

struct ring {
	uint8_t *memory;
	uint32_t element_bytes, room; /* room: a power of two, or 0 */
	uint32_t first, count;
};

static inline void *ring_at(const struct ring *ring, uint32_t index)
{
	return ring->memory + (uint64_t)((ring->first + index) & (ring->room - 1)) * ring->element_bytes;
}

/* NULL when it is empty. */
static inline void *ring_first(const struct ring *ring)
{
	return ring->count ? ring_at(ring, 0) : (void *)0;
}

static inline void ring_pop(struct ring *ring)
{
	ring->first = (ring->first + 1) & (ring->room - 1);
	ring->count--;
}

/* Returns room for one more element at the end; NULL: out of memory. May move all elements. */
void *ring_push(struct ring *ring);

void ring_free(struct ring *ring);

#endif
