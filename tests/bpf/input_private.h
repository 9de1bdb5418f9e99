/* SPDX-License-Identifier: GPL-2.0-or-later */
/* input_private.h - shared by random clusters (input_site.c) and random packets (input.c). */
#ifndef TESTS_BPF_INPUT_PRIVATE_H
#define TESTS_BPF_INPUT_PRIVATE_H

#include "dprd/core/packet/packet.h"
#include "tests/bpf/input.h"

bool input_one_in(struct random *r, unsigned n);

struct addr input_v4(uint32_t host_order);
struct addr input_v6(uint16_t third, uint16_t last);

/* One of a few, so that they meet again. */
struct addr input_client(struct random *r, bool v6);
be16 input_client_port(struct random *r);
uint32_t input_sequence(struct random *r);

/* A service address of a member, of this family; an unused one when it has none. */
struct addr input_service(struct random *r, const struct config *config, unsigned member, bool v6);

#endif
