/* SPDX-License-Identifier: GPL-2.0-or-later */
/* model_private.h - the parts of the model (model*.c) for each other. context: a struct model. */
#ifndef TESTS_BPF_MODEL_PRIVATE_H
#define TESTS_BPF_MODEL_PRIVATE_H

#include "dprd/core/packet/packet.h"
#include "tests/bpf/model.h"

/* model_forward.c: sets the fate of the packet. */
void model_finish(struct model_result *r, int verdict);
void model_drop(struct model *m, struct model_result *r, enum reason reason);
/* A checksum was mended at this place of the datagram. */
void model_add_sum(struct model_result *r, unsigned at);
/* Queues the packet to dprd. */
void model_queue(struct model_result *r, uint32_t mark);
/* Forwards a packet of a flow to this node. */
void model_forward(struct model *m, const struct frame *in, const struct packet *p, uint32_t node_id,
		   enum reason reason, uint32_t gso_bytes, struct model_result *r);

/* model.c: the packet's flow; false: there is none. */
bool model_find_flow(struct model *m, const struct packet *p, struct flow *ret);

/* model_shared.c: the host that the frame's hardware address names. */
enum model_frame { MODEL_FRAME_HERE, MODEL_FRAME_MULTICAST, MODEL_FRAME_ELSEWHERE };
enum model_frame model_frame_to(const struct frame *in);
/* A packet to a shared address: true when the entry node's part handles it. */
bool model_takes_shared(struct model *m, const struct frame *in, const struct packet *p, struct model_result *r);

/* model_cluster.c */
bool model_has_port(const struct config *config, be16 port);

/* For struct decap_env. */
int model_service_owner(void *context, const struct addr *service, be16 port);
int model_living_peer(void *context, const struct addr *cluster);
bool model_is_cluster_address(void *context, const struct addr *address);
bool model_is_own_cluster_address(void *context, const struct addr *address);
uint32_t model_member_node_id(void *context, int member);

/* Finds the service of a peer that this alias stands for; false: none. */
bool model_find_alias(const struct config *config, const struct addr *alias, struct addr *ret_service);
/* The alias of a service address of the cluster; zero: none. */
struct addr model_alias_of(const struct config *config, const struct addr *service);

#endif
