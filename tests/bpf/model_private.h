/* SPDX-License-Identifier: GPL-2.0-or-later */
/* model_private.h - model_cluster.c for model.c. context: a struct model. */
#ifndef TESTS_BPF_MODEL_PRIVATE_H
#define TESTS_BPF_MODEL_PRIVATE_H

#include "tests/bpf/model.h"

bool model_has_port(const struct config *config, be16 port);

/* For struct decap_env. */
int model_service_owner(void *context, const struct addr *service, be16 port);
int model_living_peer(void *context, const struct addr *cluster);
bool model_is_cluster_address(void *context, const struct addr *address);
bool model_is_own_cluster_address(void *context, const struct addr *address);
uint32_t model_member_node_id(void *context, int member);

/* Which service of a peer this alias stands for; false: none. */
bool model_find_alias(const struct config *config, const struct addr *alias, struct addr *ret_service);
/* The alias of a service address of the cluster; zero: none. */
struct addr model_alias_of(const struct config *config, const struct addr *service);

#endif
