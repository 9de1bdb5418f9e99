// SPDX-License-Identifier: GPL-2.0-or-later
/* ring.c - growth of a ring. */
#include "dprd/sim/ring.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_FIRST = 64 };

static bool grow(struct ring *ring)
{
	uint32_t room = ring->room ? 2 * ring->room : ROOM_FIRST;
	uint8_t *memory = room > ring->room ? calloc(room, ring->element_bytes) : NULL;

	if (!memory)
		return false;
	for (uint32_t i = 0; i < ring->count; i++)
		memcpy(memory + (uint64_t)i * ring->element_bytes, ring_at(ring, i), ring->element_bytes);
	free(ring->memory);
	ring->memory = memory;
	ring->room = room;
	ring->first = 0;
	return true;
}

void *ring_push(struct ring *ring)
{
	if (ring->count == ring->room && !grow(ring))
		return NULL;
	return ring_at(ring, ring->count++);
}

void ring_free(struct ring *ring)
{
	free(ring->memory);
	ring->memory = NULL;
	ring->room = ring->count = ring->first = 0;
}
