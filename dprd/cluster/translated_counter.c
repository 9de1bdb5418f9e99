// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/cluster/translated_counter.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "dprd/base/background.h"
#include "dprd/host/conntrack.h"

enum {
	/* service addresses and aliases of all members, shared addresses, and the own cluster addresses */
	ADDRESSES_MAX = 2 * MEMBERS_MAX * MEMBER_SERVICES_MAX + SHARED_MAX + 2,
};

/* The part of the configuration that tells which connections count. */
struct wanted {
	unsigned port_count, address_count, service_count, backend_count;
	uint16_t port[PORTS_MAX];
	struct addr address[ADDRESSES_MAX]; /* at which clients reach this node, in order */
	struct addr service[MEMBER_SERVICES_MAX]; /* of this node itself */
	struct addr backend[2 * OWN_BACKENDS_MAX];
	bool nat; /* peers' connections may go to real servers at any time */
};

struct translated_counter {
	struct conntrack *conntrack;
	pthread_t thread;
	int asked; /* an eventfd */
	atomic_bool stops;
	/* While it is TRANSLATED_WAIT, what follows is the thread's; else the asking thread's. */
	_Atomic enum translated_answer answer;
	struct wanted wanted;
	struct tally_count found;
	uint64_t took_us;
};

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct addr));
}

static bool has_address(const struct addr *list, unsigned count, const struct addr *address)
{
	for (unsigned i = 0; i < count; i++) {
		if (addr_equal(&list[i], address))
			return true;
	}
	return false;
}

static void take(void *context, const struct conntrack_entry *entry)
{
	struct translated_counter *counter = context;
	const struct wanted *w = &counter->wanted;
	unsigned i = 0;

	while (i < w->port_count && htons(w->port[i]) != entry->port)
		i++;
	/* A pod's connections to the address of a cluster's inside have the same port, and are not the service's. */
	if (i == w->port_count ||
	    !bsearch(&entry->service, w->address, w->address_count, sizeof(w->address[0]), compare))
		return;
	/* For clients of this node dprd chose the real server, and counts the connection by its flow (backend.c). */
	if (has_address(w->backend, w->backend_count, &entry->server) &&
	    has_address(w->service, w->service_count, &entry->service))
		return;
	counter->found.any = true;
	counter->found.open += entry->open;
}

static void count(struct translated_counter *counter)
{
	uint64_t start_us = background_used_us();
	int error;

	counter->found = (struct tally_count) { .any = counter->wanted.nat };
	error = conntrack_each(counter->conntrack, take, counter);
	counter->took_us = background_used_us() - start_us;
	counter->answer = error ? TRANSLATED_FAILED : TRANSLATED_READY;
}

static void *count_when_asked(void *context)
{
	struct translated_counter *counter = context;
	eventfd_t asked;

	while (!counter->stops) {
		if (eventfd_read(counter->asked, &asked) == 0 && counter->answer == TRANSLATED_WAIT)
			count(counter);
	}
	return NULL;
}

static void release(struct translated_counter *counter)
{
	if (counter->asked >= 0)
		close(counter->asked);
	conntrack_free(counter->conntrack);
	free(counter);
}

struct translated_counter *translated_counter_new(void)
{
	struct translated_counter *counter = calloc(1, sizeof(*counter));
	int error;

	if (!counter)
		return NULL;
	counter->asked = eventfd(0, EFD_CLOEXEC);
	counter->conntrack = conntrack_new();
	error = counter->asked < 0 || !counter->conntrack
			? errno
			: -background_start(&counter->thread, "nat-counter", count_when_asked, counter);
	if (error) {
		release(counter);
		errno = error;
		return NULL;
	}
	return counter;
}

void translated_counter_free(struct translated_counter *counter)
{
	if (!counter)
		return;
	counter->stops = true;
	eventfd_write(counter->asked, 1);
	pthread_join(counter->thread, NULL);
	release(counter);
}

static void add_address(struct wanted *w, struct addr address)
{
	if (!addr_is_zero(&address))
		w->address[w->address_count++] = address;
}

/* Peers forward connections to their own service addresses, which a node with one address takes by their aliases. */
static void add_addresses(struct wanted *w, const struct config *config)
{
	add_address(w, config->member[config->self].cluster_v4);
	add_address(w, config->member[config->self].cluster_v6);
	for (unsigned i = 0; i < config->shared_count; i++)
		add_address(w, config->shared[i]);
	for (unsigned member = 0; member < config->member_count; member++) {
		for (unsigned i = 0; i < config->member[member].service_count; i++) {
			add_address(w, config->member[member].service[i]);
			add_address(w, config->member[member].alias[i]);
		}
	}
	qsort(w->address, w->address_count, sizeof(w->address[0]), compare);
}

void translated_counter_ask(struct translated_counter *counter, const struct config *config)
{
	const struct member *self = &config->member[config->self];
	struct wanted *w = &counter->wanted;

	*w = (struct wanted) { .port_count = config->port_count,
			       .service_count = self->service_count,
			       .nat = config_has_nat(config) };
	memcpy(w->port, config->port, sizeof(w->port));
	memcpy(w->service, self->service, sizeof(w->service));
	add_addresses(w, config);
	for (unsigned own = 0; own < config->own_backend_count; own++) {
		for (unsigned v6 = 0; v6 < 2; v6++) {
			const struct addr *address = backend_address(config_own_backend(config, own), v6);

			if (address)
				w->backend[w->backend_count++] = *address;
		}
	}
	counter->answer = TRANSLATED_WAIT;
	eventfd_write(counter->asked, 1);
}

enum translated_answer translated_counter_take(struct translated_counter *counter, struct tally_count *ret,
					       uint64_t *ret_took_us)
{
	enum translated_answer answer = counter->answer;

	if (answer == TRANSLATED_NONE || answer == TRANSLATED_WAIT)
		return answer;
	*ret = counter->found;
	*ret_took_us = counter->took_us;
	counter->answer = TRANSLATED_NONE;
	return answer;
}
