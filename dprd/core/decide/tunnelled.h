/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tunnelled.h - answers the questions about tunnel packets from a configuration: their permitted senders, and the
 * address on this node that they are delivered to. The workers and the standby process use it. Pure.
 */
#ifndef DPRD_TUNNELLED_H
#define DPRD_TUNNELLED_H

#include "dprd/config/config.h"
#include "dprd/core/decide/decide.h"

struct tunnelled {
	const struct config *config;
	/* True when this member was heard recently enough. */
	bool (*is_living)(void *context, unsigned member);
	void *context;
};

/* The questions of decide_decapsulation(), answered from *t while it lives. The caller sets maybe_stale. */
struct decap_env tunnelled_env(const struct tunnelled *t);

/* True for a service, cluster or shared address. */
bool tunnelled_is_cluster_address(const struct config *config, const struct addr *address);

/*
 * Layout "one address each": the sender's service address is not local on this node, but its alias is. So the alias is
 * written into the datagram. In the other layout nothing changes. inner: the parsed datagram from the member with this
 * id.
 */
void tunnelled_to_alias(const struct config *config, uint32_t sender_id, uint8_t *datagram, const struct packet *inner);

#endif
