// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/web/connections.h"

#include <stddef.h>
#include <sys/socket.h>

void connections_init(struct connections *all)
{
	unsigned i;

	pthread_mutex_init(&all->lock, NULL);
	for (i = 0; i < CONNECTIONS_MAX; i++)
		all->slot[i].fd = -1;
}

struct connection_slot *connection_begin(struct connections *all, int fd, uint64_t now_ms)
{
	struct connection_slot *found = NULL;
	unsigned i;

	pthread_mutex_lock(&all->lock);
	for (i = 0; i < CONNECTIONS_MAX && !found; i++) {
		if (all->slot[i].fd < 0)
			found = &all->slot[i];
	}
	if (found)
		*found = (struct connection_slot) { .fd = fd, .since_ms = now_ms };
	pthread_mutex_unlock(&all->lock);
	return found;
}

void connection_asked(struct connections *all, struct connection_slot *slot, uint64_t now_ms)
{
	if (!slot)
		return;
	pthread_mutex_lock(&all->lock);
	slot->since_ms = now_ms;
	pthread_mutex_unlock(&all->lock);
}

void connection_end(struct connections *all, struct connection_slot *slot)
{
	if (!slot)
		return;
	pthread_mutex_lock(&all->lock);
	slot->fd = -1;
	pthread_mutex_unlock(&all->lock);
}

unsigned connections_sweep(struct connections *all, uint64_t now_ms)
{
	unsigned ended = 0, i;

	pthread_mutex_lock(&all->lock);
	for (i = 0; i < CONNECTIONS_MAX; i++) {
		struct connection_slot *slot = &all->slot[i];

		if (slot->fd < 0 || now_ms - slot->since_ms < CONNECTION_REQUEST_MS)
			continue;
		shutdown(slot->fd, SHUT_RDWR);
		slot->since_ms = now_ms;
		ended++;
	}
	pthread_mutex_unlock(&all->lock);
	return ended;
}
