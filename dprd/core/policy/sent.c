// SPDX-License-Identifier: GPL-2.0-or-later
/* sent.c - a ring of short slots, each with the connections sent in its time. */
#include "dprd/core/policy/sent.h"

#include <string.h>

/* Slots between the newest one and the present hold nothing: their former content is older than the ring. */
static void go_on(struct sent *sent, uint64_t slot)
{
	if (slot >= sent->newest + SENT_SLOTS)
		memset(sent->count, 0, sizeof(sent->count));
	for (uint64_t i = sent->newest + 1; i <= slot && i < sent->newest + SENT_SLOTS; i++)
		sent->count[i % SENT_SLOTS] = 0;
	sent->newest = slot;
}

void sent_count(struct sent *sent, uint64_t now_ms, unsigned connections)
{
	uint64_t slot = now_ms / SENT_SLOT_MS;
	uint16_t *count;

	if (slot > sent->newest)
		go_on(sent, slot);
	count = &sent->count[sent->newest % SENT_SLOTS];
	*count = connections < (unsigned)(UINT16_MAX - *count) ? (uint16_t)(*count + connections) : UINT16_MAX;
}

unsigned sent_since(const struct sent *sent, uint64_t since_ms)
{
	uint64_t oldest = sent->newest < SENT_SLOTS ? 0 : sent->newest - SENT_SLOTS + 1, slot = since_ms / SENT_SLOT_MS;
	unsigned sum = 0;

	for (slot = slot > oldest ? slot : oldest; slot <= sent->newest; slot++)
		sum += sent->count[slot % SENT_SLOTS];
	return sum;
}
