/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mcast.h - the sockets of the announcements: multicast to the groups, unicast to the members,
 * one copy to every [Network], all from this node's own cluster address.
 */
#ifndef LOADCAST_MCAST_H
#define LOADCAST_MCAST_H

#include "loadcast/core/announce.h"

enum {
	MCAST_FAMILIES = 2,
	MCAST_BATCH_MAX = 64, /* datagrams taken per wake-up, so that timers run during a flood */
	MCAST_REJOIN_MS = 5000,
};

struct mcast;

enum mcast_use {
	MCAST_MEMBER, /* sends; needs its own cluster address on this host */
	MCAST_OBSERVER, /* only listens, and takes no datagram away from a daemon on this host */
};

struct mcast_counters {
	uint64_t sent, send_errors;
	uint64_t received, receive_errors;
	int last_error; /* of sending; an errno value */
};

struct datagram {
	struct addr source;
	size_t size; /* ANNOUNCE_BYTES_MAX + 1: this long or longer */
	uint8_t bytes[ANNOUNCE_BYTES_MAX + 1];
};

/* NULL with a message that says what to do. */
struct mcast *mcast_open(const struct config *config, enum mcast_use use, char message[CONFIG_ERROR_BYTES]);
void mcast_close(struct mcast *mcast); /* NULL is fine */

/* The sockets to poll; -1 for a family that is not used. */
void mcast_sockets(const struct mcast *mcast, int sockets[MCAST_FAMILIES]);

/* Sends to every destination of the configuration. Counts an error and goes on with the next destination. */
void mcast_send(struct mcast *mcast, const uint8_t *datagram, size_t size);

/*
 * Sends to one member: to its cluster addresses, and from our first service address of each family to its first one,
 * because the clients' network may work while the cluster's does not.
 */
void mcast_send_member(struct mcast *mcast, unsigned member, const uint8_t *datagram, size_t size);

/* Takes up to MCAST_BATCH_MAX datagrams from a socket. They stay valid until the next call. */
unsigned mcast_receive(struct mcast *mcast, int socket, const struct datagram **ret);

/* Joins the groups again where the interface was replaced. Cheap; call it every MCAST_REJOIN_MS. */
void mcast_rejoin(struct mcast *mcast);

/* True when a daemon of this host holds the port, so that unicast datagrams do not arrive here. */
bool mcast_is_partial(const struct mcast *mcast);

const struct mcast_counters *mcast_count(const struct mcast *mcast);

#endif
