/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tunnelled.h - what a configuration says about tunnel packets: who may send them, and to what address here they come
 * out. For all who take them in user space. Pure.
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

/*
 * The questions of decide_decapsulation(), answered by *t, which must outlive the result. The caller sets maybe_stale.
 */
struct decap_env tunnelled_env(const struct tunnelled *t);

/* True when this is a service, cluster or shared address. */
bool tunnelled_is_cluster_address(const struct config *config, const struct addr *address);

/*
 * Layout "one address each": the sender's service address is not local here, its alias is, which is written into the
 * datagram. In the other layout nothing changes. inner: the parsed datagram that a member of this id sent.
 */
void tunnelled_to_alias(const struct config *config, uint32_t sender_id, uint8_t *datagram, const struct packet *inner);

#endif
