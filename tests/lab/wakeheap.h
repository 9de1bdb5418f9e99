/* SPDX-License-Identifier: GPL-2.0-or-later */
/* wakeheap.h - finds the next one to wake: a binary heap of struct wake, which its users embed. */
#ifndef TESTS_LAB_WAKEHEAP_H
#define TESTS_LAB_WAKEHEAP_H

#include <stdint.h>
#include <stdlib.h>

struct wake {
	uint64_t at_us;
	unsigned place;
};

struct wake_heap {
	unsigned count;
	struct wake **all; /* all[0] is the next */
};

static inline void wake_swap(struct wake_heap *heap, unsigned a, unsigned b)
{
	struct wake *wake = heap->all[a];

	heap->all[a] = heap->all[b];
	heap->all[b] = wake;
	heap->all[a]->place = a;
	heap->all[b]->place = b;
}

static inline void wake_restore(struct wake_heap *heap, unsigned place)
{
	while (place && heap->all[place]->at_us < heap->all[(place - 1) / 2]->at_us) {
		wake_swap(heap, place, (place - 1) / 2);
		place = (place - 1) / 2;
	}
	for (;;) {
		unsigned least = place;

		for (unsigned child = 2 * place + 1; child <= 2 * place + 2 && child < heap->count; child++)
			if (heap->all[child]->at_us < heap->all[least]->at_us)
				least = child;
		if (least == place)
			return;
		wake_swap(heap, place, least);
		place = least;
	}
}

/* all[] must have room. */
static inline void wake_add(struct wake_heap *heap, struct wake *wake)
{
	wake->place = heap->count;
	heap->all[heap->count++] = wake;
	wake_restore(heap, wake->place);
}

static inline void wake_at(struct wake_heap *heap, struct wake *wake, uint64_t at_us)
{
	wake->at_us = at_us;
	wake_restore(heap, wake->place);
}

#endif
